"""Lint refuses every fault that it knows, one at a time, and passes a tree that has none."""
import os
import shutil
import subprocess
import sys
import pytest
from weirlib import ROOT

LINT = os.path.join(ROOT, 'scripts/lint')
sys.path.insert(0, os.path.join(ROOT, 'scripts'))
from linting import calls, includes, lists, names

CLEAN = {
    'Makefile': 'all:\n\techo done\n',
    'README.md': '# A tree\n\nWords.\n\n| a | table |\n|---|---|\n| of any | ' + 'x' * 120 + ' |\n',
    'docs/LONG.md': '```\n$ a command ' + 'x' * 120 + '\n```\n\n    code ' + 'x ' * 60 + 'x\n\n'
    '- https://example.org/' + 'x' * 120 + '\n',
    'include/weir.h': '#ifndef WEIR_H\n#define WEIR_H\ntypedef struct weir_run weir_run;\n#endif\n',
    'scripts/tool': "#!/usr/bin/env python3\nprint('done')\n",
    'scripts/run': '#!/bin/sh\necho done\n',
    'src/codec/codec.h': '#include "core/err.h"\ntypedef struct weir_codec {\n    int bits;\n} '
    'weir_codec;\nint weir_codec_bits(const weir_codec *);\n#include "codec/list.h"\n',
    'src/codec/list.h': 'X(none)\n',
    'src/codec/none.c': '#include "codec/codec.h"\n#include <string.h>\n\n'
    'const weir_codec weir_codec_none = {0};\n\n'
    'int weir_codec_bits(const weir_codec *c)\n{\n    int n = c->bits;\n\n    return n;\n}\n',
    'src/core/err.h': 'typedef enum { WEIR_ERR_NONE, WEIR_ERR_SOME } weir_err_kind;\n'
    '/* a gradient of nobody, weir_codec_of */\nint weir_err_name(int);\n',
    'src/core/json.c': '#include <jansson.h>\n',
    'src/net/net.h': 'typedef struct weir_net weir_net;\nint weir_net_open(weir_net *);\n',
    'src/net/zmq.c': '#include "net/net.h"\n#include <zmq.h>\n\n'
    'static int wait_for(int fd)\n{\n    int n = 0;\n\n    return poll(0, n, fd);\n}\n',
    'src/train/run.c': '#include "net/net.h"\n#include "weir.h"\n\n'
    'struct weir_run {\n    int rank;\n};\n',
}
TYPE = 'typedef struct weir_codec {\n    int x;\n} weir_codec;\n'
LONG = ''.join(f'    a({n});\n' for n in range(60))
SEVEN = 'int x(int a, int b, int c, int (*d)(int, int), int e, int f, int g)\n{\n}\n'
# kind: a file, its text (with MORE: behind what it has), what is said
FAULTS = {
    'arrow': ('src/codec/x.c', '#include "net/net.h"\n', 'codec may not include net'),
    'base': ('src/train/codec.h', 'int weir_train_x(void);\n', 'src/codec/codec.h too'),
    'black': ('scripts/tool', '#!/usr/bin/env python3\nprint( "x" )\n', 'not as black has it'),
    'blank': ('README.md', '# A tree \n', 'white space at the end'),
    'brace': ('src/core/x.c', 'int x(void) {\n}\n', 'brace stands on its own line'),
    'call': ('src/core/x.c', 'static int x = 1;\nint y = time(0);\n', 'clocks belong'),
    'clang-format': ('src/core/x.c', 'static  int x = 1;\n', 'not as clang-format has it'),
    'diagram': ('src/other/x.c', '#include "core/err.h"\n', 'src/other is not in the diagram'),
    'file': ('src/core/x.c', 'int x;\n' * 601, '601 lines; 600 are the most'),
    'foreign': ('src/net/x.h', 'int weir_net_gradient(int);\n', 'net/ knows nothing of a gradient'),
    'function': ('src/core/x.c', 'int x(void)\n{\n' + LONG + '}\n', 'a function of 63 lines'),
    'header': ('include/weir.h', '#include "core/err.h"\n', 'weir.h includes nothing of ours'),
    'include': ('src/codec/x.c', '#include "codec.h"\n', 'name its folder'),
    'known': ('scripts/linting/known', 'type weir_gone\n', 'type weir_gone is mended'),
    'library': ('src/codec/x.c', '#include <zmq.h>\n', 'zmq.h is not included here'),
    'misplaced': (
        'src/codec/more.c',
        '#include "codec/codec.h"\n\nconst weir_codec weir_codec_none = {1};\n',
        'belongs in codec/none.c',
    ),
    'newline': ('docs/A.md', 'no end', 'no newline at the end'),
    'parameters': ('src/core/x.c', SEVEN, 'x takes 7 parameters; 6 are the most'),
    'tab': ('docs/A.md', 'a\tb\n', 'a tab'),
    'type': ('src/train/x.h', TYPE, 'weir_codec is defined in src/codec/codec.h:2 too'),
    'unlisted': (
        'src/codec/more.c',
        '#include "codec/codec.h"\n\nconst weir_codec weir_codec_more = {1};\n',
        'more is not in codec/list.h',
    ),
    'width': ('docs/A.md', 'x ' * 60 + 'x\n', 'more than 100 columns'),
    'word': (
        'src/train/x.h',
        'int weir_codec_of(int);\n',
        'that of weir_codec in src/codec/codec.h',
    ),
}
# a fault that brings another with it
WITH = {'type': {'word'}}


