"""Runs whose members change: how they are begun, ended, and looked at afterwards."""
from help_runs import steps_logged
from weirlib import SMALL, children, end, events, leftovers, start, wait_for

WORKERS = 4
STEPS = 160  # ten epochs
COMMON = (
    f'--model lenet --data {SMALL} --batch 64 --steps {STEPS} --save-every 20 --eval-every 50'
    ' --threads 1 --quiet'
).split()
SAMPLES = 10 * 1000


def launch(out, *more, workers=WORKERS):
    p = start('train', '--out', out, *COMMON, *more, '--workers', workers)
    ranks = wait_for(lambda: len(children(p.pid)) == workers and children(p.pid))
    steps_logged(out, 3, 60)
    return p, ranks


def finish(p, out, code=0):
    _, err = p.communicate(timeout=120)
    assert p.returncode == code, err
    assert not leftovers()
    return events(out, 'member')


def members(out):
    """those there are, after the last change"""
    return events(out, 'member')[-1]['members'] if events(out, 'member') else []


def joins(out):
    return sum(e['joined'] for e in events(out, 'member'))
