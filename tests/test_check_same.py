"""tests/check_same finds what it should: false programs write logs whose numbers come from their
options, and from a fault or two."""
import os, stat, subprocess, sys

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = '''#!{python}
import hashlib, json, os, sys
options = dict(zip(sys.argv[2::2], sys.argv[3::2]))
out = options.pop('--out', None) or options['--resume']
told = os.path.join(out, 'options')
if '--resume' in options:
    options = dict(eval(open(told).read()), **options)
    del options['--resume']
if {fault}:
    sys.exit('it crashed')
os.makedirs(out, exist_ok=True)
open(told, 'w').write(repr(options))
same = {same}
options.update({changes})
text = 'all the same' if same else repr(sorted(options.items()))
numbers = dict(params_hash=hashlib.sha256(text.encode()).hexdigest()[:16], steps=1, samples=1,
               loss={loss}, value=1, replicas=1)
with open(os.path.join(out, 'log.jsonl'), 'w') as f:
    print(json.dumps(dict(event='eval', loss=1)), file=f)
    print(json.dumps(dict(event='end', **numbers)), file=f)
'''


def program(path, fault='False', same='False', changes='{}', loss='1'):
    filled = dict(python=sys.executable, fault=fault, same=same, changes=changes, loss=loss)
    path.write_text(PROGRAM.format(**filled))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def check(old, new, *more):
    p = subprocess.run(
        [sys.executable, os.path.join(HERE, 'check_same'), old, new, *more],
        capture_output=True,
        text=True,
    )
    return p.returncode, p.stdout + p.stderr


def test_the_same(tmp_path):
    old = program(tmp_path / 'old')
    code, said = check(old, program(tmp_path / 'new'), '-k', 'workers, half')
    assert code == 0 and said.endswith('2 the same, 0 changed by a cure, 0 left out, 0 FAILED\n')


def test_a_difference_is_found_and_named(tmp_path):
    old = program(tmp_path / 'old')
    other = dict(changes="dict(x=1) if options.get('--codec') == 'half' else {}")
    code, said = check(old, program(tmp_path / 'new', **other), '-k', 'workers, half')
    line = next(s for s in said.splitlines() if s.startswith('3 workers, half '))
    assert code == 1 and 'DIFFERS: params_hash' in line and '1 FAILED' in said
    code, said = check(old, program(tmp_path / 'new', loss='2'), '-k', 'adamw')
    assert code == 1 and 'DIFFERS: loss 1 -> 2' in said


def test_a_program_that_fails(tmp_path):
    old, new = program(tmp_path / 'old'), program(tmp_path / 'new', fault='True')
    for pair in ((old, new), (new, old), (new, new)):
        code, said = check(*pair, '-k', 'adamw')
        assert code == 1 and 'it crashed' in said


def test_settings_that_do_not_differ(tmp_path):
    """a program that heeds no option is the same as itself, and yet is found"""
    blind = program(tmp_path / 'blind', same='True')
    code, said = check(blind, blind, '-k', 'workers, half')
    assert code == 1 and 'comes to the numbers of' in said


def test_twins_that_differ(tmp_path):
    """exact sums with 2 workers must come to what 1 comes to: here they do not"""
    old = program(tmp_path / 'old')
    code, said = check(old, old, '-k', 'exact, 2')
    assert code == 1 and 'exact, 2 workers should come to the numbers of exact' in said


def test_usage(tmp_path):
    old = program(tmp_path / 'old')
    assert check(old, str(tmp_path / 'nosuch'))[0] == 2
    code, said = check(old, old, '-k', 'nosuchsetting')
    assert code == 2 and 'nosuchsetting' in said
