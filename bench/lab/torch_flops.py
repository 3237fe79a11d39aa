#!/usr/bin/env python3
"""Floating-point operations of a training step, and this machine's own speed: a product of two
matrices of 2048 x 2048 by PyTorch, the best of five. Prints one JSON line.

  torch_flops.py --model resnet20 --batch 64 --threads 1"""
import argparse, json, time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from torch_models import NAMES, build


def of_lstm(layer, tokens):
    """PyTorch counts nothing for these: forward, and twice that backward"""
    width = layer.hidden_size
    inputs = [layer.input_size] + [width] * (layer.num_layers - 1)
    return 3 * tokens * sum(2 * 4 * width * (width + i) for i in inputs)


def of_step(name, batch):
    model, x, y = build(name, batch)
    with FlopCounterMode(display=False) as count:
        F.cross_entropy(model(x), y).backward()
    layers = (m for m in model.modules() if isinstance(m, nn.LSTM))
    return count.get_total_flops() + sum(of_lstm(m, x.numel()) for m in layers)


def of_machine(n=2048):
    """GFLOP/s"""
    a, b, best = torch.randn(n, n), torch.randn(n, n), float('inf')
    for _ in range(5):
        began = time.perf_counter()
        a @ b
        best = min(best, time.perf_counter() - began)
    return 2 * n**3 / best / 1e9


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--model', choices=NAMES, required=True)
    p.add_argument('--batch', type=int, default=64)
    p.add_argument('--threads', type=int, default=1)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    print(json.dumps(dict(vars(a), flops=of_step(a.model, a.batch), sgemm=of_machine())))


main()
