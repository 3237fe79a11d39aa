"""What the training data taught belongs to the run: whatever it is evaluated on or goes on with."""
import json, math, re, shutil, struct
import numpy as np
import pytest
from help_data import KINDS, LINE, TEXT, make, model, pictures, table, texts, words
from weirlib import end, events, fails, tensors, train, weir

SHORT = ['--batch', 4, '--steps', 20, '--threads', 1, '--lr', 0.05]


def lessons(out):
    with open(f'{out}/latest/model.safetensors', 'rb') as f:
        head = json.loads(f.read(struct.unpack('<Q', f.read(8))[0]))
    return json.loads(head['__metadata__']['weir.lessons'])


def evaluated(*args):
    """metric, value and samples"""
    said = weir('eval', *args)[0]
    found = re.match(r'(\w+) (\S+)  loss \S+  samples (\d+)', said)
    return found[1], float(found[2]), int(found[3])


def same(got, out):
    return got[1] == pytest.approx(end(out)['value'], rel=1e-5)


def rmse(out, path):
    """of the run's network on all rows of a table, worked out here"""
    w, taught = tensors(f'{out}/latest/model.safetensors'), lessons(out)
    rows = np.loadtxt(path, delimiter=',', skiprows=1, ndmin=2)
    mean, deviation = np.array(taught['mean']), np.array(taught['deviation'])
    x = (rows - mean) / deviation
    hidden = np.maximum(x[:, :-1] @ w['one.weight'].T + w['one.bias'], 0)
    error = hidden @ w['two.weight'].T + w['two.bias'] - x[:, -1:]
    return math.sqrt((error**2).mean()) * deviation[-1]


@pytest.fixture
def tabled(tmp_path):
    """a run on a table of 40 rows"""
    data = f'csv:{table(tmp_path / "t.csv")}'
    train(tmp_path / 'run', '--model', model(tmp_path, LINE), '--data', data, *SHORT)
    return tmp_path / 'run'


@pytest.fixture
def textual(tmp_path):
    at = texts(tmp_path / 'data')
    data = f'text:{at},length=5'
    train(tmp_path / 'run', '--model', model(tmp_path, TEXT), '--data', data, *SHORT)
    return tmp_path / 'run'


# ---- other data than the run's ----


@pytest.mark.mended
def test_a_shifted_table(tmp_path, tabled):
    """is standardised as the run's was, and all of its rows are evaluated"""
    other = table(tmp_path / 'other.csv', rows=30, shift=4.0, scale=2.0, seed=3)
    metric, value, samples = evaluated(tabled, '--data', f'csv:{other}')
    assert (metric, samples) == ('rmse', 30)
    assert value == pytest.approx(rmse(tabled, other), rel=1e-4)


@pytest.mark.mended
def test_a_table_of_one_row(tmp_path, tabled):
    other = table(tmp_path / 'other.csv', rows=1, seed=4)
    assert evaluated(tabled, '--data', f'csv:{other}')[1:] == (
        pytest.approx(rmse(tabled, other), rel=1e-4),
        1,
    )


def test_which_rows_of_a_table(tmp_path, tabled):
    """the run's own table, wherever it lies, keeps its test rows; test= says otherwise"""
    shutil.copy(tmp_path / 't.csv', tmp_path / 'copy.csv')
    for args in ([], ['--data', f'csv:{tmp_path}/copy.csv']):
        got = evaluated(tabled, *args)
        assert got[2] == 4 and same(got, tabled)
    assert evaluated(tabled, '--data', f'csv:{tmp_path}/copy.csv,test=0.5')[2] == 20
    fails(17, 'eval', tabled, '--data', f'csv:{wide(tmp_path)}', says=['4 columns', '3 were'])


def wide(tmp_path):
    path = tmp_path / 'wide.csv'
    path.write_text('1,2,3,4\n5,6,7,8\n')
    return path


