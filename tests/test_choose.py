"""--codec auto in whole runs: it says what it chose and why, loses nothing when stopped, and
refuses what it cannot choose."""
import json
import numpy as np
import pytest
from weirlib import SMALL, end, events, tensors, train, weir

COMMON = [
    '--model',
    'lenet',
    '--data',
    SMALL,
    '--batch',
    32,
    '--threads',
    1,
    '--lr',
    0.01,
    '--eval-every',
    0,
]
MOMENTUM = ['--optim', 'sgd:momentum=0.9']
SLOW, FAST = 'sim:nodes=3,rate=10M', 'sim:nodes=4,rate=1000G'


def test_chooses_and_tells(tmp_path):
    out = tmp_path / 'run'
    train(out, '--steps', 80, '--workers', 2, '--codec', 'auto', *COMMON, *MOMENTUM)
    assert end(out)['replicas'] == 1 and end(out)['steps'] == 80
    first, last = events(out, 'choice')[0], events(out, 'step')[-1]
    assert first['why'] == 'first' and first['taken'] in first['measured_ms']
    assert first['measured_ms'][first['taken']] > 0 and first['measured_ms']['none'] > 0
    assert set(first['predicted_ms']) == set(first['measured_ms']) >= {'none', 'half', 'strom'}
    assert first['buckets'][-1] == 'none' and set(first['buckets']) <= {
        'none',
        'half',
        'strom',
    }  # the tail stays dense
    assert np.isfinite(last['loss'])


def test_the_link_decides(tmp_path):
    for net, taken in ((SLOW, 'strom'), (FAST, 'none')):
        out = tmp_path / taken
        train(out, '--steps', 70, '--net', net, '--codec', 'auto', *COMMON, *MOMENTUM)
        got = events(out, 'choice')[0]
        assert got['taken'] == taken and set(got['buckets'][:-1]) == {taken}
        assert end(out)['replicas'] == 1


def test_looks_again_and_tells(tmp_path):
    out = tmp_path / 'run'
    train(out, '--steps', 90, '--net', SLOW, '--codec', 'auto:every=30,try=2', *COMMON, *MOMENTUM)
    told = events(out, 'choice')
    assert (
        len(told) >= 3
        and told[0]['why'] == 'first'
        and all(e['why'] in ('due', 'changed') for e in told[1:])
    )
    for e in told:
        assert e['measured_ms'][e['taken']] > 0 and e['predicted_ms'][e['taken']] > 0
    assert all(b['step'] > a['step'] and b['before'] == a['taken'] for a, b in zip(told, told[1:]))


def test_dense_is_dense_to_the_last_bit(tmp_path):
    for codec in ('none', 'auto'):
        train(
            tmp_path / codec,
            '--steps',
            30,
            '--net',
            FAST,
            '--codec',
            codec,
            '--optim',
            'sgd:momentum=0',
            *COMMON,
        )
    a, b = end(tmp_path / 'none'), end(tmp_path / 'auto')
    tried = events(tmp_path / 'auto', 'choice')[0]['measured_ms']
    # nothing else was foreseen to be worth it: computing costs nothing here, and messages their
    # latency
    assert {k for k, ms in tried.items() if ms} == {'none'}
    assert a['params_hash'] == b['params_hash']
    assert b['sent_bytes'] < 1.01 * a['sent_bytes']  # but for what ranks agree upon


@pytest.mark.parametrize('codec', ['auto', 'auto:among=onebit+strom'])
def test_goes_on_with_other_workers(tmp_path, codec):
    out = tmp_path / 'run'
    train(out, '--steps', 30, '--net', 'sim:nodes=3,rate=10M', '--codec', codec, *COMMON, *MOMENTUM)
    kept = tensors(out / 'latest' / 'state.safetensors')
    held = {
        k: v.astype(np.float64).reshape(3, -1).sum(0)
        for k, v in kept.items()
        if k.endswith('.residual')
    }
    assert any(np.any(v) for v in held.values()) and any(
        'strom' in k and k.endswith('.lift.0') for k in kept
    )
    for nodes, steps in ((2, 40), (4, 50)):
        train(out, '--resume', out, '--net', f'sim:nodes={nodes},rate=10M', '--steps', steps)
        assert end(out)['replicas'] == 1 and end(out)['steps'] == steps


def test_a_benchmark_begins_when_all_is_chosen():
    got = json.loads(
        weir(
            'bench',
            'train',
            '--model',
            'lenet',
            '--steps',
            4,
            '--batch',
            32,
            '--net',
            SLOW,
            '--codec',
            'auto',
            '--json',
        )[0]
    )
    assert got['choice']['taken'] == 'strom' and got['steps'] == 4 and got['replicas'] == 1
    assert (
        abs(got['step_ms'] / got['choice']['measured_ms']['strom'] - 1) < 0.5 and got['ratio'] > 10
    )


def test_alone_there_is_nothing_to_choose(tmp_path):
    train(tmp_path / 'run', '--steps', 20, '--codec', 'auto', *COMMON, *MOMENTUM)
    assert not events(tmp_path / 'run', 'choice')


def test_refuses(tmp_path):
    for codec, code, word in (
        ('auto:among=powersgd', 16, 'powersgd'),
        ('auto:among=auto', 16, 'chooses'),
        ('auto:among=half+nonsense', 2, 'nonsense'),
        ('auto:among=', 2, 'among='),
    ):
        assert (
            word
            in train(
                tmp_path / 'run', '--steps', 2, '--workers', 2, '--codec', codec, *COMMON, code=code
            )[1]
        )
    assert (
        'dry'
        in weir(
            'bench',
            'train',
            '--model',
            'lenet',
            '--net',
            'sim:nodes=3,dry=yes',
            '--codec',
            'auto',
            code=16,
        )[1]
    )
    assert (
        '--exact'
        in train(
            tmp_path / 'run',
            '--steps',
            2,
            '--workers',
            2,
            '--codec',
            'auto',
            '--exact',
            'yes',
            *COMMON,
            code=16,
        )[1]
    )
