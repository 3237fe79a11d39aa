"""Found by a stranger who tried the launcher, and ranks started in other ways."""
import os, re, signal, subprocess, time
import pytest
from weirlib import (
    SMALL,
    WEIR,
    alive,
    children,
    end,
    environment,
    events,
    heed,
    leftovers,
    port,
    start,
    train,
    wait_for,
    weir,
)

SHORT = ['--model', 'lenet', '--data', SMALL, '--batch', 64, '--threads', 1, '--quiet']


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
    wait_for(
        lambda: os.path.exists(tmp_path / 'run/log.jsonl')
        and len(events(tmp_path / 'run', 'step')) > 2
    )
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
    wait_for(
        lambda: os.path.exists(tmp_path / 'run/log.jsonl')
        and len(events(tmp_path / 'run', 'step')) > 2
    )
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
        p = subprocess.run(
            [
                mpirun,
                '--oversubscribe',
                '--bind-to',
                'none',
                '-n',
                '3',
                WEIR,
                'train',
                '--resume',
                str(out),
                '--steps',
                '25',
                '--net',
                'auto',
                '--quiet',
            ],
            capture_output=True,
            text=True,
            env=environment(OMPI_ALLOW_RUN_AS_ROOT='1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1'),
        )
        assert p.returncode == 0 and end(out)['workers'] == 3, p.stderr
    err = weir(
        'train', '--resume', out, '--steps', 30, '--net', 'sim:nodes=3', '--workers', 2, code=16
    )[1]
    assert '--workers 2, but --net sim:nodes=3 has 3 nodes' in err


def test_two_numbers_of_ranks(tmp_path):
    err = weir(
        'train',
        *SHORT,
        '--steps',
        5,
        '--workers',
        4,
        '--rank',
        0,
        '--size',
        2,
        '--rendezvous',
        f'127.0.0.1:{port()}',
        code=16,
    )[1]
    assert '--workers 4, but --size says 2 ranks' in err


@pytest.mark.parametrize('at', ['0.0.0.0', '[::]'])
def test_nobody_can_go_to_any_address(at):
    assert (
        'no address that others can go to'
        in weir(
            'train',
            *SHORT,
            '--steps',
            5,
            '--rank',
            0,
            '--size',
            2,
            '--rendezvous',
            f'{at}:{port()}',
            '--insecure',
            code=2,
        )[1]
    )


def test_one_rank_and_mpis_collectives(tmp_path):
    train(tmp_path / 'run', *SHORT[:-1], '--steps', 5, '--coll', 'mpi')


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


def test_options_that_would_do_nothing(tmp_path):
    for said, *args in (
        ('--profile', 'train', *SHORT, '--steps', 1, '--profile', tmp_path / 'p'),
        ('--model', 'bench', 'allreduce', '--model', 'mlp'),
        ('--workers', 'bench', 'codec', '--workers', 2),
    ):
        assert said in weir(*args, code=2)[1]
    assert (
        'slow=x5'
        in weir(
            'bench', 'train', '--model', 'mlp', '--net', 'sim:nodes=2,cost=1ms,slow=x5', code=2
        )[1]
    )


def test_one_worker_where_there_are_more(tmp_path):
    assert (
        '--workers 1'
        in weir('train', *SHORT, '--steps', 1, '--workers', 1, '--net', 'sim:nodes=3', code=16)[1]
    )
    assert (
        '--workers 1'
        in weir(
            'train',
            *SHORT,
            '--steps',
            1,
            '--workers',
            1,
            '--rank',
            0,
            '--size',
            2,
            '--rendezvous',
            f'127.0.0.1:{port()}',
            code=16,
        )[1]
    )


def test_a_profile_that_one_rank_wants(tmp_path):
    at = f'127.0.0.1:{port()}'
    ranks = [
        start(
            'bench',
            'train',
            '--model',
            'mlp',
            '--steps',
            2,
            '--rank',
            r,
            '--size',
            2,
            '--rendezvous',
            at,
            *(['--profile', tmp_path / 'p'] if r == 0 else []),
        )
        for r in range(2)
    ]
    said = [p.communicate(timeout=60)[1] for p in ranks]
    assert [p.returncode for p in ranks] == [16, 16] and all('profile' in s for s in said), said


def test_closed_output():
    p = subprocess.run(
        [WEIR, 'list'], preexec_fn=lambda: os.close(1), stderr=subprocess.PIPE, text=True
    )
    assert p.returncode == 14 and 'standard output' in p.stderr


def test_resumed_by_a_launcher_of_one(tmp_path):
    out = tmp_path / 'run'
    train(out, *SHORT[:-1], '--workers', 2, '--steps', 5)
    train(
        out,
        '--resume',
        out,
        '--steps',
        10,
        RANK='0',
        WORLD_SIZE='1',
        LOCAL_RANK='0',
        MASTER_ADDR='127.0.0.1',
        MASTER_PORT=str(port()),
    )
    assert end(out)['workers'] == 1
