"""What make_numbers.py and check_live.py share: the hash that the C side uses too, layers as model
files have them, and the zoo written down once more as anybody would in PyTorch, so that a model
file that says something else is found out."""
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
X, OUT_GRAD, LABEL, WEIGHT, STEP, SIGN = 1, 2, 3, 16, 1024, 4096  # streams of the hash


def bits(stream, n):
    with np.errstate(over='ignore'):
        h = (np.arange(n, dtype=np.uint32) + np.uint32(1)) * np.uint32(0x9E3779B1) + np.uint32(
            stream * 0x85EBCA77 & 0xFFFFFFFF
        )
        h ^= h >> np.uint32(16)
        h *= np.uint32(0x21F0AAAD)
        h ^= h >> np.uint32(15)
        h *= np.uint32(0x735A2D97)
        h ^= h >> np.uint32(15)
    return h


def values(stream, *shape):
    """numbers in [-1, 1) that float32 holds exactly"""
    n = int(np.prod(shape))
    return torch.from_numpy(
        ((bits(stream, n) >> np.uint32(8)).astype(np.float64) / 2**23 - 1).astype(np.float32)
    ).reshape(shape)


def labels(stream, n, classes):
    return torch.from_numpy((bits(stream, n) % np.uint32(classes)).astype(np.int64))


def set_weights(net):
    """weights from the hash, in the order of the parameters, scaled by the fan-in of the layer.
    Norms scale by about 1 and shift by about 1.5: one in ten values, not half of them, is for a
    relu to stop, and few lie so near to zero that rounding decides"""
    stream = WEIGHT
    with torch.no_grad():
        for m in net.modules():
            own = list(m.parameters(recurse=False))
            for k, p in enumerate(own):
                v = values(stream, *p.shape) / np.float32(np.sqrt(np.prod(own[0].shape[1:])))
                if own[0].dim() == 1:
                    v = 1.5 + v / 2 if k else 1 + v / 4
                p.copy_(v)
                stream += 1
    return net


# ---- layers of model files ----


def module(kind, shape, o):
    """the module of a line of a model file, with an input of this shape; None: it has none"""
    i = {k: int(v) for k, v in o.items() if v.isdigit()}
    bias = o.get('bias') != 'no'
    if kind == 'dense':
        return nn.Linear(shape[-1], i['out'], bias=bias)
    if kind == 'conv':
        return nn.Conv2d(
            shape[0],
            i['out'],
            i['kernel'],
            i.get('stride', 1),
            i.get('pad', 0),
            groups=i.get('groups', 1),
            bias=bias,
        )
    if kind in ('maxpool', 'avgpool'):
        return (nn.MaxPool2d if kind == 'maxpool' else nn.AvgPool2d)(
            i['kernel'], i.get('stride', i['kernel']), i.get('pad', 0)
        )
    if kind == 'batchnorm':
        return (nn.BatchNorm2d if len(shape) == 3 else nn.BatchNorm1d)(
            shape[0], float(o.get('eps', 1e-5)), float(o.get('momentum', 0.1))
        )
    if kind == 'layernorm':
        return nn.LayerNorm(shape[-1], float(o.get('eps', 1e-5)))
    if kind == 'dropout':
        return nn.Dropout(float(o.get('rate', 0.5)))
    if kind == 'globalavgpool':
        return nn.AdaptiveAvgPool2d(1)
    plain = {
        'gelu': nn.GELU,
        'tanh': nn.Tanh,
        'sigmoid': nn.Sigmoid,
        'relu': nn.ReLU,
        'flatten': nn.Flatten,
        'mark': nn.Identity,
    }
    return None if kind in ('add', 'softmax') else plain[kind]()


class Net(nn.Module):
    """lines of a model file: each reads the line before, or what from= names; add reads both"""

    def __init__(self, lines, shape):
        super().__init__()
        self.steps, self.parts, seen = [], nn.ModuleList(), {}
        x = torch.zeros(2, *shape)
        outs = {'input': x}
        for text in lines:
            kind, *words = text.split()
            seen[kind] = seen.get(kind, 0) + 1
            name = words.pop(0) if words and '=' not in words[0] else f'{kind}{seen[kind]}'
            o = dict(w.split('=') for w in words)
            m = module(
                kind, tuple((outs[o['from']] if 'from' in o and kind != 'add' else x).shape[1:]), o
            )
            self.steps.append((kind, name, o.get('from'), m))
            if m is not None:
                self.parts.append(m)
            with torch.no_grad():
                outs[name] = x = self.run(self.steps[-1], x, outs)
        for m in self.modules():
            if isinstance(m, nn.modules.batchnorm._BatchNorm):
                m.reset_running_stats()

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


