"""How long files and functions are, and how much a function is given."""
import re
from linting.names import still
from linting.tree import Fault

KINDS = ('file', 'function', 'brace', 'parameters')
FUNCTION, FILE, PARAMETERS = 60, 600, 6


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


def closing(text, at):
    """where the bracket that opens at `at` is closed"""
    depth = 0
    for m in re.compile(r'[()]').finditer(text, at):
        depth += 1 if m[0] == '(' else -1
        if depth == 0:
            return m.start()
    return len(text)


def definitions(bare):
    """(name, offset, number of parameters) of the functions that have a body here"""
    for m in re.finditer(r'^(?!#|typedef\b)\w[\w \t*]*?[ *](\w+)\(', bare, re.M):
        end = closing(bare, m.end() - 1)
        if not bare[end + 1 :].lstrip().startswith('{'):
            continue
        given, depth, count = bare[m.end() : end], 0, 1
        for sign in given:
            depth += (sign == '(') - (sign == ')')
            count += sign == ',' and depth == 0
        yield m[1], m.start(1), 0 if given.strip() in ('', 'void') else count


def check_parameters(tree):
    for f in tree.ours():
        for name, at, count in definitions(f.bare):
            if count > PARAMETERS and not still(tree, 'parameters', name):
                what = f'{name} takes {count} parameters; {PARAMETERS} are the most'
                yield Fault('parameters', f.path, f.bare.count('\n', 0, at) + 1, what)


CHECKS = (check_lengths, check_parameters)
