"""Stop and go on: the same as never stopping."""
import os, shutil
import pytest
from weirlib import (
    SMALL,
    SMOOTH,
    children,
    distance,
    end,
    events,
    fails,
    rounding,
    start,
    train,
    wait_for,
    weights,
    weir,
)

OPTIONS = (
    f'--data {SMALL} --batch 64 --optim sgd:momentum=0.9,nesterov=yes,decay=1e-4 --threads 1'
    ' --lr cosine:rate=0.02,warmup=10'
)
COMMON = ['--model', SMOOTH, *OPTIONS.split()]


@pytest.fixture(scope='module')
def never_stopped(tmp_path_factory):
    made = {}

    def get(workers):
        if workers not in made:
            out = made[workers] = tmp_path_factory.mktemp('never') / 'run'
            train(out, '--steps', 100, '--workers', workers, *COMMON)
        return made[workers]

    return get


@pytest.fixture(scope='module')
def stopped_at_57(tmp_path_factory):
    """a run of 100 steps with a checkpoint at step 57, cut back to it: as if it had been stopped
    there"""
    made = {}

    def get(workers):
        if workers not in made:
            out = made[workers] = tmp_path_factory.mktemp('cut') / 'run'
            train(out, '--steps', 100, '--save-every', 57, '--workers', workers, *COMMON)
            shutil.rmtree(out / 'step-100')
            os.remove(out / 'latest')
            os.symlink('step-57', out / 'latest')
        return made[workers]

    return get


@pytest.mark.parametrize('before,after', [(1, 1), (4, 4), (4, 2), (1, 3)])
def test_resume_at_57(tmp_path, never_stopped, stopped_at_57, before, after):
    out = tmp_path / 'run'
    shutil.copytree(stopped_at_57(before), out, symlinks=True)
    train(out, '--resume', out, '--workers', after)
    assert end(out)['steps'] == 100
    assert [e['step'] for e in events(out, 'start')][-1] == 57
    if before == after:
        assert end(out)['params_hash'] == end(never_stopped(before))['params_hash']
    assert distance(weights(out), weights(never_stopped(before))) <= rounding(100)


def test_nothing_left_to_do(tmp_path, never_stopped):
    out = tmp_path / 'run'
    shutil.copytree(never_stopped(1), out, symlinks=True)
    said = weir('train', '--resume', out, '--out', out)[0]
    assert 'train loss' not in said and 'test loss' in said
    assert (
        end(out)['loss'] is None and end(out)['params_hash'] == end(never_stopped(1))['params_hash']
    )


def test_keep(tmp_path):
    out = tmp_path / 'run'
    train(out, '--steps', 50, '--save-every', 7, '--keep', 2, *COMMON)
    assert sorted(d for d in os.listdir(out) if d.startswith('step-')) == ['step-49', 'step-50']
    assert os.readlink(out / 'latest') == 'step-50'
    assert [e['step'] for e in events(out, 'checkpoint')] == [7, 14, 21, 28, 35, 42, 49, 50]


# ---- models and optimisers that keep something of their own ----

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


def test_resume_of_one_checkpoint(tmp_path):
    out, other = tmp_path / 'run', tmp_path / 'other'
    train(out, '--steps', 3, *COMMON)
    fails(2, 'train', '--resume', out / 'step-3', '--steps', 6, '--quiet', says=['--out', 'step-3'])
    train(other, '--resume', out / 'step-3', '--steps', 6)
    train(out, '--resume', out, '--steps', 6)
    assert end(other)['params_hash'] == end(out)['params_hash']
