"""The launcher: it and its ranks end together, whoever is killed and whatever surrounds them, with
the right code, and leave nothing behind."""
import os, random, re, signal, subprocess, time
import pytest
from help_runs import LONG, gone, launch, steps_logged
from weirlib import (
    SMALL,
    WEIR,
    alive,
    children,
    end,
    environment,
    heed,
    leftovers,
    start,
    wait_for,
)

SHORT = ['--model', 'lenet', '--data', SMALL, '--batch', 64, '--threads', 1, '--quiet']


@pytest.mark.parametrize('trial', range(6))
def test_kill_launcher(tmp_path, trial):
    out = tmp_path / 'run'
    p, ranks = launch(out)
    if trial % 3:
        steps_logged(out, 2)
    time.sleep(random.Random(trial).random() * 0.3)
    p.kill()
    gone(ranks, 2)
    p.communicate()
    assert not leftovers(out)


def test_kill_launcher_with_a_stopped_rank(tmp_path):
    out = tmp_path / 'run'
    p, ranks = launch(out)
    steps_logged(out, 2)
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
    victim.mkdir(mode=0o700)
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
    p = subprocess.Popen([WEIR, 'train', *LONG], stderr=subprocess.PIPE, text=True, env=env)
    try:
        wait_for((victim / 'r0').is_socket)  # where it waits for rank 1, which never comes
        p.terminate()
        _, err = p.communicate(timeout=20)
    finally:
        p.kill()
    assert p.returncode == 128 + signal.SIGTERM, err
    assert os.listdir(victim) == ['file'] and (victim / 'file').read_text() == 'mine'


def ignoring_children():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def without_input():
    heed()
    os.close(0)


def pending(pid, number):
    with open(f'/proc/{pid}/status') as f:
        return int(re.search(r'ShdPnd:\s*(\w+)', f.read())[1], 16) >> (number - 1) & 1


def test_a_parent_that_ignores_its_children(tmp_path):
    p = start(
        'train',
        *SHORT,
        '--workers',
        2,
        '--steps',
        5,
        '--out',
        tmp_path / 'run',
        preexec_fn=ignoring_children,
    )
    try:
        _, err = p.communicate(timeout=30)
    finally:
        p.kill()
    assert p.returncode == 0 and end(tmp_path / 'run')['replicas'] == 1, err


def test_ranks_that_had_to_be_ended(tmp_path):
    p = start('train', *SHORT, '--workers', 2, '--steps', 10**6, '--out', tmp_path / 'run')
    ranks = wait_for(lambda: len(children(p.pid)) == 2 and children(p.pid))
    steps_logged(tmp_path / 'run', 2)
    for r in ranks:
        os.kill(r, signal.SIGSTOP)
    for _ in range(2):
        p.send_signal(signal.SIGINT)
        wait_for(lambda: not pending(p.pid, signal.SIGINT))  # one that is would swallow the next
    _, err = p.communicate(timeout=20)
    assert p.returncode == 130 and 'did not leave at signal 2' in err, err
    assert not any(map(alive, ranks)) and not leftovers(tmp_path / 'run')


def test_without_standard_input(tmp_path):
    p = start(
        'train',
        *SHORT,
        '--workers',
        2,
        '--steps',
        10**6,
        '--out',
        tmp_path / 'run',
        preexec_fn=without_input,
    )
    ranks = wait_for(lambda: len(children(p.pid)) == 2 and children(p.pid))
    steps_logged(tmp_path / 'run', 2)
    p.kill()
    wait_for(lambda: not any(map(alive, ranks)), 5)
    assert 'WEIR_BOARD' not in p.communicate()[1]
