"""White space, and how wide a line may be."""
import re
from linting.tree import Fault

KINDS = ('blank', 'tab', 'newline', 'width')
WIDTH = 100
WRITTEN = ('c', 'python', 'shell', 'make', 'markdown', 'manual', 'settings')


def check_space(tree):
    for f in tree.files:
        for n, line in enumerate(f.text.split('\n'), 1):
            if line != line.rstrip():
                yield Fault('blank', f.path, n, 'white space at the end')
            elif '\t' in line and f.language != 'make':
                yield Fault('tab', f.path, n, 'a tab')
        if f.text and not f.text.endswith('\n'):
            yield Fault('newline', f.path, f.text.count('\n') + 1, 'no newline at the end')


def prose(text):
    """The lines of Markdown that a width holds for: no tables, no code, and none that is one word,
    such as an address."""
    fence = None
    before = ''
    for n, line in enumerate(text.split('\n'), 1):
        mark = re.match(r'\s*(```|~~~)', line)
        code = line.startswith('    ') and (not before.strip() or before.startswith('    '))
        if mark and fence in (None, mark[1]):
            fence = None if fence else mark[1]
        elif not fence and not code and not line.startswith('|') and ' ' in line.strip(' -*'):
            yield n, line
        before = line


def check_width(tree):
    for f in tree.of(*WRITTEN):
        markdown = f.language == 'markdown'
        lines = prose(f.text) if markdown else enumerate(f.text.split('\n'), 1)
        wide = [n for n, line in lines if len(line.replace('\t', '        ')) > WIDTH]
        if wide and ('width', f.path) in tree.known:
            tree.known[('width', f.path)] = None  # it is still so
            continue
        for n in wide:
            yield Fault('width', f.path, n, f'more than {WIDTH} columns')


CHECKS = (check_space, check_width)
