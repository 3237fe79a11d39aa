"""Training in the simulated world: the same numbers as in a real one, and times that follow from profile and links."""
import json
from weirlib import SMALL, end, train, weir

LENET = ['--model', 'lenet', '--data', SMALL, '--steps', 6, '--threads', 1, '--coll', 'ring', '--eval-every', 0]


def bench(*args):
    return json.loads(weir('bench', 'train', '--json', *args)[0])


def test_same_parameters_as_processes(tmp_path):
    train(tmp_path / 'sim', *LENET, '--net', 'sim:nodes=4')
    train(tmp_path / 'zmq', *LENET, '--workers', 4)
    a, b = end(tmp_path / 'sim'), end(tmp_path / 'zmq')
    assert a['params_hash'] == b['params_hash'] and a['replicas'] == b['replicas'] == 1
    assert a['sent_bytes'] == b['sent_bytes']


def test_twice_the_same_to_the_last_digit():
    run = ['--model', 'resnet20', '--net', 'sim:nodes=64,dry=yes,jitter=0.5,draw=lognormal,seed=3', '--steps', 4, '--batch', 2048]
    a, b = bench(*run), bench(*run)
    for key in ('step_ms', 'samples_per_s', 'train_s', 'sent_bytes'): assert a[key] == b[key]
    assert bench(*run[:3], run[3].replace('seed=3', 'seed=4'), *run[4:])['step_ms'] != a['step_ms']


def test_spends_what_a_real_run_took_down(tmp_path):
    profile = tmp_path / 'p'
    real = bench('--model', 'lenet', '--batch', 32, '--steps', 5, '--threads', 1, '--profile', profile)
    p = json.loads(profile.read_text())
    spent = (p['forward_ns'] + sum(p['backward_ns']) + p['rest_ns'] + p['update_ns']) / 1e6
    assert 0.5 * real['step_ms'] < spent <= 1.01 * real['step_ms']          # one worker waits for nobody
    sim = ['--model', 'lenet', '--batch', 64, '--steps', 3, '--profile', profile]
    fast = bench(*sim, '--net', 'sim:nodes=2,dry=yes,rate=1000G,latency=0')['step_ms']
    assert spent <= fast < 1.01 * spent + 0.1
    bits = 2 * 4 * 8 * 61706 / 2                                            # half the gradient twice, in bits
    slow = bench(*sim, '--net', 'sim:nodes=2,dry=yes,rate=1M,latency=0', '--coll', 'ring')['step_ms']
    assert bits / 1e6 * 1e3 < slow < 1.1 * bits / 1e6 * 1e3 + spent
    twice = bench(*sim, '--net', 'sim:nodes=2,dry=yes,rate=1000G,latency=0,slow=1x2')['step_ms']
    assert 1.9 * spent < twice < 2.2 * spent
    assert '16' in weir('bench', 'train', '--model', 'mlp', '--net', 'sim:nodes=2', '--profile', profile, code=16)[1]


def test_a_death_is_told(tmp_path):
    _, err = train(tmp_path / 'r', *LENET, '--net', 'sim:nodes=3,kill=2@0.001', code=10)
    assert 'rank 2' in err
