#!/usr/bin/env python3
"""All-reduce of float32 by Gloo through PyTorch, in place: one process a rank (RANK, WORLD_SIZE,
MASTER_ADDR, MASTER_PORT). Rank 0 prints a JSON line a size.   torch_allreduce.py FLOATS...

Timed as `weir bench allreduce` and bench/allreduce_mpi.c time: rounds of some calls in a row, each
after a barrier; the median."""
import json, statistics, sys, time

import torch
from torch import distributed


def check(x, ranks):
    """the first call: it sums"""
    x.copy_(torch.arange(x.numel()) % 13)
    wanted = x * ranks
    distributed.all_reduce(x)
    if not torch.equal(x, wanted):
        sys.exit('torch_allreduce.py: the sum is wrong')
    x.zero_()  # sums of nothing stay so, however often


def seconds(x):
    n = x.numel()
    rounds, calls = 7 if n > 4 << 20 else 21, 100 if n <= 1 << 14 else 10 if n <= 1 << 20 else 1
    took = []
    for _ in range(rounds):
        distributed.barrier()
        began = time.perf_counter()
        for _ in range(calls):
            distributed.all_reduce(x)
        took.append((time.perf_counter() - began) / calls)
    return statistics.median(took)


def main():
    torch.set_num_threads(1)
    distributed.init_process_group('gloo')
    ranks = distributed.get_world_size()
    for n in map(int, sys.argv[1:]):
        x = torch.empty(n)
        check(x, ranks)
        s = seconds(x)
        if distributed.get_rank() == 0:
            print(json.dumps(dict(peer='gloo', ranks=ranks, floats=n, us=s * 1e6)), flush=True)
    distributed.destroy_process_group()


main()
