"""Told to stop: what was trained is saved, and the run leaves soon, whatever it is doing."""
import os, re, signal, time
import pytest
from test_mpi import Mpi
import weirlib
from help_runs import steps_logged
from weirlib import SMALL, WEIR, children, end, events, port, wait_for

COMMON = [
    '--model',
    'lenet',
    '--data',
    SMALL,
    '--batch',
    64,
    '--optim',
    'sgd:momentum=0.9,nesterov=yes,decay=1e-4',
    '--threads',
    1,
    '--lr',
    'cosine:rate=0.02,warmup=10',
]
# an evaluation of minutes, after four steps
LOOKS = ['--model', 'lenet', '--data', 'synth:shape=1x28x28,classes=10,count=256,test=3000000']
LOOKS += ['--epochs', 1, '--threads', 1, '--quiet']
WORD = 'saving, then leaving; once more: leave now'


@pytest.mark.sanitizer
@pytest.mark.parametrize('workers', [1, 3])
@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT])
def test_signal_checkpoints_and_leaves(tmp_path, start, workers, number):
    out = tmp_path / 'run'
    p = start('train', '--out', out, '--quiet', '--steps', 1000000, '--workers', workers, *COMMON)
    steps_logged(out, 3)
    p.send_signal(number)
    _, err = p.communicate(timeout=30)
    assert p.returncode == 128 + number, err
    assert 'error' not in err
    e = end(out)
    assert e['exit'] == 128 + number
    assert os.readlink(out / 'latest') == f'step-{e["steps"]}'


def test_second_signal_leaves_now(tmp_path, start):
    out = tmp_path / 'run'
    p = start('train', '--out', out, '--quiet', '--steps', 1000000, '--workers', 2, *COMMON)
    steps_logged(out, 3)
    os.kill(
        wait_for(lambda: len(children(p.pid)) == 2 and children(p.pid))[1], signal.SIGSTOP
    )  # nobody can finish the step
    p.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    assert p.poll() is None
    p.send_signal(signal.SIGTERM)
    p.communicate(timeout=10)
    assert p.returncode != 0 and not events(out, 'end')


def test_one_rank_told_to_stop_stops_all(tmp_path, start):
    out = tmp_path / 'run'
    p = start(
        'train',
        '--out',
        out,
        '--quiet',
        '--steps',
        1000000,
        '--workers',
        3,
        '--elastic',
        'no',
        *COMMON,
    )
    steps_logged(out, 3)
    ranks = children(p.pid)
    os.kill(ranks[2], signal.SIGTERM)
    os.kill(ranks[1], signal.SIGINT)
    _, err = p.communicate(timeout=20)
    assert p.returncode in (128 + signal.SIGTERM, 128 + signal.SIGINT) and not err, err
    assert os.readlink(out / 'latest') == f'step-{end(out)["steps"]}'


def test_nohup(tmp_path, start):
    """a signal that was ignored when we started stays ignored"""
    out = tmp_path / 'run'
    p = start(
        'train',
        '--out',
        out,
        '--quiet',
        '--steps',
        1000000,
        '--workers',
        2,
        *COMMON,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    steps_logged(out, 3)
    for pid in [p.pid, *children(p.pid)]:
        os.kill(pid, signal.SIGHUP)
    before = len(events(out, 'step'))
    wait_for(lambda: len(events(out, 'step')) > before + 20)
    p.terminate()
    p.communicate(timeout=10)
    assert p.returncode == 128 + signal.SIGTERM


@pytest.fixture
def start():
    """weirlib's, and whatever it started is gone when the test is over"""
    begun = []

    def one(*args, **kw):
        begun.append(weirlib.start(*args, **kw))
        return begun[-1]

    yield one
    for p in begun:
        for pid in [*children(p.pid), p.pid] if p.poll() is None else []:
            os.kill(pid, signal.SIGKILL)


def looking(out):
    """the run has made its steps, and evaluates"""
    log = out / 'log.jsonl'
    wait_for(lambda: os.path.exists(log) and '"step":4,' in log.read_text(), 60)
    time.sleep(0.5)
    assert not events(out, 'eval')


def left(p, out, code, seconds=5):
    """within a second or a batch; the rest is leaving itself, on a busy machine"""
    _, err = p.communicate(timeout=seconds)
    assert p.returncode == code and 'error' not in err, err
    assert os.readlink(out / 'latest') == 'step-4' and end(out)['steps'] == 4
    return err


@pytest.mark.mended
@pytest.mark.parametrize('workers', [1, 3])
@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2])
def test_an_evaluation_ends_soon(tmp_path, start, workers, number):
    out = tmp_path / 'run'
    p = start('train', '--out', out, '--workers', workers, *LOOKS)
    looking(out)
    # it is saved before it is looked at
    assert os.readlink(out / 'latest') == 'step-4'
    p.send_signal(number)
    as_number = number if number in (signal.SIGTERM, signal.SIGINT) else signal.SIGTERM
    assert left(p, out, 128 + as_number).count(WORD) == 1


