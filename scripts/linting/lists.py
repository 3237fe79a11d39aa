"""Every variant is in its list, and in a file of its name."""
import re
from linting.tree import Fault

KINDS = ('unlisted', 'misplaced')
# folder, list, type of a descriptor, whether it must be alone in a file of its name
AXES = [
    ('codec', 'list.h', 'codec', True),
    ('coll', 'list.h', 'coll', True),
    ('data', 'list.h', 'data', True),
    ('exchange', 'list.h', 'exchange', True),
    ('nn', 'list.h', 'layer', True),
    ('optim', 'list.h', 'optim', True),
    ('optim', 'rates.h', 'rate', False),
]


def check_lists(tree):
    by_path = {f.path: f for f in tree.ours()}
    for folder, name, kind, own in AXES:
        table = by_path.get(f'src/{folder}/{name}')
        listed = re.findall(r'^X\((\w+)', table.bare, re.M) if table else []
        for f in tree.ours():
            if f.folder != folder or not f.base.endswith('.c'):
                continue
            for m in re.finditer(rf'^const weir_{kind} weir_{kind}_(\w+)\s*=', f.bare, re.M):
                line = f.bare.count('\n', 0, m.start()) + 1
                if m[1] not in listed:
                    what = f'{m[1]} is not in {folder}/{name}'
                    yield Fault('unlisted', f.path, line, what)
                # in a file of its name, or, where that name stands elsewhere, kind_name.c
                if own and f.base not in (m[1] + '.c', f'{kind}_{m[1]}.c'):
                    what = f'weir_{kind}_{m[1]} belongs in {folder}/{m[1]}.c'
                    yield Fault('misplaced', f.path, line, what)


CHECKS = (check_lists,)
