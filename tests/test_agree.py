"""Ranks that do not run the same thing are told so, each of them, by the option's name."""
import subprocess
from weirlib import SMALL, WEIR, environment, port

TINY = ['--model', 'mlp:hidden=16', '--data', SMALL, '--steps', 3, '--threads', 1]


def test_ranks_with_different_settings():
    """started one by one, with a slip on one of them: every rank names it"""
    env = environment()
    at = str(port())
    command = lambda r: [
        WEIR,
        'train',
        *map(str, TINY),
        '--quiet',
        *(['--lr', '0.5'] if r == 1 else []),
    ]
    ps = [
        subprocess.Popen(
            command(r),
            stderr=subprocess.PIPE,
            text=True,
            env=dict(
                env,
                RANK=str(r),
                WORLD_SIZE='3',
                LOCAL_RANK=str(r),
                LOCAL_WORLD_SIZE='3',
                MASTER_ADDR='127.0.0.1',
                MASTER_PORT=at,
            ),
        )
        for r in range(3)
    ]
    said = [p.communicate()[1] for p in ps]
    assert 16 in [p.returncode for p in ps] and {p.returncode for p in ps} <= {10, 16}
    for line in said:
        assert "--lr is '0.01' on rank 0 and '0.5' on rank 1" in line
