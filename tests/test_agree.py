"""Ranks that do not run the same thing are told so, each of them, by the option's name, or by what
they have read."""
import gzip, re, subprocess
import pytest
from help_data import KINDS, LINE, TEXT, make, model, table
from help_data import TINY as TINY_NET
from weirlib import SMALL, WEIR, environment, port, start

TINY = ['--model', 'mlp:hidden=16', '--data', SMALL, '--steps', 3, '--threads', 1]


def test_ranks_with_different_settings():
    """started one by one, with a slip on one of them: every rank names it"""
    env = environment()
    at = str(port())
    command = lambda r: [
        WEIR,
        'train',
        *map(str, TINY),
        '--quiet',
        *(['--lr', '0.5'] if r == 1 else []),
    ]
    ps = [
        subprocess.Popen(
            command(r),
            stderr=subprocess.PIPE,
            text=True,
            env=dict(
                env,
                RANK=str(r),
                WORLD_SIZE='3',
                LOCAL_RANK=str(r),
                LOCAL_WORLD_SIZE='3',
                MASTER_ADDR='127.0.0.1',
                MASTER_PORT=at,
            ),
        )
        for r in range(3)
    ]
    said = [p.communicate()[1] for p in ps]
    assert 16 in [p.returncode for p in ps] and {p.returncode for p in ps} <= {10, 16}
    for line in said:
        assert "--lr is '0.01' on rank 0 and '0.5' on rank 1" in line


# ---- contents ----


def ranks(specs, models):
    """starts a rank by hand with each spec; gives their exit codes and what they said"""
    where = f'127.0.0.1:{port()}'
    all = []
    for r in range(len(specs)):
        all.append(
            start(
                *('train', '--rank', r, '--size', len(specs), '--rendezvous', where, '--quiet'),
                *('--model', models[r], '--data', specs[r], '--batch', 4, '--steps', 2),
                *('--threads', 1, '--timeout', 20),
            )
        )
    try:
        said = [p.communicate(timeout=60) for p in all]
    finally:
        for p in all:
            p.kill()
    return [p.returncode for p in all], [err for _, err in said]


CHANGES = [
    # which byte, and what it may become: another pixel, another class or token that there is
    ('idx', 'train-images-idx', -1, range(256), 'training part'),
    ('idx', 'train-labels-idx', -1, range(4), 'training part'),
    ('idx', 'test-labels-idx', 8, range(4), 'test part'),
    ('frames', 'train-frames-idx', -1, range(256), 'training part'),
    ('frames', 'test-frame-labels-idx', -1, range(3), 'test part'),
    ('cifar10', 'data_batch_1.bin', 1, range(256), 'training part'),
    ('cifar10', 'test_batch.bin', 0, range(10), 'test part'),
    ('tokens', 'train_0.bin', 0, range(30), 'training part'),
    ('tokens', 'val.bin', 2, range(30), 'test part'),
]


def change(path, at, values):
    """one byte of a file"""
    b = bytearray(path.read_bytes())
    b[at] = next(x for x in values if x != b[at])
    path.write_bytes(bytes(b))


@pytest.mark.mended
@pytest.mark.parametrize('kind,name,at,values,part', CHANGES)
def test_one_changed_value_is_found(tmp_path, kind, name, at, values, part):
    dirs = [make(kind, tmp_path / 'a'), make(kind, tmp_path / 'b')]
    net = model(tmp_path, KINDS[kind][1])
    change(dirs[1] / name, at, values)
    codes, said = ranks([f'{kind}:{d}{KINDS[kind][2]}' for d in dirs], [net, net])
    assert codes == [16, 16], said
    for err in said:
        assert f'the {part} of rank 0 and that of rank 1 differ in content' in err


@pytest.mark.mended
def test_one_changed_target_is_found(tmp_path):
    """of a table, row by row until one of each part was met"""
    at = tmp_path / 'other'
    at.mkdir()
    mine, net, met = table(tmp_path / 't.csv'), model(tmp_path, LINE), set()
    for line in range(1, 41):
        rows = mine.read_text().splitlines()
        rows[line] = rows[line][:-1] + ('1' if rows[line][-1] != '1' else '2')
        (at / 't.csv').write_text('\n'.join(rows) + '\n')
        codes, said = ranks([f'csv:{p}/t.csv,test=0.5' for p in (tmp_path, at)], [net, net])
        assert codes == [16, 16], said
        met |= {p for p in ('training part', 'test part') if f'the {p} of rank 0' in said[0]}
        if len(met) == 2:
            return
    assert False, met


@pytest.mark.mended
def test_a_renamed_word_is_found(tmp_path):
    """all numbers stay, the word behind one of them is another"""
    dirs = [make('text', tmp_path / 'a'), make('text', tmp_path / 'b')]
    for name in ('train.txt', 'test.txt'):
        text = (dirs[1] / name).read_text()
        (dirs[1] / name).write_text(re.sub(r'\bw7\b', 'x7', text))
    net = model(tmp_path, TEXT)
    codes, said = ranks([f'text:{d},length=5' for d in dirs], [net, net])
    assert codes == [16, 16], said
    assert 'the training part of rank 0 and that of rank 1 differ' in said[0]


@pytest.mark.mended
def test_a_model_file_that_differs_is_found(tmp_path):
    """three ranks: who stands alone is named"""
    nets = [model(tmp_path, TINY_NET)] * 3
    (tmp_path / 'b').mkdir()
    nets[1] = model(tmp_path / 'b', TINY_NET.replace('relu', 'tanh'))
    data = f'idx:{make("idx", tmp_path / "a")}'
    codes, said = ranks([data] * 3, nets)
    assert codes == [16] * 3, said
    for err in said:
        assert 'the model file of rank 1 differs in content from that of the other ranks' in err


@pytest.mark.parametrize('kind', [*KINDS, 'csv'])
def test_equal_data_elsewhere_agree(tmp_path, kind):
    """in another directory, packed, and cut in other places"""
    paths = [make(kind, tmp_path / 'a'), make(kind, tmp_path / 'b')]
    for f in [*paths[1].glob('*')]:
        (f.parent / f'{f.name}.gz').write_bytes(gzip.compress(f.read_bytes()))
        f.unlink()
    if kind in ('cifar10', 'tokens'):
        names = {'cifar10': 'data_batch_{}.bin', 'tokens': 'train_{}.bin'}[kind]
        first = {'cifar10': 1, 'tokens': 0}[kind]
        whole = b''.join((paths[0] / names.format(first + i)).read_bytes() for i in range(2))
        (paths[0] / names.format(first)).write_bytes(whole)
        (paths[0] / names.format(first + 1)).unlink()
    options = KINDS[kind][2] if kind in KINDS else ''
    net = model(tmp_path, KINDS[kind][1] if kind in KINDS else LINE)
    codes, said = ranks([f'{kind}:{p}{options}' for p in paths], [net, net])
    assert codes == [0, 0], said
