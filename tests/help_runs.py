"""Runs that go on until a test ends them: how they are begun, awaited and seen to be gone."""
import os
from weirlib import SMALL, alive, children, events, start, wait_for

WORKERS = 4
# a million steps of lenet in each rank, on one thread, that save and evaluate often; a death ends
# it: how a run goes on is tried in test_elastic.py
LONG = (
    f'--model lenet --data {SMALL} --batch 64 --steps 1000000 --save-every 20 --eval-every 50'
    ' --threads 1 --quiet --elastic no'
).split()


def launch(out, *more):
    """the launcher, and the pids of its ranks"""
    p = start('train', '--out', out, *LONG, '--workers', WORKERS, *more)
    ranks = wait_for(lambda: len(children(p.pid)) == WORKERS and children(p.pid))
    return p, ranks


def gone(pids, seconds):
    wait_for(lambda: not any(map(alive, pids)), seconds)


def steps_logged(out, more_than, seconds=20):
    """waits until the run's log has more than so many steps"""
    log = f'{out}/log.jsonl'
    wait_for(lambda: os.path.exists(log) and len(events(out, 'step')) > more_than, seconds)
