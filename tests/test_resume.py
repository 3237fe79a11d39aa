"""Stop and go on: the same as never stopping."""
import os, shutil, signal, time
import pytest
from weirlib import SMALL, children, distance, end, events, start, train, wait_for, weights, weir

COMMON = [
    '--model',
    'lenet',
    '--data',
    SMALL,
    '--batch',
    64,
    '--optim',
    'sgd:momentum=0.9,nesterov=yes,decay=1e-4',
    '--threads',
    1,
    '--lr',
    'cosine:rate=0.02,warmup=10',
]


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
    assert distance(weights(out), weights(never_stopped(before))) <= 1e-5


def test_nothing_left_to_do(tmp_path, never_stopped):
    out = tmp_path / 'run'
    shutil.copytree(never_stopped(1), out, symlinks=True)
    said = weir('train', '--resume', out, '--out', out)[0]
    assert 'train loss' not in said and 'test loss' in said
    assert (
        end(out)['loss'] is None and end(out)['params_hash'] == end(never_stopped(1))['params_hash']
    )


@pytest.mark.sanitizer
@pytest.mark.parametrize('workers', [1, 3])
@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT])
def test_signal_checkpoints_and_leaves(tmp_path, never_stopped, workers, number):
    out = tmp_path / 'run'
    p = start('train', '--out', out, '--quiet', '--steps', 1000000, '--workers', workers, *COMMON)
    wait_for(lambda: os.path.exists(out / 'log.jsonl') and len(events(out, 'step')) > 3)
    p.send_signal(number)
    _, err = p.communicate(timeout=30)
    assert p.returncode == 128 + number, err
    assert 'error' not in err
    e = end(out)
    assert e['exit'] == 128 + number
    assert os.readlink(out / 'latest') == f'step-{e["steps"]}'


def test_second_signal_leaves_now(tmp_path):
    out = tmp_path / 'run'
    p = start('train', '--out', out, '--quiet', '--steps', 1000000, '--workers', 2, *COMMON)
    wait_for(lambda: os.path.exists(out / 'log.jsonl') and len(events(out, 'step')) > 3)
    os.kill(
        wait_for(lambda: len(children(p.pid)) == 2 and children(p.pid))[1], signal.SIGSTOP
    )  # nobody can finish the step
    p.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    assert p.poll() is None
    p.send_signal(signal.SIGTERM)
    p.communicate(timeout=10)
    assert p.returncode != 0 and not events(out, 'end')


def test_one_rank_told_to_stop_stops_all(tmp_path):
    out = tmp_path / 'run'
    p = start('train', '--out', out, '--quiet', '--steps', 1000000, '--workers', 3, *COMMON)
    wait_for(lambda: os.path.exists(out / 'log.jsonl') and len(events(out, 'step')) > 3)
    ranks = children(p.pid)
    os.kill(ranks[2], signal.SIGTERM)
    os.kill(ranks[1], signal.SIGINT)
    _, err = p.communicate(timeout=20)
    assert p.returncode in (128 + signal.SIGTERM, 128 + signal.SIGINT) and not err, err
    assert os.readlink(out / 'latest') == f'step-{end(out)["steps"]}'


def test_nohup(tmp_path):
    """a signal that was ignored when we started stays ignored"""
    out = tmp_path / 'run'
    p = start(
        'train',
        '--out',
        out,
        '--quiet',
        '--steps',
        1000000,
        '--workers',
        2,
        *COMMON,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    wait_for(lambda: os.path.exists(out / 'log.jsonl') and len(events(out, 'step')) > 3)
    for pid in [p.pid, *children(p.pid)]:
        os.kill(pid, signal.SIGHUP)
    before = len(events(out, 'step'))
    wait_for(lambda: len(events(out, 'step')) > before + 20)
    p.terminate()
    p.communicate(timeout=10)
    assert p.returncode == 128 + signal.SIGTERM


def test_keep(tmp_path):
    out = tmp_path / 'run'
    train(out, '--steps', 50, '--save-every', 7, '--keep', 2, *COMMON)
    assert sorted(d for d in os.listdir(out) if d.startswith('step-')) == ['step-49', 'step-50']
    assert os.readlink(out / 'latest') == 'step-50'
    assert [e['step'] for e in events(out, 'checkpoint')] == [7, 14, 21, 28, 35, 42, 49, 50]
