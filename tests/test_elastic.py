"""A run goes on: workers that are killed, stopped, told to leave, started anew or joined by hand.
After each the others hold the same parameters, every sample of an epoch counts once, and the run
comes to its end with 0."""
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
from weirlib import alive, children, end, events, fails, port, start, train, wait_for

KINDS = ['', '--codec strom:warmup=0', '--net zmq --coll ring', '--codec onebit:warmup=0']


def check_whole(out):
    """one history, every sample once, replicas equal"""
    steps = [e['step'] for e in events(out, 'step')]
    assert steps == sorted(set(steps)) and steps[-1] == STEPS, steps
    assert end(out)['samples'] == SAMPLES and end(out)['replicas'] == 1


@pytest.mark.parametrize('trial', range(int(os.environ.get('TRIALS', 8))))
def test_killed(tmp_path, trial):
    """any rank, the leader among them, at any time"""
    rng = random.Random(trial)
    out, victim = tmp_path / 'run', trial % WORKERS
    p, ranks = launch(out, *KINDS[trial // WORKERS % len(KINDS)].split())
    time.sleep(rng.random() * 0.5)
    os.kill(ranks[victim], signal.SIGKILL)
    (change,) = finish(p, out)
    assert change['lost'] == 1 and change['members'] == [r for r in range(4) if r != victim]
    assert change['leader'] == (1 if victim == 0 else 0) and change['seconds'] < 3, change
    assert [e['action'] for e in events(out, 'fault')] == ['go on']
    assert end(out)['losses'] == end(out)['generations'] == end(out)['faults'] == 1
    check_whole(out)


def test_two_at_once_and_one_more(tmp_path):
    out = tmp_path / 'run'
    p, ranks = launch(out)
    for r in (ranks[1], ranks[2]):
        os.kill(r, signal.SIGKILL)
    wait_for(lambda: members(out) == [0, 3], 60)
    os.kill(ranks[0], signal.SIGKILL)
    assert finish(p, out)[-1]['members'] == [3]
    assert end(out)['losses'] == 3
    check_whole(out)


def test_below_the_least(tmp_path):
    out = tmp_path / 'run'
    p, ranks = launch(out, '--min-workers', 3)
    os.kill(ranks[1], signal.SIGKILL)
    wait_for(lambda: events(out, 'member'), 60)
    os.kill(ranks[2], signal.SIGKILL)
    _, err = p.communicate(timeout=60)
    assert p.returncode == 10, err
    assert events(out)[-1]['event'] == 'fault' and events(out, 'checkpoint')
    train(tmp_path / 'other', '--resume', out, '--workers', 2, '--quiet')
    assert end(tmp_path / 'other')['steps'] == STEPS


def test_a_short_pause_is_nothing(tmp_path):
    out = tmp_path / 'run'
    p, ranks = launch(out)
    os.kill(ranks[2], signal.SIGSTOP)
    time.sleep(2)
    os.kill(ranks[2], signal.SIGCONT)
    assert finish(p, out) == []
    check_whole(out)


@pytest.mark.parametrize('victim', [0, 2])
def test_a_long_pause_is_fenced(tmp_path, victim):
    """the others go on; when it wakes up it finds itself out, and joins them as a new one"""
    out, rest = tmp_path / 'run', [r for r in range(WORKERS) if r != victim]
    p, ranks = launch(out, '--timeout', 2, *ENDLESS)
    os.kill(ranks[victim], signal.SIGSTOP)
    wait_for(lambda: events(out, 'member'), 60)
    assert events(out, 'member')[0]['members'] == rest
    os.kill(ranks[victim], signal.SIGCONT)
    wait_for(lambda: len(members(out)) == WORKERS, 20)
    assert sorted(children(p.pid)) == sorted(ranks)
    changes = stop(out, p)
    assert changes[1]['members'] == [*rest, WORKERS] and changes[1]['joined'] == 1
    steps = [e['step'] for e in events(out, 'step')]
    assert steps == sorted(set(steps))


@pytest.mark.parametrize('victim', [0, 2])
def test_told_to_leave(tmp_path, victim):
    """It alone: what it holds back is handed over, nobody counts a loss, and none is started in its
    place."""
    out = tmp_path / 'run'
    p, ranks = launch(out, '--codec', 'strom:warmup=0', '--steps', 400, '--restarts', 2)
    os.kill(ranks[victim], signal.SIGTERM)
    gone([ranks[victim]], 30)
    (change,) = finish(p, out)
    assert change['left'] == 1 and change['lost'] == 0 and len(change['members']) == 3
    assert end(out)['losses'] == 0 and end(out)['lost_residual'] == 0


def test_all_told_stop(tmp_path):
    out = tmp_path / 'run'
    p, ranks = launch(out, '--steps', 100000)
    for r in ranks:
        os.kill(r, signal.SIGTERM)
    assert finish(p, out, 143) == []
    assert os.readlink(out / 'latest') == f"step-{end(out)['steps']}"


def test_told_to_stop_after_a_loss(tmp_path):
    """whoever was lost before has nothing to do with it"""
    out = tmp_path / 'run'
    p, ranks = launch(out, '--steps', 100000)
    os.kill(ranks[1], signal.SIGKILL)
    wait_for(lambda: events(out, 'member'), 60)
    p.send_signal(signal.SIGTERM)
    finish(p, out, 143)
    assert os.readlink(out / 'latest') == f"step-{end(out)['steps']}"


def test_started_anew(tmp_path):
    out = tmp_path / 'run'
    p, ranks = launch(out, '--restarts', 3, *ENDLESS)
    for k in range(3):
        os.kill(children(p.pid)[k % 3], signal.SIGKILL)
        wait_for(lambda: len(members(out)) == WORKERS and joins(out) == k + 1, 60)
    stop(out, p)
    assert end(out)['joins'] == end(out)['losses'] == 3 and end(out)['workers'] == WORKERS


def test_joined_by_hand(tmp_path):
    """ranks of one machine that meet at a rendezvous; whoever keeps the door may die"""
    out, at = tmp_path / 'run', f'127.0.0.1:{port()}'
    common = [*COMMON, *ENDLESS, '--max-workers', 4, '--size', 2, '--rendezvous', at]
    first = [start('train', *common, '--out', out, '--rank', r) for r in range(2)]
    steps_logged(out, 3, 60)
    third = start('train', '--join', at, '--threads', 1, '--quiet')
    wait_for(lambda: members(out) == [0, 1, 2], 60)
    first[0].kill()
    wait_for(lambda: members(out) == [1, 2], 60)
    fourth = start('train', '--join', at, '--threads', 1, '--quiet')
    wait_for(lambda: members(out) == [1, 2, 3], 60)
    stop(out, first[1], third, fourth)
    assert end(out)['joins'] == 2 and end(out)['losses'] == 1


def test_joined_from_elsewhere(tmp_path):
    """workers of one launcher that keep a door for others"""
    out, at = tmp_path / 'run', f'127.0.0.1:{port()}'
    p, ranks = launch(out, '--rendezvous', at, *ENDLESS, '--max-workers', 3, workers=2)
    guest = start('train', '--join', at, '--threads', 1, '--quiet')
    wait_for(lambda: len(members(out)) == 3, 60)
    os.kill(ranks[0], signal.SIGKILL)
    wait_for(lambda: members(out) == [1, 2], 60)
    stop(out, p, guest)
    assert end(out)['joins'] == end(out)['losses'] == 1


@pytest.mark.parametrize('option', ['--lr 0.1', '--out here', '--workers 2', '--codec strom'])
def test_a_joiner_has_no_settings_of_its_own(option):
    at = f'127.0.0.1:{port()}'
    fails(
        2, 'train', '--join', at, *option.split(), says=['--join', 'leave out ' + option.split()[0]]
    )


def test_nobody_to_join(tmp_path):
    p = start('train', '--join', f'127.0.0.1:{port()}', '--timeout', 1)
    _, err = p.communicate(timeout=30)
    assert p.returncode == 11 and 'no run that can be joined' in err, err


def test_not_elastic(tmp_path):
    out = tmp_path / 'run'
    p, ranks = launch(out, '--elastic', 'no')
    os.kill(ranks[2], signal.SIGKILL)
    killed = time.time()
    _, err = p.communicate(timeout=20)
    assert p.returncode == 10 and 'rank 2 (' in err and time.time() - killed < 3
    assert not any(map(alive, ranks))
