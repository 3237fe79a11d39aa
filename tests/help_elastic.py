"""Runs whose members change: how they are begun, ended, and looked at afterwards."""
import signal
from help_runs import steps_logged
from weirlib import SMALL, children, end, events, leftovers, start, wait_for

WORKERS = 4
STEPS = 160  # ten epochs
COMMON = (
    f'--model lenet --data {SMALL} --batch 64 --steps {STEPS} --save-every 20 --eval-every 50'
    ' --threads 1 --quiet'
).split()
SAMPLES = 10 * 1000
ENDLESS = ('--steps', 100000)  # until it is stopped


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


def stop(out, *processes):
    """All are told to; the log's changes of members. They have come as far as the log says, with
    every sample of an epoch, which is 1,000 in 16 steps."""
    for p in processes:
        p.send_signal(signal.SIGTERM)
    for p in processes:
        _, err = p.communicate(timeout=120)
        assert p.returncode == 143, err
    assert not leftovers() and end(out)['replicas'] == 1
    steps = end(out)['steps']
    assert end(out)['samples'] == steps // 16 * 1000 + steps % 16 * 64
    return events(out, 'member')


def members(out):
    """those there are, after the last change"""
    return events(out, 'member')[-1]['members'] if events(out, 'member') else []


def joins(out):
    return sum(e['joined'] for e in events(out, 'member'))
