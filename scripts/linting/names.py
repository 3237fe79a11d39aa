"""One name, one thing: a type is defined once, a file's name stands in one folder, and the word
behind weir_ belongs to one folder: whoever reads weir_codec_open knows where it lies. Folders that
know nothing of gradients, or of peers, have no names that speak of them."""
import collections
import re
from linting.tree import Fault

KINDS = ('type', 'word', 'foreign', 'base')
# files that every axis has
EVERYWHERE = ('list.h',)
PEERS = 'peer peers rank ranks'
GRADIENTS = 'gradient gradients codec optim residual momentum layer'
# a folder, words that its public names do not have
FOREIGN = {
    'codec': PEERS,
    'optim': PEERS,
    'nn': PEERS,
    'data': PEERS,
    'net': GRADIENTS,
    'coll': GRADIENTS,
}


def line_of(text, at):
    return text.count('\n', 0, at) + 1


def defined_types(bare):
    """(name, offset) of every type that is defined here: with a body, or as another name."""
    body = r'^\s*(?:typedef\s+)?(?:struct|union|enum)\s+(weir_\w+)\s*\{'
    named = r'^\s*typedef\s+(?!struct\s+\w+\s+\w+;|union\s+\w+\s+\w+;)[^;{]*?\b(weir_\w+)\s*;'
    called = r'^\s*typedef\s[^;{]*\(\s*\*\s*(weir_\w+)\s*\)\s*\('
    unnamed = r'^\s*typedef\s+(?:struct|union|enum)\s*\{[^}]*\}\s*(weir_\w+)\s*;'
    for pattern in (body, named, called, unnamed):
        for m in re.finditer(pattern, bare, re.M):
            yield m[1], m.start(1)


def public_names(bare):
    """(name, offset) of what a header declares: functions, variables, types, constants, macros."""
    for m in re.finditer(r'^\s*#\s*define\s+(WEIR_\w+)', bare, re.M):
        if not m[1].endswith('_H'):
            yield m[1], m.start(1)
    text = re.sub(r'^[ \t]*#(?:[^\n]*\\\n)*[^\n]*', lambda m: ' ' * len(m[0]), bare, flags=re.M)
    yield from defined_types(text)
    braces = parens = 0
    enum = False
    before = ''
    for m in re.finditer(r'\w+|[^\w\s]', text):
        word = m[0]
        if word == '{':
            enum = bool(re.search(r'\benum\b[^;{}]*$', text[: m.start()]))
        braces += (word == '{') - (word == '}')
        parens += (word == '(') - (word == ')')
        follows = text[m.end() : m.end() + 40].lstrip()[:1]
        if braces == 0 and parens == 0 and word.startswith('weir_') and follows in ('(', '['):
            yield word, m.start()
        if enum and braces == 1 and word.startswith('WEIR_') and before in ('{', ','):
            yield word, m.start()
        before = word


def still(tree, kind, name):
    """Whether it is a fault that is known; and it stands until now."""
    if (kind, name) not in tree.known:
        return False
    tree.known[kind, name] = None
    return True


def check_types(tree):
    first = {}
    for f in tree.ours():
        for name, at in defined_types(f.bare):
            here = f'{f.path}:{line_of(f.bare, at)}'
            if name not in first:
                first[name] = here
            elif first[name] != here and not still(tree, 'type', name):
                what = f'the type {name} is defined in {first[name]} too'
                yield Fault('type', f.path, line_of(f.bare, at), what)


def headers(tree):
    return [f for f in tree.ours() if f.base.endswith('.h') and f.path.startswith('src/')]


def check_words(tree):
    owner = collections.defaultdict(dict)
    for f in headers(tree):
        for name, at in public_names(f.bare):
            word = name.lower().split('_')[1]
            owner[word].setdefault(f.folder, (f.path, line_of(f.bare, at), name))
    for word, folders in sorted(owner.items()):
        if len(folders) > 1 and not still(tree, 'word', word):
            (_, (there, _, other)), *more = sorted(folders.items())
            for _, (path, line, name) in more:
                yield Fault('word', path, line, f'{name}: the word is that of {other} in {there}')


def check_foreign(tree):
    for f in headers(tree):
        foreign = set(FOREIGN.get(f.folder, '').split())
        for name, at in public_names(f.bare):
            for word in foreign & set(name.lower().split('_')[1:]):
                if not still(tree, 'foreign', name):
                    what = f'{name}: {f.folder}/ knows nothing of a {word}'
                    yield Fault('foreign', f.path, line_of(f.bare, at), what)


def check_bases(tree):
    first = {}
    for f in tree.ours():
        if f.base in EVERYWHERE:
            continue
        if f.base not in first:
            first[f.base] = f.path
        elif not still(tree, 'base', f.base):
            yield Fault('base', f.path, 1, f'there is {first[f.base]} too: another name, please')


CHECKS = (check_types, check_words, check_foreign, check_bases)
