"""It never hangs, and it says who: ranks and the launcher killed and stopped at random instants."""
import os, random, re, signal, time
import pytest
from help_runs import WORKERS, gone, launch, steps_logged
from weirlib import events, leftovers, port, start, wait_for

ERROR = re.compile(r'^weir: error: rank (\d+) \(.*in phase (\w+)', re.M)


@pytest.mark.parametrize('trial', range(int(os.environ.get('TRIALS', 20))))
def test_kill_any_rank(tmp_path, trial):
    rng = random.Random(trial)
    out, victim = tmp_path / 'run', rng.randrange(WORKERS)
    p, ranks = launch(out)
    if trial % 4:
        steps_logged(out, 2)  # a quarter of them while the ranks are still starting
    time.sleep(rng.random() * (0.5 if trial % 4 else 0.3))
    os.kill(ranks[victim], signal.SIGKILL)
    killed = time.time()
    gone([p.pid, *ranks], 2) if p.poll() is None else None
    _, err = p.communicate(timeout=5)
    assert time.time() - killed < 2.5
    assert p.returncode == 10, err
    said = ERROR.findall(err)
    assert len(said) == 1 and int(said[0][0]) == victim, err
    assert len([line for line in err.splitlines() if line.startswith('weir: error')]) == 1, err
    assert not leftovers(out)


def test_stopped_rank_is_named_in_time(tmp_path):
    out = tmp_path / 'run'
    p, ranks = launch(out, '--timeout', 2)
    steps_logged(out, 2)
    os.kill(ranks[2], signal.SIGSTOP)
    stopped = time.time()
    _, err = p.communicate(timeout=15)
    took = time.time() - stopped
    assert p.returncode == 11, err
    assert (
        1.6 <= took <= 2.4 + 1.0
    ), took  # the time-out, and at most a second for the launcher to end the stopped one
    said = ERROR.findall(err)
    assert [int(r) for r, _ in said] == [2], err
    gone(ranks, 1)
    assert not leftovers(out)
    assert events(out, 'fault')[-1]['rank'] == 2
    flight = (out / 'flight-0.txt').read_text()  # what it was at, for whoever has to find out
    assert (
        flight.startswith('rank 0 of 4, step ') and 'peer silent after' in flight.splitlines()[-1]
    )


def test_short_stop_is_forgiven(tmp_path):
    out = tmp_path / 'run'
    p, ranks = launch(out, '--timeout', 5)
    steps_logged(out, 2)
    os.kill(ranks[1], signal.SIGSTOP)
    time.sleep(1.5)
    os.kill(ranks[1], signal.SIGCONT)
    before = len(events(out, 'step'))
    wait_for(lambda: len(events(out, 'step')) > before + 5)
    p.terminate()
    p.communicate(timeout=10)
    assert p.returncode == 128 + signal.SIGTERM


# ---- ranks started by hand: no launcher ends what computes on ----


def ticks(p):
    with open(f'/proc/{p.pid}/stat') as f:
        return int(f.read().rsplit(')', 1)[1].split()[11])


def by_hand(*args):
    """two ranks of vgg16: no launcher ends what computes on"""
    common = [
        'train',
        '--model',
        'vgg16',
        '--threads',
        1,
        '--quiet',
        '--elastic',
        'no',
        '--size',
        2,
        '--rendezvous',
        f'127.0.0.1:{port()}',
        *args,
    ]
    return [start(*common, '--rank', r) for r in range(2)]


def lost(p, killed, seconds):
    _, err = p.communicate(timeout=60)
    assert p.returncode == 10 and 'rank 1 (' in err and time.time() - killed < seconds, (
        p.returncode,
        time.time() - killed,
        err,
    )


def test_a_long_step_ends_when_a_peer_is_lost():
    ranks = by_hand(
        '--data',
        'synth:shape=3x32x32,classes=10,count=1024,test=16',
        '--batch',
        1024,
        '--steps',
        100,
        '--eval-every',
        0,
    )
    try:
        wait_for(lambda: all(ticks(p) > 250 for p in ranks), 60)
        ranks[1].kill()  # in the middle of the first step, which takes much longer
        lost(ranks[0], time.time(), 4)
    finally:
        for p in ranks:
            p.kill()


def rests(p):
    """it has computed, and does no longer"""
    before = ticks(p)
    time.sleep(0.5)
    return ticks(p) - before < 5


def test_a_rank_that_waits_is_lost():
    """what it left in common memory is no answer"""
    ranks = by_hand(
        '--data',
        'synth:shape=3x32x32,classes=10,count=256,test=16',
        '--batch',
        256,
        '--steps',
        100,
        '--eval-every',
        0,
        '--timeout',
        60,
    )
    try:
        wait_for(lambda: all(ticks(p) > 150 for p in ranks), 60)
        ranks[0].send_signal(signal.SIGSTOP)
        wait_for(lambda: rests(ranks[1]), 60)
        ranks[1].kill()
        ranks[1].wait()
        ranks[0].send_signal(signal.SIGCONT)
        lost(ranks[0], time.time(), 4)
    finally:
        for p in ranks:
            p.kill()


def test_an_evaluation_ends_when_a_peer_is_lost(tmp_path):
    ranks = by_hand(
        '--data',
        'synth:shape=3x32x32,classes=10,count=16,test=20000',
        '--batch',
        4,
        '--steps',
        1,
        '--out',
        tmp_path / 'run',
    )
    try:
        wait_for(
            lambda: os.path.exists(tmp_path / 'run/log.jsonl') and events(tmp_path / 'run', 'step'),
            60,
        )
        from_now = ticks(ranks[1])
        wait_for(lambda: ticks(ranks[1]) > from_now + 30, 60)
        ranks[1].kill()
        lost(ranks[0], time.time(), 4)
    finally:
        for p in ranks:
            p.kill()
