"""Training in the simulated world: the same numbers as in a real one, and times that follow from
profile and links."""
import json
import pytest
from weirlib import SMALL, end, events, train, weir

LENET = [
    '--model',
    'lenet',
    '--data',
    SMALL,
    '--steps',
    6,
    '--threads',
    1,
    '--coll',
    'ring',
    '--eval-every',
    0,
]


def bench(*args):
    return json.loads(weir('bench', 'train', '--json', *args)[0])


def test_same_parameters_as_processes(tmp_path):
    train(tmp_path / 'sim', *LENET, '--net', 'sim:nodes=4')
    train(tmp_path / 'zmq', *LENET, '--workers', 4)
    a, b = end(tmp_path / 'sim'), end(tmp_path / 'zmq')
    assert a['params_hash'] == b['params_hash'] and a['replicas'] == b['replicas'] == 1
    assert a['sent_bytes'] == b['sent_bytes']


def test_twice_the_same_to_the_last_digit():
    run = [
        '--model',
        'resnet20',
        '--net',
        'sim:nodes=64,dry=yes,jitter=0.5,cost=20ms,draw=lognormal,cv=1,seed=3',
        '--steps',
        4,
        '--batch',
        2048,
    ]
    a, b = bench(*run), bench(*run)
    for key in ('step_ms', 'samples_per_s', 'train_s', 'sent_bytes'):
        assert a[key] == b[key]
    assert bench(*run[:3], run[3].replace('seed=3', 'seed=4'), *run[4:])['step_ms'] != a['step_ms']
    even = bench(*run[:3], run[3].replace('draw=lognormal,cv=1,', ''), *run[4:])['step_ms']
    assert a['step_ms'] > 1.2 * even  # all wait for whoever has drawn the longest


def test_spends_what_it_is_told(tmp_path):
    def step(more, *args):
        return bench(
            '--model',
            'lenet',
            '--steps',
            3,
            '--net',
            f'sim:nodes=4,dry=yes,rate=1000G,latency=0{more}',
            *args,
        )['step_ms']

    profile = tmp_path / 'p'
    bench('--model', 'lenet', '--batch', 32, '--steps', 2, '--threads', 1, '--profile', profile)
    pieces = (
        len(json.loads(profile.read_text())['backward_ns']) + 3
    )  # forward, the rest of backward, update
    free = step('')
    for more, seconds in (
        (',cost=1s', 1),
        (',cost=2s', 2),
        (',cost=1s,slow=1x5', 5),
        (',cost=1s,slow=0x2/3x3', 3),
    ):
        assert abs(step(more) - seconds * pieces * 1e3) < 1 + free
        assert step(more, '--profile', profile) == step(
            more
        )  # what is given goes before what was taken down
    late = 10 * pieces * 4 + 1  # within a piece of one of the steps that are timed
    assert abs(3 * (step(f',cost=10s,pause=0@{late}+8') - step(',cost=10s')) - 8e3) < 1
    assert step(',cost=1s,draw=gamma,cv=1.5') > 1.2 * pieces * 1e3


def test_is_not_told_in_vain(tmp_path):
    for more in ('slow=1x5', 'draw=gamma', 'draw=lognormal,slow=0x2'):
        net = ['--net', f'sim:nodes=4,dry=yes,{more}']
        for run in (['bench', 'train', '--model', 'lenet'], ['bench', 'allreduce']):
            assert more in weir(*run, *net, code=16)[1]
    err = train(tmp_path / 'r', *LENET, '--net', 'sim:nodes=2,slow=1x2', code=16)[1]
    assert 'cost=' in err and '--profile' in err
    weir('bench', 'allreduce', '--net', 'sim:nodes=4,dry=yes,cost=1s', code=16)


