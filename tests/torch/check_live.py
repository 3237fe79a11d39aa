#!/usr/bin/env python3
"""Whole gradients of the zoo against a live PyTorch, on several batches: each no further from
PyTorch's in double than three times PyTorch's own in single is, or 1e-5. One relu that falls on the
other side moves a gradient by as much as all rounding, in PyTorch as here: so the largest distance
over the
batches is compared, tensor by tensor.   tests/torch/check_live.py TEST_TORCH [BATCHES]
[MODEL...]"""
import subprocess
import sys
import tempfile

from common import *


def ours(program, name, step, sizes):
    with tempfile.NamedTemporaryFile() as f:
        subprocess.run([program, 'dump', name, str(step), f.name], check=True)
        loss, rest = np.fromfile(f.name, '<f8', 1)[0], np.fromfile(f.name, '<f4', offset=8)
    return loss, list(torch.from_numpy(rest).double().split(sizes))


def check(program, name, batches):
    worst, loss_apart = None, 0
    for step in range(batches):
        loss, exact = gradients(name, torch.float64, step)
        _, single = gradients(name, torch.float32, step)
        got_loss, got = ours(program, name, step, [g.numel() for g in exact])
        loss_apart = max(loss_apart, abs(got_loss - loss) / loss)
        here = torch.tensor([[apart(s, e), apart(g, e)] for s, g, e in zip(single, got, exact)])
        worst = here if worst is None else torch.maximum(worst, here)
    bad = worst[:, 1] > torch.clamp(3 * worst[:, 0], min=1e-5)
    print(
        f'{name}: {len(worst)} tensors; loss {loss_apart:.1e}; gradients: '
        f'PyTorch {worst[:, 0].max():.1e}, Weir {worst[:, 1].max():.1e}; '
        f'median {worst[:, 0].median():.1e}, {worst[:, 1].median():.1e}; {int(bad.sum())} too far',
        flush=True,
    )
    return not bad.any() and loss_apart <= 1e-5


torch.set_num_threads(1)
program, batches, models = (
    sys.argv[1],
    int((sys.argv + [0, '4'])[2] if len(sys.argv) > 2 else 4),
    sys.argv[3:] or list(ZOO),
)
good = [check(program, name, batches) for name in models]
sys.exit(0 if all(good) else 1)
