"""Bad input: a clear line that names file, line or option, the right code, and nothing lost."""
import gzip, os, re, struct, subprocess
import numpy as np
import pytest
from weirlib import SMALL, events, fails, tensors, train, weir

TINY = ['--model', 'mlp:hidden=16', '--data', SMALL, '--steps', 3, '--threads', 1]


def idx(path, array, kind=None):
    kind = kind or {'uint8': 8, 'int32': 0xC, 'float32': 0xD}[str(array.dtype)]
    data = (
        struct.pack('>BBBB', 0, 0, kind, array.ndim)
        + struct.pack(f'>{array.ndim}I', *array.shape)
        + array.astype(array.dtype.newbyteorder('>')).tobytes()
    )
    with (gzip.open if str(path).endswith('.gz') else open)(path, 'wb') as f:
        f.write(data)
    return path


@pytest.fixture
def pictures(tmp_path):
    d = tmp_path / 'set'
    d.mkdir()
    rng = np.random.default_rng(1)
    for part, n in (('train', 60), ('t10k', 20)):
        idx(d / f'{part}-images-idx3-ubyte.gz', rng.integers(0, 256, (n, 28, 28), np.uint8))
        idx(d / f'{part}-labels-idx1-ubyte', (np.arange(n) % 10).astype(np.uint8))
    return d


