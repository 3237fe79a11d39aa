#!/usr/bin/env python3
"""Saves PyTorch's numbers for tests/test_nn.c and tests/test_torch.c in tests/torch/numbers. Needs torch; run it when `cases` changes.

Weights, inputs and labels are not stored: both sides make them from the same hash. The file is a row of records: length of the name, name, number of
floats (both lengths 32-bit little-endian), floats."""
import os
import struct

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
X, OUT_GRAD, LABEL, WEIGHT, SIGN, STEP = 1, 2, 3, 16, 64, 256  # streams of the hash
PROJECTIONS = 16


def bits(stream, n):
    with np.errstate(over='ignore'):
        h = (np.arange(n, dtype=np.uint32) + np.uint32(1)) * np.uint32(0x9E3779B1) + np.uint32(stream * 0x85EBCA77 & 0xFFFFFFFF)
        h ^= h >> np.uint32(16)
        h *= np.uint32(0x21F0AAAD)
        h ^= h >> np.uint32(15)
        h *= np.uint32(0x735A2D97)
        h ^= h >> np.uint32(15)
    return h


def values(stream, *shape):
    """numbers in [-1, 1) that float32 holds exactly"""
    n = int(np.prod(shape))
    return torch.from_numpy(((bits(stream, n) >> np.uint32(8)).astype(np.float64) / 2**23 - 1).astype(np.float32)).reshape(shape)


def labels(stream, n, classes):
    return torch.from_numpy((bits(stream, n) % np.uint32(classes)).astype(np.int64))


def module(kind, shape, o):
    """the module of a line of a model file, with an input of this shape; None: it has none"""
    i = {k: int(v) for k, v in o.items() if v.isdigit()}
    bias = o.get('bias') != 'no'
    if kind == 'dense':
        return nn.Linear(shape[-1], i['out'], bias=bias)
    if kind == 'conv':
        return nn.Conv2d(shape[0], i['out'], i['kernel'], i.get('stride', 1), i.get('pad', 0), groups=i.get('groups', 1), bias=bias)
    if kind == 'maxpool':
        return nn.MaxPool2d(i['kernel'], i.get('stride', i['kernel']), i.get('pad', 0))
    return {'relu': nn.ReLU, 'flatten': nn.Flatten, 'mark': nn.Identity}[kind]() if kind not in ('add', 'softmax') else None


class Net(nn.Module):
    """the lines of a model file: each reads the line before, or what from= names; add reads both"""

    def __init__(self, lines, shape):
        super().__init__()
        self.steps, self.modules_, seen = [], nn.ModuleList(), {}
        x, outs = torch.zeros(2, *shape), {'input': torch.zeros(2, *shape)}
        for text in lines:
            kind, *words = text.split()
            seen[kind] = seen.get(kind, 0) + 1
            name = words.pop(0) if words and '=' not in words[0] else f'{kind}{seen[kind]}'
            o = dict(w.split('=') for w in words)
            source = outs[o['from']] if 'from' in o and kind != 'add' else x
            m = module(kind, tuple(source.shape[1:]), o)
            self.steps.append((kind, name, o.get('from'), m))
            if m is not None:
                self.modules_.append(m)
            outs[name] = x = self.run(self.steps[-1], x, outs)

    def run(self, step, x, outs):
        kind, _, source, m = step
        if kind == 'add':
            return x + outs[source]
        return x if m is None else m(outs[source] if source else x)

    def forward(self, x):
        outs = {'input': x}
        for step in self.steps:
            outs[step[1]] = x = self.run(step, x, outs)
        return x


def set_weights(net):
    """weights from the hash, in the order of the parameters, scaled by the fan-in of the layer; those of norms lie around 1"""
    stream = WEIGHT
    with torch.no_grad():
        for m in net.modules():
            own = list(m.parameters(recurse=False))
            for k, p in enumerate(own):
                v = values(stream, *p.shape) / np.float32(np.sqrt(np.prod(own[0].shape[1:])))
                p.copy_(1 + v / 4 if k == 0 and p.dim() == 1 else v)
                stream += 1


def one_case(name, batch, shape, lines, put):
    net = Net(lines, shape)
    set_weights(net)
    x = values(X, batch, *shape).requires_grad_()
    y = net(x)
    if lines[-1].split()[0] == 'softmax':
        y = F.cross_entropy(y, labels(LABEL, batch, y.shape[-1]), reduction='sum')
        (y / batch).backward()
    else:
        y.backward(values(OUT_GRAD, *y.shape))
    put(f'{name}/y', y)
    put(f'{name}/dx', x.grad)
    for k, p in enumerate(net.parameters()):
        put(f'{name}/dw{k}', p.grad)


def model_lines(name, classes, **sizes):
    """the layers of a model file, with sizes put in"""
    lines, sizes = [], dict(sizes, classes=classes)
    for line in open(os.path.join(HERE, '..', '..', 'models', name + '.net')):
        words = line.split('#')[0].split()
        if words[:1] == ['size']:
            sizes.setdefault(words[1], int(words[2]))
        elif words and words[0] != 'bench':
            lines.append(' '.join([words[0]] + [f'{k}={sizes.get(v, v)}' for k, v in (w.split('=') for w in words[1:])]))
    return lines


def train(label, lines, put, steps=20, batch=8, rate=0.01):
    """a few steps of plain SGD: losses, and of each tensor's end its norm and random projections of the whole"""
    net = Net(lines, (1, 28, 28))
    set_weights(net)
    opt, losses = torch.optim.SGD(net.parameters(), lr=rate), []
    for s in range(steps):
        x, y = values(STEP + 2 * s, batch, 1, 28, 28), labels(STEP + 2 * s + 1, batch, 10)
        opt.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        losses.append(loss.item())
    put(f'{label}/loss', torch.tensor(losses))
    for k, p in enumerate(net.parameters()):
        w = p.detach().double().flatten()
        signs = [torch.where(values(SIGN + j, w.numel()).double() < 0, -1.0, 1.0) for j in range(PROJECTIONS)]
        put(f'{label}/norm{k}', w.norm())
        put(f'{label}/project{k}', torch.stack([(s * w).sum() for s in signs]))
        put(f'{label}/some{k}', w[:: max(1, w.numel() // 512)][:512])


def main():
    torch.set_num_threads(1)
    with open(os.path.join(HERE, 'numbers'), 'wb') as f:
        def put(name, t):
            a = t.detach().to(torch.float32).flatten().numpy().astype('<f4')
            f.write(struct.pack('<I', len(name)) + name.encode() + struct.pack('<I', a.size) + a.tobytes())
        for line in open(os.path.join(HERE, 'cases')):
            if line.split('#')[0].strip():
                name, batch, shape, text = line.split(None, 3)
                one_case(name, int(batch), tuple(map(int, shape.split('x'))), [t.strip() for t in text.split(';')], put)
        train('mlp', model_lines('mlp', 10), put)
        train('lenet', model_lines('lenet', 10), put)


if __name__ == '__main__':
    main()