# ---- the zoo ----


class Block(nn.Module):
    def __init__(self, wide_in, wide, stride):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(wide_in, wide, 3, stride, 1, bias=False), nn.BatchNorm2d(
            wide
        )
        self.conv2, self.norm2 = nn.Conv2d(wide, wide, 3, 1, 1, bias=False), nn.BatchNorm2d(wide)
        self.around = nn.Sequential()
        if stride > 1 or wide_in != wide:
            self.around = nn.Sequential(
                nn.Conv2d(wide_in, wide, 1, stride, bias=False), nn.BatchNorm2d(wide)
            )

        self.relu1, self.relu2 = nn.ReLU(), nn.ReLU()

    def forward(self, x):
        return self.relu2(
            self.norm2(self.conv2(self.relu1(self.norm1(self.conv1(x))))) + self.around(x)
        )


def resnet(depth):
    parts, wide_in = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()], 16
    for wide in (16, 32, 64):
        for k in range((depth - 2) // 6):
            parts.append(Block(wide_in, wide, 2 if wide > 16 and k == 0 else 1))
            wide_in = wide
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def vgg16():
    parts, wide_in = [], 3
    for count, wide in ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)):
        for _ in range(count):
            parts += [
                nn.Conv2d(wide_in, wide, 3, padding=1, bias=False),
                nn.BatchNorm2d(wide),
                nn.ReLU(),
            ]
            wide_in = wide
        parts.append(nn.MaxPool2d(2))
    return nn.Sequential(*parts, nn.Flatten(), nn.Linear(512, 10))


def alexnet():
    parts = []
    for wide_in, wide, stride, pool in (
        (3, 64, 2, True),
        (64, 192, 1, True),
        (192, 384, 1, False),
        (384, 256, 1, False),
        (256, 256, 1, True),
    ):
        parts += [nn.Conv2d(wide_in, wide, 3, stride, 1), nn.ReLU()] + [nn.MaxPool2d(2)] * pool
    return nn.Sequential(
        *parts,
        nn.Flatten(),
        nn.Linear(1024, 4096),
        nn.ReLU(),
        nn.Linear(4096, 4096),
        nn.ReLU(),
        nn.Linear(4096, 10),
    )


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, 10),
    )


def mlp():
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(784, 1024),
        nn.ReLU(),
        nn.Linear(1024, 1024),
        nn.ReLU(),
        nn.Linear(1024, 10),
    )


ZOO = dict(
    mlp=(mlp, (1, 28, 28)),
    lenet=(lenet, (1, 28, 28)),
    alexnet=(alexnet, (3, 32, 32)),
    vgg16=(vgg16, (3, 32, 32)),
    **{f'resnet{d}': ((lambda d=d: resnet(d)), (3, 32, 32)) for d in (20, 32, 44, 56)},
)
BATCH = 8


def batch(step, shape):
    return values(STEP + 2 * step, BATCH, *shape), labels(STEP + 2 * step + 1, BATCH, 10)


def gradients(name, kind, step=0):
    """loss and gradients of a model of the zoo at the start, on a step's batch, worked out in this
    type"""
    make, shape = ZOO[name]
    net = set_weights(make()).to(kind)
    x, y = batch(step, shape)
    loss = F.cross_entropy(net(x.to(kind)), y)
    loss.backward()
    return loss.item(), [p.grad.detach().double().flatten() for p in net.parameters()]


def margin(name, step):
    """how near to a tie this batch comes: the least distance of a relu's input from zero, and of a
    window's two largest from each other"""
    make, shape = ZOO[name]
    net, least = set_weights(make()).double(), [1e9]

    def look(m, args):
        x = args[0]
        if isinstance(m, nn.MaxPool2d):
            top = (
                F.unfold(x.flatten(0, 1)[:, None], m.kernel_size, stride=m.stride).topk(2, 1).values
            )
            gap = (top[:, 0] - top[:, 1])[top[:, 0] > 0]  # of a window of zeros nothing passes back
        else:
            gap = x.abs()
        least[0] = min(least[0], gap.min().item())

    for m in net.modules():
        if isinstance(m, (nn.ReLU, nn.MaxPool2d)):
            m.register_forward_pre_hook(look)
    with torch.no_grad():
        net(batch(step, shape)[0].double())
    return least[0]


def apart(a, b):
    return ((a - b).norm() / b.norm()).item() if b.norm() > 0 else (a - b).norm().item()
