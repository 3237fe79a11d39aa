"""Progress is samples: epochs, rates, evaluations and the end of a run go by the samples done, so
that a run may go on with another batch, with more rows, or for longer."""
import os, re, shutil
import pytest
from weirlib import end, events, train, weir

DATA = 'synth:shape=1x8x8,classes=4,count=%d,test=40'
MODEL = ['--model', 'mlp:hidden=16', '--optim', 'sgd:momentum=0.9', '--threads', 1]


def stopped(out, at, *args):
    """a run with a checkpoint at step `at`, cut back to it: as if it had been stopped there"""
    train(out, '--save-every', at, '--keep', 1000, *MODEL, *args)
    for d in os.listdir(out):
        if d.startswith('step-') and int(d[5:]) > at:
            shutil.rmtree(out / d)
    os.remove(out / 'latest')
    os.symlink(f'step-{at}', out / 'latest')
    os.remove(out / 'log.jsonl')
    return out


def resume(out, *args, **kw):
    """gives (the steps, the end, what was said on stderr)"""
    err = weir('train', '--resume', out, '--quiet', *args, **kw)[1]
    return events(out, 'step'), end(out), err


@pytest.mark.mended
@pytest.mark.parametrize('workers', [1, 3])
def test_another_batch_in_the_middle_of_an_epoch(tmp_path, workers):
    """1000 samples, 512 of the second epoch used: the other 488 come, in steps of 100"""
    out = stopped(tmp_path / 'run', 24, '--data', DATA % 1000, '--batch', 64, '--epochs', 3)
    steps, e, _ = resume(out, '--batch', 100, '--workers', workers)
    assert [s['samples'] for s in steps] == [100] * 4 + [88] + [100] * 10
    assert e['samples'] == 3000 and e['steps'] == 24 + 15
    # the epoch that was begun ends with its last sample, and is evaluated there
    assert [(x['step'], x['epoch']) for x in events(out, 'eval')] == [(29, 2.0), (39, 3.0)]
    assert steps[4]['epoch'] == 2.0 and steps[-1]['epoch'] == 3.0


@pytest.mark.mended
def test_another_batch_after_the_end(tmp_path):
    """32 steps of 64 are 2 epochs, whatever --batch is later"""
    out = tmp_path / 'run'
    train(out, *MODEL, '--data', DATA % 1000, '--batch', 64, '--epochs', 2)
    steps, e, _ = resume(out, '--batch', 500, '--epochs', 4)
    assert [s['samples'] for s in steps[32:]] == [500] * 4 and e['samples'] == 4000
    assert os.readlink(out / 'latest') == 'step-36'


@pytest.mark.mended
@pytest.mark.parametrize('at,trained', [(32, 3000), (24, 488 + 3000)])
def test_more_rows(tmp_path, at, trained):
    """two epochs of 1000, or half of the second, then as many as are left of 3000"""
    out = stopped(tmp_path / 'run', at, '--data', DATA % 1000, '--batch', 64, '--epochs', 2)
    steps, e, err = resume(out, '--data', DATA % 3000, '--epochs', 3)
    assert sum(s['samples'] for s in steps) == trained
    assert steps[-1]['epoch'] == 3 and '3000 training samples, and had 1000' in err


@pytest.mark.mended
def test_fewer_rows(tmp_path):
    out = stopped(tmp_path / 'run', 24, '--data', DATA % 1000, '--batch', 64, '--epochs', 2)
    steps, e, err = resume(out, '--data', DATA % 600)
    assert sum(s['samples'] for s in steps) == 600 and 'begins anew' in err


@pytest.mark.mended
def test_text_in_another_number_of_streams(tmp_path):
    text = tmp_path / 'text'
    text.mkdir()
    for part, n in (('train', 4000), ('test', 400), ('valid', 400)):
        (text / f'{part}.txt').write_text(''.join('abcdefgh'[i * i % 7] for i in range(n)))
    common = ['--data', f'text:{text},unit=char,length=10', '--lr', '0.1']
    model = ['--model', 'lstm:width=8,depth=1']
    out = tmp_path / 'run'
    train(out, *model, *common, '--batch', 10, '--epochs', 4, '--save-every', 60, '--keep', 9)
    per_epoch = end(out)['steps'] // 4
    os.remove(out / 'latest')
    for d in os.listdir(out):
        if d.startswith('step-') and d != 'step-60':
            shutil.rmtree(out / d)
    os.remove(out / 'log.jsonl')
    steps, e, err = resume(out, '--batch', 20)
    # 60 of 39 an epoch are one and a half: with half as many steps an epoch, half of them are left
    assert 60 // per_epoch == 1 and 'streams' in err
    assert steps[-1]['epoch'] == 4 and all(s['samples'] == 20 for s in steps)
    left = 4 - 60 / per_epoch
    assert left <= len(steps) / (per_epoch // 2) <= left + 1 / (per_epoch // 2)


@pytest.mark.mended
@pytest.mark.parametrize('long', [['--epochs', 2], ['--steps', 20]])
def test_a_finished_run_says_so(tmp_path, long):
    out = tmp_path / 'run'
    train(out, *MODEL, '--data', DATA % 1000, *long)
    before = end(out)
    steps, e, err = resume(out)
    assert len(steps) == before['steps'] == e['steps']
    assert e['params_hash'] == before['params_hash'] and e['samples'] == before['samples']
    assert re.search(rf'finished.*{long[0]} is {long[1]}.*more {long[0]}', err), err
    assert 'finished' in events(out, 'warning')[-1]['what']


@pytest.mark.mended
def test_a_schedule_that_jumps_says_so(tmp_path):
    out = tmp_path / 'run'
    args = ['--data', DATA % 1000, '--batch', 100, '--lr', 'cosine:rate=0.2']
    train(out, *MODEL, *args, '--epochs', 2)
    steps, e, err = resume(out, '--epochs', 4)
    assert err.count('warning') == 1
    old, new = map(float, re.search(r'rate jumps from (\S+) to (\S+) here', err).groups())
    assert old == 0 and new == pytest.approx(0.1) and steps[20]['lr'] == pytest.approx(0.1)
    assert '4 epochs' in err and '2 epochs' in err


def test_a_schedule_that_goes_on_says_nothing(tmp_path):
    """a rate that was asked for, a constant one, and one that another batch only rounds"""
    args = ['--data', DATA % 1000, '--batch', 64]
    for k, (lr, more) in enumerate(
        [
            ('cosine:rate=0.2', ['--lr', '0.01', '--epochs', 5]),
            ('0.05', ['--epochs', 7, '--batch', 100]),
            ('cosine:rate=0.2,warmup=1e', ['--batch', 100]),
            ('linear:rate=0.2', ['--batch', 30]),
            ('step:rate=0.2,every=2e', ['--epochs', 5]),
        ]
    ):
        out = stopped(tmp_path / f'run{k}', 24, *args, '--lr', lr, '--epochs', 3)
        assert resume(out, *more)[2] == ''


def test_steps_count_updates(tmp_path):
    """--steps, and what is given in steps, go on counting updates with another batch"""
    args = ['--data', DATA % 1000, '--batch', 64, '--lr', 'linear:rate=1e-3', '--steps', 40]
    out = stopped(tmp_path / 'run', 30, *args)
    steps, e, err = resume(out, '--batch', 100, '--eval-every', 7)
    assert e['steps'] == 40 and len(steps) == 10 and err == ''
    assert [x['step'] for x in events(out, 'eval')] == [35, 40]
    assert [s['lr'] for s in steps] == pytest.approx([1e-3 * (1 - k / 40) for k in range(30, 40)])
