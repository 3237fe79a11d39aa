"""PyTorch for the benches beside it: its virtual environment under .deps/torch, and the commands of
bench/lab/torch_*.py. Which settings serve it best is tried before anything is timed."""
import os, subprocess, sys
from runs import ROOT, WEIR, run, run_ranks

PYTHON = os.environ.get('TORCH_PYTHON') or os.path.join(ROOT, '.deps/torch/bin/python')
LAB = os.path.join(ROOT, 'bench/lab')
CONVOLUTIONS = ('lenet', 'alexnet', 'vgg16', 'resnet20', 'resnet32', 'resnet44', 'resnet56')


def setup(bench):
    """made at the first call, from PyPI: some GB"""
    if not os.path.exists(WEIR):
        sys.exit(f'{bench}: {WEIR} is missing: run make first')
    if not os.path.exists(PYTHON):
        print('making .deps/torch (PyTorch from PyPI, some GB)', file=sys.stderr)
        made = os.path.join(ROOT, '.deps/torch')
        subprocess.run([sys.executable, '-m', 'venv', made], check=True)
        subprocess.run([PYTHON, '-m', 'pip', 'install', '-q', 'torch', 'numpy'], check=True)


def program(name, *options):
    return [PYTHON, os.path.join(LAB, f'torch_{name}.py'), *options]


def train(model, batch, steps, threads=1, warmup=3, more=()):
    options = f'--model {model} --batch {batch} --steps {steps} --warmup {warmup}'.split()
    return program('train', *options, '--threads', threads, *more)


def environment(threads):
    return dict(OMP_NUM_THREADS=threads)


def settings(model):
    """those worth trying"""
    layouts = ('plain', 'channels_last') if model in CONVOLUTIONS else ('plain',)
    return [['--layout', y, '--update', u] for y in layouts for u in ('plain', 'fused')]


def best(model, batch, steps, threads, ranks=1, more=()):
    """the settings of the fastest of a run each"""

    def speed(given):
        command = train(model, batch, max(2, steps // 2), threads, more=[*given, *more])
        if ranks == 1:
            return run(command, **environment(threads))['samples_per_s']
        return run_ranks(command, ranks, **environment(threads))[0][-1]['samples_per_s']

    return max(settings(model), key=speed)


def same_weights(bench, model, ours, theirs):
    if ours != theirs:
        sys.exit(f'{bench}: {model} has {ours} weights here and {theirs} in PyTorch: not the same')
