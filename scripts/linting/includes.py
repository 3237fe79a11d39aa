"""Who includes whom: the diagram of docs/TOUR.md; and which file has which library to itself."""
import re
from linting.tree import Fault

KINDS = ('arrow', 'diagram', 'include', 'header', 'library')
# Every folder may include itself, core and weir.h.
ALL = 'net coll codec optim nn data exchange pipe batch train'
MAY = {
    'core': '',
    'net': '',
    'coll': 'net',
    'codec': '',
    'optim': '',
    'nn': '',
    'data': '',
    'exchange': 'codec optim coll net',
    'pipe': 'nn net',
    'batch': 'coll net',
    'train': ALL,
    'cli': ALL,
}
# a library, the files that may include it
LIBRARY = [
    (r'(oneapi/)?(dnnl/)?dnnl\w*\.h', r'nn/dnn\w*\.c'),
    (r'zmq\.h', r'net/zmq\w*\.c'),
    (r'mpi\.h', r'net/mpi\w*\.[ch]'),
    (r'jansson\.h', r'core/json\.c'),
    (r'xxhash\.h', r'core/hash\.c'),
    (r'zlib\.h', r'core/file\.c'),
]


def judge(f, quote, name):
    """What is wrong with one line; (kind, sentence) or None."""
    for library, files in LIBRARY:
        if re.fullmatch(library, name) and not re.fullmatch(files, f.inside):
            return 'library', f'{name} is not included here'
    if quote == '<' or name == 'weir.h':
        return None
    if not f.path.startswith('src/'):
        return 'header', f'{name}: weir.h includes nothing of ours'
    if '/' not in name:
        return 'include', f'{name}: name its folder'
    if f.folder not in MAY:
        return 'diagram', f'src/{f.folder} is not in the diagram'
    if name.split('/')[0] not in MAY[f.folder].split() + ['core', f.folder]:
        return 'arrow', f'{f.folder} may not include {name.split("/")[0]}'
    return None


def check_includes(tree):
    for f in tree.ours():
        for n, line in enumerate(f.code.split('\n'), 1):
            m = re.match(r'\s*#\s*include\s*(["<])([^">]+)', line)
            wrong = m and judge(f, m[1], m[2])
            if wrong:
                yield Fault(wrong[0], f.path, n, wrong[1])


CHECKS = (check_includes,)
