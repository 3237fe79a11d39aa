#!/usr/bin/env python3
"""Whole training steps in PyTorch, alone or with DistributedDataParallel over Gloo: what a user
would run instead. Prints one JSON line.

  torch_train.py --model resnet20 --batch 64 --steps 20 --threads 1 [--compile]
                 [--layout plain|channels_last] [--update plain|fused]
                 [--hook none|fp16|bf16|powersgd] [--warmup 3]

With RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT it is one rank of several; --batch is that of a
rank. Settings are those that serve PyTorch best: as many threads as we have and one thread between
operators; gradients set to none; under DDP, gradients that are views of the buckets, a static graph
and no broadcasts of batch-norm statistics (we have none either). Which layout of pictures and which
update is faster differs by model: benches try them first. What compiling takes is in the warm-up,
which is not timed."""
import argparse, inspect, json, os, resource, time

import torch
from torch import distributed
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from torch_models import NAMES, build, trained


def mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def arguments():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument('--model', choices=NAMES, required=True)
    p.add_argument('--batch', type=int, default=64)
    p.add_argument('--steps', type=int, default=20)
    p.add_argument('--warmup', type=int, default=3)
    p.add_argument('--threads', type=int, default=1)
    p.add_argument('--compile', action='store_true')
    p.add_argument('--layout', choices=('plain', 'channels_last'), default='plain')
    p.add_argument('--update', choices=('plain', 'fused'), default='plain')
    p.add_argument('--hook', choices=('none', 'fp16', 'bf16', 'powersgd'), default='none')
    return p.parse_args()


def hook(model, name):
    """how gradients travel"""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    if name == 'powersgd':
        state = powerSGD_hook.PowerSGDState(
            None, matrix_approximation_rank=1, start_powerSGD_iter=2
        )
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    elif name != 'none':
        model.register_comm_hook(None, getattr(default_hooks, f'{name}_compress_hook'))


def spread(model, a):
    """the model on all ranks"""
    # PowerSGD takes turns of several collectives a bucket; over Gloo, those of two buckets meet
    # each other in another order on another rank. One bucket has no other.
    few = dict(bucket_cap_mb=4096) if a.hook == 'powersgd' else {}
    known = inspect.signature(DistributedDataParallel.__init__).parameters
    buffers = 'forward_sync_buffers' if 'forward_sync_buffers' in known else 'broadcast_buffers'
    model = DistributedDataParallel(
        model, gradient_as_bucket_view=True, static_graph=True, **{buffers: False}, **few
    )
    hook(model, a.hook)
    return model


def prepare(a, ranks):
    """(step, weights)"""
    model, x, y = build(a.model, a.batch)
    weights = trained(model)
    if a.layout == 'channels_last':
        x, model = (t.to(memory_format=torch.channels_last) for t in (x, model))
    if ranks > 1:
        model = spread(model, a)
    learner = torch.optim.SGD(
        [p for p in model.parameters() if p.requires_grad],
        lr=0.01,
        momentum=0.9,
        fused=a.update == 'fused',
    )
    called = torch.compile(model) if a.compile else model

    def step():
        learner.zero_grad(set_to_none=True)
        F.cross_entropy(called(x), y).backward()
        learner.step()

    return step, weights


def measure(step, a, ranks):
    """seconds a step"""
    for _ in range(a.warmup):
        step()
    if ranks > 1:
        distributed.barrier()
    began = time.perf_counter()
    for _ in range(a.steps):
        step()
    if ranks > 1:
        distributed.barrier()
    return (time.perf_counter() - began) / a.steps


def main():
    a, imported = arguments(), mib()
    ranks, rank = int(os.environ.get('WORLD_SIZE', 1)), int(os.environ.get('RANK', 0))
    torch.set_num_threads(a.threads)
    torch.set_num_interop_threads(1)
    torch.manual_seed(1 + rank)
    if ranks > 1:
        distributed.init_process_group('gloo')
    step, weights = prepare(a, ranks)
    seconds = measure(step, a, ranks)
    if rank == 0:
        found = dict(
            peer=f'torch {torch.__version__}',
            params=weights,
            ranks=ranks,
            step_ms=seconds * 1e3,
            samples_per_s=a.batch * ranks / seconds,
            peak_rss_mib=mib(),
            import_rss_mib=imported,
        )
        print(json.dumps(dict(vars(a), **found)), flush=True)
    if ranks > 1:
        distributed.destroy_process_group()


main()
