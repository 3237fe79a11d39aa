"""Whole runs through every codec: replicas agree, stopping and going on changes nothing, other
numbers of workers lose nothing."""
import os, shutil
import numpy as np
import pytest
from weirlib import (
    SMALL,
    SMOOTH,
    distance,
    end,
    events,
    listed,
    rounding,
    tensors,
    train,
    weights,
    weir,
)

CODECS = [
    'half',
    'half:bf16',
    'int8',
    'int8:residual=yes',
    'onebit:warmup=0.2',
    'sign:warmup=0',
    'strom:warmup=0.1,ramp=0',
    'strom:warmup=0.1,mask=no,quanta=4,density=0.002',
    'topk:warmup=0.1,select=exact',
    'dgc:warmup=0.1,ramp=0.2',
    'redsync:warmup=0',
    'redsync:warmup=0,quantise=no',
    'qsgd',
    'terngrad',
    'powersgd:warmup=0',
    'powersgd:warmup=0.2',
]
OPTIONS = f'--data {SMALL} --batch 32 --optim sgd:momentum=0.9,decay=1e-4 --threads 1 --lr 0.01'
COMMON = ['--model', 'lenet', *OPTIONS.split()]
# where two ways must come to the same but for rounding
NO_GATES = ['--model', SMOOTH, *OPTIONS.split()]


def test_every_codec_is_tried():
    """`none` has nothing to hold back, and `auto` takes some of the others: test_choose.py"""
    assert {c.split(':')[0] for c in CODECS} | {'none', 'auto'} == set(listed('codec'))


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


@pytest.mark.parametrize(
    'codec',
    [
        'topk:density=1,warmup=0,mask=no',
        'topk:density=1,warmup=0,select=exact,mask=no',
        'dgc:density=1,warmup=0,ramp=0,mask=no',
        'redsync:density=1,quantise=no,warmup=0,ramp=0,mask=no',
        'powersgd:65536,correct=no,warmup=0',
    ],
)
def test_off_is_dense(tmp_path, codec):
    train(tmp_path / 'dense', '--steps', 20, '--workers', 3, '--coll', 'ring', *NO_GATES)
    train(tmp_path / 'coded', '--steps', 20, '--workers', 3, '--codec', codec, *NO_GATES)
    assert distance(weights(tmp_path / 'coded'), weights(tmp_path / 'dense')) <= rounding(20)


@pytest.mark.parametrize('codec', ['strom:warmup=0.1', 'onebit:warmup=0', 'dgc:warmup=0.1,ramp=0'])
def test_goes_on_with_other_workers(tmp_path, codec):
    out = tmp_path / 'run'
    train(out, '--steps', 10, '--workers', 4, '--codec', codec, *COMMON)
    for workers, steps in ((3, 20), (5, 30)):
        train(out, '--resume', out, '--workers', workers, '--steps', steps)
        assert end(out)['replicas'] == 1 and end(out)['steps'] == steps
        kept = {
            k: v
            for k, v in tensors(out / 'latest' / 'state.safetensors').items()
            if k.endswith('.residual')
        }
        assert all(v.size % workers == 0 for v in kept.values()) and any(
            np.any(v) for v in kept.values()
        )


@pytest.mark.parametrize('codec', ['strom:warmup=0.1', 'onebit:warmup=0'])
def test_machines_first(tmp_path, codec):
    two = ['--workers', 4, '--codec', codec, '--exchange', 'allreduce:hier=yes,each=2', *COMMON]
    whole, cut = tmp_path / 'whole', tmp_path / 'cut'
    train(whole, '--steps', 24, *two)
    train(cut, '--steps', 13, *two)
    assert end(whole)['replicas'] == 1
    kept = tensors(cut / 'latest' / 'state.safetensors')
    rows = [v.reshape(4, -1) for k, v in kept.items() if k.endswith('.residual')]
    assert rows and all(
        np.any(r[0]) and np.any(r[2]) and not np.any(r[1]) and not np.any(r[3]) for r in rows
    )
    train(cut, '--resume', cut, '--steps', 24)
    assert end(cut)['params_hash'] == end(whole)['params_hash']
    for workers, steps in ((3, 30), (5, 36)):
        train(cut, '--resume', cut, '--workers', workers, '--steps', steps)
        assert end(cut)['replicas'] == 1 and end(cut)['steps'] == steps
    # on the one machine that this is, nothing is compressed; what was held back goes with the first
    # step
    train(cut, '--resume', cut, '--exchange', 'allreduce:hier=yes', '--steps', 40)
    assert end(cut)['replicas'] == 1
    assert not any(
        np.any(v)
        for k, v in tensors(cut / 'latest' / 'state.safetensors').items()
        if k.endswith('residual')
    )


