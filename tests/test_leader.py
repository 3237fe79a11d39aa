"""One rank keeps log, config and checkpoints. Which one it is changes no number."""
import os, shutil
import pytest
from weirlib import SMALL, end, events, fails, port, start, tensors, train, weir

COMMON = ['--model', 'mlp:hidden=32', '--batch', 48, '--threads', 1, '--optim', 'sgd:momentum=0.9']
COMMON += ['--lr', 0.02, '--steps', 24, '--save-every', 11, '--eval-every', 11]
# what is held back, also as the owner of a stripe; thresholds; drifting replicas; carried state
SETTINGS = {
    'dense': ['--data', SMALL],
    'strom': ['--data', SMALL, '--codec', 'strom:warmup=0'],
    'onebit': ['--data', SMALL, '--codec', 'onebit:warmup=0'],
    'redsync': ['--data', SMALL, '--codec', 'redsync:warmup=0,ramp=0'],
    'powersgd': ['--data', SMALL, '--codec', 'powersgd:warmup=0'],
    'hier': [
        '--data',
        SMALL,
        '--codec',
        'strom:warmup=0',
        '--exchange',
        'allreduce:hier=yes,each=2',
    ],
    'peers': ['--data', SMALL, '--codec', 'strom:warmup=0', '--exchange', 'peers:bound=0'],
}
WORLDS = {'sim': ['--net', 'sim', '--workers', 3], 'zmq': ['--workers', 3]}


def same_files(a, b):
    """the newest checkpoints of two runs hold the same fields, bit for bit"""
    for part in ('model.safetensors', 'state.safetensors'):
        x, y = tensors(f'{a}/latest/{part}'), tensors(f'{b}/latest/{part}')
        assert list(x) == list(y)
        for name in x:
            assert x[name].tobytes() == y[name].tobytes(), name


@pytest.mark.parametrize('world', WORLDS)
@pytest.mark.parametrize('setting', SETTINGS)
def test_whoever_leads(tmp_path, world, setting):
    args = [*COMMON, *SETTINGS[setting], *WORLDS[world]]
    first, other = tmp_path / 'first', tmp_path / 'other'
    train(first, *args)
    train(other, *args, '--leader', 2)
    assert end(other)['params_hash'] == end(first)['params_hash']
    same_files(first, other)
    for kind in ('step', 'eval', 'checkpoint'):
        assert len(events(other, kind)) == len(events(first, kind))
    assert [e['loss'] for e in events(other, 'step')] == [e['loss'] for e in events(first, 'step')]
    with open(first / 'config') as a, open(other / 'config') as b:
        assert a.read() == b.read()
    # both are cut back to step 11 and go on, under another leader
    for out, leader in ((first, 1), (other, 0)):
        shutil.rmtree(out / 'step-22')
        shutil.rmtree(out / 'step-24')
        os.remove(out / 'latest')
        os.symlink('step-11', out / 'latest')
        weir('train', '--resume', out, '--quiet', '--leader', leader, *WORLDS[world])
        assert events(out, 'start')[-1]['step'] == 11
    assert (
        end(other)['params_hash']
        == end(first)['params_hash']
        == events(first, 'end')[0]['params_hash']
    )
    same_files(first, other)


def test_where_the_disk_is(tmp_path):
    """ranks started apart: the leader alone is told where to keep things"""
    whole, out, at = tmp_path / 'whole', tmp_path / 'out', f'127.0.0.1:{port()}'
    args = [*COMMON, *SETTINGS['strom'], '--quiet']
    train(whole, *args, '--workers', 2)
    by_hand = [*args, '--leader', 1, '--size', 2, '--rendezvous', at]
    ranks = [start('train', *by_hand, '--rank', r, *o) for r, o in ((0, []), (1, ['--out', out]))]
    for p in ranks:
        _, said = p.communicate(timeout=120)
        assert p.returncode == 0, said
    assert end(out)['params_hash'] == end(whole)['params_hash']
    same_files(whole, out)


def test_the_leader_speaks_as_it_is(tmp_path):
    said, _ = weir('train', *COMMON, *SETTINGS['dense'], '--workers', 3, '--leader', 1)
    assert said.startswith('weir ') and '\ndone: ' in said and '[1]' not in said


def test_who_cannot_lead(tmp_path):
    args = ['train', *COMMON, *SETTINGS['dense'], '--out', tmp_path / 'out']
    for world in WORLDS.values():
        fails(2, *args, *world, '--leader', 3, says=['rank 3 cannot lead a run of 3'])
    fails(2, *args, '--leader', -1, says=['leader=-1'])
    assert not (tmp_path / 'out').exists()
