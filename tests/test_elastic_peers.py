"""Workers that wait for nobody go on, too (--exchange peers): killed at any time, told to leave,
started anew or joined by hand. After each change all hold the same parameters (they compare them,
exit 12), every sample of an epoch counts at least once, and the log says how many count again."""
import os, random, signal, time
import pytest
from help_elastic import (
    COMMON,
    ENDLESS,
    SAMPLES,
    STEPS,
    WORKERS,
    finish,
    joins,
    launch,
    members,
    stop,
)
from help_runs import gone, steps_logged
from weirlib import children, end, events, port, start, train, wait_for

# options, and how many steps two workers may be apart
KINDS = [
    ('--exchange peers', 4),
    ('--exchange peers:2 --codec strom:warmup=0', 2),
    ('--exchange peers:0', 0),
    ('--exchange peers --codec onebit:warmup=0 --optim sgd:momentum=0.9 --lr 0.002 --clip 5', 4),
]


def check_steps(out, bound, last=STEPS):
    """Between two changes steps follow each other. A change goes back to a step that was told
    already, or on to one that the leader itself had not made: some worker may be `bound` steps
    ahead of it, and the report of one more is told when the next is over."""
    at, most, told = 0, 1, 0
    for e in events(out):
        if e['event'] == 'member':
            assert e['step'] <= told + bound + 2, (e['step'], told)
            told = max(told, e['step'])
            at, most = min(at, e['step'] - 1), e['step'] + 1
        elif e['event'] == 'step':
            assert at < e['step'] <= most, (e['step'], at, most)
            at = told = e['step']
            most = at + 1
    assert at == last


def check_samples(out, bound, samples=SAMPLES):
    """All count, and what counts again is what the log says. The newest worker may lack something
    of its last `bound` steps, and may have something of as many that it has not made yet."""
    changes = events(out, 'member')
    again = [e['repeated_samples'] for e in changes]
    assert end(out)['samples'] == samples and end(out)['replicas'] == 1
    assert end(out)['repeated_samples'] == sum(again)
    most = 2 * bound * 64
    assert all(0 <= n <= most for n in again), changes
    assert all(n == 0 for n, e in zip(again, changes) if not e['lost']), changes


