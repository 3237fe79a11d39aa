"""Options, help, bad input: the right code, one clear line, nothing lost."""
import gzip, json, os, re, struct, subprocess, time
import numpy as np
import pytest
from weirlib import (
    ROOT,
    SMALL,
    WEIR,
    end,
    environment,
    events,
    port,
    tensors,
    train,
    wait_for,
    weir,
)

TINY = ['--model', 'mlp:hidden=16', '--data', SMALL, '--steps', 3, '--threads', 1]


def fails(code, *args, says=()):
    """exits with `code`, with exactly one line that says all of `says`"""
    _, err = weir(*args, code=code)
    lines = err.strip().splitlines()
    assert (
        len(lines) == 1
        and lines[0].startswith('weir: error: ')
        and lines[0].endswith(f'(exit {code})')
    ), err
    for word in says:
        assert word in lines[0], err
    return lines[0]


# ---- help ----


def test_help_fits_a_screen_and_names_every_command():
    out, _ = weir('help')
    for command in ('train', 'eval', 'bench', 'keygen', 'list', 'help'):
        assert re.search(rf'^  {command} ', out, re.M)
        text, _ = weir('help', command)
        assert 1 < len(text.splitlines()) <= 40
        assert weir(command, '--help')[0] == text
    assert 'doctor' not in out


def test_list_shows_what_exists():
    out, _ = weir('list')
    for axis, names in dict(
        model='lenet mlp',
        data='idx synth',
        optim='sgd',
        rate='constant step cosine linear',
        codec='none',
        coll='auto ring halving doubling blocks tree hier',
        exchange='allreduce',
        net='zmq',
        layer='dense conv relu maxpool flatten softmax',
    ).items():
        one, _ = weir('list', axis)
        assert one in out
        for name in names.split():
            assert re.search(rf'^  {name}\b', one, re.M), (axis, name)
    assert 'momentum=0' in weir('list', 'optim')[0]
    fails(2, 'list', 'nothing', says=['nothing', 'codec'])


def test_version():
    assert re.fullmatch(r'weir \d+\.\d+\.\d+\n', weir('--version')[0])


def test_man_page():
    p = subprocess.run(
        ['man', '--warnings', '-l', os.path.join(ROOT, 'man/weir.1')],
        capture_output=True,
        text=True,
        env=dict(os.environ, MANWIDTH='100'),
    )
    for word in ('--workers', '--resume', 'EXIT'):
        assert word in p.stdout
    assert not p.stderr


# ---- options ----


def test_config_file_and_flags_win(tmp_path):
    config = tmp_path / 'c'
    config.write_text(
        '# a run\nmodel mlp:hidden=16\ndata ' + SMALL + '\nsteps 9\nbatch 32\nseed 5\n\nthreads=1\n'
    )
    train(tmp_path / 'a', '--config', config, '--steps', 4)
    e = events(tmp_path / 'a')
    assert e[0]['batch'] == 32 and e[0]['seed'] == 5 and e[-1]['steps'] == 4
    config.write_text('model mlp\nbatsh 32\n')
    fails(2, 'train', '--config', config, says=['c:2', 'batsh', 'batch'])
    fails(2, 'train', '--config', tmp_path / 'none', says=['none'])


def test_log_has_the_contract_keys(tmp_path):
    out = tmp_path / 'r'
    train(out, *TINY, '--workers', 2)
    keys = dict(
        start='version model params data workers threads batch exchange codec coll net seed rank_source isa',
        step='step epoch samples loss lr grad_norm samples_per_s sent_bytes received_bytes dense_bytes wait_ms compute_ms codec_ms residual_norm',
        eval='step epoch loss metric value',
        checkpoint='step path bytes seconds',
        end='steps samples wall_s train_s samples_per_s loss metric value best workers sent_bytes dense_bytes ratio ratio_all faults params_hash replicas peak_rss_mib exit',
    )
    for kind, names in keys.items():
        found = events(out, kind)
        assert found, kind
        for e in found:
            assert set(names.split()) | {'event', 't'} <= set(e), (
                kind,
                set(names.split()) - set(e),
            )
    assert events(out, 'start')[0]['rank_source'] == 'weir'
    t = [e['t'] for e in events(out)]
    assert t == sorted(t)


