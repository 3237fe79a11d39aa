"""docs/TESTS.md names every test file once, and none that is not there."""
import glob, os, re
from weirlib import ROOT


def test_every_file_has_its_law():
    with open(os.path.join(ROOT, 'docs/TESTS.md')) as f:
        rows = [line.split('|')[1] for line in f if line.startswith('| `')]
    named = [name for row in rows for name in re.findall(r'`(test_\w+\.(?:c|py))`', row)]
    there = [
        os.path.basename(path)
        for kind in ('c', 'py')
        for path in glob.glob(os.path.join(ROOT, f'tests/test_*.{kind}'))
    ]
    assert sorted(named) == sorted(there)