def test_spends_what_a_real_run_took_down(tmp_path):
    profile = tmp_path / 'p'
    real = bench(
        '--model', 'lenet', '--batch', 32, '--steps', 5, '--threads', 1, '--profile', profile
    )
    p = json.loads(profile.read_text())
    spent = (p['forward_ns'] + sum(p['backward_ns']) + p['rest_ns'] + p['update_ns']) / 1e6
    assert 0.5 * real['step_ms'] < spent <= 1.01 * real['step_ms']  # one worker waits for nobody
    sim = ['--model', 'lenet', '--batch', 64, '--steps', 3, '--profile', profile]
    fast = bench(*sim, '--net', 'sim:nodes=2,dry=yes,rate=1000G,latency=0')['step_ms']
    assert spent <= fast < 1.01 * spent + 0.1
    bits = 2 * 4 * 8 * 61706 / 2  # half the gradient twice, in bits
    slow = bench(*sim, '--net', 'sim:nodes=2,dry=yes,rate=1M,latency=0', '--coll', 'ring')[
        'step_ms'
    ]
    assert bits / 1e6 * 1e3 < slow < 1.1 * bits / 1e6 * 1e3 + spent
    twice = bench(*sim, '--net', 'sim:nodes=2,dry=yes,rate=1000G,latency=0,slow=1x2')['step_ms']
    assert 1.9 * spent < twice < 2.2 * spent
    assert (
        '16'
        in weir(
            'bench',
            'train',
            '--model',
            'mlp',
            '--net',
            'sim:nodes=2',
            '--profile',
            profile,
            code=16,
        )[1]
    )


@pytest.mark.mended
def test_a_profile_is_of_so_many_samples(tmp_path):
    """computing grows with a worker's samples; the update and the wire do not"""
    profile = tmp_path / 'p'
    run = ['--model', 'lenet', '--steps', 3]
    bench(*run, '--batch', 32, '--threads', 1, '--profile', profile)
    p = json.loads(profile.read_text())
    assert p['samples'] == 32 and p['threads'] == 1 and p['model'] == 'lenet'
    computing = (p['forward_ns'] + sum(p['backward_ns']) + p['rest_ns']) / 1e6
    sim = [*run, '--profile', profile, '--net', 'sim:nodes=2,dry=yes,rate=1000G,latency=0']
    same, twice, third = (bench(*sim, '--batch', n) for n in (64, 128, 192))
    # two virtual nanoseconds a piece are lost to rounding, and what is on the wire is hidden
    near = 1e-3 * (len(p['backward_ns']) + 3)
    assert abs(twice['step_ms'] - same['step_ms'] - computing) < near
    assert abs(third['step_ms'] - same['step_ms'] - 2 * computing) < near
    for b in (same, twice, third):
        assert b['virtual'] and b['computing'] == 'profile' and b['threads'] == 1
    said = weir('bench', 'train', *sim, '--batch', 128)[0]
    assert 'virtual' in said and '32 samples' in said
    for other in (['--threads', 2], ['--data', 'synth:shape=1x32x32,classes=10,count=1000,test=9']):
        assert 'profile' in weir('bench', 'train', *sim, '--batch', 64, *other, code=16)[1]
    old = {k: v for k, v in p.items() if k != 'samples'}
    profile.write_text(json.dumps(old))
    assert 'samples' in weir('bench', 'train', *sim, '--batch', 64, code=17)[1]


@pytest.mark.mended
def test_computing_that_nobody_priced_is_said_to_be_free():
    run = ['bench', 'train', '--model', 'lenet', '--steps', 2]
    net = ['--net', 'sim:nodes=2,dry=yes']
    said = weir(*run, *net)[0]
    assert 'virtual' in said and 'free' in said
    assert bench(*run[2:], *net)['computing'] == 'free'
    assert bench(*run[2:], '--net', 'sim:nodes=2,dry=yes,cost=1ms')['computing'] == 'cost'
    said = weir(*run, '--threads', 1)[0]
    assert 'virtual' not in said and bench(*run[2:], '--threads', 1)['virtual'] is False
    assert 'virtual' in weir('bench', 'allreduce', '--floats', 100, '--coll', 'ring', *net)[0]


