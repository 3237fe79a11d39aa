"""Runs the program as a user would, and reads what it leaves."""
import glob, json, os, random, re, signal, socket, struct, subprocess, tempfile, time
import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WEIR = os.environ.get('WEIR_BIN', os.path.join(ROOT, 'build/release/weir'))
FLAVOUR = os.environ.get('WEIR_FLAVOUR', 'release')
# a learnable set that ends an epoch within a few steps, the last one short
SMALL = 'synth:shape=1x28x28,classes=10,count=1000,test=200'
# a model in which nothing tips over when sums are rounded otherwise: see `rounding`
SMOOTH = os.path.join(ROOT, 'tests/smooth.net')


def environment(**more):
    env = dict(os.environ, OMP_NUM_THREADS='1')
    for k in ('RANK', 'WORLD_SIZE', 'WEIR_BIN', 'WEIR_FLAVOUR', 'WEIR_KEY'):
        env.pop(k, None)
    env.update(more)
    return env


def port():
    """one that is free, as is the one above it, below those the kernel gives to whoever connects"""
    while True:
        p = random.randrange(10000, 30000)
        with socket.socket() as a, socket.socket() as b:
            try:
                a.bind(('127.0.0.1', p))
                b.bind(('127.0.0.1', p + 1))
            except OSError:
                continue
            return p


def heed():
    """a shell's background jobs ignore SIGINT, and so would all they start"""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(*args, preexec_fn=heed, **kw):
    return subprocess.Popen(
        [WEIR, *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        preexec_fn=preexec_fn,
        **kw,
    )


def weir(*args, code=0, timeout=300, program=WEIR, **env):
    """runs to the end and checks the exit code; gives (stdout, stderr)"""
    p = subprocess.run(
        [program, *map(str, args)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment(**env),
    )
    assert (
        p.returncode == code
    ), f'exit {p.returncode}, not {code}: weir {" ".join(map(str, args))}\n{p.stdout}\n{p.stderr}'
    return p.stdout, p.stderr


def fails(code, *args, says=()):
    """exits with `code`, with exactly one line that says all of `says`"""
    _, err = weir(*args, code=code)
    lines = err.strip().splitlines()
    assert (
        len(lines) == 1
        and lines[0].startswith('weir: error: ')
        and lines[0].endswith(f'(exit {code})')
    ), err
    for word in says:
        assert word in lines[0], err
    return lines[0]


def train(out, *args, **kw):
    return weir('train', '--out', out, '--quiet', *args, **kw)


def events(out, kind=None):
    with open(f'{out}/log.jsonl') as f:
        all = [json.loads(line) for line in f]
    return [e for e in all if kind is None or e['event'] == kind]


def end(out):
    return events(out, 'end')[-1]


def tensors(path):
    """a safetensors file as {name: array}, read by hand"""
    with open(path, 'rb') as f:
        head = json.loads(f.read(struct.unpack('<Q', f.read(8))[0]))
        data = f.read()
    kinds = {'F32': np.float32, 'U64': np.uint64}
    return {
        name: np.frombuffer(
            data[t['data_offsets'][0] : t['data_offsets'][1]], kinds[t['dtype']]
        ).reshape(t['shape'])
        for name, t in head.items()
        if name != '__metadata__'
    }


def floats(out):
    """all weights of the last checkpoint, in the order of their names"""
    w = tensors(f'{out}/latest/model.safetensors')
    return np.concatenate([w[k].ravel() for k in sorted(w)])


def weights(out):
    return floats(out).astype(np.float64)


def distance(a, b):
    return np.linalg.norm(a - b) / np.linalg.norm(b)


def rounding(steps):
    """How far apart two runs may be (by `distance`) that add the same terms in another order.

    A step rounds a weight by at most u = 2^-24 of it, as likely up as down: by u / sqrt(3) in the
    root mean square. Roundings of different steps, and of two runs, do not know of each other, and
    there are so many weights that chance evens out: sqrt(2 steps / 3) u. The gradient's rounding is
    far below that once a small rate has scaled it. This holds where nothing tips over: a relu whose
    input is carried over zero opens a gate on one side only, and the runs part by 1e-5 and more.
    Hence SMOOTH, or --exact yes, where there is no rounding."""
    return (2 * steps / 3) ** 0.5 * 2**-24


def listed(axis):
    """the names of an axis' variants, as the program lists them"""
    return re.findall(r'^  (\S+) ', weir('list', axis)[0], re.M)


def children(pid):
    """the ranks of a launcher, in the order they were started"""
    try:
        with open(f'/proc/{pid}/task/{pid}/children') as f:
            return [int(x) for x in f.read().split()]
    except OSError:
        return []


def alive(pid):
    try:
        with open(f'/proc/{pid}/stat') as f:
            return f.read().rsplit(')', 1)[1].split()[0] not in 'ZX'
    except OSError:
        return False


def wait_for(what, seconds=20, every=0.01):
    end = time.time() + seconds
    while time.time() < end:
        got = what()
        if got:
            return got
        time.sleep(every)
    raise AssertionError(f'did not happen within {seconds} s: {what}')


def leftovers(out=None):
    """names that a run must not leave behind"""
    found = glob.glob(os.path.join(tempfile.gettempdir(), 'weir-[0-9a-f]*')) + glob.glob(
        '/dev/shm/*weir*'
    )
    if os.environ.get('XDG_RUNTIME_DIR'):
        found += glob.glob(os.environ['XDG_RUNTIME_DIR'] + '/weir-*')
    if out:
        found += glob.glob(f'{out}/.*') + glob.glob(f'{out}/*tmp*') + glob.glob(f'{out}/step-*/.*')
    return found
