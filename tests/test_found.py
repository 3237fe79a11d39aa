"""Found by a stranger who tried the launcher, and ranks started in other ways."""
import os, re, signal, subprocess, time
import pytest
from weirlib import SMALL, WEIR, alive, children, end, environment, events, heed, leftovers, port, start, train, wait_for, weir

SHORT = ['--model', 'lenet', '--data', SMALL, '--batch', 64, '--threads', 1, '--quiet']


def ignoring_children(): signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def without_input():
    heed()
    os.close(0)


def pending(pid, number):
    with open(f'/proc/{pid}/status') as f: return int(re.search(r'ShdPnd:\s*(\w+)', f.read())[1], 16) >> (number - 1) & 1


def test_a_parent_that_ignores_its_children(tmp_path):
    p = start('train', *SHORT, '--workers', 2, '--steps', 5, '--out', tmp_path / 'run', preexec_fn=ignoring_children)
    try: _, err = p.communicate(timeout=30)
    finally: p.kill()
    assert p.returncode == 0 and end(tmp_path / 'run')['replicas'] == 1, err


def test_ranks_that_had_to_be_ended(tmp_path):
    p = start('train', *SHORT, '--workers', 2, '--steps', 10 ** 6, '--out', tmp_path / 'run')
    ranks = wait_for(lambda: len(children(p.pid)) == 2 and children(p.pid))
    wait_for(lambda: os.path.exists(tmp_path / 'run/log.jsonl') and len(events(tmp_path / 'run', 'step')) > 2)
    for r in ranks: os.kill(r, signal.SIGSTOP)
    for _ in range(2):
        p.send_signal(signal.SIGINT)
        wait_for(lambda: not pending(p.pid, signal.SIGINT))  # one that is would swallow the next
    _, err = p.communicate(timeout=20)
    assert p.returncode == 130 and 'did not leave at signal 2' in err, err
    assert not any(map(alive, ranks)) and not leftovers(tmp_path / 'run')


def test_without_standard_input(tmp_path):
    p = start('train', *SHORT, '--workers', 2, '--steps', 10 ** 6, '--out', tmp_path / 'run', preexec_fn=without_input)
    ranks = wait_for(lambda: len(children(p.pid)) == 2 and children(p.pid))
    wait_for(lambda: os.path.exists(tmp_path / 'run/log.jsonl') and len(events(tmp_path / 'run', 'step')) > 2)
    p.kill()
    wait_for(lambda: not any(map(alive, ranks)), 5)
    assert 'WEIR_BOARD' not in p.communicate()[1]


def test_resumed_where_others_say_how_many(tmp_path):
    out = tmp_path / 'run'
    train(out, *SHORT[:-1], '--workers', 2, '--steps', 10)
    train(out, '--resume', out, '--steps', 15, '--net', 'sim:nodes=3')
    assert end(out)['workers'] == 3
    train(out, '--resume', out, '--steps', 20, '--net', 'auto')
    assert end(out)['workers'] == 2
    mpirun = '/usr/bin/mpirun.openmpi'
    if os.path.exists(mpirun):
        p = subprocess.run([mpirun, '--oversubscribe', '--bind-to', 'none', '-n', '3', WEIR, 'train', '--resume', str(out), '--steps', '25', '--net', 'auto', '--quiet'], capture_output=True, text=True,
                           env=environment(OMPI_ALLOW_RUN_AS_ROOT='1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1'))
        assert p.returncode == 0 and end(out)['workers'] == 3, p.stderr
    err = weir('train', '--resume', out, '--steps', 30, '--net', 'sim:nodes=3', '--workers', 2, code=16)[1]
    assert 'nodes=3, but the run was told to have 2 ranks' in err


def test_two_numbers_of_ranks(tmp_path):
    err = weir('train', *SHORT, '--steps', 5, '--workers', 4, '--rank', 0, '--size', 2, '--rendezvous', f'127.0.0.1:{port()}', code=16)[1]
    assert '--workers 4, but --size says 2 ranks' in err


@pytest.mark.parametrize('at', ['0.0.0.0', '[::]'])
def test_nobody_can_go_to_any_address(at):
    assert 'no address that others can go to' in weir('train', *SHORT, '--steps', 5, '--rank', 0, '--size', 2, '--rendezvous', f'{at}:{port()}', '--insecure', code=2)[1]


def test_one_rank_and_mpis_collectives(tmp_path):
    train(tmp_path / 'run', *SHORT[:-1], '--steps', 5, '--coll', 'mpi')


def test_a_long_step_ends_when_a_peer_is_lost(tmp_path):
    """by hand, where no launcher ends what computes on"""
    at = f'127.0.0.1:{port()}'
    args = ['train', '--model', 'vgg16', '--data', 'synth:shape=3x32x32,classes=10,count=512,test=16', '--batch', 512, '--steps', 100, '--eval-every', 0, '--threads', 1, '--quiet', '--size', 2, '--rendezvous', at]
    ranks = [start(*args, '--rank', r) for r in range(2)]
    try:
        wait_for(lambda: all(int(open(f'/proc/{p.pid}/stat').read().rsplit(')', 1)[1].split()[11]) > 250 for p in ranks), 60)
        ranks[1].kill()  # both have computed for some seconds: in the middle of the first step, which takes longer
        killed = time.time()
        _, err = ranks[0].communicate(timeout=60)
        assert ranks[0].returncode == 10 and 'rank 1 (' in err and time.time() - killed < 5, (time.time() - killed, err)
    finally:
        for p in ranks: p.kill()
