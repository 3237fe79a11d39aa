"""Ranks that are started by hand, or by torchrun's variables: the same run as --workers, to the
last bit."""
import os, re, resource, signal, socket, subprocess, time
import pytest
from help_runs import steps_logged
from weirlib import (
    SMALL,
    WEIR,
    end,
    environment,
    events,
    leftovers,
    port,
    start,
    train,
    wait_for,
    weir,
)

SIZE = 4
COMMON = [
    '--model',
    'lenet',
    '--data',
    SMALL,
    '--batch',
    64,
    '--steps',
    12,
    '--threads',
    1,
    '--quiet',
]


def ranks(out, at=None, which=range(SIZE), common=COMMON, more=(), env=lambda r: {}, size=SIZE):
    """starts them; rank 0 alone keeps what it makes"""
    flags = lambda r: ['--rank', r, '--size', size, '--rendezvous', at] if at else []
    return [
        subprocess.Popen(
            [
                WEIR,
                'train',
                *map(str, [*common, '--elastic', 'no', *flags(r), *more]),
                *(['--out', str(out)] if r == 0 else []),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(**env(r)),
        )
        for r in which
    ]


def finish(all, codes=0, timeout=60):
    said = [p.communicate(timeout=timeout)[1] for p in all]
    assert [p.returncode for p in all] == (
        codes if isinstance(codes, list) else [codes] * len(all)
    ), said
    return said


@pytest.fixture(scope='module')
def together(tmp_path_factory):
    out = tmp_path_factory.mktemp('together') / 'run'
    train(out, *[x for x in COMMON if x != '--quiet'], '--workers', SIZE)
    return end(out)['params_hash']


@pytest.fixture(scope='module')
def key(tmp_path_factory):
    path = tmp_path_factory.mktemp('key') / 'weir.key'
    weir('keygen', path)
    return str(path)


@pytest.mark.sanitizer
@pytest.mark.parametrize('net', ['zmq', 'zmq:ipc=no'])
def test_by_hand(tmp_path, together, net):
    finish(ranks(tmp_path / 'run', f'127.0.0.1:{port()}', more=['--net', net]))
    e = end(tmp_path / 'run')
    assert e['params_hash'] == together and e['replicas'] == 1 and e['workers'] == SIZE
    assert events(tmp_path / 'run', 'start')[0]['rank_source'] == 'flags'
    assert not leftovers(tmp_path / 'run')


def test_congestion_control(tmp_path, together):
    for name, said in (('reno', 'congestion control reno in place of'), ('system', None)):
        err = finish(
            ranks(
                tmp_path / name,
                f'127.0.0.1:{port()}',
                more=['--net', f'zmq:ipc=no,congestion={name}'],
                env=lambda r: {'WEIR_DEBUG': 'info,net'},
            )
        )
        assert end(tmp_path / name)['params_hash'] == together
        assert all((said in e) if said else ('congestion control' not in e) for e in err), err
    err = finish(
        ranks(
            tmp_path / 'none',
            f'127.0.0.1:{port()}',
            which=[0],
            more=['--net', 'zmq:ipc=no,congestion=nosuch'],
        ),
        16,
    )[0]
    assert 'congestion=nosuch' in err and 'reno' in err


def test_with_key(tmp_path, together, key):
    finish(
        ranks(
            tmp_path / 'run',
            f'127.0.0.1:{port()}',
            more=['--net', 'zmq:ipc=no'],
            env=lambda r: {'WEIR_KEY': key},
        )
    )
    assert end(tmp_path / 'run')['params_hash'] == together
    with open(key) as f:
        secret = f.read().split()[-1]
    for top, _, files in os.walk(tmp_path / 'run'):
        for name in files:
            with open(os.path.join(top, name), 'rb') as f:
                assert secret.encode() not in f.read(), name


def test_torchrun_variables(tmp_path, together):
    p = port()
    with socket.socket() as store:  # torchrun's own store holds MASTER_PORT
        store.bind(('127.0.0.1', p))
        store.listen()
        finish(
            ranks(
                tmp_path / 'run',
                env=lambda r: {
                    'RANK': str(r),
                    'WORLD_SIZE': str(SIZE),
                    'LOCAL_RANK': str(r),
                    'LOCAL_WORLD_SIZE': str(SIZE),
                    'MASTER_ADDR': '127.0.0.1',
                    'MASTER_PORT': str(p),
                    'TORCHELASTIC_RUN_ID': 'none',
                },
            )
        )
    assert end(tmp_path / 'run')['params_hash'] == together
    assert events(tmp_path / 'run', 'start')[0]['rank_source'] == 'torchrun'


def slurm(r):
    return {
        'SLURM_PROCID': str(r),
        'SLURM_NTASKS': str(SIZE),
        'SLURM_LOCALID': str(r),
        'SLURM_NODEID': '0',
        'SLURM_STEP_ID': '0',
        'SLURM_JOB_ID': str(os.getpid()),
        'SLURM_JOB_NODELIST': 'localhost',
        'SLURM_TASKS_PER_NODE': str(SIZE),
    }


def test_slurm_variables(tmp_path, together):
    finish(ranks(tmp_path / 'run', more=['--net', 'zmq'], env=slurm))
    assert end(tmp_path / 'run')['params_hash'] == together
    assert events(tmp_path / 'run', 'start')[0]['rank_source'] == 'slurm'


def test_missing_rank(tmp_path):
    at = f'127.0.0.1:{port()}'
    for said in finish(ranks(tmp_path / 'run', at, which=[0, 1, 2], more=['--timeout', 2]), 11):
        assert f'rank 3 of 4 has not come (waited 2 s at {at})' in said


def test_wrong_key_is_named(tmp_path, key, together):
    """refused, named on both sides; the run goes on with the right one"""
    other, at = str(tmp_path / 'other.key'), f'127.0.0.1:{port()}'
    weir('keygen', other)
    good = ranks(tmp_path / 'run', at, which=[0, 1, 2], more=['--key', key])
    said = finish(
        ranks(tmp_path / 'x', at, which=[3], more=['--key', other])
        + ranks(tmp_path / 'x', at, which=[3]),
        15,
    )
    assert f'the key in {other} is not' in said[0] and 'the run has a key' in said[1]
    said = finish(good + ranks(tmp_path / 'x', at, which=[3], more=['--key', key]))
    assert f'a process at 127.0.0.1 was not let in at {at}' in said[0]
    assert end(tmp_path / 'run')['params_hash'] == together


def test_closed_by_default(tmp_path, key):
    at = '192.0.2.1:29500'  # an address for documentation: nobody's
    assert 'weir keygen' in finish(ranks(tmp_path / 'run', at, which=[0]), 15)[0]
    os.chmod(key, 0o644)
    try:
        assert (
            f'chmod 600 {key}'
            in finish(ranks(tmp_path / 'run', at, which=[0], more=['--key', key]), 15)[0]
        )
    finally:
        os.chmod(key, 0o600)
    assert (
        'which of the two'
        in finish(ranks(tmp_path / 'run', at, which=[0], more=['--key', key, '--insecure']), 2)[0]
    )
    assert 'exists' in weir('keygen', key, code=2)[1]


@pytest.mark.parametrize('trial', range(4))
def test_killed_rank_is_named(tmp_path, trial):
    out, victim = tmp_path / 'run', trial
    all = ranks(
        out,
        f'127.0.0.1:{port()}',
        more=['--steps', 10**6, '--net', 'zmq:ipc=no' if trial % 2 else 'zmq'],
        common=[x for i, x in enumerate(COMMON) if x != '--steps' and COMMON[i - 1] != '--steps'],
    )
    steps_logged(out, 2)
    time.sleep(0.1 * trial)
    all[victim].send_signal(signal.SIGKILL)
    killed = time.time()
    said = finish(all, [-9 if r == victim else 10 for r in range(SIZE)], 10)
    assert time.time() - killed < 2
    for r in range(SIZE):
        if r != victim:
            assert re.search(
                rf'rank {victim} \(host .*, pid {all[victim].pid}\) ended in phase \w+ of step \d+',
                said[r],
            ), said[r]
    assert not leftovers(out)


# ---- who says how many there are ----

SHORT = ['--model', 'lenet', '--data', SMALL, '--batch', 64, '--threads', 1, '--quiet']


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


def listens(at):
    with open('/proc/net/tcp') as f:
        return any(line.split()[1].endswith(f':{at:04X}') and line.split()[3] == '0A' for line in f)


def test_a_signal_before_the_ranks_have_met_is_heard_at_once(tmp_path):
    at = port()
    p = subprocess.Popen(
        [
            WEIR,
            'train',
            *map(str, SHORT),
            '--steps',
            '3',
            '--rank',
            '0',
            '--size',
            '2',
            '--rendezvous',
            f'127.0.0.1:{at}',
            '--timeout',
            '60',
        ],
        stderr=subprocess.PIPE,
        env=environment(),
    )
    wait_for(lambda: listens(at))
    began = time.time()
    p.terminate()
    p.communicate(timeout=30)
    assert p.returncode == 143 and time.time() - began < 2


# ---- strangers ----

DESCRIPTORS = 64


def few_descriptors():
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))


