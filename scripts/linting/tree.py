"""The files that are looked at, and what a fault is."""
import functools
import os
import re
from typing import NamedTuple

# what is not ours, or is not text
SKIPPED = ('build', 'seeds', '__pycache__')


class Fault(NamedTuple):
    kind: str
    path: str
    line: int
    what: str

    def __str__(self):
        return f'{self.path}:{self.line}: {self.what}'


def strip(text, strings):
    """Blanks comments and, if asked, what is in strings and characters; lines stay where they
    are."""

    def blank(m):
        s = m[0]
        if s[0] == '/':
            return re.sub(r'[^\n]', ' ', s)
        return s[0] + ' ' * (len(s) - 2) + s[-1] if strings else s

    return re.sub(
        r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S
    )


class File:
    def __init__(self, path, text):
        self.path, self.text = path, text
        self.base = os.path.basename(path)
        self.ours = bool(re.fullmatch(r'(src/\w+|include)/\w+\.[ch]', path))
        self.inside = path.removeprefix('src/')  # core/err.c
        self.folder = self.inside.split('/')[0]  # core

    @functools.cached_property
    def code(self):
        """without comments"""
        return strip(self.text, False)

    @functools.cached_property
    def bare(self):
        """without comments and strings"""
        return strip(self.text, True)

    @functools.cached_property
    def language(self):
        first = self.text.split('\n', 1)[0]
        if self.base.endswith(('.c', '.h')):
            return 'c'
        if self.base.endswith('.py') or re.match(r'#!.*python3', first):
            return 'python'
        for ending, language in (('.md', 'markdown'), ('.1', 'manual')):
            if self.base.endswith(ending):
                return language
        if self.base.endswith(('.net', '.conf')):
            return 'settings'
        if self.base == 'Makefile' or self.base.endswith('.mk'):
            return 'make'
        return 'shell' if re.match(r'#!.*\b(ba|da)?sh\b', first) else 'other'


def read_text(path):
    """None: it is no text."""
    with open(path, 'rb') as f:
        raw = f.read()
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return None
    return None if '\0' in text else text


class Tree:
    """All text files under the current directory. `known` are faults that stand until somebody
    mends them: lines `kind name` of scripts/linting/known."""

    KNOWN = 'scripts/linting/known'

    def __init__(self):
        self.files = sorted(self.find(), key=lambda f: f.path)
        self.known = {}
        for f in self.files:
            if f.path == self.KNOWN:
                for n, line in enumerate(f.text.splitlines(), 1):
                    if line and line[0] != '#':
                        kind, name = line.split()
                        self.known[kind, name] = n

    def find(self):
        for top, folders, names in os.walk('.'):
            folders[:] = [
                f for f in folders if f not in SKIPPED and (f == '.ci' or not f.startswith('.'))
            ]
            for name in names:
                path = os.path.relpath(os.path.join(top, name), '.')
                text = None if os.path.islink(path) else read_text(path)
                if text is not None:
                    yield File(path, text)

    def of(self, *languages):
        return [f for f in self.files if f.language in languages]

    def ours(self):
        return [f for f in self.files if f.ours]
