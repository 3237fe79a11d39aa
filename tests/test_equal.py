"""p workers equal one: the law of a synchronous exchange, on whole programs. What differs is
rounding, and weirlib.rounding says how much that can be; test_exact.py has the law without it."""
import pytest
from weirlib import SMALL, SMOOTH, distance, end, listed, rounding, train, weights

STEPS = 50
COMMON = f'--data {SMALL} --steps {STEPS} --lr 0.01 --eval-every 0 --threads 1'.split()
# every exchange, in all ways in which it is synchronous
SYNCHRONOUS = {'allreduce': ['allreduce', 'allreduce:hier=yes,each=2'], 'peers': ['peers:bound=0']}
TEXT = 'synth:tokens=50,length=12,count=640,test=64'


@pytest.fixture(scope='module')
def alone(tmp_path_factory):
    """the weights of one worker, made once for each batch and more options"""
    made = {}

    def get(batch, *more):
        key = (batch, *more)
        if key not in made:
            out = tmp_path_factory.mktemp('alone') / 'run'
            train(out, '--model', SMOOTH, '--batch', batch, *COMMON, *more)
            made[key] = weights(out)
        return made[key]

    return get


@pytest.mark.parametrize('workers', [2, 3, 4, 7])
@pytest.mark.parametrize('batch', [64, 96])
def test_workers_equal_one(tmp_path, alone, batch, workers):
    out = tmp_path / 'run'
    train(out, '--model', SMOOTH, '--batch', batch, '--workers', workers, *COMMON)
    assert distance(weights(out), alone(batch)) <= rounding(STEPS)
    e = end(out)
    assert e['replicas'] == 1 and e['workers'] == workers and e['steps'] == STEPS
    # a ring of floats: 2 (p - 1) times all elements, and the 16 notes of a step
    assert e['dense_bytes'] == STEPS * 8 * (workers - 1) * 61706
    assert e['sent_bytes'] == STEPS * 8 * (workers - 1) * (61706 + 16)
    assert e['ratio'] == pytest.approx(61706 / (61706 + 16), rel=1e-8)  # nine digits are written


@pytest.mark.sanitizer
@pytest.mark.parametrize('workers,batch,steps', [(7, 3, 50), (4, 1, 50), (3, 7, 50), (4, 999, 6)])
def test_workers_without_samples(tmp_path, alone, workers, batch, steps):
    """batch 3 on 7 workers, the epoch's last step of 1 sample, batches that do not divide"""
    out, long = tmp_path / 'run', ('--steps', steps)
    train(out, '--model', SMOOTH, '--batch', batch, '--workers', workers, *COMMON, *long)
    assert distance(weights(out), alone(batch, *long)) <= rounding(steps)
    assert end(out)['replicas'] == 1


def test_every_exchange_is_tried():
    assert sorted(SYNCHRONOUS) == sorted(listed('exchange'))


@pytest.mark.parametrize('exchange', sum(SYNCHRONOUS.values(), []))
@pytest.mark.parametrize('optim', ['sgd', 'sgd:momentum=0.9,nesterov=yes,decay=1e-4'])
def test_every_exchange(tmp_path, alone, exchange, optim):
    """Those whose steps depend on quotients of sums (adam) are in test_exact.py: there a rounding
    of a sum near zero is as large as a step."""
    out = tmp_path / 'run'
    options = ['--exchange', exchange, '--optim', optim, '--workers', 4]
    train(out, '--model', SMOOTH, '--batch', 64, *COMMON, *options)
    assert distance(weights(out), alone(64, '--optim', optim)) <= rounding(STEPS)
    assert end(out)['replicas'] == 1


@pytest.mark.parametrize('workers', [1, 4])
def test_second_run_repeats(tmp_path, workers):
    for run in 'ab':
        train(tmp_path / run, '--model', 'lenet', '--batch', 64, '--workers', workers, *COMMON)
    assert end(tmp_path / 'a')['params_hash'] == end(tmp_path / 'b')['params_hash']


@pytest.mark.parametrize('workers', [1, 3])
def test_accumulate_equals_whole(tmp_path, alone, workers):
    out = tmp_path / 'run'
    options = ['--batch', 64, '--workers', workers, '--accumulate', 3]
    train(out, '--model', SMOOTH, *options, *COMMON)
    assert distance(weights(out), alone(64)) <= rounding(STEPS)


def test_clip(tmp_path, alone):
    """A tight bound changes the run, and changes it alike for any number of workers. Every step of
    the clipped run moves the weights by at most 0.01 * 0.05, so it ends that far from the start;
    the other one's gradients are at least twice as long, and it is further away."""
    out, bound = tmp_path / 'run', ('--clip', 0.05)
    train(out, '--model', SMOOTH, '--batch', 64, '--workers', 3, *bound, *COMMON)
    clipped, free = weights(out), alone(64)
    assert distance(clipped, alone(64, *bound)) <= rounding(STEPS)
    train(tmp_path / 'start', '--model', SMOOTH, '--batch', 64, *COMMON, '--lr', 1e-30)
    begun = weights(tmp_path / 'start')
    most = STEPS * 0.01 * 0.05 / (begun**2).sum() ** 0.5
    assert distance(clipped, begun) <= most + rounding(STEPS) < distance(free, begun)


def test_seed_matters(tmp_path):
    for seed in (1, 2):
        train(tmp_path / str(seed), '--model', SMOOTH, '--batch', 64, '--seed', seed, *COMMON)
    assert end(tmp_path / '1')['params_hash'] != end(tmp_path / '2')['params_hash']


@pytest.mark.parametrize('model', ['lstm-small:width=64', 'gpt:width=32,depth=2'])
def test_sequences(tmp_path, model):
    """text is cut into streams, and a worker has whole ones"""
    for workers in (1, 4):
        options = f'--model {model} --data {TEXT} --batch 16 --steps 20 --lr 0.01 --eval-every 0'
        options += f' --threads 1 --workers {workers}'
        train(tmp_path / str(workers), *options.split())
    assert end(tmp_path / '4')['replicas'] == 1
    assert distance(weights(tmp_path / '4'), weights(tmp_path / '1')) <= rounding(20)
