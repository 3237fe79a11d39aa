"""--exact yes: any number of workers gives the same numbers, where sums in float would part by a
tipped relu gate sooner or later."""
import pytest
from weirlib import SMALL, distance, end, train, weights, weir

COLOURS = 'synth:shape=3x32x32,classes=10,count=640,test=64'
TEXT = 'synth:tokens=50,length=12,count=640,test=64'
ROWS = 'flatten\ndense out=40 bias=no\nbatchnorm sync=yes\nrelu\ndense out=30\nbatchnorm sync=yes\nrelu\ndense out=classes\nsoftmax\n'
GROUPS = 'conv out=12 kernel=3 pad=1\nrelu\nmaxpool kernel=3 stride=2\nconv out=24 kernel=2 groups=3 bias=no\nrelu\navgpool kernel=2\nflatten\ndropout rate=0.3\ndense out=classes\nsoftmax\n'


def run(out, model, data, workers, *more):
    train(
        out,
        '--model',
        model,
        '--data',
        data,
        '--workers',
        workers,
        '--exact',
        'yes',
        '--eval-every',
        0,
        *more
    )
    assert end(out)['replicas'] == 1
    return weights(out)


def same_for(tmp_path, workers, model, data, *more):
    """all of these numbers of workers against one"""
    one = run(tmp_path / '1', model, data, 1, *more)
    for p in workers:
        assert distance(run(tmp_path / str(p), model, data, p, *more), one) <= 1e-5
    return one


@pytest.mark.parametrize('seed', [1, 2, 3])
def test_resnet(tmp_path, seed):
    same_for(
        tmp_path,
        [3, 4],
        'resnet20:sync=1,width=4,blocks=2',
        COLOURS,
        '--batch',
        32,
        '--steps',
        20,
        '--lr',
        0.01,
        '--threads',
        1,
        '--seed',
        seed,
    )


def test_whole_resnet_on_three(tmp_path):
    """full width; four workers are in test_equal.py"""
    same_for(
        tmp_path,
        [3],
        'resnet20:sync=1',
        COLOURS,
        '--batch',
        64,
        '--steps',
        20,
        '--lr',
        0.01,
        '--threads',
        1,
        '--seed',
        2,
    )


def test_lenet_with_momentum(tmp_path):
    same_for(
        tmp_path,
        [2, 3, 7],
        'lenet',
        SMALL,
        '--batch',
        64,
        '--steps',
        50,
        '--optim',
        'sgd:momentum=0.9',
        '--lr',
        0.05,
        '--threads',
        1,
    )


def test_mlp(tmp_path):
    same_for(
        tmp_path,
        [4],
        'mlp:hidden=256',
        SMALL,
        '--batch',
        64,
        '--steps',
        50,
        '--optim',
        'sgd:momentum=0.9',
        '--lr',
        0.05,
        '--threads',
        1,
    )


def test_gpt(tmp_path):
    same_for(
        tmp_path,
        [3],
        'gpt:width=32,depth=2',
        TEXT,
        '--batch',
        16,
        '--steps',
        40,
        '--optim',
        'adam',
        '--lr',
        0.01,
        '--threads',
        1,
    )


@pytest.mark.parametrize(
    'text', [ROWS, GROUPS], ids=['batchnorm of rows', 'groups, pools, dropout']
)
def test_other_layers(tmp_path, text):
    """more workers than samples in an epoch's last step"""
    (tmp_path / 'm.net').write_text(text)
    same_for(
        tmp_path,
        [2, 5],
        tmp_path / 'm.net',
        'synth:shape=3x8x8,classes=10,count=203,test=20',
        '--batch',
        40,
        '--steps',
        40,
        '--lr',
        0.05,
        '--threads',
        1,
    )


@pytest.mark.sanitizer
def test_threads_and_micro_batches(tmp_path):
    """however a step is cut"""
    common = ['--batch', 30, '--steps', 20, '--optim', 'sgd:momentum=0.9', '--lr', 0.05]
    one = run(tmp_path / 'one', 'lenet', SMALL, 1, '--threads', 1, *common)
    assert (
        distance(run(tmp_path / 'threads', 'lenet', SMALL, 1, '--threads', 2, *common), one) <= 1e-5
    )
    assert (
        distance(
            run(tmp_path / 'micro', 'lenet', SMALL, 2, '--threads', 1, '--accumulate', 4, *common),
            one,
        )
        <= 1e-5
    )


def test_it_costs_twice_the_bytes_and_is_kept(tmp_path):
    out = tmp_path / 'run'
    run(out, 'lenet', SMALL, 2, '--batch', 64, '--steps', 6, '--save-every', 3)
    e = end(out)
    assert 1.98 * e['dense_bytes'] < e['sent_bytes'] < 2.1 * e['dense_bytes']
    assert 'exact yes' in (out / 'config').read_text().splitlines()
    train(out, '--resume', out, '--steps', 9)
    whole = run(tmp_path / 'whole', 'lenet', SMALL, 1, '--batch', 64, '--steps', 9)
    assert distance(weights(out), whole) <= 1e-5


def test_off_by_default(tmp_path):
    for name, more in (('a', []), ('b', ['--exact', 'no']), ('c', ['--exact', 'yes'])):
        train(
            tmp_path / name,
            '--model',
            'lenet',
            '--data',
            SMALL,
            '--batch',
            64,
            '--steps',
            5,
            '--threads',
            1,
            *more
        )
    a, b, c = (end(tmp_path / n)['params_hash'] for n in 'abc')
    assert a == b != c
    assert distance(weights(tmp_path / 'c'), weights(tmp_path / 'a')) <= 1e-5


@pytest.mark.parametrize(
    'model,data,workers,layer',
    [('lstm-small:width=8', TEXT, 1, 'lstm'), ('resnet20:width=2', COLOURS, 2, 'stem.norm')],
)
def test_refused(tmp_path, model, data, workers, layer):
    said = train(
        tmp_path / 'run',
        '--model',
        model,
        '--data',
        data,
        '--workers',
        workers,
        '--batch',
        16,
        '--steps',
        2,
        '--exact',
        'yes',
        code=16,
    )[1]
    assert layer in said and 'exact' in said


def test_bench_takes_it():
    said = weir(
        'bench',
        'compute',
        '--model',
        'lenet',
        '--batch',
        8,
        '--steps',
        2,
        '--exact',
        'yes',
        '--json',
    )[0]
    assert '"step_ms"' in said
