"""What benches beside PyTorch share: its virtual environment, running one program or one a rank,
and reading the JSON line they print."""
import json, os, socket, subprocess, sys, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WEIR = os.path.join(ROOT, 'build/release/weir')
PEERS = os.path.join(ROOT, '../shared/peers')
TORCH_PEER = os.path.join(PEERS, 'torch_peer.py')
PYTHON = os.environ.get('TORCH_PYTHON') or os.path.join(ROOT, '.deps/torch/bin/python')


def setup(bench, program=TORCH_PEER):
    """PyTorch from PyPI in .deps/torch; made at the first call"""
    if not os.path.exists(program):
        sys.exit(
            f'{bench}: ../shared/peers/{os.path.basename(program)} is missing: nothing to compare with'
        )
    if not os.path.exists(WEIR):
        sys.exit(f'{bench}: {WEIR} is missing: run make first')
    if not os.path.exists(PYTHON):
        print('making .deps/torch (PyTorch from PyPI)', file=sys.stderr)
        subprocess.run(
            [sys.executable, '-m', 'venv', os.path.join(ROOT, '.deps/torch')], check=True
        )
        subprocess.run([PYTHON, '-m', 'pip', 'install', '-q', 'torch', 'numpy'], check=True)


def environment(**more):
    env = {
        k: v
        for k, v in os.environ.items()
        if k not in ('RANK', 'WORLD_SIZE', 'LOCAL_RANK', 'MASTER_ADDR', 'MASTER_PORT')
    }
    return dict(env, **{k: str(v) for k, v in more.items()})


def finish(process, command):
    out, err = process.communicate()
    if process.returncode:
        sys.exit(f'{" ".join(map(str, command))}: exit {process.returncode}\n{out}{err}')
    return out


def start(command, **env):
    return subprocess.Popen(
        list(map(str, command)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**env),
    )


def lines(out):
    return [json.loads(line) for line in out.splitlines() if line.startswith('{')]


def run_lines(command, **env):
    """every JSON line that the program prints"""
    return lines(finish(start(command, **env), command))


def run(command):
    return run_lines(command)[-1]


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def run_ranks(command, ranks, **env):
    """the same command once a rank, with torchrun's variables: rank 0's JSON lines, and the seconds
    that all took"""
    port, began = free_port(), time.monotonic()
    processes = [
        start(
            command,
            RANK=r,
            WORLD_SIZE=ranks,
            LOCAL_RANK=r,
            MASTER_ADDR='127.0.0.1',
            MASTER_PORT=port,
            **env,
        )
        for r in range(ranks)
    ]
    out = [finish(p, command) for p in processes][0]
    return lines(out), time.monotonic() - began