def test_log_option_and_no_out(tmp_path):
    weir('train', *TINY, '--log', tmp_path / 'l', '--quiet')
    assert json.loads((tmp_path / 'l').read_text().splitlines()[-1])['event'] == 'end'
    assert os.listdir(tmp_path) == ['l']


def test_spellings(tmp_path):
    out, _ = weir('train', *TINY, '--save_every=2', '--eval-every', '1e')
    assert 'accuracy' in out and '\r' not in out
    assert weir('train', *TINY, '--quiet')[0] == ''


def test_out_that_holds_a_run_is_refused(tmp_path):
    out = tmp_path / 'r'
    train(out, *TINY)
    before = sorted((f, os.stat(out / f).st_mtime_ns) for f in os.listdir(out))
    fails(2, 'train', *TINY, '--out', out, '--quiet', says=['holds a run', '--resume'])
    assert sorted((f, os.stat(out / f).st_mtime_ns) for f in os.listdir(out)) == before


def test_failed_runs_leave_what_was_there(tmp_path):
    out, other, log = tmp_path / 'r', tmp_path / 'o', tmp_path / 'l'
    log.write_text('mine\n')
    weir('train', *TINY, '--data', 'idx:/no/such', '--out', out, '--log', log, '--quiet', code=17)
    assert (
        not out.exists() and log.read_text() == 'mine\n'
    )  # a first run that fails does not block its own directory
    train(out, *TINY)
    train(other, *TINY, '--steps', 5)
    before = {d: {f: (d / f).read_bytes() for f in ('config', 'log.jsonl')} for d in (out, other)}
    fails(16, 'train', '--resume', out, '--model', 'mlp:hidden=17', '--steps', 5, '--quiet')
    fails(
        2, 'train', '--resume', out, '--out', other, '--steps', 5, '--quiet', says=['holds a run']
    )
    fails(2, 'train', '--resume', tmp_path / 'typo', *TINY, '--quiet')
    assert not (tmp_path / 'typo').exists()
    assert {
        d: {f: (d / f).read_bytes() for f in ('config', 'log.jsonl')} for d in (out, other)
    } == before
    train(out, '--resume', out, '--epochs', 1)  # how long, said the other way than before
    assert end(out)['steps'] == 16
    assert (
        'resume' not in (out / 'config').read_text() and 'out' not in (out / 'config').read_text()
    )
    weir('train', *TINY, '--log', log, '--quiet')
    assert log.read_text().startswith('mine\n')


def test_bytes_of_every_step(tmp_path):
    """8 (p - 1) (n + 16) bytes a step over all ranks, evaluation not counted, and the lines add up
    to the end's"""
    out = tmp_path / 'r'
    train(out, *TINY, '--steps', 7, '--workers', 3, '--eval-every', 2)
    steps, n = events(out, 'step'), events(out, 'start')[0]['params']
    assert [e['step'] for e in steps] == list(range(1, 8))
    assert all(e['sent_bytes'] == e['received_bytes'] == 8 * 2 * (n + 16) for e in steps)
    assert sum(e['sent_bytes'] for e in steps) == end(out)['sent_bytes']


def test_commands_refuse_what_they_would_ignore(tmp_path):
    fails(2, 'eval', tmp_path, '--lr', 3, says=['--lr'])
    fails(2, 'bench', 'train', '--model', 'mlp', '--out', tmp_path, says=['--out'])
    assert '--threads' in weir('help', 'bench')[0] and '--resume' not in weir('help', 'bench')[0]


def test_debug_shows_what_happens():
    _, err = weir('train', *TINY, '--quiet', '--workers', 2, WEIR_DEBUG='trace,coll')
    assert 'all-reduce' in err and 'net:' not in err
    assert 'has met' in weir('train', *TINY, '--quiet', '--workers', 2, WEIR_DEBUG='info')[1]
    assert 'WEIR_TYPO' in weir('list', 'codec', WEIR_TYPO='1')[1]


def test_output_that_cannot_be_written():
    with open('/dev/full', 'w') as full:
        p = subprocess.run(
            [WEIR, 'list'], stdout=full, stderr=subprocess.PIPE, text=True, env=environment()
        )
    assert p.returncode == 14 and 'standard output' in p.stderr