def test_data_errors(tmp_path, pictures):
    run = [
        'train',
        '--model',
        'mlp:hidden=16',
        '--data',
        f'idx:{pictures}',
        '--steps',
        2,
        '--batch',
        8,
        '--quiet',
    ]
    weir(*run)
    images, labels = pictures / 'train-images-idx3-ubyte.gz', pictures / 'train-labels-idx1-ubyte'
    good = images.read_bytes()
    for bad in (good[: len(good) // 2], good[:3], b'', b'\x00' * 100, b'garbage'):
        images.write_bytes(bad)
        fails(17, *run, says=[str(images)])
        fails(17, *run, '--workers', 3, says=[str(images)])
    images.write_bytes(good)
    idx(labels, np.zeros(59, np.uint8))
    fails(17, *run, says=['59', '60'])
    idx(labels, np.zeros((60, 2), np.uint8))
    fails(17, *run, says=['labels'])
    idx(labels, np.full(60, -1, np.int32))
    fails(17, *run, says=['-1'])
    labels.unlink()
    fails(17, *run, says=['labels'])
    fails(17, *run[:3], '--data', 'idx:/no/such/dir', '--steps', 2, says=['/no/such/dir'])


def test_model_errors(tmp_path):
    net = tmp_path / 'm.net'
    run = ['train', '--model', net, '--data', SMALL, '--steps', 1, '--quiet']
    for text, says in (
        ('dense out=10\nsofmax\n', 'm.net:2:1'),
        ('dense out=ten\nsoftmax\n', 'm.net:1:'),
        ('conv out=3 kernel=99\n', 'm.net:1'),
        ('', 'm.net'),
        ('flatten\ndense out=11\nsoftmax\n', 'm.net'),
        ('flatten\ndense ot=10\nsoftmax\n', 'm.net:2:7'),
    ):
        net.write_text(text)
        fails(17, *run, says=[says])
    fails(2, 'train', '--model', 'nosuch', *run[3:], says=['nosuch', 'lenet'])


def test_text_errors(tmp_path):
    d = tmp_path / 't'
    d.mkdir()
    run = [
        'train',
        '--model',
        'lstm-small:width=8',
        '--data',
        f'text:{d},length=4',
        '--steps',
        2,
        '--batch',
        2,
        '--quiet',
        '--threads',
        1,
    ]
    (d / 'train.txt').write_text('the cat sat on the mat\n' * 40)
    (d / 'valid.txt').write_text('the mat sat\n' * 10)
    (d / 'test.txt').write_text(' \n')
    fails(16, *run, says=['test.txt', '1 tokens', '5'])
    (d / 'test.txt').write_text(' ')
    fails(17, *run, says=['test.txt', 'no text'])
    (d / 'test.txt').write_text('the cat sat\n' * 5)
    weir(*run)
    packed = gzip.compress((d / 'train.txt').read_bytes())
    (d / 'train.txt').unlink()
    (d / 'train.txt.gz').write_bytes(packed)
    weir(*run)
    (d / 'train.txt.gz').write_bytes(packed[: len(packed) // 2])
    fails(17, *run, says=['train.txt.gz'])
    fails(17, *run[:3], '--data', f'text:{tmp_path}/none', '--steps', 1, says=['none'])


def test_cifar_errors(tmp_path):
    run = [
        'train',
        '--model',
        'mlp:hidden=8',
        '--data',
        f'cifar10:{tmp_path}',
        '--steps',
        2,
        '--batch',
        4,
        '--quiet',
        '--threads',
        1,
    ]
    rng = np.random.default_rng(1)

    def batch(name, n, label=None):
        rows = rng.integers(0, 256, (n, 3073), np.uint8)
        rows[:, 0] = np.arange(n) % 10 if label is None else label
        (tmp_path / name).write_bytes(rows.tobytes())

    fails(17, *run, says=[str(tmp_path)])
    batch('data_batch_1.bin', 20)
    batch('test_batch.bin', 10)
    weir(*run)
    batch('data_batch_2.bin', 3, label=10)
    fails(17, *run, says=['data_batch_2.bin', '10'])
    (tmp_path / 'data_batch_2.bin').write_bytes(b'\x01' * 3000)
    fails(17, *run, says=['data_batch_2.bin', '3073'])


def test_table_errors(tmp_path):
    table, net = tmp_path / 't.csv', tmp_path / 'm.net'
    net.write_text('dense out=4\ntanh\ndense out=classes\nmse\n')
    run = [
        'train',
        '--model',
        net,
        '--data',
        f'csv:{table}',
        '--steps',
        2,
        '--batch',
        4,
        '--quiet',
        '--threads',
        1,
    ]
    good = 'a,b,y\n' + ''.join(f'{i},{i % 3},{2 * i}\n' for i in range(40))
    table.write_text(good)
    weir(*run)
    for bad, says in (
        (good + '1,two,3\n', ['t.csv: line 42', 'two']),
        (good + '1,2\n', ['t.csv: line 42']),
        ('', ['t.csv']),
        (good + '1,nan,3\n', ['t.csv: line 42']),
    ):
        table.write_text(bad)
        fails(17, *run, says=says)


def test_token_errors(tmp_path):
    tokens = tmp_path / 'train.bin'
    run = [
        'train',
        '--model',
        'gpt:width=16,depth=1',
        '--data',
        f'tokens:{tokens},length=8',
        '--steps',
        2,
        '--batch',
        2,
        '--quiet',
        '--threads',
        1,
    ]
    head = np.zeros(256, np.int32)
    head[:3] = 20240520, 1, 400
    body = (np.arange(400) % 50).astype(np.uint16)
    tokens.write_bytes(head.tobytes() + body.tobytes())
    weir(*run)
    for bad in (head.tobytes() + body[:100].tobytes(), b'x', b''):
        tokens.write_bytes(bad)
        fails(17, *run, says=['train.bin'])
    head[1] = 9
    tokens.write_bytes(head.tobytes() + body.tobytes())
    fails(17, *run, says=['train.bin', '9'])


def test_shapes_that_do_not_fit(tmp_path, pictures):
    fails(
        17,
        'train',
        '--model',
        'lenet',
        '--data',
        'synth:shape=1x4x4,count=64,test=8',
        '--steps',
        1,
        '--quiet',
        says=['kernel', '5'],
    )
    fails(16, 'train', '--model', 'gpt', '--data', SMALL, '--steps', 1, '--quiet', says=['tokens'])
    fails(
        16,
        'train',
        '--model',
        'mlp',
        '--data',
        SMALL,
        '--steps',
        1,
        '--quiet',
        '--exchange',
        'allreduce:each=2',
        says=['hier=yes'],
    )
    fails(
        16,
        'train',
        '--model',
        'lenet',
        '--data',
        'synth:tokens=50,length=8',
        '--steps',
        1,
        '--quiet',
        says=['tokens'],
    )
    fails(
        17,
        'train',
        '--model',
        'mlp:hidden=8',
        '--data',
        f'idx:{pictures},classes=5',
        '--steps',
        1,
        '--batch',
        8,
        '--quiet',
        says=['labels', '5'],
    )


def test_checkpoint_errors(tmp_path):
    out = tmp_path / 'r'
    train(out, *TINY)
    fails(
        16,
        'train',
        '--resume',
        out,
        '--model',
        'mlp:hidden=17',
        '--steps',
        5,
        '--quiet',
        says=['weight'],
    )
    fails(16, 'eval', out, '--model', 'lenet')
    model = out / 'step-3/model.safetensors'
    data = bytearray(model.read_bytes())
    data[len(data) // 2] ^= 1
    model.write_bytes(data)
    line = [s for s in weir('eval', out, code=13)[1].splitlines() if s.startswith('weir: error')]
    assert len(line) == 1 and 'model.safetensors' in line[0]
    fails(2, 'train', '--resume', tmp_path / 'none', *TINY, '--quiet', says=['none'])


def test_loss_not_a_number(tmp_path):
    out = tmp_path / 'r'
    _, err = train(
        out, *TINY[:4], '--steps', 500, '--lr', '1e9', '--save-every', 1, '--workers', 2, code=18
    )
    assert (
        len(err.strip().splitlines()) == 1
        and re.search(r'step \d+: .*dense\d', err)
        and 'exit 18' in err
    )
    assert 'dense' in events(out, 'fault')[-1]['what'] and not events(
        out, 'end'
    )  # the log says why it ends
    weir('eval', out)


def test_disk_full(tmp_path):
    small = tmp_path / 'small'
    small.mkdir()
    if subprocess.run(
        ['mount', '-t', 'tmpfs', '-o', 'size=2m', 'tmpfs', small], capture_output=True
    ).returncode:
        pytest.skip('needs root to mount')
    try:
        train(small / 'r', *TINY, '--keep', 1)
        _, err = train(
            small / 'r', '--resume', small / 'r', '--steps', 9, '--model', 'mlp:hidden=16', code=0
        )
        with open(small / 'fill', 'wb', buffering=0) as f:
            try:
                while f.write(b'x' * 4096):
                    pass
            except OSError:
                pass
        _, err = weir('train', '--resume', small / 'r', '--steps', 20, '--quiet', code=14)
        assert len(err.strip().splitlines()) == 1 and 'r/' in err
        assert os.readlink(small / 'r/latest') == 'step-9'
        os.remove(small / 'fill')
        weir('eval', small / 'r')
    finally:
        subprocess.run(['umount', small])


def test_a_log_that_cannot_be_written_is_named():
    fails(14, 'train', *TINY, '--quiet', '--log', '/dev/full', says=['/dev/full'])


def test_weights_that_are_not_finite_are_not_saved(tmp_path):
    (tmp_path / 'lin.net').write_text('flatten\ndense fc out=classes\nsoftmax\n')
    out = tmp_path / 'run'
    fails(
        18,
        'train',
        '--model',
        tmp_path / 'lin.net',
        '--data',
        SMALL,
        '--steps',
        50,
        '--optim',
        'sgd:decay=1',
        '--lr',
        1e18,
        '--save-every',
        1,
        '--keep',
        1,
        '--threads',
        1,
        '--quiet',
        '--out',
        out,
    )
    for a in tensors(out / 'latest' / 'model.safetensors').values():
        assert np.all(np.isfinite(a))


def test_another_optimiser_on_resume_is_a_misfit(tmp_path):
    out = tmp_path / 'run'
    train(out, *TINY, '--optim', 'sgd')
    fails(
        16, 'train', '--resume', out, '--steps', 6, '--optim', 'adam', '--quiet', says=['--optim']
    )
