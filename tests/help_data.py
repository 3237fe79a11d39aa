"""Data of every kind, small and made up, and models that fit them."""
import random, struct

TINY = """size hidden 8
flatten
dense one out=hidden
relu
dense two out=classes
softmax
"""
LINE = """dense one out=8
relu
dense two out=1
mse
"""
TEXT = """embedding embed out=8
lstm rnn out=8
dense out out=classes
softmax
"""


def idx(path, type_, shape, values):
    code = {'u8': (8, 'B'), 'f32': (13, 'f')}[type_]
    head = struct.pack('>BBBB', 0, 0, code[0], len(shape)) + struct.pack(f'>{len(shape)}I', *shape)
    path.write_bytes(head + struct.pack(f'>{len(values)}{code[1]}', *values))


def pictures(dir, train=64, test=16, shift=0, type_='u8'):
    """pictures of 3x3 in four classes, in IDX"""
    rng = random.Random(5)
    dir.mkdir()
    for word, n in (('train', train), ('test', test)):
        label = [rng.randrange(4) for _ in range(n)]
        value = [(60 * c + rng.randrange(60) + shift) % 256 for c in label for _ in range(9)]
        idx(dir / f'{word}-images-idx', type_, (n, 3, 3), value)
        idx(dir / f'{word}-labels-idx', 'u8', (n,), label)
    return dir


def speech(dir):
    """frames of two features in three utterances, and a test part of one"""
    rng = random.Random(6)
    dir.mkdir()
    for word, lengths in (('train', (20, 7, 13)), ('test', (9,))):
        n = sum(lengths)
        idx(dir / f'{word}-frames-idx', 'f32', (n, 2), [rng.gauss(3, 2) for _ in range(2 * n)])
        idx(dir / f'{word}-frame-labels-idx', 'u8', (n,), [rng.randrange(3) for _ in range(n)])
        utts = [x for i, k in enumerate(lengths) for x in (sum(lengths[:i]), k)]
        head = struct.pack('>BBBBII', 0, 0, 12, 2, len(lengths), 2)
        (dir / f'{word}-utts-idx').write_bytes(head + struct.pack(f'>{len(utts)}i', *utts))
    return dir


def records(dir):
    rng = random.Random(7)
    dir.mkdir()
    for name, n in (('data_batch_1', 12), ('data_batch_2', 8), ('test_batch', 6)):
        rows = (bytes([rng.randrange(10)]) + rng.randbytes(3072) for _ in range(n))
        (dir / f'{name}.bin').write_bytes(b''.join(rows))
    return dir


def table(path, rows=40, shift=0.0, scale=1.0, seed=8):
    rng = random.Random(seed)
    lines = ['a,b,y']
    for _ in range(rows):
        a, b = rng.gauss(0, 1) * scale + shift, rng.gauss(5, 3) * scale + shift
        lines.append(f'{a:.6f},{b:.6f},{(2 * a - b) * scale:.6f}')
    path.write_text('\n'.join(lines) + '\n')
    return path


def words(path, n=600, vocabulary=20, tail=''):
    rng = random.Random(9)
    text = ''.join(f'w{rng.randrange(vocabulary)}' + ' \n'[i % 20 == 7] for i in range(n))
    path.write_text(text + tail + '\n')
    return path


def texts(dir):
    dir.mkdir()
    words(dir / 'train.txt')
    words(dir / 'test.txt', 60)
    return dir


def tokens(dir):
    rng = random.Random(10)
    dir.mkdir()
    for name, n in (('train_0', 300), ('train_1', 200), ('val', 100)):
        values = [rng.randrange(30) for _ in range(n)]
        (dir / f'{name}.bin').write_bytes(struct.pack(f'<{n}H', *values))
    return dir


def model(tmp_path, text):
    path = tmp_path / 'm.net'
    path.write_text(text)
    return path


KINDS = {
    'idx': (pictures, TINY, ''),
    'frames': (speech, TINY, ',window=3'),
    'cifar10': (records, TINY, ''),
    'text': (texts, TEXT, ',length=5'),
    'tokens': (tokens, TEXT, ',length=5'),
}


def make(kind, at):
    at.mkdir()
    return KINDS[kind][0](at / 'data') if kind in KINDS else table(at / 'data')
