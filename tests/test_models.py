"""Whole models beyond lenet: stopped and resumed, and shared by workers."""
import os, shutil
import pytest
from weirlib import distance, end, train, weights

TEXT = 'synth:tokens=50,length=12,count=640,test=64'
COLOURS = 'synth:shape=3x32x32,classes=10,count=640,test=64'
DROPPING = 'flatten\ndense out=64\nrelu\ndropout rate=0.3\ndense out=classes\nsoftmax\n'


def resumed_equals_whole(tmp_path, *options):
    """a run of 70 steps, and one that is cut back to its checkpoint at step 57 and resumed"""
    common = ['--batch', 16, '--steps', 70, '--threads', 1, '--eval-every', 0, *options]
    train(tmp_path / 'whole', *common)
    out = tmp_path / 'cut'
    train(out, '--save-every', 57, *common)
    shutil.rmtree(out / 'step-70')
    os.remove(out / 'latest')
    os.symlink('step-57', out / 'latest')
    train(out, '--resume', out)
    assert end(out)['steps'] == 70
    assert end(out)['params_hash'] == end(tmp_path / 'whole')['params_hash']


@pytest.mark.parametrize('workers', [1, 3])
@pytest.mark.parametrize(
    'optim', ['sgd:momentum=0.9,nesterov=yes,decay=1e-3', 'adagrad', 'adam', 'adamw']
)
def test_resume_with_dropout(tmp_path, optim, workers):
    (tmp_path / 'd.net').write_text(DROPPING)
    resumed_equals_whole(
        tmp_path,
        '--model',
        tmp_path / 'd.net',
        '--data',
        COLOURS,
        '--optim',
        optim,
        '--lr',
        0.002,
        '--workers',
        workers,
    )


@pytest.mark.parametrize('workers', [1, 3])
def test_resume_with_carried_state(tmp_path, workers):
    resumed_equals_whole(
        tmp_path,
        '--model',
        'lstm-small:width=24',
        '--data',
        TEXT,
        '--lr',
        0.5,
        '--clip',
        1,
        '--workers',
        workers,
    )


def test_resume_with_running_statistics(tmp_path):
    resumed_equals_whole(
        tmp_path, '--model', 'resnet20:width=4', '--data', COLOURS, '--lr', 0.05, '--workers', 2
    )


@pytest.mark.parametrize(
    'model,data,batch,exact',
    [
        ('resnet20:sync=1', COLOURS, 64, 'yes'),
        ('lstm-small:width=64', TEXT, 16, 'no'),
        ('gpt:width=32,depth=2', TEXT, 16, 'no'),
    ],
)
def test_four_workers_equal_one(tmp_path, model, data, batch, exact):
    for workers in (1, 4):
        train(
            tmp_path / str(workers),
            '--model',
            model,
            '--data',
            data,
            '--batch',
            batch,
            '--steps',
            20,
            '--lr',
            0.01,
            '--threads',
            1,
            '--eval-every',
            0,
            '--workers',
            workers,
            '--exact',
            exact,
        )
    assert end(tmp_path / '4')['replicas'] == 1
    assert distance(weights(tmp_path / '4'), weights(tmp_path / '1')) <= 1e-5


def test_value_metric(tmp_path):
    """regression by csv: rmse in the target's own unit"""
    rows = '\n'.join(f'{i % 17},{i % 5},{3 * (i % 17) - 2 * (i % 5) + 100}' for i in range(600))
    (tmp_path / 't.csv').write_text('a,b,y\n' + rows + '\n')
    (tmp_path / 'm.net').write_text('dense out=32\ntanh\ndense out=classes\nmse\n')
    train(
        tmp_path / 'r',
        '--model',
        tmp_path / 'm.net',
        '--data',
        f'csv:{tmp_path}/t.csv',
        '--batch',
        32,
        '--epochs',
        40,
        '--optim',
        'adam',
        '--lr',
        0.01,
        '--threads',
        1,
    )
    e = end(tmp_path / 'r')
    assert e['metric'] == 'rmse' and 0 < e['value'] < 3