def test_eval(tmp_path):
    out = tmp_path / 'r'
    train(out, *TINY)
    text, _ = weir('eval', out)
    assert float(re.match(r'accuracy (\S+)', text)[1]) == pytest.approx(end(out)['value'], abs=1e-6)
    assert weir('eval', out / 'step-3', '--data', SMALL)[0] == text
    fails(2, 'eval', tmp_path, says=[str(tmp_path)])


def test_checkpoint_names_and_shapes(tmp_path):
    train(tmp_path / 'r', '--model', 'lenet', '--data', SMALL, '--steps', 1)
    w = tensors(tmp_path / 'r/latest/model.safetensors')
    assert sum(x.size for x in w.values()) == 61706
    assert sorted(x.shape for x in w.values()) == sorted(
        [
            (6, 1, 5, 5),
            (6,),
            (16, 6, 5, 5),
            (16,),
            (120, 400),
            (120,),
            (84, 120),
            (84,),
            (10, 84),
            (10,),
        ]
    )


def test_bench():
    out, _ = weir(
        'bench',
        'compute',
        '--model',
        'lenet',
        '--batch',
        16,
        '--threads',
        1,
        '--steps',
        2,
        '--json',
    )
    e = json.loads(out)
    assert (
        set('bench model params batch threads step_ms samples_per_s peak_rss_mib'.split()) <= set(e)
        and e['params'] == 61706
    )
    out, _ = weir(
        'bench', 'train', '--model', 'mlp', '--batch', 16, '--workers', 2, '--steps', 2, '--json'
    )
    e = json.loads(out)
    assert (
        e['workers'] == 2
        and e['replicas'] == 1
        and set(
            'samples wall_s train_s loss metric value best ratio ratio_all faults params_hash exit sent_bytes dense_bytes optim coll'.split()
        )
        <= set(e)
    )
    assert (
        0 < e['compute_ms'] <= e['slowest_ms'] < e['step_ms']
        and 0 < e['forward_ms'] < e['compute_ms']
        and e['forward_ms'] <= e['slowest_forward_ms'] < e['slowest_ms']
    )
    for line in weir('bench', 'allreduce', '--workers', 3, '--floats', 1000, '--json')[
        0
    ].splitlines():
        assert set('bench net coll ranks floats us gb_per_s busbw'.split()) <= set(json.loads(line))
    fails(2, 'bench', 'nothing')