def make(root, more=()):
    """The clean tree, with these files in it too."""
    root.mkdir(exist_ok=True)
    shutil.copy(os.path.join(ROOT, '.clang-format'), root)
    for path, text in dict(CLEAN, **dict(more)).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def lint(root, *fakes, formatters=False):
    """(exit code, lines); without formatters, unless asked, as they take longest."""
    path = os.environ['PATH'] if formatters else '/nowhere'
    p = subprocess.run(
        [sys.executable, LINT, root],
        capture_output=True,
        text=True,
        env=dict(os.environ, PATH=':'.join([*map(str, fakes), path])),
    )
    assert not p.stderr, p.stderr
    return p.returncode, p.stdout.splitlines()


def refused(root, where, what, formatters=False):
    """The one fault that there is."""
    code, lines = lint(root, formatters=formatters)
    found = [line for line in lines if line.startswith(where + ':')]
    assert code == 1 and len(found) == 1 and what in found[0], lines
    assert lines[-1] == 'lint: 1 found', lines


def test_every_kind_of_fault_has_a_tree_below():
    kinds = subprocess.run([LINT, '--kinds'], capture_output=True, text=True).stdout.split()
    assert sorted(kinds) == sorted(FAULTS)


def test_a_clean_tree_passes(tmp_path):
    code, lines = lint(make(tmp_path), formatters=True)
    assert code == 0 and lines == [f'lint: {len(CLEAN) + 1} files clean'], lines


@pytest.mark.parametrize('kind', sorted(FAULTS))
def test_a_fault_is_refused(tmp_path, kind):
    path, text, what = FAULTS[kind]
    root = make(tmp_path, {path: text})
    if kind in WITH:  # the other one is known, and so this one is alone
        make(tmp_path, {path: text, 'scripts/linting/known': 'word codec\n'})
    if kind == 'misplaced':
        (root / 'src/codec/none.c').unlink()
    refused(root, path, what, formatters=kind in ('black', 'clang-format'))


# ---- every row of a table ----

CALLED = [
    'pthread_create(0);',
    'clock_gettime(0, 0);',
    'socket(1, 2, 3);',
    'select(0);',
    'fork();',
    'sigaction(1, 0, 0);',
    'isatty(1);',
    'abort();',
    'weir_group_make(0);',
    'printf("x");',
    'fputs("x", stderr);',
]


