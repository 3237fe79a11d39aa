"""Results are data: docs/bench/NAME.jsonl has a line a row of figures, with the machine, the
commit, the command and the date. Tables in docs/BENCH.md and README.md are made from them by
bench/tables; of two lines about the same thing on the same machine the later one counts.

  {"bench": ..., "machine": {"cpu", "isa", "cores", "memory_gib", "system"}, "commit": ...,
   "command": ..., "date": ..., "figures": {...}}

A line with "remark" in place of "figures" is a sentence about that bench on that machine. All of
it is known, but for lines with "entered": those were measured before this was taken down, and
entered by hand from the page as that commit had it. There will be no more of them
(tests/test_figures.py counts them)."""
import datetime, json, os, shlex, subprocess, sys
from runs import ROOT

FOLDER = os.path.join(ROOT, 'docs/bench')
PROGRAM = ('src', 'include', 'models', 'bench', 'Makefile')  # what figures depend on
ISA = dict(avx512='AVX-512', avx2='AVX2', base='no AVX2')


def options(parser):
    """those that every bench has"""
    parser.add_argument('--json', metavar='FILE', help='writes the figures there')
    parser.add_argument(
        '--record', action='store_true', help='adds them to docs/bench and makes the tables anew'
    )


def isa():
    with open('/proc/cpuinfo') as f:
        flags = f.read()
    return next((i for i in ('avx512', 'avx2') if i in flags), 'base')


def read_first(path, start, end=''):
    """what follows `start` on the first line that begins so"""
    try:
        with open(path) as f:
            line = next(s for s in f if s.startswith(start))
    except (OSError, StopIteration):
        return 'unknown'
    return line[len(start) :].lstrip('\t :').strip().strip('"').removesuffix(end)


def machine():
    memory = read_first('/proc/meminfo', 'MemTotal:', ' kB')
    return dict(
        cpu=read_first('/proc/cpuinfo', 'model name'),
        isa=isa(),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(int(memory) / (1 << 20)) if memory.isdigit() else 'unknown',
        system=read_first('/etc/os-release', 'PRETTY_NAME='),
    )


def git(*words):
    p = subprocess.run(['git', *words], cwd=ROOT, capture_output=True, text=True)
    return p.stdout.strip() if p.returncode == 0 else 'unknown'


def commit():
    """a + behind it: files that figures depend on differ from it"""
    head = git('rev-parse', '--short', 'HEAD')
    changed = git('status', '--porcelain', '--untracked-files=no', '--', *PROGRAM)
    return head + ('+' if changed and head != 'unknown' else '')


def rounded(value):
    """five digits are more than any run repeats"""
    return float(f'{value:.5g}') if isinstance(value, float) else value


def keep(a, rows):
    """as the options say: what was measured, as data"""
    if a.json:
        with open(a.json, 'w') as f:
            json.dump(rows, f, indent=1)
    if a.record:
        record(os.path.basename(sys.argv[0]), rows)


def origin(command):
    """where figures are from; one that is not known is not kept"""
    here, head = machine(), commit()
    missing = [k for k, v in dict(here, commit=head).items() if v == 'unknown']
    if missing:
        sys.exit(f'nothing is recorded: {", ".join(missing)} cannot be found out')
    return dict(machine=here, commit=head, command=command, date=datetime.date.today().isoformat())


def machine_words(m):
    """as captions have it; of old lines not all is known"""
    if m['cpu'] == 'unknown':
        return f'{m["cores"]} cores of a machine that was not noted'
    article = 'an' if m['cpu'][0] in 'AEIOU' else 'a'
    words = [f'{m["cores"]} cores of {article} {m["cpu"]} ({ISA.get(m["isa"], m["isa"])})']
    words += [f'{m["memory_gib"]} GiB'] if m['memory_gib'] != 'unknown' else []
    return ', '.join(words + ([m['system']] if m['system'] != 'unknown' else []))


def record(bench, rows, command=None):
    """a line a row; then the tables"""
    given = [w for w in sys.argv[1:] if w != '--record']
    about = dict(bench=bench, **origin(command or shlex.join([f'bench/{bench}', *given])))
    os.makedirs(FOLDER, exist_ok=True)
    with open(os.path.join(FOLDER, f'{bench}.jsonl'), 'a') as f:
        for figures in rows:
            own = {k: rounded(v) for k, v in figures.items()}
            f.write(json.dumps(dict(about, figures=own)) + '\n')
    make_tables()


def make_tables():
    subprocess.run([os.path.join(ROOT, 'bench/tables')], check=True)
