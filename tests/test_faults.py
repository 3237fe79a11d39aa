"""It never hangs, and it says who: ranks and the launcher killed and stopped at random instants."""
import os, random, re, signal, subprocess, time
import pytest
from weirlib import SMALL, WEIR, alive, children, environment, events, leftovers, start, wait_for

WORKERS = 4
LONG = [
    '--model',
    'lenet',
    '--data',
    SMALL,
    '--batch',
    64,
    '--steps',
    1000000,
    '--save-every',
    20,
    '--eval-every',
    50,
    '--workers',
    WORKERS,
    '--threads',
    1,
    '--quiet',
]
ERROR = re.compile(r'^weir: error: rank (\d+) \(.*in phase (\w+)', re.M)


def launch(out, *more):
    p = start('train', '--out', out, *LONG, *more)
    ranks = wait_for(lambda: len(children(p.pid)) == WORKERS and children(p.pid))
    return p, ranks


def gone(pids, seconds):
    wait_for(lambda: not any(map(alive, pids)), seconds)


def running(out):
    return wait_for(lambda: os.path.exists(out / 'log.jsonl') and len(events(out, 'step')) > 2)


@pytest.mark.parametrize('trial', range(int(os.environ.get('TRIALS', 20))))
def test_kill_any_rank(tmp_path, trial):
    rng = random.Random(trial)
    out, victim = tmp_path / 'run', rng.randrange(WORKERS)
    p, ranks = launch(out)
    if trial % 4:
        running(out)  # a quarter of them while the ranks are still starting
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
    running(out)
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
    running(out)
    os.kill(ranks[1], signal.SIGSTOP)
    time.sleep(1.5)
    os.kill(ranks[1], signal.SIGCONT)
    before = len(events(out, 'step'))
    wait_for(lambda: len(events(out, 'step')) > before + 5)
    p.terminate()
    p.communicate(timeout=10)
    assert p.returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize('trial', range(6))
def test_kill_launcher(tmp_path, trial):
    out = tmp_path / 'run'
    p, ranks = launch(out)
    if trial % 3:
        running(out)
    time.sleep(random.Random(trial).random() * 0.3)
    p.kill()
    gone(ranks, 2)
    p.communicate()
    assert not leftovers(out)


def test_kill_launcher_with_a_stopped_rank(tmp_path):
    out = tmp_path / 'run'
    p, ranks = launch(out)
    running(out)
    os.kill(ranks[3], signal.SIGSTOP)
    p.kill()
    gone(ranks, 2)
    p.communicate()
    assert not leftovers(out)


def test_kill_launcher_of_a_bench(tmp_path):
    p = start('bench', 'train', '--model', 'lenet', '--workers', 2, '--steps', 1000000)
    ranks = wait_for(lambda: len(children(p.pid)) == 2 and children(p.pid))
    time.sleep(0.7)
    p.kill()
    gone(ranks, 2)
    p.communicate()
    assert not leftovers()


def test_run_directory_is_not_ours_to_empty(tmp_path):
    """WEIR_RUN may name anything: only sockets of this run are removed"""
    victim = tmp_path / 'victim'
    victim.mkdir()
    (victim / 'file').write_text('mine')
    env = environment(
        RANK='0',
        WORLD_SIZE='2',
        LOCAL_RANK='0',
        LOCAL_WORLD_SIZE='2',
        MASTER_ADDR='127.0.0.1',
        MASTER_PORT='1',
        WEIR_RUN=str(victim),
    )
    p = subprocess.Popen(
        [WEIR, 'train', *map(str, LONG)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
    )
    time.sleep(0.5)
    for _ in range(2):
        p.terminate()
        time.sleep(0.2)
    p.kill()
    p.communicate()
    assert (victim / 'file').read_text() == 'mine'
