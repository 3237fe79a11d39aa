"""The mpi world under Open MPI and MPICH: its laws (tests/mpi/ranks.c), training, and ranks that
die.

Each MPI is tried if its launcher is there and weir was built with it; what is not tried is skipped,
and said so."""
import os, re, shutil, signal, subprocess, time
import pytest
from help_runs import LONG, gone, steps_logged
from weirlib import (
    FLAVOUR,
    ROOT,
    SMALL,
    SMOOTH,
    WEIR,
    alive,
    children,
    distance,
    end,
    environment,
    events,
    leftovers,
    listed,
    rounding,
    train,
    wait_for,
    weights,
)

LAWS = [
    'both_ways',
    'chunks',
    'large',
    'any_source',
    'big_and_late',
    'cancel',
    'renew',
    'ring',
    'mpi',
    'halving',
    'doubling',
    'blocks',
    'tree',
    'hier',
    'shm',
    'auto',
]
COMMON = [
    '--model',
    'lenet',
    '--data',
    SMALL,
    '--batch',
    64,
    '--optim',
    'sgd',
    '--lr',
    0.01,
    '--eval-every',
    0,
    '--threads',
    1,
    '--quiet',
]
TEXT = 'synth:tokens=50,length=12,count=640,test=64'


class Mpi:
    def __init__(self, name):
        self.name, mine = name, name == 'openmpi'
        self.build = f'{ROOT}/build/{FLAVOUR}' + ('' if mine else '-mpich')
        self.run = (
            ['mpirun', '--allow-run-as-root', '--oversubscribe'] if mine else ['mpiexec.mpich']
        )
        self.rank = 'OMPI_COMM_WORLD_RANK' if mine else 'PMI_RANK'
        self.weir, self.ranks = f'{self.build}/weir', f'{self.build}/tests/mpi/ranks'
        if FLAVOUR == 'tsan':
            self.lacks = f'{name}: built without TSan, which then sees races that are none'
        elif not shutil.which(self.run[0]):
            self.lacks = f'{name}: there is no {self.run[0]} (scripts/deps dev installs it)'
        elif not os.path.exists(self.ranks):
            self.lacks = f'{name}: {self.ranks} was not built (no mpicc when make ran?)'
        elif (
            mine
            and 'Open MPI'
            not in subprocess.run(['mpirun', '--version'], capture_output=True, text=True).stdout
        ):
            self.lacks = 'openmpi: mpirun is of another MPI'
        else:
            self.lacks = None

    def start(self, n, *command, more=(), **env):
        return subprocess.Popen(
            [*self.run, *more, '-n', str(n), *map(str, command)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(
                ASAN_OPTIONS=os.environ.get('ASAN_OPTIONS', '') + ':detect_leaks=0', **env
            ),
        )  # MPIs leave much behind

    def end(self, n, *command, timeout=120):
        p = self.start(n, *command)
        out, err = p.communicate(timeout=timeout)
        return p.returncode, out, err


@pytest.fixture(params=['openmpi', 'mpich'])
def mpi(request):
    m = Mpi(request.param)
    if m.lacks:
        pytest.skip(m.lacks)
    return m


def offspring(pid):
    found = children(pid)
    return found + [x for c in found for x in offspring(c)]


def ranks(mpi, pid, size):
    """the ranks' processes, by rank, once all are there"""
    by = {}
    for p in offspring(pid):
        try:
            with open(f'/proc/{p}/environ') as f:
                told = dict(v.split('=', 1) for v in f.read().split('\0') if '=' in v)
            with open(f'/proc/{p}/comm') as f:
                name = f.read().strip()
        except OSError:
            continue
        if mpi.rank in told and name in ('weir', 'ranks'):
            by[int(told[mpi.rank])] = p
    return [by[r] for r in range(size)] if len(by) == size else None


@pytest.mark.sanitizer
@pytest.mark.parametrize('size', [2, 4, 5])
def test_laws(mpi, size):
    code, out, err = mpi.end(
        size, mpi.ranks, *[law for law in LAWS if size > 2 or law != 'cancel'], timeout=300
    )
    assert code == 0, out + err
    assert re.findall(r'^ok (\w+)', out, re.M) == [
        law for law in LAWS if size > 2 or law != 'cancel'
    ], out


def test_every_collective_is_among_the_laws():
    assert set(listed('coll')) | {'mpi'} <= set(LAWS)


@pytest.mark.parametrize('how', ['killed', 'fails'])
def test_loss_in_the_middle(mpi, how):
    begun = time.time()
    p = mpi.start(4, mpi.ranks, how)
    out, err = p.communicate(timeout=60)
    assert time.time() - begun < 30 and p.returncode
    said = re.findall(rf'^{how}: rank (\d): rank 3 \(.*\(exit 10\)', out, re.M)
    own = 'fails: rank 3: its data are damaged (exit 17)' in out
    # mpirun ends all others once one has left with an error: which of them have said it by then is
    # its matter, but somebody has
    if mpi.name == 'mpich' and how == 'killed':
        assert said or 'BAD TERMINATION' in out + err, out + err
    else:
        assert said or own, out + err
    assert not re.search(r'exit 1\)', out), out
    if how == 'fails':
        assert len(re.findall(r'left with an error .*: its data are damaged', out)) == len(
            said
        ), out


@pytest.mark.parametrize(
    'model,data', [('lenet', SMALL), ('mlp', SMALL), ('gpt:width=32,depth=2', TEXT)]
)
def test_training_equals_zmq(mpi, tmp_path, model, data):
    args = [*COMMON, '--model', model, '--data', data, '--steps', 50, '--coll', 'ring']
    train(tmp_path / 'zmq', *args, '--workers', 4)
    code, out, err = mpi.end(4, mpi.weir, 'train', *args, '--out', tmp_path / 'mpi')
    assert code == 0, out + err
    a, b = end(tmp_path / 'zmq'), end(tmp_path / 'mpi')
    assert a['params_hash'] == b['params_hash'] and b['replicas'] == 1 and b['workers'] == 4
    assert a['sent_bytes'] == b['sent_bytes']
    first = events(tmp_path / 'mpi', 'start')[0]
    assert (
        first['net'] == 'mpi'
        and first['rank_source'] == {'openmpi': 'openmpi', 'mpich': 'pmi'}[mpi.name]
    )


@pytest.mark.sanitizer
def test_training_by_mpis_collectives(mpi, tmp_path):
    """MPI adds in an order of its own"""
    args = [*COMMON, '--model', SMOOTH, '--steps', 50]
    code, out, err = mpi.end(
        3, mpi.weir, 'train', *args, '--coll', 'mpi', '--out', tmp_path / 'mpi'
    )
    assert code == 0, out + err
    train(tmp_path / 'one', *args)
    assert end(tmp_path / 'mpi')['replicas'] == 1
    assert distance(weights(tmp_path / 'mpi'), weights(tmp_path / 'one')) <= rounding(50)


@pytest.mark.parametrize('trial', range(6))
def test_kill_a_rank(mpi, tmp_path, trial):
    """the others name it, and nothing is left running; mpirun's own code is its own"""
    out, victim = tmp_path / 'run', trial % 4
    p = mpi.start(
        4,
        mpi.weir,
        'train',
        *LONG,
        '--out',
        out,
        '--coll',
        ['ring', 'mpi'][trial % 2],
        UCX_TLS='^cma',
    )  # MPICH's UCX ends a rank that was just reading a dead one's memory
    pids = wait_for(lambda: ranks(mpi, p.pid, 4))
    steps_logged(out, 2)
    time.sleep(0.1 * trial)
    everybody = offspring(p.pid)
    os.kill(pids[victim], signal.SIGKILL)
    told, err = p.communicate(timeout=20)
    gone([*everybody, p.pid], 5)
    said = re.findall(
        r'^weir: (rank \d: warning: lost|error): rank (\d) \(host .*? (\w+) in phase (\w+)',
        err,
        re.M,
    )
    assert all(int(r) == victim and what == 'ended' for _, r, what, _ in said), err
    if mpi.name == 'openmpi':
        assert 'error' in [how for how, *_ in said], err
    else:
        assert said or 'BAD TERMINATION' in told + err, (
            told + err
        )  # mpiexec kills the others at once, now and then before a word
    assert p.returncode
    assert not [
        x for x in leftovers(out) if x.startswith(str(out))
    ]  # an mpi world has nothing elsewhere


def test_stopped_rank(mpi, tmp_path):
    """silence is told by the words beside MPI: the ranks that wait leave with 11, and the launcher
    ends the stopped one"""
    out = tmp_path / 'run'
    p = mpi.start(3, mpi.weir, 'train', *LONG, '--out', out, '--timeout', 2)
    pids = wait_for(lambda: ranks(mpi, p.pid, 3))
    steps_logged(out, 2)
    os.kill(pids[1], signal.SIGSTOP)
    stopped = time.time()
    gone([pids[0], pids[2]], 10)
    assert 1.6 <= time.time() - stopped <= 6
    if alive(
        pids[1]
    ):  # so that a launcher that only asks it to leave is heard; others have killed it by now
        try:
            os.kill(pids[1], signal.SIGCONT)
        except ProcessLookupError:
            pass
    _, err = p.communicate(timeout=20)
    gone(pids, 5)
    said = re.findall(
        r'^weir: error: rank (\d) \(host .*was silent for.*it is stopped.*\(exit 11\)', err, re.M
    )
    assert said and all(r == '1' for r in said), err
    assert events(out, 'fault')[-1]['rank'] == 1


def test_stop_and_resume(mpi, tmp_path):
    """mpirun told to end: a checkpoint, then all leave; another number of ranks goes on from
    there"""
    out = tmp_path / 'run'
    p = mpi.start(2, mpi.weir, 'train', *LONG, '--out', out)
    pids = wait_for(lambda: ranks(mpi, p.pid, 2))
    steps_logged(out, 2)
    os.kill(pids[0], signal.SIGTERM)
    p.communicate(timeout=30)
    gone(pids, 5)
    step = events(out, 'checkpoint')[-1]['step']
    code, said, err = mpi.end(
        3, mpi.weir, 'train', '--resume', out, '--steps', step + 20, '--quiet'
    )
    assert code == 0 and end(out)['steps'] == step + 20 and end(out)['replicas'] == 1, said + err


def test_another_number_of_ranks_is_refused(mpi, tmp_path):
    code, out, err = mpi.end(
        4, mpi.weir, 'train', *COMMON, '--steps', 5, '--workers', 3, '--out', tmp_path / 'run'
    )
    assert '--workers 3' in err and '4 ranks' in err and '(exit 16)' in err and code == 16, err
    code, out, err = mpi.end(
        4,
        mpi.weir,
        'train',
        *COMMON,
        '--steps',
        5,
        '--rank',
        0,
        '--size',
        3,
        '--rendezvous',
        '127.0.0.1:29000',
    )
    assert '3 ranks by flags, but 4 by' in err and '(exit 16)' in err and code == 16, err


def test_mpi_without_a_launcher_is_refused(mpi, tmp_path):
    p = subprocess.run(
        [mpi.weir, 'train', *map(str, COMMON), '--steps', '5', '--workers', '2', '--net', 'mpi'],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
    )
    assert p.returncode == 16 and 'mpirun -n 2' in p.stderr, p.stderr
    p = subprocess.run(
        [mpi.weir, 'train', *map(str, COMMON), '--steps', '5', '--workers', '2', '--coll', 'mpi'],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
    )
    assert p.returncode == 16 and '--net mpi' in p.stderr, p.stderr


def test_listed_only_where_it_is(mpi):
    said = subprocess.run([mpi.weir, 'list', 'net'], capture_output=True, text=True).stdout
    assert re.search(r'^ +mpi ', said, re.M) and re.search(r'^ +zmq ', said, re.M)


@pytest.mark.mended
def test_no_escape_codes_into_files(tmp_path):
    """mpirun gives a rank a terminal of its own, whatever its own output is"""
    mpi = Mpi('openmpi')
    if mpi.lacks:
        pytest.skip(mpi.lacks)
    loud = [x for x in COMMON if x != '--quiet']
    p = mpi.start(2, WEIR, 'train', *loud, '--steps', 60)
    out, err = p.communicate(timeout=120)
    assert p.returncode == 0 and 'done' in out
    assert '\033' not in out + err and '\r' not in out + err
