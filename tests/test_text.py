"""Text as whole runs meet it: words and characters that training never met."""
import pytest
from help_data import TEXT, model, words
from weirlib import end, events, train


@pytest.mark.mended
@pytest.mark.parametrize('unit', ['word', 'char'])
@pytest.mark.parametrize('files', [1, 2])
def test_a_rare_word_in_the_tail(tmp_path, unit, files):
    """one that the training part does not have is <unk>, counted, and one class more"""
    tail = ' w0 \N{LATIN SMALL LETTER E WITH ACUTE} w1 \N{LATIN SMALL LETTER E WITH ACUTE} w2'
    spec = {}
    for name, t in (('plain', ''), ('rare', tail)):
        at = tmp_path / name
        at.mkdir()
        if files == 1:
            spec[name] = words(at / 'text', tail=t)
        else:
            spec[name] = at
            words(at / 'train.txt')
            words(at / 'valid.txt', 60, tail=t)
    net = model(tmp_path, TEXT)
    for name in spec:
        args = ['--model', net, '--data', f'text:{spec[name]},unit={unit},length=5']
        train(tmp_path / f'{name}-run', *args, '--batch', 2, '--steps', 3, '--threads', 1)
    begun = {name: events(tmp_path / f'{name}-run', 'start')[0] for name in spec}
    assert begun['plain']['unknown'] == 0 and begun['rare']['unknown'] == 2
    # a row of the embedding, a row and a bias of the last layer
    assert begun['rare']['params'] - begun['plain']['params'] == 8 + 8 + 1
    assert end(tmp_path / 'rare-run')['metric'] == 'perplexity'


def test_text_that_knows_unk_keeps_its_size(tmp_path):
    at = tmp_path / 'data'
    at.mkdir()
    words(at / 'train.txt', tail=' <unk>')
    words(at / 'test.txt', 60)
    net = model(tmp_path, TEXT)
    params = []
    for i, tail in enumerate(['', ' never met']):
        words(at / 'test.txt', 60, tail=tail)
        args = ['--model', net, '--data', f'text:{at},length=5', '--batch', 2, '--threads', 1]
        train(tmp_path / f'run{i}', *args, '--steps', 2)
        begun = events(tmp_path / f'run{i}', 'start')[0]
        params.append(begun['params'])
        assert begun['unknown'] == 2 * i
    assert params[0] == params[1]