@pytest.mark.mended
@pytest.mark.parametrize('nodes', (1, 4))
def test_nothing_is_trained_in_a_dry_world(tmp_path, nodes):
    said = train(tmp_path / 'r', *LENET, '--net', f'sim:dry=yes,nodes={nodes}', code=16)[1]
    assert 'dry' in said and 'bench train' in said
    assert not (tmp_path / 'r').exists()


def test_a_death_is_told(tmp_path):
    _, err = train(
        tmp_path / 'r', *LENET, '--elastic', 'no', '--net', 'sim:nodes=3,kill=2@0.001', code=10
    )
    assert 'rank 2' in err


ELASTIC = ['--model', 'mlp:hidden=8', '--data', 'synth:shape=1x4x4,classes=3,count=64,test=16']
ELASTIC += ['--batch', 8, '--steps', 40, '--threads', 1, '--timeout', 5, '--max-workers', 8]


@pytest.mark.parametrize(
    'faults, members, count',
    [
        ('join=0.3', [[0, 1, 2, 3, 4]], dict(joins=1)),
        ('join=0.3/0.3/1.1', [[0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5, 6]], dict(joins=3)),
        ('leave=2@0.3', [[0, 1, 3]], dict(joins=0, losses=0)),
        ('leave=0@0.3', [[1, 2, 3]], dict(losses=0)),
        ('leave=0@0.3/1@0.305,join=0.5', [[0, 1, 2, 3, 4], [2, 3, 4]], dict(joins=1, losses=0)),
        ('join=0.3,kill=4@0.6', [[0, 1, 2, 3, 4], [0, 1, 2, 3]], dict(joins=1, losses=1)),
        ('join=0.3,leave=4@0.6', [[0, 1, 2, 3, 4], [0, 1, 2, 3]], dict(joins=1, losses=0)),
        ('join=0.3,kill=1@0.3/2@0.31', [[0, 3, 4]], dict(losses=2, generations=1)),
        ('join=100', [], dict(generations=0)),
        ('join=2.39999', [], dict(generations=0)),
    ],
)
def test_others_come_and_go(tmp_path, faults, members, count):
    """every change of members is agreed on, the last step is made by all that are there, and the
    numbers of samples are those of an undisturbed run"""
    train(tmp_path / 'run', *ELASTIC, '--net', 'sim:nodes=4,cost=10ms,' + faults)
    last = end(tmp_path / 'run')
    assert [e['members'] for e in events(tmp_path / 'run', 'member')] == members
    assert last['steps'] == 40 and last['samples'] == 320 and last['replicas'] == 1
    assert last['workers'] == len(members[-1]) if members else 4
    for key, value in count.items():
        assert last[key] == value


def test_a_full_run_takes_nobody_in(tmp_path):
    net = 'sim:nodes=4,cost=10ms,join=0.3'
    train(tmp_path / 'run', *ELASTIC, '--net', net, '--max-workers', 4, '--stall', 5)
    assert not events(tmp_path / 'run', 'member') and end(tmp_path / 'run')['workers'] == 4


def test_one_that_leaves_stops_no_evaluation(tmp_path):
    """it is told before an evaluation, and leaves after it"""
    net = 'sim:nodes=3,cost=10ms,leave=1@0.1'
    train(tmp_path / 'run', *ELASTIC, '--net', net, '--eval-every', 1)
    assert [e['step'] for e in events(tmp_path / 'run', 'eval')] == list(range(1, 41))
    assert end(tmp_path / 'run')['workers'] == 2


@pytest.mark.parametrize('command', [['bench', 'train'], ['train', '--elastic', 'no']])
def test_only_an_elastic_run_takes_others_in(command):
    _, err = weir(
        *command,
        '--model',
        'mlp',
        '--data',
        SMALL,
        '--steps',
        2,
        '--net',
        'sim:nodes=2,join=1',
        code=16,
    )
    assert 'join=1: nobody can join this' in err