def test_embedding(tmp_path):
    """a C program that trains through the library's header"""
    source = tmp_path / 'e.c'
    source.write_text(
        '''#include <weir.h>
#include <stdio.h>
static void event(void *n, const char *json) { (void)json; ++*(int *)n; }
int main(void) {
    weir_run *run; weir_result r; int events = 0;
    if (weir_run_new(&run)) return 1;
    if (weir_run_set(run, "nonsense", "1") != WEIR_USAGE) return 2;
    weir_run_set(run, "model", "mlp:hidden=16"); weir_run_set(run, "data", "%s"); weir_run_set(run, "steps", "3");
    weir_run_on_event(run, event, &events);
    if (weir_run_train(run, &r)) { puts(weir_run_error(run)); return 3; }
    printf("%%d events, %%s %%g\\n", events, r.metric, r.value);
    weir_run_free(run); return 0; }
'''
        % SMALL
    )
    prefix = tmp_path / 'p'
    subprocess.run(
        ['make', '-s', 'install', f'PREFIX={prefix}'], cwd=ROOT, check=True, capture_output=True
    )
    flags = subprocess.run(
        ['pkg-config', '--cflags', '--libs', 'weir'],
        env=dict(os.environ, PKG_CONFIG_PATH=f'{prefix}/lib/pkgconfig'),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    subprocess.run(['gcc', '-Wall', '-Werror', source, '-o', tmp_path / 'e', *flags], check=True)
    out = subprocess.run([tmp_path / 'e'], capture_output=True, text=True, env=environment())
    assert out.returncode == 0 and 'accuracy' in out.stdout, out
    shown = subprocess.run(
        [prefix / 'bin/weir', 'list', 'model'], capture_output=True, text=True, cwd='/'
    )
    assert 'lenet' in shown.stdout


# ---- bad input ----


def test_usage_errors():
    fails(2, 'train', says=['model'])
    fails(2, 'trian', says=['trian'])
    fails(2, 'train', *TINY, '--btach', 3, says=['--btach'])
    fails(2, 'train', *TINY, '--batch', 'x', says=['batch', 'x', 'whole number'])
    fails(2, 'train', *TINY, '--batch', 0, says=['batch'])
    fails(2, 'train', *TINY, '--lr', 'abc', says=['abc'])
    fails(2, 'train', *TINY, '--optim', 'sgd:momentun=1', says=['momentun', 'momentum'])
    fails(2, 'train', *TINY, '--codec', 'zip', says=['zip', 'none'])
    fails(2, 'train', *TINY, '--coll', 'star', says=['star', 'ring'])
    fails(2, 'train', *TINY, '--model', 'mlp:width=3', says=['width', 'hidden'])
    fails(2, 'train', *TINY, '--save-every', '3x', says=['3x'])
    fails(2, 'train', '--model', 'mlp', '--data', SMALL, says=['--epochs'])
    fails(2, 'train', *TINY, '--epochs', 3, says=['--epochs', '--steps'])
    fails(2, 'train', *TINY, '--batch', says=['--batch'])


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
    (d / 'test.txt').write_text('the cat sat\n' * 5 + 'the dog sat\n' * 5)
    fails(17, *run, says=['test.txt', '6', 'dog'])
    with open(d / 'train.txt', 'a') as f:
        f.write('<unk> sat\n')
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


# ---- found by a stranger ----


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


def test_resume_of_one_checkpoint(tmp_path):
    out, other = tmp_path / 'run', tmp_path / 'other'
    train(out, *TINY)
    fails(2, 'train', '--resume', out / 'step-3', '--steps', 6, '--quiet', says=['--out', 'step-3'])
    train(other, '--resume', out / 'step-3', '--steps', 6)
    train(out, '--resume', out, '--steps', 6)
    assert end(other)['params_hash'] == end(out)['params_hash']


def test_eval_of_a_text_repeats_the_runs_number(tmp_path):
    (tmp_path / 'text').mkdir()
    for name in ('train', 'valid', 'test'):
        (tmp_path / 'text' / f'{name}.txt').write_text(
            'the cat sat on the mat and the dog lay by the door\n' * 60
        )
    out = tmp_path / 'run'
    train(
        out,
        '--model',
        'lstm-small:width=16',
        '--data',
        f'text:{tmp_path}/text,length=10',
        '--batch',
        4,
        '--steps',
        10,
        '--threads',
        1,
    )
    said, _ = weir('eval', out)
    assert f'{end(out)["value"]:.4f}' in said


def test_out_on_rank_0_alone(tmp_path):
    at, out = port(), tmp_path / 'run'
    ranks = [
        subprocess.Popen(
            [
                WEIR,
                'train',
                '--model',
                'resnet20:width=4',
                '--data',
                'synth:shape=3x32x32,classes=10,count=64,test=16',
                '--batch',
                '8',
                '--steps',
                '4',
                '--save-every',
                '2',
                '--threads',
                '1',
                '--quiet',
                '--rank',
                str(r),
                '--size',
                '2',
                '--rendezvous',
                f'127.0.0.1:{at}',
                *(['--out', str(out)] if r == 0 else []),
            ],
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        for r in range(2)
    ]
    for p in ranks:
        _, err = p.communicate(timeout=60)
        assert p.returncode == 0, err
    assert end(out)['steps'] == 4 and (out / 'latest' / 'model.safetensors').exists()


def listens(at):
    with open('/proc/net/tcp') as f:
        return any(line.split()[1].endswith(f':{at:04X}') and line.split()[3] == '0A' for line in f)


def test_a_signal_before_the_ranks_have_met_is_heard_at_once(tmp_path):
    at = port()
    p = subprocess.Popen(
        [
            WEIR,
            'train',
            *map(str, TINY),
            '--rank',
            '0',
            '--size',
            '2',
            '--rendezvous',
            f'127.0.0.1:{at}',
            '--timeout',
            '60',
        ],
        stderr=subprocess.PIPE,
        env=environment(),
    )
    wait_for(lambda: listens(at))
    began = time.time()
    p.terminate()
    p.communicate(timeout=30)
    assert p.returncode == 143 and time.time() - began < 2
