#!/usr/bin/env python3
"""Saves PyTorch's numbers for tests/test_nn.c and tests/test_torch.c in tests/torch/numbers. Needs
torch; run it when `cases` changes.

Weights, inputs and labels are not stored: both sides make them from the same hash. The file is a
row of records: length of the name, name, number of floats (both lengths 32-bit little-endian),
floats. Of a large tensor there is a sketch, and its name ends in ~: its norm, sums of all elements
with random signs, and some of the elements. The differences of such sums from ours measure how far
the whole tensors are apart."""
import struct

from common import *

SUMS, SOME, LARGE, BATCHES = 32, 16, 260, 24


def sketch(t):
    w = t.detach().double().flatten()
    signs = bits(SIGN, w.numel())
    sums = [
        (torch.from_numpy(1.0 - 2.0 * (signs >> np.uint32(j) & np.uint32(1))) * w).sum()
        for j in range(SUMS)
    ]
    return torch.cat(
        [w.norm().reshape(1), torch.stack(sums), w[:: max(1, w.numel() // SOME)][:SOME]]
    )


def one_case(name, count, shape, lines, put):
    net = set_weights(Net(lines, shape))
    x = values(X, count, *shape).requires_grad_()
    y = net(x)
    if lines[-1].split()[0] == 'softmax':
        y = F.cross_entropy(y, labels(LABEL, count, y.shape[-1]), reduction='sum')
        (y / count).backward()
    else:
        y.backward(values(OUT_GRAD, *y.shape))
    put(f'{name}/y', y)
    put(f'{name}/dx', x.grad)
    for k, p in enumerate(net.parameters()):
        put(f'{name}/dw{k}', p.grad)
    stills = [b for b in net.buffers() if b.is_floating_point()]
    for k, b in enumerate(stills):
        put(f'{name}/still{k}', b)
    if stills:
        put(f'{name}/eval', net.eval()(x))


def one_model(name, put):
    """loss and gradients in double, and how far from those ours may be: three times as far as
    PyTorch's own in single. A value that rounding lets through a relu, or not, moves gradients by
    much more: of some batches that one is taken which comes least near to a tie"""
    step = max(range(BATCHES), key=lambda s: margin(name, s))
    loss, exact = gradients(name, torch.float64, step)
    _, single = gradients(name, torch.float32, step)
    print(
        f'{name}: batch {step}, {margin(name, step):.1e} from a tie; '
        f'gradients in single {max(map(apart, single, exact)):.1e} away'
    )
    put(f'{name}/first', torch.tensor([step, loss]))
    put(
        f'{name}/params',
        torch.tensor([sum(g.numel() for g in exact) // 1000, sum(g.numel() for g in exact) % 1000]),
    )
    put(f'{name}/bounds', torch.tensor([max(3 * apart(s, e), 1e-5) for s, e in zip(single, exact)]))
    for k, g in enumerate(exact):
        put(f'{name}/grad{k}', g)


def train(name, put, steps=20, rate=0.01):
    make, shape = ZOO[name]
    net, losses = set_weights(make()), []
    opt = torch.optim.SGD(net.parameters(), lr=rate)
    for s in range(steps):
        x, y = batch(s, shape)
        opt.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        losses.append(loss.item())
    put(f'{name}/loss', torch.tensor(losses))
    for k, p in enumerate(net.parameters()):
        put(f'{name}/end{k}', p)


def main():
    torch.set_num_threads(1)
    with open(os.path.join(HERE, 'numbers'), 'wb') as f:

        def put(name, t):
            if t.numel() > LARGE:
                t, name = sketch(t), name + '~'
            a = t.detach().to(torch.float32).flatten().numpy().astype('<f4')
            f.write(
                struct.pack('<I', len(name))
                + name.encode()
                + struct.pack('<I', a.size)
                + a.tobytes()
            )

        for line in open(os.path.join(HERE, 'cases')):
            if line.split('#')[0].strip():
                name, count, shape, text = line.split(None, 3)
                one_case(
                    name,
                    int(count),
                    tuple(map(int, shape.split('x'))),
                    [t.strip() for t in text.split(';')],
                    put,
                )
        for name in ZOO:
            one_model(name, put)
        for name in ('mlp', 'lenet', 'alexnet', 'resnet20'):
            train(name, put)


if __name__ == '__main__':
    main()
