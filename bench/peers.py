"""PyTorch, for the benches beside it: its virtual environment and its programs."""
import os, subprocess, sys
from runs import *
from runs import ROOT, WEIR

PEERS = os.path.join(ROOT, '../shared/peers')
TORCH_PEER = os.path.join(PEERS, 'torch_peer.py')
PYTHON = os.environ.get('TORCH_PYTHON') or os.path.join(ROOT, '.deps/torch/bin/python')


def setup(bench, program=TORCH_PEER):
    """PyTorch from PyPI in .deps/torch; made at the first call"""
    if not os.path.exists(program):
        sys.exit(
            f'{bench}: ../shared/peers/{os.path.basename(program)} is missing: nothing to compare with'
        )
    if not os.path.exists(WEIR):
        sys.exit(f'{bench}: {WEIR} is missing: run make first')
    if not os.path.exists(PYTHON):
        print('making .deps/torch (PyTorch from PyPI)', file=sys.stderr)
        subprocess.run(
            [sys.executable, '-m', 'venv', os.path.join(ROOT, '.deps/torch')], check=True
        )
        subprocess.run([PYTHON, '-m', 'pip', 'install', '-q', 'torch', 'numpy'], check=True)