@pytest.mark.parametrize('clip', [[], ['--clip', 0.05]])
def test_one_machine_is_dense(tmp_path, clip):
    one = ['--exchange', 'allreduce:hier=yes', '--codec', 'strom:warmup=0.1']
    train(tmp_path / 'dense', '--steps', 20, '--workers', 3, *clip, *NO_GATES)
    train(tmp_path / 'coded', '--steps', 20, '--workers', 3, *one, *clip, *NO_GATES)
    assert distance(weights(tmp_path / 'coded'), weights(tmp_path / 'dense')) <= rounding(20)


def test_the_log_tells_of_the_codec(tmp_path):
    """an epoch has 32 steps, so that 4 are dense"""
    out = tmp_path / 'run'
    train(out, '--steps', 20, '--workers', 3, '--codec', 'strom:warmup=0.1,ramp=0', *COMMON)
    steps = events(out, 'step')
    assert [e['density'] == 1 for e in steps] == [k < 4 for k in range(20)]
    after = steps[4:]
    for e in after:
        assert e['residual_norm'] > 0 and e['codec_ms'] > 0 and e['wire_ms'] > 0
        assert e['residual_over_tau'] > 0 and e['sent_bytes'] < e['dense_bytes']
    dense, sent = (sum(e[k] for e in after) for k in ('dense_bytes', 'sent_bytes'))
    assert end(out)['ratio'] == pytest.approx(dense / sent, rel=1e-8)  # nine digits are written