@pytest.mark.parametrize('trial', range(int(os.environ.get('TRIALS', 8))))
def test_killed(tmp_path, trial):
    """any rank, the leader among them, at any time"""
    rng = random.Random(trial)
    out, victim = tmp_path / 'run', (trial + trial // WORKERS) % WORKERS
    options, bound = KINDS[trial % len(KINDS)]
    p, ranks = launch(out, *options.split())
    time.sleep(rng.random() * 0.5)
    os.kill(ranks[victim], signal.SIGKILL)
    (change,) = finish(p, out)
    assert change['lost'] == 1 and change['members'] == [r for r in range(4) if r != victim]
    assert change['leader'] == (1 if victim == 0 else 0) and change['seconds'] < 3, change
    assert [e['action'] for e in events(out, 'fault')] == ['go on']
    assert end(out)['losses'] == end(out)['generations'] == end(out)['faults'] == 1
    check_steps(out, bound)
    check_samples(out, bound)


@pytest.mark.parametrize('options,bound', KINDS[:2])
def test_two_at_once_and_one_more(tmp_path, options, bound):
    out = tmp_path / 'run'
    p, ranks = launch(out, *options.split())
    for r in (ranks[1], ranks[2]):
        os.kill(r, signal.SIGKILL)
    wait_for(lambda: members(out) == [0, 3], 60)
    os.kill(ranks[0], signal.SIGKILL)
    assert finish(p, out)[-1]['members'] == [3]
    assert end(out)['losses'] == 3
    check_steps(out, bound)
    check_samples(out, bound)


@pytest.mark.parametrize('trial', range(int(os.environ.get('TRIALS', 3))))
def test_one_more_while_agreeing(tmp_path, trial):
    """Going on takes some hundredths of a second: the second one dies within that. Whatever it
    breaks off, and however often, the log tells of both."""
    out, second = tmp_path / 'run', 1 + trial % 3
    p, ranks = launch(out, *KINDS[1][0].split())
    os.kill(ranks[0], signal.SIGKILL)
    time.sleep(0.001 * (trial * 10 % 31))
    os.kill(ranks[second], signal.SIGKILL)
    changes = finish(p, out)
    assert changes[-1]['members'] == [r for r in (1, 2, 3) if r != second]
    assert sum(e['lost'] for e in changes) == 2
    assert end(out)['losses'] == 2
    check_steps(out, KINDS[1][1])
    check_samples(out, KINDS[1][1])


def test_below_the_least(tmp_path):
    out = tmp_path / 'run'
    p, ranks = launch(out, '--exchange', 'peers', '--min-workers', 3)
    os.kill(ranks[1], signal.SIGKILL)
    wait_for(lambda: events(out, 'member'), 60)
    os.kill(ranks[2], signal.SIGKILL)
    _, err = p.communicate(timeout=60)
    assert p.returncode == 10, err
    assert events(out)[-1]['event'] == 'fault'
    # what was saved is what there was, not an older one
    assert os.readlink(out / 'latest') == f"step-{events(out, 'member')[-1]['step']}"
    train(tmp_path / 'other', '--resume', out, '--workers', 2, '--quiet')
    assert end(tmp_path / 'other')['steps'] == STEPS


@pytest.mark.parametrize('victim', [0, 2])
def test_told_to_leave(tmp_path, victim):
    """it alone: what it holds back is handed over, nothing is lost and nothing is made again"""
    out = tmp_path / 'run'
    p, ranks = launch(out, *KINDS[1][0].split(), '--steps', 400)
    os.kill(ranks[victim], signal.SIGTERM)
    gone([ranks[victim]], 30)
    (change,) = finish(p, out)
    assert change['left'] == 1 and change['lost'] == 0 and len(change['members']) == 3
    assert end(out)['losses'] == 0 and end(out)['lost_residual'] == 0
    check_steps(out, KINDS[1][1], 400)
    check_samples(out, KINDS[1][1], 25 * 1000)


@pytest.mark.parametrize('victim', [0, 2] if os.environ.get('EVERY_CASE') else [0])
def test_a_long_pause_is_fenced(tmp_path, victim):
    """the others go on; not a byte of what it then sends counts, and it joins them as a new one"""
    out, rest = tmp_path / 'run', [r for r in range(WORKERS) if r != victim]
    p, ranks = launch(out, '--exchange', 'peers', '--timeout', 2, *ENDLESS)
    os.kill(ranks[victim], signal.SIGSTOP)
    wait_for(lambda: members(out) == rest, 60)
    os.kill(ranks[victim], signal.SIGCONT)
    wait_for(lambda: members(out) == [*rest, WORKERS], 20)
    stop(out, p)
    check_steps(out, KINDS[0][1], end(out)['steps'])
    check_samples(out, KINDS[0][1], end(out)['samples'])


@pytest.mark.parametrize('options,bound', KINDS[:2])
def test_started_anew(tmp_path, options, bound):
    out = tmp_path / 'run'
    p, _ = launch(out, *options.split(), '--restarts', 3, *ENDLESS)
    for k in range(3):
        os.kill(children(p.pid)[k % 3], signal.SIGKILL)
        wait_for(lambda: len(members(out)) == WORKERS and joins(out) == k + 1, 60)
    stop(out, p)
    assert end(out)['joins'] == end(out)['losses'] == 3 and end(out)['workers'] == WORKERS
    check_steps(out, bound, end(out)['steps'])
    check_samples(out, bound, end(out)['samples'])


def test_joined_by_hand(tmp_path):
    """whoever keeps the door may die"""
    out, at = tmp_path / 'run', f'127.0.0.1:{port()}'
    common = [*COMMON, *KINDS[1][0].split(), *ENDLESS, '--max-workers', 4]
    first = [
        start('train', *common, '--size', 2, '--rendezvous', at, '--out', out, '--rank', r)
        for r in range(2)
    ]
    steps_logged(out, 3, 60)
    third = start('train', '--join', at, '--threads', 1, '--quiet')
    wait_for(lambda: members(out) == [0, 1, 2], 60)
    first[0].kill()
    wait_for(lambda: members(out) == [1, 2], 60)
    fourth = start('train', '--join', at, '--threads', 1, '--quiet')
    wait_for(lambda: members(out) == [1, 2, 3], 60)
    stop(out, first[1], third, fourth)
    assert end(out)['joins'] == 2 and end(out)['losses'] == 1
    check_steps(out, KINDS[1][1], end(out)['steps'])
    check_samples(out, KINDS[1][1], end(out)['samples'])
