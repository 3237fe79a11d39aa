"""Figures in docs/BENCH.md and README.md are those of docs/bench/*.jsonl, and there are no others:
one that is changed, or that the data do not have, is found."""
import importlib.machinery, importlib.util, json, os, re, shutil, subprocess, sys
import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BENCH = os.path.join(ROOT, 'bench')
DATA = os.path.join(ROOT, 'docs/bench')
sys.path.insert(0, BENCH)
sys.dont_write_bytecode = True
import results


def load(name):
    loader = importlib.machinery.SourceFileLoader(f'weir_bench_{name}', os.path.join(BENCH, name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


tables = load('tables')


def lines(bench):
    with open(os.path.join(DATA, f'{bench}.jsonl')) as f:
        return [json.loads(line) for line in f]


def read(page, root=ROOT):
    with open(os.path.join(root, page)) as f:
        return f.read()


@pytest.fixture
def copy(tmp_path):
    """the pages and the data, to be spoilt"""
    shutil.copytree(DATA, tmp_path / 'docs/bench')
    for page in tables.PAGES:
        shutil.copy(os.path.join(ROOT, page), tmp_path / page)
    return tmp_path


def check(root):
    p = subprocess.run(
        [sys.executable, os.path.join(BENCH, 'tables'), '--check', '--root', str(root)],
        capture_output=True,
        text=True,
    )
    return p.returncode, p.stderr


def test_made_again_nothing_changes():
    assert check(ROOT) == (0, '')


@pytest.mark.parametrize('page', tables.PAGES)
def test_a_changed_figure_is_found(copy, page):
    """every figure of every block, one after the other"""
    text = read(page)
    folder = os.path.join(copy, 'docs/bench')
    for block in tables.BLOCK.finditer(text):
        inside = block[0][len(block[1]) : -len(block[3])]
        found = list(re.finditer(r'\d+(?=[ ,.|)])', inside))
        assert found, f'{block[2]} of {page} has no figures'
        for m in found[:: max(1, len(found) // 8)]:
            at = block.start() + len(block[1]) + m.start()
            digit = str((int(text[at]) + 1) % 10)
            spoilt = text[:at] + digit + text[at + 1 :]
            assert tables.made(spoilt, page, folder) == text != spoilt
    (copy / page).write_text(text.replace('1', '2'))
    code, said = check(copy)
    assert code == 1 and page in said


def test_a_figure_without_data_is_found(copy):
    for name in ('compute_vs_torch', 'slow_network', 'demo'):
        path = copy / f'docs/bench/{name}.jsonl'
        kept = path.read_text().splitlines(keepends=True)
        last = max(i for i, line in enumerate(kept) if 'figures' in json.loads(line))
        path.write_text(''.join(kept[:last] + kept[last + 1 :]))
        code, said = check(copy)
        assert code == 1, name
        path.write_text(''.join(kept))
    assert check(copy) == (0, '')


def outside(page):
    """what nobody made: without the blocks, code and links"""
    text = tables.BLOCK.sub('', read(page))
    text = re.sub(r'^ *```.*?^ *```', '', text, flags=re.S | re.M)
    return re.sub(r'`[^`]*`|\]\([^)]*\)', '', text)


def figures_of_hand(text):
    """numbers with a decimal point, and cells of tables that are nothing but a number"""
    cells = [c.strip() for s in text.splitlines() if s.startswith('|') for c in s.split('|')]
    alone = [c for c in cells if re.fullmatch(r'[-+×x ]*\d[\d.,]*( ?(%|MiB|s|ms|us|x|×))?', c)]
    return alone + re.findall(r'(?<![\w.-])\d+\.\d+(?![\w.])', text)


@pytest.mark.parametrize('page', tables.PAGES)
def test_no_figure_outside_the_blocks(page):
    assert figures_of_hand(outside(page)) == []
    assert figures_of_hand(outside(page) + '\n| mlp | 9,645 | 1.33 |\n') == [
        '9,645',
        '1.33',
        '1.33',
    ]


# Records from before machine, commit, command and date were taken down with every figure. They were
# entered by hand from BENCH.md, README.md and CONVERGENCE.md as the page had them, which did not
# always say the memory, the system or the whole command, and never the commit of the program. A
# bench, and how many such lines it has for the commit (`entered`) whose page had them. Whoever
# measures again may take lines out here; nobody adds any.
OLD = {
    'allreduce_vs_peers': {'b56c20a': 18, '4721cd2': 19},
    'codec_vs_copy': {'598a488': 14, '3eefb7e': 9, '3afac4c': 9, 'd4cc74a': 4, '13099e2': 1},
    'compute_vs_torch': {'b56c20a': 14, '0958f72': 1},
    'crossover': {'ca86782': 9},
    'demo': {'bc43875': 2},
    'ring_vs_iperf': {'c678388': 2},
    'slow_network': {'30fbd38': 7, 'c678388': 7, 'd4cc74a': 56, 'd1da385': 1, '55a7abe': 1},
    'time_to_accuracy': {'b653a10': 6, 'fa90d77': 2},
    'train_vs_ddp': {'fed37ae': 6, 'c678388': 6},
}
# of these not even the machine is known: captions may say so until somebody measures again
UNNOTED = {'demo': 'bc43875'}
OLD_CONVERGENCE = 222  # rows that have their commit, but no machine, command and date
MACHINE = ['cpu', 'isa', 'cores', 'memory_gib', 'system']


def faults_of(line, bench):
    """what a record does not say of where it is from; of an old one less is asked"""
    asked = [*MACHINE, 'commit', 'command', 'date']
    if bench == 'convergence' and 'machine' not in line:
        asked = ['commit']
    elif 'entered' in line:
        unnoted = UNNOTED.get(bench) == line['entered']
        asked = ['date'] if unnoted else ['cpu', 'isa', 'cores', 'date']
    said = dict(line, **line.get('machine', {}))
    return [k for k in asked if 'unknown' in str(said.get(k, 'unknown'))]


BENCHES = sorted(f[:-6] for f in os.listdir(DATA))


@pytest.mark.parametrize('bench', BENCHES)
def test_lines_say_where_they_are_from(bench):
    """the rows of CONVERGENCE.md have a form of their own (bench/convergence)"""
    for line in lines(bench):
        assert faults_of(line, bench) == [], line
        if bench == 'convergence':
            assert {'table', 'codec', 'seed', 'commit', 'did'} <= line.keys()
            continue
        assert line['bench'] == bench and ('figures' in line) != ('remark' in line)
        assert re.fullmatch(r'\d{4}-\d\d-\d\d', line['date'])


@pytest.mark.parametrize('bench', BENCHES)
def test_no_more_old_lines(bench):
    if bench == 'convergence':
        assert len([e for e in lines(bench) if 'machine' not in e]) <= OLD_CONVERGENCE
        return
    entered = [e['entered'] for e in lines(bench) if 'entered' in e]
    for commit in set(entered):
        assert entered.count(commit) <= OLD.get(bench, {}).get(commit, 0), (bench, commit)


def test_a_line_that_does_not_say_where_it_is_from_is_found():
    here = dict(cpu='Test CPU', isa='avx2', cores=3, memory_gib=5, system='Test')
    good = dict(machine=here, commit='abc1234', command='bench/x', date='2026-11-20', figures={})
    assert faults_of(good, 'compute_vs_torch') == faults_of(good, 'convergence') == []
    for key in ('commit', 'command', 'date'):
        without = {k: v for k, v in good.items() if k != key}
        for spoilt in (without, dict(good, **{key: 'unknown'})):
            assert faults_of(spoilt, 'demo') == faults_of(spoilt, 'convergence') == [key]
    for key in MACHINE:
        spoilt = dict(good, machine=dict(here, **{key: 'unknown'}))
        assert faults_of(spoilt, 'demo') == faults_of(spoilt, 'convergence') == [key]
        old = dict(spoilt, entered='b56c20a')
        assert faults_of(old, 'demo') == ([] if key in ('memory_gib', 'system') else [key])
        assert faults_of(dict(spoilt, entered=UNNOTED['demo']), 'crossover') == faults_of(
            old, 'crossover'
        )
    assert faults_of({k: v for k, v in good.items() if k != 'machine'}, 'demo') == MACHINE


MACHINE_WORDS = re.compile(
    r'\b\d+ cores of an? (?!machine\b|unknown)\S.* \((AVX-512|AVX2|no AVX2)\)'
)


def machines_of(block):
    """captions that name one"""
    paragraphs = [' '.join(p.split()) for p in block.split('\n\n')]
    return [p for p in paragraphs if p.startswith('On ') and MACHINE_WORDS.search(p)]


def test_the_machine_is_in_every_caption():
    for page in tables.PAGES:
        for block in tables.BLOCK.finditer(read(page)):
            newest = lines(block[2])[-1] if block[2] in UNNOTED else {}
            if newest.get('entered') and newest['entered'] == UNNOTED.get(block[2]):
                continue
            heads = re.findall(r'^\|---', block[0], re.M)
            assert len(machines_of(block[0])) >= len(heads), f'{block[2]} of {page}'
            assert MACHINE_WORDS.search(' '.join(block[0].split())), f'{block[2]} of {page}'


def test_a_caption_without_a_machine_is_found():
    assert machines_of('On 2 cores of a machine that was not noted: `make demo` (...).\n') == []
    assert machines_of('On 2 cores of an unknown (unknown): `make demo` (...).\n') == []
    assert len(machines_of('x\n\nOn 2 cores of an AMD\nEPYC (AVX2), 24 GiB: `make`.\n')) == 1


def test_nothing_is_recorded_without_its_origin(copy, monkeypatch):
    monkeypatch.setattr(results, 'FOLDER', str(copy / 'docs/bench'))
    monkeypatch.setattr(results, 'git', lambda *w: 'unknown')
    before = read('docs/bench/demo.jsonl', copy)
    with pytest.raises(SystemExit, match='commit cannot be found out'):
        results.record('demo', [dict(lines('demo')[-1]['figures'])], command='make demo')
    assert read('docs/bench/demo.jsonl', copy) == before


def test_recorded_figures_appear(copy, monkeypatch):
    """a bench on another machine: a table more, of that machine, and README has it too"""
    row = dict(lines('compute_vs_torch')[0]['figures'], weir_samples=4321.0, better=9.87)
    here = dict(cpu='Test CPU', isa='avx2', cores=3, memory_gib=5, system='Test')
    monkeypatch.setattr(results, 'FOLDER', str(copy / 'docs/bench'))
    monkeypatch.setattr(results, 'machine', lambda: here)
    monkeypatch.setattr(results, 'make_tables', lambda: tables_in(copy))
    monkeypatch.setattr(results, 'git', lambda *w: 'abc1234' if w[0] == 'rev-parse' else '')
    monkeypatch.setattr(sys, 'argv', ['bench/compute_vs_torch', '--rounds', '2', '--record'])
    results.record('compute_vs_torch', [row])
    for page in tables.PAGES:
        text = read(page, copy)
        assert '3 cores of a Test CPU (AVX2), 5 GiB, Test' in text
        assert '| 4,321 |' in text and '| 9.87 |' in text
        assert '| 6,748 |' in read('docs/BENCH.md', copy)  # the other machine's is still there
    said = ' '.join(read('docs/BENCH.md', copy).split())
    assert '`bench/compute_vs_torch --rounds 2` (commit abc1234, ' in said
    assert check(copy) == (0, '')
    results.record('compute_vs_torch', [dict(row, weir_samples=5432.0)])
    assert '4,321' not in read('docs/BENCH.md', copy) and '5,432' in read('docs/BENCH.md', copy)


def tables_in(root):
    for page in tables.PAGES:
        text = tables.made(read(page, root), page, os.path.join(root, 'docs/bench'))
        (root / page).write_text(text)


def test_a_block_without_an_end(copy):
    page = copy / 'README.md'
    page.write_text(page.read_text().replace('<!-- end of demo -->', ''))
    code, said = check(copy)
    assert code == 1 and 'a block has no end' in said
