"""What is built and installed: it can be moved, holds no path of the machine it was made on, and
other programs link to it."""
import glob
import json
import os
import re
import shutil
import subprocess
import pytest
from weirlib import ROOT, SMALL, WEIR, environment, weir

PREFIX = '/opt/weir'
PROGRAM = r'''#include <weir.h>
#include <stdio.h>
static void event(void *n, const char *json) { (void)json; ++*(int *)n; }
int main(int argc, char **argv) {
    weir_run *run; weir_result r; int events = 0;
    if (argc < 2 || weir_run_new(&run)) return 1;
    if (weir_run_set(run, "nonsense", "1") != WEIR_USAGE) return 2;
    weir_run_set(run, "model", argv[1]); weir_run_set(run, "data", "DATA");
    weir_run_set(run, "steps", "3");
    weir_run_on_event(run, event, &events);
    if (weir_run_train(run, &r)) { puts(weir_run_error(run)); return 3; }
    printf("%d events, %s %g\\n", events, r.metric, r.value);
    weir_run_free(run); return 0; }
'''.replace(
    'DATA', SMALL
)


def run(*command, **env):
    """Runs a command to its end, and gives what it prints."""
    p = subprocess.run(
        [str(c) for c in command], cwd=ROOT, env=environment(**env), capture_output=True, text=True
    )
    assert p.returncode == 0, (command, p.stdout, p.stderr)
    return p.stdout


def pkg_config(*options, **env):
    return run('pkg-config', *options, 'weir', **env).split()


def embed(folder, flags, model, program='embeds'):
    """Compiles the program that embeds the library, and runs it on a model."""
    (folder / 'e.c').write_text(PROGRAM)
    run('gcc', '-Wall', '-Werror', folder / 'e.c', '-o', folder / program, *flags)
    assert 'accuracy' in run(folder / program, model)


@pytest.fixture(scope='module')
def staged(tmp_path_factory):
    """A tree installed for /opt/weir that lies elsewhere, as a packager's does."""
    stage = tmp_path_factory.mktemp('in stall')
    run('make', '-s', 'install', f'DESTDIR={stage}', f'PREFIX={PREFIX}')
    return stage


@pytest.fixture(scope='module')
def moved(staged, tmp_path_factory):
    """The same, moved to where nobody knew that it would lie."""
    place = tmp_path_factory.mktemp('moved') / 'weir'
    shutil.copytree(f'{staged}{PREFIX}', place, symlinks=True)
    return place


def test_nothing_is_installed_outside_of_destdir(staged):
    files = [p for p in glob.glob(f'{staged}/**', recursive=True) if not os.path.isdir(p)]
    assert files and all(p.startswith(f'{staged}{PREFIX}/') for p in files), files
    assert not os.path.exists(PREFIX)


def test_no_path_of_the_build_machine(staged):
    files = [WEIR, os.path.dirname(WEIR) + '/libweir.a']
    files += [p for p in glob.glob(f'{staged}/**', recursive=True) if os.path.isfile(p)]
    for path in files:
        with open(path, 'rb') as f:
            data = f.read()
        for machine in (ROOT, str(staged)):
            at = data.find(machine.encode())
            assert at < 0, (path, data[max(at - 40, 0) : at + 80])


def test_a_moved_tree_works(moved):
    listed = subprocess.run([moved / 'bin/weir', 'list', 'model'], capture_output=True, cwd='/')
    assert b'lenet' in listed.stdout
    run(moved / 'bin/weir', 'train', '--model', 'mlp:hidden=8', '--data', SMALL, '--steps', 2)


def test_another_program_finds_a_moved_library(moved):
    path = {'PKG_CONFIG_PATH': str(moved / 'lib/pkgconfig')}
    flags = pkg_config('--define-prefix', '--static', '--cflags', '--libs', **path)
    embed(moved, flags, moved / 'share/weir/models/mlp.net:hidden=16')
    embed(moved / 'bin', flags, 'mlp:hidden=16')


