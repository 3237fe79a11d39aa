"""What every bench needs: where the program is, running one program or one a rank, and reading the
JSON lines that they print."""
import json, os, socket, subprocess, sys, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WEIR = os.environ.get('WEIR_BIN', os.path.join(ROOT, 'build/release/weir'))
# what would make a rank of whom we start; and what is ours, not the program's
DROPPED = ('RANK', 'WORLD_SIZE', 'LOCAL_RANK', 'MASTER_ADDR', 'MASTER_PORT', 'WEIR_KEY')
DROPPED += ('WEIR_BIN', 'WEIR_FLAVOUR', 'WEIR_DATA')


def environment(**more):
    env = {k: v for k, v in os.environ.items() if k not in DROPPED}
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


def run(command, **env):
    return run_lines(command, **env)[-1]


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
