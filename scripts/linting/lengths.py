"""How long files and functions are."""
import re
from linting.tree import Fault

KINDS = ('file', 'function', 'brace')
FUNCTION, FILE = 60, 600


def check_lengths(tree):
    for f in tree.ours():
        lines = f.bare.split('\n')
        if len(lines) - 1 > FILE:
            yield Fault('file', f.path, FILE + 1, f'{len(lines) - 1} lines; {FILE} are the most')
        start = None
        for n, line in enumerate(lines, 1):
            if re.match(r'\w[^=]*\)\s*\{\s*$', line):
                yield Fault('brace', f.path, n, "a function's brace stands on its own line")
            if line.rstrip() == '{':
                start = n - 1
            if line.startswith('}') and start:
                long = n - start + 1
                if long > FUNCTION:
                    what = f'a function of {long} lines; {FUNCTION} are the most'
                    yield Fault('function', f.path, start, what)
                start = None


CHECKS = (check_lengths,)
