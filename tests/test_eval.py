"""`weir eval` and the end of a run say the same number, in the data's own unit."""
import re
import pytest
from weirlib import SMALL, end, fails, train, weir

TINY = ['--model', 'mlp:hidden=16', '--data', SMALL, '--steps', 3, '--threads', 1]


def test_eval(tmp_path):
    out = tmp_path / 'r'
    train(out, *TINY)
    text, _ = weir('eval', out)
    assert float(re.match(r'accuracy (\S+)', text)[1]) == pytest.approx(end(out)['value'], abs=1e-6)
    assert weir('eval', out / 'step-3', '--data', SMALL)[0] == text
    fails(2, 'eval', tmp_path, says=[str(tmp_path)])


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


def test_value_metric(tmp_path):
    """regression by csv: rmse in the target's own unit"""
    rows = '\n'.join(f'{i % 17},{i % 5},{3 * (i % 17) - 2 * (i % 5) + 100}' for i in range(600))
    (tmp_path / 't.csv').write_text('a,b,y\n' + rows + '\n')
    (tmp_path / 'm.net').write_text('dense out=32\ntanh\ndense out=classes\nmse\n')
    train(
        tmp_path / 'r',
        '--model',
        tmp_path / 'm.net',
        '--data',
        f'csv:{tmp_path}/t.csv',
        '--batch',
        32,
        '--epochs',
        40,
        '--optim',
        'adam',
        '--lr',
        0.01,
        '--threads',
        1,
    )
    e = end(tmp_path / 'r')
    assert e['metric'] == 'rmse' and 0 < e['value'] < 3