@pytest.mark.mended
def test_a_text_with_another_vocabulary(tmp_path, textual):
    """the same test part beside another training part, or alone: the run's own words count"""
    other = tmp_path / 'other'
    other.mkdir()
    shutil.copy(tmp_path / 'data/test.txt', other)
    assert same(evaluated(textual, '--data', f'text:{other}'), textual)
    (other / 'train.txt').write_text('quite other words come first ' + 'w3 w1 w0 ' * 50)
    assert same(evaluated(textual, '--data', f'text:{other},length=5'), textual)


@pytest.mark.mended
@pytest.mark.parametrize('kind', KINDS)
def test_a_lone_test_part(tmp_path, kind):
    at = make(kind, tmp_path / 'a')
    spec = f'{kind}:{at}{KINDS[kind][2]}'
    args = ['--model', model(tmp_path, KINDS[kind][1]), '--data', spec]
    train(tmp_path / 'run', *args, *SHORT)
    for f in [*at.glob('*train*'), *at.glob('data_batch*')]:
        f.unlink()
    assert same(evaluated(tmp_path / 'run'), tmp_path / 'run')
    assert (
        weir('eval', tmp_path / 'run', '--batch', 3)[1] == ''
    )  # it is the run's, and nothing else
    # options without which it would mean something else are the run's
    assert same(evaluated(tmp_path / 'run', '--data', f'{kind}:{at}'), tmp_path / 'run')


@pytest.mark.mended
def test_brighter_pictures_beside_another_training_part(tmp_path):
    at = pictures(tmp_path / 'a')
    args = ['--model', model(tmp_path, KINDS['idx'][1]), '--data', f'idx:{at}']
    train(tmp_path / 'run', *args, *SHORT)
    other = pictures(tmp_path / 'b', shift=70)
    for name in ('test-images-idx', 'test-labels-idx'):
        shutil.copy(at / name, other / name)
    own = weir('eval', tmp_path / 'run')  # the loss too: it tells more than an accuracy
    assert weir('eval', tmp_path / 'run', '--data', f'idx:{other}') == own


def test_a_lone_file_that_the_run_knows(tmp_path):
    """its last tenth is the test part; of another file all is"""
    for kind, unit in (('text', ',unit=char'), ('tokens', '')):
        path = tmp_path / kind
        if kind == 'text':
            words(path)
        else:
            path.write_bytes(struct.pack('<400H', *(i * 7 % 30 for i in range(400))))
        out = tmp_path / f'{kind}-run'
        data = f'{kind}:{path},length=5{unit}'
        train(out, '--model', model(tmp_path, TEXT), '--data', data, *SHORT)
        copy = tmp_path / f'{kind}-copy'
        shutil.copy(path, copy)
        tail = evaluated(out, '--data', f'{kind}:{copy}')
        assert same(tail, out)
        with open(copy, 'ab') as f:
            f.write(path.read_bytes()[:2])
        assert evaluated(out, '--data', f'{kind}:{copy}')[2] > 8 * tail[2]


@pytest.mark.mended
@pytest.mark.parametrize('kind', ['csv', 'text', 'tokens'])
def test_a_lone_file_of_the_run_that_changed(tmp_path, kind):
    """all of it is the test part then, with what was trained on: it is said, but not of others"""
    path, net = tmp_path / 'data', model(tmp_path, LINE if kind == 'csv' else TEXT)
    data = f'{kind}:{path}' + ('' if kind == 'csv' else ',length=5')
    if kind == 'csv':
        table(path)
    elif kind == 'text':
        words(path)
    else:
        path.write_bytes(struct.pack('<400H', *(i * 7 % 30 for i in range(400))))
    train(tmp_path / 'run', '--model', net, '--data', data, *SHORT)
    assert 'part' not in weir('eval', tmp_path / 'run')[1]
    was = path.read_bytes()
    path.write_bytes(was + (was.splitlines(True)[-1] if kind == 'csv' else was[-2:]))
    (tmp_path / 'copy').write_bytes(path.read_bytes())
    for args in ([], ['--data', data]):
        err = weir('eval', tmp_path / 'run', *args)[1]
        assert 'the test part is not the one that the run had when it was saved' in err
        assert 'what it was trained on may be part of it' in err
    other = data.replace(str(path), str(tmp_path / 'copy'))
    assert 'part' not in weir('eval', tmp_path / 'run', '--data', other)[1]


