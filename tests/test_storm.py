"""weir storm: whole runs under faults, held to what must be true of each (src/train/storm.h); and
mistakes that were put in on purpose are found, repeated and made smaller."""
import os, re, signal
import pytest
from weirlib import WEIR, start, wait_for, weir

KINDS = 'kills pauses cuts heals joins leaves delayed dropped corrupt twice lost saved'
BUGGY = os.path.join(os.path.dirname(WEIR), 'bugs')


def counts(text):
    return {word: int(n) for n, word in re.findall(r'(\d+) (\w+)', text)}


def test_two_hundred():
    """every kind of fault happens, and every law holds"""
    out, _ = weir('storm', '--seeds', 200)
    n = counts(out)
    assert n['seeds'] == 200 and n['violations'] == 0
    assert all(n[kind] > 0 for kind in KINDS.split()), out
    exchanges = re.findall(r'(\d+) \w+', re.search('^exchanges: (.*)$', out, re.M)[1])
    assert len(exchanges) > 1 and all(int(e) > 0 for e in exchanges), out


def test_a_seed_is_the_same_storm_to_the_last_number():
    first, second = (weir('storm', '--from', 7, '--seeds', 5, '--jobs', jobs)[0] for jobs in (1, 2))
    assert first == second


def test_what_is_wished_for_is_taken():
    out, _ = weir('storm', '--seed', 3, '--codec', 'strom:small=1', '--coll', 'ring')
    assert '--codec strom:small=1 ' in out and '--coll ring ' in out
    assert '--without 0' in weir('storm', '--seed', 3, '--without', 0)[0]


@pytest.mark.parametrize(
    'args',
    [
        ['--seeds', 0],
        ['--jobs', 'x'],
        ['--without', 'a'],
        ['--without', 99],
        ['--seed', 1, '--seeds', 2],
        ['--from', -1],
        ['extra'],
    ],
)
def test_bad_options(args):
    weir('storm', *args, code=2)


def test_what_does_not_fit_is_refused():
    _, err = weir('storm', '--codec', 'auto', '--exchange', 'allreduce:hier=yes', code=16)
    assert 'fits' in err


def test_it_can_be_stopped(tmp_path, monkeypatch):
    """by Ctrl-C, which all its processes hear: it tells what it has seen, and leaves nothing"""
    monkeypatch.setenv('TMPDIR', str(tmp_path))
    p = start('storm', '--seeds', 1000000, start_new_session=True)
    wait_for(lambda: list(tmp_path.glob('weir-storm-*/*')), 30)
    os.killpg(p.pid, signal.SIGINT)
    out, err = p.communicate(timeout=30)
    assert p.returncode == 130 and 'violation' in out and not list(tmp_path.iterdir()), out + err


@pytest.mark.skipif(not os.path.isdir(BUGGY), reason='make storm-bugs builds them')
@pytest.mark.parametrize(
    'bug',
    ['stale', 'quorum']
    + (['bucket', 'sample', 'residual'] if os.environ.get('EVERY_CASE') else []),
)
def test_mistakes_are_found(bug):
    """within 1,000 seeds; what is printed finds it again, and nothing of it can be left out"""
    program = f'{BUGGY}/weir-{bug}'
    out, _ = weir('storm', '--seeds', 1000, '--first', code=1, program=program)
    assert (
        'ended by signal' not in out and 'did not end' not in out
    )  # it is seen, not stumbled over
    command = re.search(r'^  weir (storm .*--seed \d+.*)$', out, re.M)[1].split()
    again, _ = weir(*command, code=1, program=program)
    faults = [int(i) for i in re.findall(r'^    +(\d+): ', again.split('its smallest')[0], re.M)]
    left_out = command[-1] if '--without' in command else ''
    for i in faults:
        less = command[: command.index('--without')] if left_out else command
        weir(*less, '--without', f'{left_out},{i}'.strip(','), program=program)
