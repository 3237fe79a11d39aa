"""Whole runs through every codec: replicas agree, stopping and going on changes nothing, other numbers of workers lose nothing."""
import os, shutil
import numpy as np
import pytest
from weirlib import SMALL, distance, end, events, tensors, train, weights

CODECS = ['half', 'half:bf16', 'int8', 'int8:residual=yes', 'onebit', 'sign', 'strom:ramp=0', 'strom:quanta=4,density=0.002', 'topk:select=exact', 'dgc:ramp=0.2', 'redsync:warmup=0', 'redsync:warmup=0,quantise=no',
          'qsgd', 'terngrad', 'powersgd']
COMMON = ['--model', 'lenet', '--data', SMALL, '--batch', 32, '--optim', 'sgd:momentum=0.9,decay=1e-4', '--threads', 1, '--lr', 0.01]


@pytest.mark.parametrize('codec', CODECS)
def test_replicas_agree_and_resume(tmp_path, codec):
    whole, cut = tmp_path / 'whole', tmp_path / 'cut'
    train(whole, '--steps', 24, '--workers', 3, '--codec', codec, *COMMON)
    train(cut, '--steps', 24, '--save-every', 13, '--workers', 3, '--codec', codec, *COMMON)
    assert end(whole)['replicas'] == 1
    assert end(whole)['params_hash'] == end(cut)['params_hash']
    shutil.rmtree(cut / 'step-24')
    os.remove(cut / 'latest')
    os.symlink('step-13', cut / 'latest')
    train(cut, '--resume', cut)
    assert end(cut)['params_hash'] == end(whole)['params_hash']


@pytest.mark.parametrize('codec', ['topk:density=1,mask=no', 'topk:density=1,select=exact,mask=no', 'powersgd:65536,correct=no'])
def test_off_is_dense(tmp_path, codec):
    train(tmp_path / 'dense', '--steps', 20, '--workers', 3, '--coll', 'ring', *COMMON)
    train(tmp_path / 'coded', '--steps', 20, '--workers', 3, '--codec', codec, *COMMON)
    assert distance(weights(tmp_path / 'coded'), weights(tmp_path / 'dense')) <= 1e-5


@pytest.mark.parametrize('codec', ['strom', 'onebit', 'dgc:ramp=0'])
def test_goes_on_with_other_workers(tmp_path, codec):
    out = tmp_path / 'run'
    train(out, '--steps', 10, '--workers', 4, '--codec', codec, *COMMON)
    for workers, steps in ((3, 20), (5, 30)):
        train(out, '--resume', out, '--workers', workers, '--steps', steps)
        assert end(out)['replicas'] == 1 and end(out)['steps'] == steps
        kept = {k: v for k, v in tensors(out / 'latest' / 'state.safetensors').items() if k.endswith('.residual')}
        assert all(v.size % workers == 0 for v in kept.values()) and any(np.any(v) for v in kept.values())


def test_the_log_tells_of_the_codec(tmp_path):
    out = tmp_path / 'run'
    train(out, '--steps', 20, '--workers', 3, '--codec', 'strom', *COMMON)
    last = events(out, 'step')[-1]
    assert last['residual_norm'] > 0 and last['codec_ms'] > 0 and last['sent_bytes'] < last['dense_bytes']
    assert end(out)['ratio'] > 5


def test_exact_and_a_codec_do_not_mix(tmp_path):
    _, err = train(tmp_path / 'run', '--steps', 2, '--workers', 2, '--exact', 'yes', '--codec', 'strom', *COMMON, code=16)
    assert '--exact' in err and '--codec strom' in err
