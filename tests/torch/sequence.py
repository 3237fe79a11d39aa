#!/usr/bin/env python3
"""Saves PyTorch's numbers for tests/test_sequence.c in tests/torch/sequence_numbers. Needs torch; run it when `sequence_cases` or a model changes.

Like make_numbers.py, whose hash, file format and reading of layers it uses."""
import os
import struct

import torch
import torch.nn as nn
import torch.nn.functional as F

import make_numbers as base
from make_numbers import HERE, LABEL, OUT_GRAD, X, labels, values

STEPS, RATE = 20, 0.01


class Embedding(nn.Embedding):
    def forward(self, x):
        return super().forward(x.long())


class Position(nn.Module):
    def __init__(self, length, width):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(length, width))

    def forward(self, x):
        return x + self.weight


def lstm(x, weights, state):
    """one bias vector a level: PyTorch's second one is zero"""
    levels = len(weights) // 3
    h = weights[1].shape[1]
    state = state or (x.new_zeros(levels, x.shape[0], h), x.new_zeros(levels, x.shape[0], h))
    flat = [w for k in range(levels) for w in (*weights[3 * k:3 * k + 3], torch.zeros_like(weights[3 * k + 2]))]
    y, h, c = torch._VF.lstm(x, state, flat, True, levels, 0.0, True, False, True)
    return y, (h, c)


class Lstm(nn.Module):
    def __init__(self, width, out, levels):
        super().__init__()
        for k in range(levels):
            for name, shape in (('weight_ih', (4 * out, out if k else width)), ('weight_hh', (4 * out, out)), ('bias', (4 * out,))):
                self.register_parameter(f'{name}_l{k}', nn.Parameter(torch.zeros(shape)))

    def forward(self, x):
        return lstm(x, list(self.parameters()), None)[0]


def attention(x, heads):
    n, length, width = x.shape
    q, k, v = [z.view(n, length, heads, -1).transpose(1, 2) for z in x.chunk(3, -1)]
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, length, width // 3)


class Attention(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.heads = heads

    def forward(self, x):
        return attention(x, self.heads)


vocabulary = 0
others = base.module


def module(kind, shape, o):
    i = {k: int(v) for k, v in o.items() if v.isdigit()}
    if kind == 'embedding':
        return Embedding(vocabulary, i['out'])
    if kind == 'position':
        return Position(*shape)
    if kind == 'lstm':
        return Lstm(shape[-1], i['out'], i.get('layers', 1))
    if kind == 'attention':
        return Attention(i['heads'])
    return None if kind == 'mse' else others(kind, shape, o)


def one_case(name, batch, data, lines, put):
    global vocabulary
    what, *sizes = data.split(':')
    sizes = [int(s) for s in sizes]
    vocabulary = sizes[0] if what == 'tokens' else sizes[-1]
    shape = (sizes[1],) if what == 'tokens' else (sizes[0],) if what == 'values' else tuple(sizes[:2])
    net = base.Net(lines, shape)
    base.set_weights(net)
    x = labels(X, batch * shape[0], vocabulary).reshape(batch, -1) if what == 'tokens' else values(X, batch, *shape).requires_grad_()
    y = net(x)
    last = lines[-1].split()[0]
    if last == 'softmax':
        y = F.cross_entropy(y.flatten(0, 1), labels(LABEL, batch * shape[0], vocabulary), reduction='sum')
    elif last == 'mse':
        y = F.mse_loss(y, values(LABEL, batch, sizes[1])) * batch
    if y.dim():
        y.backward(values(OUT_GRAD, *y.shape))
    else:
        (y / batch).backward()
    put(f'{name}/y', y)
    if what != 'tokens':
        put(f'{name}/dx', x.grad)
    for k, p in enumerate(net.parameters()):
        put(f'{name}/dw{k}', p.grad)


def main():
    base.module = module
    torch.set_num_threads(1)
    with open(os.path.join(HERE, 'sequence_numbers'), 'wb') as f:
        def put(name, t):
            a = t.detach().to(torch.float32).flatten().numpy().astype('<f4')
            f.write(struct.pack('<I', len(name)) + name.encode() + struct.pack('<I', a.size) + a.tobytes())
        for line in open(os.path.join(HERE, 'sequence_cases')):
            if line.split('#')[0].strip():
                name, batch, data, text = line.split(None, 3)
                one_case(name, int(batch), data, [t.strip() for t in text.split(';')], put)


if __name__ == '__main__':
    main()
