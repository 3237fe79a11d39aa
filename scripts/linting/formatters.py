"""Everything is as clang-format and black would have it. Versions of clang-format differ in what
they do: only the one that the tree was formatted with is asked."""
import re
import shutil
import subprocess
from linting.tree import Fault

KINDS = ('clang-format', 'black')
CLANG_FORMAT = '14'
BLACK = ['black', '-q', '-S', '-l', '100']


def clang_format():
    """The command; None: it is not there, or another version."""
    for name in ('clang-format', f'clang-format-{CLANG_FORMAT}'):
        if shutil.which(name):
            said = subprocess.run([name, '--version'], capture_output=True, text=True).stdout
            version = re.search(r'version (\d+)', said)
            if version and version[1] == CLANG_FORMAT:
                return name
    return None


def check_clang_format(tree):
    program = clang_format()
    files = [f.path for f in tree.of('c')]
    if not program:
        print(f'lint: clang-format {CLANG_FORMAT} is not here: how C looks is not checked')
    elif files:
        said = subprocess.run(
            ['xargs', '-P', '4', '-n', '32', program, '--dry-run'],
            input='\n'.join(files),
            capture_output=True,
            text=True,
        ).stderr
        found = re.findall(r'^(\S+?):(\d+):\d+: .*clang-format', said, re.M)
        for path, line in dict(reversed(found)).items():
            yield Fault('clang-format', path, int(line), 'not as clang-format has it: make format')


def check_black(tree):
    files = [f.path for f in tree.of('python')]
    if not shutil.which('black'):
        print('lint: black is not here: how Python looks is not checked')
    elif files and subprocess.run([*BLACK, '--check', *files], capture_output=True).returncode:
        for path in files:
            if subprocess.run([*BLACK, '--check', path], capture_output=True).returncode:
                yield Fault('black', path, 1, 'not as black has it: make format')


CHECKS = (check_clang_format, check_black)