def test_the_log_tells_what_was_sent(tmp_path):
    def steps(codec):
        out = tmp_path / codec.replace(':', '-')
        train(out, '--steps', 12, '--workers', 2, '--codec', codec, *COMMON)
        return events(out, 'step')

    # one in ten of each tensor that is large enough
    sizes = [16 * 6 * 25, 120 * 400, 84 * 120, 10 * 84]
    for e in steps('topk:select=exact,density=0.1,warmup=0,ramp=0'):
        assert e['density'] == pytest.approx(sum(n // 10 for n in sizes) / sum(sizes), rel=1e-8)
        assert e['residual_over_tau'] is None
    # an epoch has 32 steps: dense for two, then few
    warm = steps('redsync:warmup=0.0625,ramp=0,density=0.01')
    assert [e['density'] for e in warm[:2]] == [1, 1] and all(
        0 < e['density'] < 0.03 for e in warm[2:]
    )
    assert warm[1]['residual_norm'] == 0 < warm[2]['residual_norm']
    # a threshold that gradients outgrow is seen
    assert steps('strom:warmup=0.1,tau=1e-6')[-1]['residual_over_tau'] > 100
    dense = steps('none')[-1]
    assert (
        dense['density'] == 1
        and dense['residual_norm'] == 0
        and dense['residual_over_tau'] is None
        and dense['codec_ms'] == 0 < dense['wire_ms']
    )


def test_the_log_is_what_the_checkpoint_holds(tmp_path):
    out = tmp_path / 'run'
    train(out, '--steps', 12, '--workers', 3, '--codec', 'strom:tau=1e-3,warmup=0', *COMMON)
    steps = events(out, 'step')
    held = [
        v.astype(np.float64).reshape(3, -1)[0]
        for k, v in tensors(out / 'latest' / 'state.safetensors').items()
        if k.endswith('.residual')
    ]  # rank 0's
    # nine digits are written; the threshold is a float
    norm, most = np.sqrt(sum(np.sum(v * v) for v in held)), max(np.abs(v).max() for v in held)
    assert steps[-1]['residual_norm'] == pytest.approx(norm, rel=1e-8)
    over = most / float(np.float32(1e-3))
    assert steps[-1]['residual_over_tau'] == pytest.approx(over, rel=2**-23)
    assert all(e['codec_ms'] > 0 and e['wire_ms'] > 0 for e in steps)
    e = end(out)
    assert e['ratio_all'] == pytest.approx(e['dense_bytes'] / e['sent_bytes'], rel=1e-8)
    assert e['dense_bytes'] == sum(s['dense_bytes'] for s in steps) > 0
    assert e['sent_bytes'] == sum(s['sent_bytes'] for s in steps) > 0


def waiting(out, workers):
    """what all workers together hold back, and their momentum, by tensor"""
    return {
        name: value.astype(np.float64).reshape(workers, -1).sum(0)
        for name, value in tensors(out / 'latest' / 'state.safetensors').items()
        if name.endswith(('.residual', '.corrected'))
    }


def test_other_workers_take_over_all_that_waits(tmp_path):
    """Nothing is ever sent of what the codec has: all gradients wait, and their sum is that of
    whoever computed them. A gradient is a sum of 32 samples at up to 100 places: in another order
    it differs by some sqrt(3200) roundings."""
    args = ['--steps', 8, '--workers', 4, '--codec', 'strom:tau=1e30,warmup=0', *NO_GATES]
    train(tmp_path / '4', *args)
    shutil.copytree(tmp_path / '4', tmp_path / '3', symlinks=True)
    train(tmp_path / '3', '--resume', tmp_path / '3', '--workers', 3, '--steps', 9)
    shutil.copytree(tmp_path / '3', tmp_path / '5', symlinks=True)
    train(tmp_path / '5', '--resume', tmp_path / '5', '--workers', 5, '--steps', 10)
    train(tmp_path / '4', '--resume', tmp_path / '4', '--steps', 10)
    same, other = (waiting(tmp_path / str(n), n) for n in (4, 5))
    assert set(same) == set(other) and any(k.endswith('.corrected') for k in same)
    for k in same:
        assert np.linalg.norm(same[k]) > 0
        assert distance(other[k], same[k]) <= 3200**0.5 * 2**-24, k


def test_another_rate_is_warned_of(tmp_path):
    _, err = train(
        tmp_path / 'terngrad', '--steps', 2, '--workers', 2, '--codec', 'terngrad', *COMMON
    )
    told = [e['what'] for e in events(tmp_path / 'terngrad', 'warning')]
    assert len(told) == 1 and '--codec terngrad' in told[0] and '--lr 0.01' in told[0]
    assert [l for l in err.splitlines() if 'warn' in l] == [
        l for l in err.splitlines() if told[0] in l
    ] and err.count(told[0]) == 1
    _, err = train(
        tmp_path / 'strom',
        '--steps',
        2,
        '--workers',
        2,
        '--codec',
        'strom:warmup=0,ramp=0',
        *COMMON,
    )
    assert 'warn' not in err and not events(tmp_path / 'strom', 'warning')


def test_a_run_that_is_over_before_it_compresses_is_warned_of(tmp_path):
    _, err = train(
        tmp_path / 'a', '--steps', 4, '--workers', 2, '--codec', 'strom', *COMMON
    )  # an epoch has 32 steps
    assert (
        'the first 16 steps of strom are dense and this run has 4; its options warmup and ramp'
        in err
        and events(tmp_path / 'a', 'warning')
    )
    assert all(e['density'] == 1 for e in events(tmp_path / 'a', 'step'))


def test_those_who_come_later_miss_nothing(tmp_path):
    out = tmp_path / 'run'
    train(out, '--steps', 4, '--workers', 2, '--codec', 'strom:warmup=0,ramp=0', *COMMON)
    _, err = weir(
        'train',
        '--resume',
        out,
        '--steps',
        6,
        '--workers',
        3,
        '--codec',
        'strom:warmup=0,ramp=0',
        '--quiet',
    )
    assert 'not used' not in err


def test_exact_and_a_codec_do_not_mix(tmp_path):
    _, err = train(
        tmp_path / 'run',
        '--steps',
        2,
        '--workers',
        2,
        '--exact',
        'yes',
        '--codec',
        'strom',
        *COMMON,
        code=16,
    )
    assert '--exact' in err and '--codec strom' in err


@pytest.mark.parametrize(
    'codec,then,lost',
    [
        ('strom:warmup=0,ramp=0', 'none', 'residual'),
        ('onebit:warmup=0', 'topk:warmup=0,ramp=0', 'owner-residual'),
        ('strom:warmup=0,ramp=0', 'strom:warmup=0,ramp=0,residual=no', 'residual'),
    ],
)
def test_what_is_held_back_is_never_lost(tmp_path, codec, then, lost):
    out, plain = tmp_path / 'run', [
        '--model',
        'lenet',
        '--data',
        SMALL,
        '--batch',
        32,
        '--threads',
        1,
    ]
    train(out, '--steps', 8, '--workers', 2, '--codec', codec, *plain)
    _, err = weir('train', '--resume', out, '--codec', then, '--steps', 12, '--quiet', code=16)
    assert (
        f'.{lost} would be lost' in err
        and f'saved with --codec {codec}' in err
        and 'warmup=1e6' in err
    )
    train(out, '--resume', out, '--codec', codec.split(':')[0] + ':warmup=1e6', '--steps', 12)
    kept = tensors(out / 'latest' / 'state.safetensors')
    assert [k for k in kept if k.endswith('residual')] and not any(
        np.any(v) for k, v in kept.items() if k.endswith('residual')
    )


def test_momentum_is_not_taken_for_the_decays(tmp_path):
    train(
        tmp_path / 'run', '--steps', 8, '--workers', 2, '--codec', 'strom:warmup=0,ramp=0', *COMMON
    )
    _, err = weir(
        'train', '--resume', tmp_path / 'run', '--codec', 'none', '--steps', 12, '--quiet', code=16
    )
    assert 'weight.momentum is missing' in err and 'saved with --codec strom' in err


@pytest.fixture(scope='module')
def serial(tmp_path_factory):
    out = tmp_path_factory.mktemp('serial') / 'run'
    train(out, '--steps', 20, *NO_GATES)
    return weights(out)


@pytest.mark.parametrize('name', sorted({c.split(':')[0] for c in CODECS}))
def test_one_worker_is_the_serial_trainer(tmp_path, serial, name):
    """with momentum at the worker, its sums are rounded otherwise"""
    train(tmp_path / 'run', '--steps', 20, '--codec', f'{name}:warmup=0', *NO_GATES)
    assert distance(weights(tmp_path / 'run'), serial) <= rounding(20)