@pytest.mark.mended
def test_an_evaluation_ends_soon_if_one_rank_is_told(tmp_path, start):
    out = tmp_path / 'run'
    p = start('train', '--out', out, '--workers', 3, '--elastic', 'no', *LOOKS)
    looking(out)
    os.kill(children(p.pid)[2], signal.SIGTERM)
    left(p, out, 128 + signal.SIGTERM)


END_ALL = ['--elastic', 'no']  # one that is told ends the run for all


@pytest.mark.mended
def test_an_evaluation_ends_soon_on_another_machine(tmp_path, start):
    """no page of memory in common: the others hear of it with a sign of life"""
    out, where = tmp_path / 'run', f'127.0.0.1:{port()}'
    ranks = [
        start('train', '--rank', r, '--size', 2, '--rendezvous', where, *LOOKS, *args, *END_ALL)
        for r, args in enumerate([['--out', out], []])
    ]
    looking(out)
    ranks[1].send_signal(signal.SIGTERM)
    left(ranks[0], out, 128 + signal.SIGTERM)
    ranks[1].communicate(timeout=5)
    assert ranks[1].returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize('name', [pytest.param('openmpi', marks=pytest.mark.mended), 'mpich'])
def test_slurms_warning_under_mpi(tmp_path, name):
    """mpirun passes SIGUSR1 and SIGUSR2 on to all ranks"""
    mpi = Mpi(name)
    if mpi.lacks:
        pytest.skip(mpi.lacks)
    out = tmp_path / 'run'
    p = mpi.start(2, WEIR if name == 'openmpi' else mpi.weir, 'train', '--out', out, *LOOKS)
    try:
        looking(out)
        p.send_signal(signal.SIGUSR1)
        _, err = p.communicate(timeout=20)
    finally:
        p.kill()
    assert err.count(WORD) == 1, err
    assert end(out)['exit'] == 128 + signal.SIGTERM


@pytest.mark.mended
def test_a_signal_to_all_processes_of_a_job_is_one_wish(tmp_path, start):
    """a batch system signals the launcher and its ranks, and the launcher passes it on"""
    out = tmp_path / 'run'
    p = start('train', '--out', out, '--steps', 1000000, '--workers', 2, '--quiet', *COMMON)
    steps_logged(out, 3)
    for pid in [*children(p.pid), p.pid]:
        os.kill(pid, signal.SIGTERM)
    _, err = p.communicate(timeout=20)
    assert p.returncode == 128 + signal.SIGTERM and end(out)['exit'] == p.returncode, err


@pytest.mark.mended
def test_a_second_signal_leaves_an_evaluation_now(tmp_path, start):
    """one process: what it says is true"""
    out = tmp_path / 'run'
    p = start('train', '--out', out, *LOOKS)
    looking(out)
    os.kill(p.pid, signal.SIGSTOP)
    p.send_signal(signal.SIGTERM)
    p.send_signal(signal.SIGINT)
    os.kill(p.pid, signal.SIGCONT)
    _, err = p.communicate(timeout=5)
    assert p.returncode in (128 + signal.SIGINT, 128 + signal.SIGTERM) and not events(out, 'end')
    assert WORD in err


@pytest.mark.mended
def test_without_a_directory_nothing_is_promised(tmp_path, start):
    log = tmp_path / 'log'
    p = start('train', '--log', log, '--steps', 1000000, '--quiet', *COMMON)
    wait_for(lambda: log.exists() and '"step":3,' in log.read_text())
    p.terminate()
    _, err = p.communicate(timeout=10)
    assert p.returncode == 128 + signal.SIGTERM
    assert re.search('nothing is saved without --out; once more: leave now', err)


@pytest.mark.mended
def test_the_last_checkpoint_comes_before_the_last_evaluation(tmp_path, start):
    out = tmp_path / 'run'
    p = start('train', '--out', out, '--epochs', 1, '--save-every', 0, '--quiet', *COMMON)
    p.communicate(timeout=60)
    order = [e['event'] for e in events(out) if e['event'] in ('step', 'checkpoint', 'eval')]
    assert order[-3:] == ['step', 'checkpoint', 'eval']
