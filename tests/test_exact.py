"""--exact yes: any number of workers, threads and micro-batches gives the same floats, all of them.

A step's gradient is summed in double and rounded to float once. Two orders of adding differ by some
2^-53 of the terms; they round to two floats once in some 2^29 times, and what is left of that when
the rate has scaled it is seldom a weight's last bit. So none of some 10^7 roundings here shows, and
what is counted is differing floats, of which there must be none. Sums in float differ in most of
them, which the same comparison shows below: it can fail."""
import numpy as np
import pytest
from weirlib import SMALL, distance, end, floats, listed, train, weights, weir

COLOURS = 'synth:shape=3x32x32,classes=10,count=640,test=64'
TEXT = 'synth:tokens=50,length=12,count=640,test=64'
ROWS = (
    'flatten\ndense out=40 bias=no\nbatchnorm sync=yes\nrelu\ndense out=30\nbatchnorm sync=yes\n'
    'relu\ndense out=classes\nsoftmax\n'
)
GROUPS = (
    'conv out=12 kernel=3 pad=1\nrelu\nmaxpool kernel=3 stride=2\n'
    'conv out=24 kernel=2 groups=3 bias=no\nrelu\navgpool kernel=2\nflatten\ndropout rate=0.3\n'
    'dense out=classes\nsoftmax\n'
)

# model, data and options
LENET = 'lenet', SMALL, '--batch 64 --steps 50 --optim sgd:momentum=0.9 --lr 0.05 --threads 1'
MLP = ('mlp:hidden=256',) + LENET[1:]
GPT = 'gpt:width=32,depth=2', TEXT, '--batch 16 --steps 40 --optim adam --lr 0.01 --threads 1'
SHORT = '--batch 64 --steps 20 --lr 0.01 --threads 1'
RESNET = (
    'resnet20:sync=1,width=4,blocks=2',
    COLOURS,
    '--batch 32 --steps 20 --lr 0.01 --threads 1',
)


def run(out, workers, model, data, options, exact='yes'):
    train(
        out,
        *('--model', model, '--data', data, '--workers', workers, '--exact', exact),
        *('--eval-every', 0, *options.split()),
    )
    assert end(out)['replicas'] == 1
    return floats(out)


def differing(a, b):
    """how many floats have other bits"""
    return np.count_nonzero(a.view(np.uint32) != b.view(np.uint32))


def same_for(tmp_path, workers, setting):
    """all of these numbers of workers against one"""
    one = run(tmp_path / '1', 1, *setting)
    for p in workers:
        assert differing(run(tmp_path / str(p), p, *setting), one) == 0, p


@pytest.mark.parametrize('seed', [1, 2, 3])
def test_resnet(tmp_path, seed):
    model, data, options = RESNET
    same_for(tmp_path, [3, 4], (model, data, f'{options} --seed {seed}'))


def test_whole_resnet(tmp_path):
    """full width"""
    options = '--batch 64 --steps 10 --lr 0.01 --threads 1 --seed 2'
    same_for(tmp_path, [3, 4], ('resnet20:sync=1', COLOURS, options))


@pytest.mark.parametrize(
    'setting,workers', [(LENET, [2, 3, 7]), (MLP, [4]), (GPT, [3])], ids=['lenet', 'mlp', 'gpt']
)
def test_models(tmp_path, setting, workers):
    same_for(tmp_path, workers, setting)


@pytest.mark.parametrize(
    'setting', [LENET, MLP, GPT, RESNET], ids=['lenet', 'mlp', 'gpt', 'resnet']
)
def test_sums_in_float_differ(tmp_path, setting):
    """the comparison of all tests here, where it must fail"""
    one, three = (run(tmp_path / str(p), p, *setting, exact='no') for p in (1, 3))
    assert differing(three, one) > 0


@pytest.fixture(scope='module')
def alone(tmp_path_factory):
    """the floats of one worker, made once for each optimiser"""
    made = {}

    def get(optim):
        if optim not in made:
            out = tmp_path_factory.mktemp('alone') / 'run'
            made[optim] = run(out, 1, 'lenet', SMALL, f'{SHORT} --optim {optim}')
        return made[optim]

    return get


