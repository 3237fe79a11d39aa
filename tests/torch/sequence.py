#!/usr/bin/env python3
"""Saves PyTorch's numbers for tests/test_sequence.c in tests/torch/sequence_numbers. Needs torch;
run it when `sequence_cases` or a model changes.

The file is like that of make_numbers.py."""
import os
import struct

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

import common as base
from common import HERE, LABEL, OUT_GRAD, X, labels, values
from make_numbers import LARGE, apart, sketch

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
    flat = [
        w
        for k in range(levels)
        for w in (*weights[3 * k : 3 * k + 3], torch.zeros_like(weights[3 * k + 2]))
    ]
    y, h, c = torch._VF.lstm(x, state, flat, True, levels, 0.0, True, False, True)
    return y, (h, c)


class Lstm(nn.Module):
    def __init__(self, width, out, levels):
        super().__init__()
        for k in range(levels):
            for name, shape in (
                ('weight_ih', (4 * out, out if k else width)),
                ('weight_hh', (4 * out, out)),
                ('bias', (4 * out,)),
            ):
                self.register_parameter(f'{name}_l{k}', nn.Parameter(torch.zeros(shape)))

    def forward(self, x):
        return lstm(x, list(self.parameters()), None)[0]


def attention(x, heads):
    n, length, width = x.shape
    q, k, v = [z.view(n, length, heads, -1).transpose(1, 2) for z in x.chunk(3, -1)]
    return (
        F.scaled_dot_product_attention(q, k, v, is_causal=True)
        .transpose(1, 2)
        .reshape(n, length, width // 3)
    )


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
    shape = (
        (sizes[1],) if what == 'tokens' else (sizes[0],) if what == 'values' else tuple(sizes[:2])
    )
    net = base.Net(lines, shape)
    base.set_weights(net)
    x = (
        labels(X, batch * shape[0], vocabulary).reshape(batch, -1)
        if what == 'tokens'
        else values(X, batch, *shape).requires_grad_()
    )
    y = net(x)
    last = lines[-1].split()[0]
    if last == 'softmax':
        y = F.cross_entropy(
            y.flatten(0, 1), labels(LABEL, batch * shape[0], vocabulary), reduction='sum'
        )
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


# ---- whole models: parameters by name, from the hash of the name ----


def start(shapes, dtype=torch.float32):
    """scaled by the fan-in; what scales a norm lies around 1"""
    p = {}
    for name, shape in shapes.items():
        stream = 2166136261
        for byte in name.encode():
            stream = (stream ^ byte) * 16777619 & 0xFFFFFFFF
        v = values(stream, *shape)
        if len(shape) > 1:
            v = v / np.float32(np.sqrt(np.prod(shape[1:])))
        elif name.endswith('weight'):
            v = 1 + v / 4
        else:
            v = v / np.float32(np.sqrt(shape[0]))
        p[name] = v.to(dtype).requires_grad_()
    return p


def lstm_shapes(vocab, width, depth):
    s = {'embed.weight': (vocab, width)}
    for k in range(1, depth + 1):
        s |= {
            f'rnn{k}.weight_ih_l0': (4 * width, width),
            f'rnn{k}.weight_hh_l0': (4 * width, width),
            f'rnn{k}.bias_l0': (4 * width,),
        }
    return s | {'out.weight': (vocab, width), 'out.bias': (vocab,)}


def lstm_logits(p, x, state):
    """the state is a list of (h, c), one a layer; None at first"""
    h, new, k = F.embedding(x, p['embed.weight']), [], 1
    while f'rnn{k}.bias_l0' in p:
        h, s = lstm(
            h,
            [p[f'rnn{k}.{w}_l0'] for w in ('weight_ih', 'weight_hh', 'bias')],
            state[k - 1] if state else None,
        )
        new.append(tuple(z.detach() for z in s))
        k += 1
    return F.linear(h, p.get('out.weight', p['embed.weight']), p['out.bias']), new


def gpt_shapes(vocab, width, depth, length):
    s = {'embed.weight': (vocab, width), 'place.weight': (length, width)}
    for k in range(1, depth + 1):
        for name, out, inner in (('qkv', 3, 1), ('proj', 1, 1), ('up', 4, 1), ('down', 1, 4)):
            s |= {
                f'block{k}.{name}.weight': (out * width, inner * width),
                f'block{k}.{name}.bias': (out * width,),
            }
        for name in ('norm1', 'norm2'):
            s |= {f'block{k}.{name}.weight': (width,), f'block{k}.{name}.bias': (width,)}
    return s | {
        'norm.weight': (width,),
        'norm.bias': (width,),
        'out.weight': (vocab, width),
        'out.bias': (vocab,),
    }


def gpt_logits(p, x, state):
    def norm(h, name):
        return F.layer_norm(h, h.shape[-1:], p[name + '.weight'], p[name + '.bias'])

    def dense(h, name):
        return F.linear(h, p[name + '.weight'], p[name + '.bias'])

    h, k = F.embedding(x, p['embed.weight']) + p['place.weight'], 1
    while f'block{k}.qkv.bias' in p:
        b = f'block{k}.'
        h = h + dense(attention(dense(norm(h, b + 'norm1'), b + 'qkv'), 4), b + 'proj')
        h = h + dense(F.gelu(dense(norm(h, b + 'norm2'), b + 'up')), b + 'down')
        k += 1
    return dense(norm(h, 'norm'), 'out'), state


def passes(logits, p, vocab, length, steps, rate, batch=8):
    """the mean losses of some steps of plain SGD, the state carried; the gradients are those of the
    last"""
    losses, state = [], None
    for s in range(steps):
        x = labels(base.STEP + 2 * s, batch * length, vocab).reshape(batch, length)
        y = labels(base.STEP + 2 * s + 1, batch * length, vocab)
        for w in p.values():
            w.grad = None
        out, state = logits(p, x, state)
        loss = F.cross_entropy(out.flatten(0, 1), y)
        loss.backward()
        losses.append(loss.item())
        if rate:
            with torch.no_grad():
                for w in p.values():
                    w -= rate * w.grad
    return losses


def one_model(label, logits, shapes, vocab, length, trained, put):
    """the first loss, gradients in double and how far from those ours may be; then some steps"""
    p, exact = start(shapes), start(shapes, torch.float64)
    put(f'{label}/first', torch.tensor(passes(logits, exact, vocab, length, 1, 0)))
    passes(logits, p, vocab, length, 1, 0)
    for name, w in exact.items():
        put(f'{label}/grad/{name}', w.grad, True)
        put(f'{label}/bound/{name}', torch.tensor([max(3 * apart(p[name].grad, w.grad), 1e-5)]))
    if trained:
        put(f'{label}/losses', torch.tensor(passes(logits, p, vocab, length, STEPS, RATE)))
        for name, w in p.items():
            put(f'{label}/end/{name}', w, True)


def main():
    base.module = module
    torch.set_num_threads(1)
    with open(os.path.join(HERE, 'sequence_numbers'), 'wb') as f:

        def put(name, t, always=False):
            if always or t.numel() > LARGE:
                t, name = sketch(t), name + '~'
            a = t.detach().to(torch.float32).flatten().numpy().astype('<f4')
            f.write(
                struct.pack('<I', len(name))
                + name.encode()
                + struct.pack('<I', a.size)
                + a.tobytes()
            )

        for line in open(os.path.join(HERE, 'sequence_cases')):
            if line.split('#')[0].strip():
                name, batch, data, text = line.split(None, 3)
                one_case(name, int(batch), data, [t.strip() for t in text.split(';')], put)
        one_model('lstm', lstm_logits, lstm_shapes(10000, 650, 2), 10000, 35, False, put)
        one_model('lstm-small', lstm_logits, lstm_shapes(10000, 200, 2), 10000, 35, True, put)
        one_model('gpt', gpt_logits, gpt_shapes(256, 256, 6, 128), 256, 128, True, put)
        tied = lstm_shapes(11, 6, 1)
        del tied['out.weight']
        one_model('tied', lstm_logits, tied, 11, 5, True, put)


if __name__ == '__main__':
    main()