def test_every_call_has_its_files(tmp_path):
    text = 'void x(void)\n{\n' + ''.join(f'    {line}\n' for line in CALLED) + '}\n'
    code, lines = lint(make(tmp_path, {'src/optim/x.c': text}))
    said = [line for line in lines if line.startswith('src/optim/x.c:')]
    assert code == 1 and len(said) == len(CALLED) == len(calls.CALLS), lines
    for _, _, why in calls.CALLS:
        assert any(why in line for line in said), why


def test_a_member_of_that_name_is_somebody_elses(tmp_path):
    text = 'int x(weir_err *e)\n{\n    return e->time(1) + e.clock(2) + a_time(3);\n}\n'
    assert lint(make(tmp_path, {'src/core/x.c': text}))[0] == 0


def test_every_library_has_its_files(tmp_path):
    headers = ['dnnl.h', 'zmq.h', 'mpi.h', 'jansson.h', 'xxhash.h', 'zlib.h']
    text = ''.join(f'#include <{h}>\n' for h in headers)
    _, lines = lint(make(tmp_path, {'src/optim/x.c': text}))
    assert len(headers) == len(includes.LIBRARY)
    for header in headers:
        assert any(f'{header} is not included here' in line for line in lines), lines


@pytest.mark.parametrize('folder', sorted(includes.MAY))
def test_every_arrow_of_the_diagram(tmp_path, folder):
    """what may be included is, and nothing else"""
    others = sorted(includes.MAY)
    text = ''.join(f'#include "{other}/y.h"\n' for other in others)
    _, lines = lint(make(tmp_path, {f'src/{folder}/x.c': text}))
    for n, other in enumerate(others, 1):
        may = other in (folder, 'core', *includes.MAY[folder].split())
        said = f'src/{folder}/x.c:{n}: {folder} may not include {other}' in lines
        assert said != may, (folder, other)


@pytest.mark.parametrize('axis', lists.AXES, ids=lambda axis: axis[2])
def test_every_axis_has_its_list(tmp_path, axis):
    folder, table, kind, _ = axis
    text = f'const weir_{kind} weir_{kind}_new = {{0}};\n'
    root = make(tmp_path, {f'src/{folder}/new.c': text})
    refused(root, f'src/{folder}/new.c', f'new is not in {folder}/{table}')
    before = CLEAN.get(f'src/{folder}/{table}', '')
    (root / f'src/{folder}/{table}').write_text(before + 'X(new)\n')
    assert lint(root)[0] == 0


@pytest.mark.parametrize('folder', sorted(names.FOREIGN))
def test_no_folder_speaks_of_what_it_does_not_know(tmp_path, folder):
    words = names.FOREIGN[folder].split()
    text = ''.join(f'int weir_{folder}_{word}(int);\n' for word in words)
    _, lines = lint(make(tmp_path, {f'src/{folder}/x.h': text}))
    for n, word in enumerate(words, 1):
        what = f'weir_{folder}_{word}: {folder}/ knows nothing of a {word}'
        assert f'src/{folder}/x.h:{n}: {what}' in lines, lines


@pytest.mark.parametrize(
    'text',
    [
        'int weir_codec_of(int);',
        'extern int weir_codec_of[];',
        'static inline int weir_codec_of(int x)\n{\n    return x;\n}',
        'enum { WEIR_CODEC_OF = 1 };',
        '#define WEIR_CODEC_OF 1',
        'typedef struct weir_codec_of {\n    int x;\n} weir_codec_of;',
        'typedef int weir_codec_of;',
        'typedef int (*weir_codec_of)(int);',
        'typedef enum { A, B } weir_codec_of;',
        'struct weir_codec_of {\n    int x;\n};',
    ],
)
def test_a_word_belongs_to_one_folder_whatever_is_called_by_it(tmp_path, text):
    refused(make(tmp_path, {'src/train/x.h': text + '\n'}), 'src/train/x.h', 'the word is that of')


def test_using_a_name_is_not_declaring_it(tmp_path):
    text = (
        'typedef struct weir_codec weir_codec;\n'
        'weir_codec *weir_train_codec(weir_codec *, int (*bits)(const weir_codec *));\n'
        'static inline int weir_train_bits(const weir_codec *c)\n'
        '{\n    return weir_codec_bits(c) + WEIR_CODEC_BITS;\n}\n'
    )
    assert lint(make(tmp_path, {'src/train/x.h': text}))[0] == 0