def test_another_program_is_built_in_a_sysroot(tmp_path):
    root = tmp_path / 'root'
    run('make', '-s', 'install', f'DESTDIR={root}', f'PREFIX={PREFIX}')
    env = {'PKG_CONFIG_PATH': f'{root}{PREFIX}/lib/pkgconfig', 'PKG_CONFIG_SYSROOT_DIR': str(root)}
    flags = pkg_config('--static', '--cflags', '--libs', **env)
    assert f'-I{root}{PREFIX}/include' in flags and f'-L{root}{PREFIX}/lib' in flags
    # where it is built, what will be in /opt is in the root; MPI's libraries are this machine's
    flags = [f.replace(f'-L{root}/usr', '-L/usr') for f in flags]
    (tmp_path / 'e.c').write_text(PROGRAM)
    run('gcc', tmp_path / 'e.c', '-o', tmp_path / 'e', *flags)


def test_another_program_finds_models_under_the_prefix(tmp_path):
    prefix = tmp_path / 'p'
    run('make', '-s', 'install', f'PREFIX={prefix}')
    flags = pkg_config('--static', '--cflags', '--libs', PKG_CONFIG_PATH=f'{prefix}/lib/pkgconfig')
    embed(tmp_path, flags, 'mlp:hidden=16')


def test_private_libraries_are_private(staged):
    env = {'PKG_CONFIG_PATH': f'{staged}{PREFIX}/lib/pkgconfig'}
    assert pkg_config('--libs', **env) == [f'-L{PREFIX}/lib', '-lweir']
    everything = pkg_config('--static', '--libs', **env)
    assert '-lweir' in everything and '-lzmq' in everything and '-ldnnl' in everything


def test_the_version_stands_in_one_place(staged):
    version = weir('--version')[0].split()[1]
    env = {'PKG_CONFIG_PATH': f'{staged}{PREFIX}/lib/pkgconfig'}
    assert pkg_config('--modversion', **env) == [version]
    with open(f'{staged}{PREFIX}/share/man/man1/weir.1') as f:
        assert f'"weir {version}"' in f.readline()
    places = 'Makefile bench examples include man models scripts src tests'.split()
    assert run('grep', '-rlFI', version, *places).split() == ['include/weir.h']


def test_compile_commands_name_every_source(tmp_path):
    copy = tmp_path / 'tree'
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns('build', '.git', '.deps', '.data'))
    subprocess.run(['make', '-s', 'compile_commands.json'], cwd=copy, check=True)

    with open(copy / 'compile_commands.json') as f:
        entries = json.load(f)
    assert {os.path.relpath(p, ROOT) for p in glob.glob(f'{ROOT}/src/*/*.c')} <= {
        e['file'] for e in entries
    }
    assert all(e['directory'] == str(copy) and '-c' in e['arguments'] for e in entries)
    assert not os.path.exists(copy / 'build')


def test_warnings_are_errors_for_developers_only():
    def compiled(*goal):
        said = run('make', '--always-make', '--dry-run', *goal)
        return [line for line in said.splitlines() if re.search(r' -c \S+\.c ', line)]

    for goal, errors in (
        (['build/release/weir'], False),
        (['build/release/weir', 'WERROR=1'], True),
        (['tests'], True),
        (['test'], False),
        (['test', 'WERROR=1'], True),
    ):
        commands = compiled(*goal)
        assert commands and all((' -Werror ' in c) == errors for c in commands), goal


def test_coverage_counts_what_was_run_and_what_was_not(tmp_path):
    """two folders: of one a line in two is run, of the other none"""
    sources = {
        'src/core/half.c': 'int run(void)\n{\n    return 1;\n}\n'
        'int idle(void)\n{\n    return 2;\n}\n',
        'src/net/none.c': 'int never(void)\n{\n    return 3;\n}\n',
        'main.c': 'int run(void);\nint main(void)\n{\n    return run() - 1;\n}\n',
    }
    objects = []
    for path, text in sources.items():
        objects.append(f'build/coverage/obj/{path}.o')
        for made in (path, objects[-1]):
            (tmp_path / made).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
        compiled = ['gcc', '--coverage', '-c', path, '-o', objects[-1]]
        subprocess.run(compiled, cwd=tmp_path, check=True)
    subprocess.run(['gcc', '--coverage', '-o', 'main', *objects], cwd=tmp_path, check=True)
    subprocess.run(['./main'], cwd=tmp_path, check=True)
    table = [os.path.join(ROOT, 'scripts/coverage'), 'build/coverage']
    said = subprocess.run(table, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in said.splitlines()[1:]]
    assert rows == [
        ['src/core', '4', '2', '50.0%'],
        ['src/net', '2', '0', '0.0%'],
        ['all', '6', '2', '33.3%'],
    ]