def test_options_that_bind(tmp_path, textual):
    fails(16, 'eval', textual, '--data', f'text:{tmp_path}/data,unit=char', says=['unit=word'])
    fails(16, 'eval', textual, '--data', f'csv:{table(tmp_path / "t.csv")}', says=["kind 'text'"])
    assert evaluated(textual, '--data', f'text:{tmp_path}/data,length=3')[0] == 'perplexity'


def test_words_that_the_run_does_not_know(tmp_path, textual):
    """it has no <unk>: they are left out, and it says so; one of such words alone is refused"""
    other = tmp_path / 'other'
    other.mkdir()
    text = (tmp_path / 'data/test.txt').read_text()
    (other / 'test.txt').write_text(text.replace('w1 ', 'w1 never met '))
    said, warned = weir('eval', textual, '--data', f'text:{other}')
    n = 2 * text.count('w1 ')
    assert f'{n} tokens of the test part are not in the vocabulary' in warned
    assert 'left out' in warned
    assert float(said.split()[1]) == pytest.approx(end(textual)['value'], rel=1e-5)
    (other / 'test.txt').write_text('all of them new')
    says = ['test.txt', "words that the run's vocabulary does not have are left out", '1 tokens']
    fails(16, 'eval', textual, '--data', f'text:{other}', says=says)


# ---- a run that goes on ----


@pytest.mark.mended
def test_rows_added_before_going_on(tmp_path, tabled):
    """the columns' means and deviations stay, and the log says that the data are others"""
    before, path = lessons(tabled), tmp_path / 't.csv'
    more = table(tmp_path / 'more.csv', rows=30, shift=9, seed=5).read_text().split('\n', 1)[1]
    path.write_text(path.read_text() + more)
    train(tabled, '--resume', tabled, '--steps', 30)
    after = lessons(tabled)
    assert after['mean'] == before['mean'] and after['deviation'] == before['deviation']
    assert after['training']['samples'] == 63 and after['training'] != before['training']
    said = ' '.join(e['what'] for e in events(tabled, 'warning'))
    assert 'the training part is not the one that the run had' in said
    assert '36 samples then, 63 now' in said
    assert same(evaluated(tabled), tabled)


@pytest.mark.mended
def test_a_text_that_grew_before_going_on(tmp_path, textual):
    """new words are unknown words; the model keeps its size"""
    path = tmp_path / 'data/train.txt'
    path.write_text('brand new ' + path.read_text())
    train(textual, '--resume', textual, '--steps', 30)
    assert end(textual)['steps'] == 30 and len(lessons(textual)['vocabulary']) == 21
    said = ' '.join(e['what'] for e in events(textual, 'warning'))
    assert '2 tokens of the training part are not in the vocabulary' in said


def test_nothing_is_said_of_the_same_data(tmp_path, tabled):
    train(tabled, '--resume', tabled, '--steps', 30)
    assert not [e for e in events(tabled, 'warning') if 'part' in e['what']]


def test_nothing_is_said_of_the_same_text_in_another_batch(tmp_path, textual):
    """it has other windows"""
    train(textual, '--resume', textual, '--steps', 30, '--batch', 8)
    assert not [e for e in events(textual, 'warning') if 'part' in e['what']]


# ---- what a checkpoint says ----


def test_a_vocabulary_of_any_bytes(tmp_path):
    """what is no text comes back as it was"""
    path = tmp_path / 'text'
    unit = b'a\xff\x00"\\\xc3\xa9 \n'
    path.write_bytes(unit * 40)
    args = ['--model', model(tmp_path, TEXT), '--data', f'text:{path},unit=char,length=5']
    train(tmp_path / 'run', *args, *SHORT)
    word = lessons(tmp_path / 'run')['vocabulary']
    assert word == ['a', [255], [0], '"', '\\', '\N{LATIN SMALL LETTER E WITH ACUTE}', ' ', '\n']
    assert same(evaluated(tmp_path / 'run'), tmp_path / 'run')
