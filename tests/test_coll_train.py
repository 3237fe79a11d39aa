"""`--coll auto:measure=yes`, and ranks of one machine that cannot look into each other's memory."""
import subprocess
import pytest
from weirlib import SMALL, WEIR, end, environment, port, train

SHORT = ['--model', 'mlp', '--data', SMALL, '--batch', 64, '--threads', 1]
APART = [
    'unshare',
    '--user',
    '--map-root-user',
    '--pid',
    '--fork',
    '--mount-proc',
]  # each with processes of its own


def test_what_was_measured_is_kept(tmp_path):
    out = tmp_path / 'run'
    say = dict(WEIR_DEBUG='info,coll')
    _, first = train(out, *SHORT, '--workers', 2, '--steps', 5, '--coll', 'auto:measure=yes', **say)
    assert 'measured 1024 bytes' in first
    _, again = train(out, '--resume', out, '--steps', 10, **say)
    assert 'measured' not in again and end(out)['replicas'] == 1
    _, other = train(out, '--resume', out, '--steps', 15, '--workers', 3, **say)
    assert 'measured 1024 bytes' in other and end(out)['workers'] == 3
    train(out, '--resume', out, '--steps', 20, '--coll', 'ring')


def apart(*args):
    """two ranks, in namespaces of their own"""
    at = f'127.0.0.1:{port()}'
    ps = [
        subprocess.Popen(
            APART
            + [WEIR]
            + list(map(str, args))
            + ['--rank', str(r), '--size', '2', '--rendezvous', at],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        for r in range(2)
    ]
    try:
        told = [p.communicate(timeout=60) for p in ps]
    finally:
        for p in ps:
            p.kill()
    assert [p.returncode for p in ps] == [0, 0], told
    return told


@pytest.mark.skipif(
    subprocess.run(APART + ['true'], capture_output=True).returncode != 0,
    reason='this system lets nobody make namespaces',
)
def test_without_common_memory(tmp_path):
    (table, why), _ = apart('bench', 'allreduce', '--floats', 1000)
    assert (
        'ring over zmq' in table
        and 'auto over zmq' in table
        and 'shm over' not in table
        and 'shm is left out' in why
    )
    for coll in 'auto', 'auto:measure=yes':
        out = tmp_path / coll.replace(':', '-')
        _, why = apart('train', *SHORT, '--steps', 3, '--coll', coll, '--out', out)[0]
        assert 'does without shm' in why and end(out)['replicas'] == 1


def test_a_rank_alone_in_a_simulated_world(tmp_path):
    p = subprocess.run(
        [WEIR, 'bench', 'allreduce', '--net', 'sim:nodes=1', '--floats', '1000', '--json'],
        capture_output=True,
        text=True,
    )
    assert (
        p.returncode == 0
        and 'inf' not in p.stdout.lower()
        and '"gb_per_s": null' in p.stdout.replace('":null', '": null')
    ), p.stdout


def test_one_rank_and_mpis_collectives(tmp_path):
    train(tmp_path / 'run', *SHORT, '--steps', 5, '--coll', 'mpi')