def ports(pid):
    """where a process listens"""
    mine = set()
    for fd in os.listdir(f'/proc/{pid}/fd'):
        mine |= set(re.findall(r'socket:.(\d+)', os.readlink(f'/proc/{pid}/fd/{fd}')))
    with open('/proc/net/tcp') as f:
        rows = [line.split() for line in f.readlines()[1:]]
    return [int(row[1].split(':')[1], 16) for row in rows if row[3] == '0A' and row[9] in mine]


def say_nothing(at, count):
    """connections to a port that never say a word; who holds them"""
    found = []
    for _ in range(count):
        found.append(socket.socket())
        found[-1].setblocking(False)
        found[-1].connect_ex(('127.0.0.1', at))
    return found


def seconds_worked(pid):
    """by all threads of a process, on any core"""
    with open(f'/proc/{pid}/stat') as f:
        fields = f.read().rsplit(')', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def rests(pid, seconds=2):
    """A process that waits needs next to no time; one that spins takes all that it gets, which is
    a share of a core where others run too: a tenth lies between."""
    time.sleep(1)  # the last connections are dealt with
    before = seconds_worked(pid)
    time.sleep(seconds)
    return seconds_worked(pid) - before < 0.1 * seconds


def crowded(rank, at, steps, more=()):
    return start(
        *['train', *SHORT, '--steps', steps, '--rank', rank, '--size', 2, *more],
        *['--rendezvous', f'127.0.0.1:{at}'],
        preexec_fn=few_descriptors if rank == 0 else None,
    )


@pytest.mark.mended
@pytest.mark.parametrize('locked', (False, True))
def test_connections_that_say_nothing_do_not_keep_the_ranks_apart(key, locked):
    """more of them than there are descriptors: rank 0 rests, warns once, and lets rank 1 in"""
    at, more = port(), ['--key', key] if locked else []
    first = crowded(0, at, 3, more)
    wait_for(lambda: listens(at))
    silent = say_nothing(at, 2 * DESCRIPTORS)
    assert rests(first.pid)
    second = crowded(1, at, 3, more)
    said = finish([first, second])
    assert said[0].count('not said who they are') == 1 and 'ulimit -n' in said[0], said
    assert len(silent) == 2 * DESCRIPTORS


@pytest.mark.mended
def test_connections_that_say_nothing_do_not_disturb_a_run(tmp_path):
    at, log = port(), tmp_path / 'log'
    both = [crowded(rank, at, 400, ['--log', log] if rank == 0 else []) for rank in range(2)]
    wait_for(lambda: log.exists() and '"step"' in log.read_text())
    both[1].send_signal(signal.SIGSTOP)  # rank 0 has nothing to do but to wait
    doors = ports(both[0].pid)  # the rendezvous, and the one that its links came in by
    silent = [say_nothing(door, 2 * DESCRIPTORS) for door in doors]
    resting = rests(both[0].pid)
    both[1].send_signal(signal.SIGCONT)
    said = finish(both)
    assert len(silent) == 2 and at in doors
    assert resting and said[0].count('not said who they are') == 2, said
    assert all(f':{door} and not said' in said[0] for door in doors), said