@pytest.mark.parametrize('optim', listed('optim'))
def test_every_optimiser(tmp_path, alone, optim):
    three = run(tmp_path / 'run', 3, 'lenet', SMALL, f'{SHORT} --optim {optim}')
    assert differing(three, alone(optim)) == 0


@pytest.mark.parametrize(
    'way',
    [f'--coll {c}' for c in listed('coll') if c != 'mpi']
    + ['--net sim:nodes=3', '--net sim:nodes=3,machine=2', '--exchange allreduce:hier=yes,each=2'],
)
def test_every_way_of_adding(tmp_path, alone, way):
    """collectives (MPI's own: test_mpi.py), worlds, machines first"""
    three = run(tmp_path / 'run', 3, 'lenet', SMALL, f'{SHORT} --optim sgd {way}')
    assert differing(three, alone('sgd')) == 0


@pytest.mark.parametrize(
    'text', [ROWS, GROUPS], ids=['batchnorm of rows', 'groups, pools, dropout']
)
def test_other_layers(tmp_path, text):
    """more workers than samples in an epoch's last step"""
    (tmp_path / 'm.net').write_text(text)
    data = 'synth:shape=3x8x8,classes=10,count=203,test=20'
    options = '--batch 40 --steps 40 --lr 0.05 --threads 1'
    same_for(tmp_path, [2, 5], (tmp_path / 'm.net', data, options))


@pytest.mark.sanitizer
def test_threads_and_micro_batches(tmp_path):
    """however a step is cut"""
    options = '--batch 30 --steps 20 --optim sgd:momentum=0.9 --lr 0.05'
    one = run(tmp_path / 'one', 1, 'lenet', SMALL, f'{options} --threads 1')
    threads = run(tmp_path / 'threads', 1, 'lenet', SMALL, f'{options} --threads 2')
    micro = run(tmp_path / 'micro', 2, 'lenet', SMALL, f'{options} --threads 1 --accumulate 4')
    assert differing(threads, one) == 0
    assert differing(micro, one) == 0


def test_it_costs_twice_the_bytes_and_is_kept(tmp_path):
    """8 bytes an element in place of 4, and so for the 16 notes of a step; nothing else"""
    out, options = tmp_path / 'run', '--batch 64 --steps 6 --save-every 3 --threads 1'
    run(out, 2, 'lenet', SMALL, options)
    e, params = end(out), 61706
    assert e['dense_bytes'] == 6 * 8 * params
    assert e['sent_bytes'] == 6 * 16 * (params + 16)
    assert 'exact yes' in (out / 'config').read_text().splitlines()
    train(out, '--resume', out, '--steps', 9)
    whole = run(tmp_path / 'whole', 1, 'lenet', SMALL, '--batch 64 --steps 9 --threads 1')
    assert differing(floats(out), whole) == 0


def test_off_by_default(tmp_path):
    for name, more in (('a', []), ('b', ['--exact', 'no']), ('c', ['--exact', 'yes'])):
        options = f'--model lenet --data {SMALL} --batch 64 --steps 5 --threads 1'
        train(tmp_path / name, *options.split(), *more)
    a, b, c = (end(tmp_path / n)['params_hash'] for n in 'abc')
    assert a == b != c
    assert distance(weights(tmp_path / 'c'), weights(tmp_path / 'a')) <= 1e-5


@pytest.mark.parametrize(
    'model,data,workers,layer',
    [('lstm-small:width=8', TEXT, 1, 'lstm'), ('resnet20:width=2', COLOURS, 2, 'stem.norm')],
)
def test_refused(tmp_path, model, data, workers, layer):
    options = f'--model {model} --data {data} --workers {workers} --batch 16 --steps 2 --exact yes'
    said = train(tmp_path / 'run', *options.split(), code=16)[1]
    assert layer in said and 'exact' in said


def test_bench_takes_it():
    said = weir(*'bench compute --model lenet --batch 8 --steps 2 --exact yes --json'.split())[0]
    assert '"step_ms"' in said
