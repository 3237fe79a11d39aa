"""Runs inside another program: nothing is printed, and whoever wants to hear hears."""
import os, shutil, subprocess
import pytest
from weirlib import ROOT, SMALL, WEIR, environment

PROGRAM = r'''#include <weir.h>
#include <stdio.h>
#include <string.h>
static void event(void *arg, const char *json) {
    (void)arg; if (strstr(json, "\"warning\"")) printf("event %s\n", json); }
#ifdef LISTEN
static void hear(void *arg, int level, const char *part, const char *text) {
    printf("%s %d %s: %s\n", (char *)arg, level, part, text); }
#endif
int main(int argc, char **argv) {
    weir_run *run; weir_result r;
    if (weir_run_new(&run)) return 1;
    for (int i = 1; i + 1 < argc; i += 2)
        if (weir_run_set(run, argv[i], argv[i + 1])) return 2;
    weir_run_on_event(run, event, NULL);
#ifdef LISTEN
    weir_on_log(hear, "heard");
#endif
    if (weir_run_train(run, &r)) { puts(weir_run_error(run)); return 3; }
    weir_run_free(run); return 0; }
'''
# three steps, all of them dense: that is worth a warning
SHORT = ['model', f'{ROOT}/models/mlp.net:hidden=16', 'data', SMALL, 'steps', '3', 'threads', '1']
SHORT += ['codec', 'strom']


def program(folder, *flags):
    (folder / 'e.c').write_text(PROGRAM)
    dnn = f'{ROOT}/.deps/onednn/lib'
    libs = ['-L' + dnn, '-Wl,-rpath,' + dnn] if os.path.isdir(dnn) else []
    libs += '-ldnnl -lzmq -ljansson -lz -lxxhash -lgomp -lm -pthread'.split()
    if shutil.which('mpicc'):
        show = (
            ['-showme:link'] if b'Open MPI' in mpicc('--version', '-showme:version') else ['-show']
        )
        libs += [x for x in mpicc(*show).decode().split() if x[:2] in ('-L', '-l')]
    library = os.path.dirname(WEIR) + '/libweir.a'
    command = ['gcc', '-Wall', f'-I{ROOT}/include', folder / 'e.c', *flags, library, *libs]
    subprocess.run([*command, '-o', folder / 'e'], check=True)
    return folder / 'e'


def mpicc(*options):
    return b''.join(subprocess.run(['mpicc', o], capture_output=True).stdout for o in options)


def run(path, *args, **env):
    p = subprocess.run(
        [path, *map(str, args)], capture_output=True, text=True, env=environment(**env)
    )
    assert p.returncode == 0, p.stdout + p.stderr
    return p.stdout, p.stderr


@pytest.mark.mended
def test_nothing_is_printed(tmp_path):
    out, err = run(program(tmp_path), *SHORT, 'out', tmp_path / 'run')
    assert err == '' and out.count('event {') == 1 and 'nothing is compressed' in out
    # resumed, with a log elsewhere
    out, err = run(tmp_path / 'e', 'resume', tmp_path / 'run', 'log', tmp_path / 'log')
    assert err == '' and 'finished' in out and 'finished' in (tmp_path / 'log').read_text()


def test_who_listens_hears(tmp_path):
    out, err = run(program(tmp_path, '-DLISTEN'), *SHORT)
    assert err == '' and 'heard 1 train: --codec strom: nothing is compressed' in out
    assert 'heard 2' not in out


def test_who_listens_hears_what_weir_debug_asks_for(tmp_path):
    out, err = run(program(tmp_path, '-DLISTEN'), *SHORT, WEIR_DEBUG='info,train', WEIR_DEBUGG='1')
    assert err == '' and 'heard 2 train: rank and size by alone' in out
    assert 'heard 1 env: the variable WEIR_DEBUGG is not known' in out