@pytest.mark.parametrize(
    'text',
    [
        'static inline long *y(char a, int b, int c,\n    int d, int e, int f, int g)\n{\n}',
        'float y(int a, int b, int c, int d, int e, int f, int g) { return 0; }',
        'INLINE int y(int a[2], int b, int c, int d, int e, int f, ...)\n{\n}',
    ],
)
def test_parameters_are_counted_whatever_they_look_like(tmp_path, text):
    root = make(tmp_path, {'src/core/x.h': text + '\n'})
    refused(root, 'src/core/x.h', 'y takes 7 parameters')


@pytest.mark.parametrize(
    'text',
    [
        'int y(int a, int b, int c, int d, int e, int (*f)(int, int, int))\n{\n}',
        'int y(void)\n{\n    return z(1, 2, 3, 4, 5, 6, 7);\n}',
        'int y(int a, int b, int c, int d, int e, int f, int g);',
        'typedef int (*y)(int, int, int, int, int, int, int);',
        '#define Y(a, b, c, d, e, f, g) \\\n    {                        \\\n    }',
    ],
)
def test_calls_and_declarations_have_no_body(tmp_path, text):
    """whoever declares a function somewhere defines it somewhere else"""
    assert lint(make(tmp_path, {'src/core/x.h': text + '\n'}))[0] == 0


@pytest.mark.parametrize(
    'path',
    ['src/core/x.c', 'scripts/tool', 'scripts/run', 'Makefile', 'a.py', 'a.1', 'a.net', 'a.conf'],
)
def test_all_languages_have_a_width(tmp_path, path):
    first = CLEAN.get(path, '\n').split('\n')[0]
    text = first + '\n# ' + 'x' * 98 + '\n'
    fits = first + '\n# ' + 'x' * 97 + '\n'
    if path.endswith('.c'):
        text, fits = (t.replace('# ', '//') + 'int x;\n' for t in (text, fits))
    refused(make(tmp_path / 'wide', {path: text.replace('x' * 98, 'x' * 99)}), path, '100 columns')
    assert lint(make(tmp_path / 'fits', {path: fits}))[0] == 0


def test_a_span_of_code_is_broken_only_where_no_line_holds_it(tmp_path):
    short, long = '`' + 'a ' * 30 + 'z`', '`' + 'b ' * 60 + 'z`'
    page = tmp_path / 'A.md'
    page.write_text(f'- words {long} and {short} and {short}\n')
    subprocess.run([sys.executable, os.path.join(ROOT, 'scripts/wrap'), page], check=True)
    text = page.read_text()
    assert max(map(len, text.split('\n'))) <= 100 and text.count(short) == 2, text


# ---- known faults, other formatters ----


def test_a_known_fault_stands_until_it_is_mended(tmp_path):
    path, text, _ = FAULTS['base']
    root = make(tmp_path, {path: text, 'scripts/linting/known': '# why\nbase codec.h\n'})
    assert lint(root)[0] == 0
    (root / path).unlink()
    refused(root, 'scripts/linting/known', 'base codec.h is mended: take it out')


@pytest.mark.parametrize('version', ['13.0.1', '19.1.0'])
def test_another_clang_format_is_not_asked(tmp_path, version):
    fake = tmp_path / 'bin/clang-format'
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\necho "Debian clang-format version {version}"\n')
    fake.chmod(0o755)
    path, text, _ = FAULTS['clang-format']
    code, lines = lint(make(tmp_path / 'tree', {path: text}), fake.parent)
    assert code == 0 and 'lint: clang-format 14 is not here: how C looks is not checked' in lines


def test_without_formatters_it_says_so(tmp_path):
    path, text, _ = FAULTS['black']
    code, lines = lint(make(tmp_path, {path: text}))
    assert code == 0 and 'lint: black is not here: how Python looks is not checked' in lines
