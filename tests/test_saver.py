"""Checkpoints are written while training goes on: what was then, whole or not there, whatever
happens to the run or to its disk meanwhile."""
import json, os, random, resource, shutil, signal, subprocess, time
import pytest
from help_runs import gone, steps_logged
from test_leader import SETTINGS, WORLDS, same_files
from weirlib import (
    FLAVOUR,
    SMALL,
    alive,
    children,
    end,
    events,
    leftovers,
    start,
    train,
    wait_for,
    weir,
)

# megabytes to write, and steps that take no longer than that
WIDE = ['--model', 'mlp:hidden=512', '--data', SMALL, '--optim', 'sgd:momentum=0.9', '--lr', 0.01]
WIDE += ['--batch', 8, '--threads', 1, '--eval-every', 0]


def saved(out):
    return [e['step'] for e in events(out, 'checkpoint')]


def whole_lines(out):
    """the log of a run that goes on, or was killed: lines that have their end"""
    with open(f'{out}/log.jsonl') as f:
        return [json.loads(line) for line in f if line.endswith('\n')]


def late(out):
    """checkpoints that were whole only when later steps had been made"""
    seen, found = 0, []
    for e in whole_lines(out):
        if e['event'] == 'step':
            seen = e['step']
        elif e['event'] == 'checkpoint' and seen > e['step']:
            found.append(e['step'])
    return found


def latest(out):
    return int(os.readlink(f'{out}/latest').removeprefix('step-'))


def end_now(p):
    """nobody is left to remove the run's private directory, in which each rank has its door"""
    if p.poll() is None:
        pids = [*children(p.pid), p.pid]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        for folder in leftovers():
            if any(os.path.exists(f'{folder}/d{pid}') for pid in pids):
                shutil.rmtree(folder)
    return p.communicate()


@pytest.fixture
def begin():
    """starts runs, waits for their first checkpoint, and ends what is left of them with the test"""
    begun = []

    def one(out, *args):
        begun.append(start('train', '--out', out, '--quiet', '--steps', 1000000, *args))
        wait_for(lambda: os.path.exists(f'{out}/latest'), 60)
        return begun[-1]

    yield one
    for p in begun:
        end_now(p)


# ---- what is saved ----


def same_as_alone(tmp_path, many, step, *args):
    """a checkpoint of a run that went on holds, bit for bit, what a run saves that ends there: it
    waits, and has nothing from an earlier one in its memory"""
    alone = tmp_path / f'{step}'
    train(alone, *args, '--steps', step)
    os.remove(many / 'latest')
    os.symlink(f'step-{step}', many / 'latest')
    same_files(many, alone)


NEVER = ['--save-every', 0]
LAW = {k: ['--model', 'mlp:hidden=256', *v] for k, v in SETTINGS.items()}
LAW['adam'] = [*LAW['dense'], '--optim', 'adam']
# what layers keep
LAW[
    'carried'
] = '--model lstm-small:width=24 --data synth:tokens=50,length=12,count=640,test=64'.split()
LAW[
    'statistics'
] = '--model resnet20:width=4 --data synth:shape=3x32x32,classes=10,count=64,test=16'.split()


@pytest.mark.parametrize('world', WORLDS)
@pytest.mark.parametrize('setting', LAW)
def test_what_is_written_is_what_was_then(tmp_path, world, setting):
    args = [*LAW[setting], '--batch', 16, '--threads', 1, '--eval-every', 0, *WORLDS[world]]
    many, saves = tmp_path / 'many', ['--save-every', 4, '--keep', 100]
    train(many, *args, '--steps', 16, *saves)
    assert saved(many) == [4, 8, 12, 16]
    # a save averages running statistics: as many before it
    same_as_alone(tmp_path, many, 8, *args, *(saves if setting == 'statistics' else NEVER))


@pytest.mark.sanitizer
@pytest.mark.parametrize('workers', [1, 2])
def test_training_goes_on_meanwhile(tmp_path, workers):
    many, args = tmp_path / 'many', [*WIDE, '--workers', workers]
    train(many, *args, '--steps', 100, '--save-every', 10, '--keep', 100)
    assert saved(many) == [*range(10, 101, 10)]
    while_it_went_on = late(many)
    assert 100 not in while_it_went_on
    if FLAVOUR == 'release':  # else steps take longer than writing
        assert while_it_went_on
    same_as_alone(tmp_path, many, (while_it_went_on or [90])[-1], *args, *NEVER)


def test_the_next_one_waits(tmp_path):
    """due before the one before is whole: none is left out, and the waits are counted"""
    out = tmp_path / 'run'
    train(out, *WIDE, '--steps', 30, '--save-every', 1, '--keep', 2)
    assert saved(out) == [*range(1, 31)]
    assert end(out)['saving_waits'] > 0
    waited = sum(e['waited_s'] for e in events(out, 'checkpoint'))
    stood = sum(e['stood_s'] for e in events(out, 'checkpoint'))
    assert 0 < waited < stood < end(out)['saving_s'] < end(out)['wall_s']


def test_memory_does_not_grow(tmp_path):
    """parameters and momentum are copied, once: were the copies kept, 28 more saves would take 28
    times as much as is allowed"""
    peak = []
    for every in (30, 2):
        out = tmp_path / f'{every}'
        train(out, *WIDE, '--steps', 60, '--save-every', every, '--keep', 1)
        peak.append(end(out)['peak_rss_mib'])
    assert peak[1] < peak[0] + events(out, 'checkpoint')[0]['bytes'] / 2**20, peak


# ---- runs that end meanwhile ----


@pytest.mark.sanitizer
@pytest.mark.parametrize('workers', [1, 2])
def test_told_to_stop_meanwhile(tmp_path, begin, workers):
    out = tmp_path / 'run'
    p = begin(out, *WIDE, '--save-every', 1, '--workers', workers)
    p.terminate()
    _, err = p.communicate(timeout=60)
    assert p.returncode == 128 + signal.SIGTERM and 'error' not in err, err
    steps = end(out)['steps']
    assert latest(out) == steps == saved(out)[-1] and saved(out) == [*range(1, steps + 1)]


def test_killed_at_any_instant(tmp_path, begin):
    """goes on from what `latest` named when it was killed, which is whole"""
    out, rng, under_way = tmp_path / 'run', random.Random(1), 0
    args = [*WIDE, '--workers', 2, '--save-every', 5]
    for trial in range(int(os.environ.get('TRIALS', 20))):
        p = begin(out, *(['--resume', out] if trial else args))
        begun = latest(out)
        wait_for(lambda: latest(out) > begun, 60)
        time.sleep(rng.random() * 0.1)
        _, err = end_now(p)
        assert 'not whole' not in err, err
        log = whole_lines(out)
        last = [e['step'] for e in log if e['event'] == 'step'][-1]
        under_way += last // 5 * 5 not in [e['step'] for e in log if e['event'] == 'checkpoint']
        assert [e['step'] for e in log if e['event'] == 'start'][-1] == (begun if trial else 0)
    assert under_way > 0  # the fault has happened
    train(out, '--resume', out, '--steps', latest(out) + 2)


def test_cut_at_every_page(tmp_path):
    """the one before is taken, and the cut one is named"""
    out = tmp_path / 'run'
    train(out, '--model', 'mlp:hidden=12', *WIDE[2:], '--steps', 10, '--save-every', 5)
    before = weir('eval', out / 'step-5')[0]
    for name in ('model.safetensors', 'state.safetensors'):
        file = out / 'step-10' / name
        whole = file.read_bytes()
        assert len(whole) > 8 * 4096
        for cut in range(0, len(whole), 4096):
            file.write_bytes(whole[:cut])
            said, err = weir('eval', out)
            assert said == before and err.count('not whole') == 1 and str(file) in err, err
        file.write_bytes(whole)
    said, err = weir('eval', out)
    assert said != before and not err


# ---- disks ----


class Limit:
    """no file of the leader's grows any more: as a full disk, and needs no rights"""

    def __init__(self, folder):
        self.folder = folder

    def fill(self, leader):
        resource.prlimit(leader, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))

    def clear(self, leader):
        resource.prlimit(leader, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)

    def close(self):
        pass


class Disk:
    """a small file system"""

    def __init__(self, folder):
        self.folder = folder / 'small'
        self.folder.mkdir()
        small = ['mount', '-t', 'tmpfs', '-o', 'size=16m', 'tmpfs', self.folder]
        if subprocess.run(small, capture_output=True).returncode:
            pytest.skip('needs root to mount')

    def fill(self, leader):
        with open(self.folder / 'fill', 'wb', buffering=0) as f:
            try:
                while f.write(b'x' * 4096):
                    pass
            except OSError:
                pass

    def clear(self, leader):
        os.remove(self.folder / 'fill')

    def close(self):
        subprocess.run(['umount', '-l', self.folder], check=True)


@pytest.fixture(params=[Limit, Disk])
def disk(request, tmp_path):
    d = request.param(tmp_path)
    yield d
    d.close()


def fill(disk, begin, workers):
    """a run with a checkpoint, whose disk is full from now on; it, its leader, and what is kept"""
    out = disk.folder / 'run'
    args = ['--model', 'mlp:hidden=64', *WIDE[2:], '--save-every', 20, '--keep', 1]
    p = begin(out, *args, '--workers', workers)
    leader = children(p.pid)[0] if workers > 1 else p.pid
    disk.fill(leader)
    return p, leader, out


def warned(err):
    lines = err.splitlines()
    return [s for s in lines if 'warning: ' in s and 'was not saved' in s and 'goes on' in s]


@pytest.mark.mended
@pytest.mark.parametrize('workers', [1, 2])
def test_a_full_disk_ends_no_run(tmp_path, disk, begin, workers):
    p, leader, out = fill(disk, begin, workers)
    time.sleep(1)
    kept = latest(out)
    weir('eval', out)
    time.sleep(0.5)
    assert p.poll() is None and latest(out) == kept
    disk.clear(leader)
    wait_for(lambda: latest(out) > kept, 60)
    p.terminate()
    _, err = p.communicate(timeout=60)
    assert p.returncode == 128 + signal.SIGTERM and 'error' not in err, err
    assert warned(err) and len(warned(err)) == len(set(warned(err))), err
    assert len(warned(err)) <= 12, err  # of up to 2048 in a row
    assert latest(out) == end(out)['steps'] == saved(out)[-1]
    # what was lost of the log is lost in whole lines, and the log says where
    steps = [e['step'] for e in events(out, 'step')]
    missing = [e['what'] for e in events(out, 'warning') if 'missing here' in e['what']]
    assert steps == sorted(steps) and len(steps) < steps[-1] and len(missing) == 1
    assert err.count('lines of it will be missing') == 1, err


@pytest.mark.mended
@pytest.mark.parametrize('workers', [1, 2])
def test_a_disk_that_stays_full(tmp_path, disk, begin, workers):
    p, leader, out = fill(disk, begin, workers)
    time.sleep(1)
    kept = latest(out)
    p.terminate()
    _, err = p.communicate(timeout=60)
    assert p.returncode == 14 and warned(err), err
    errors = [s for s in err.splitlines() if 'error: ' in s]
    assert len(errors) == 1 and errors[0].endswith('(exit 14)') and f'{out}/step-' in errors[0], err
    assert latest(out) == kept and sorted(os.listdir(out))[-1] == f'step-{kept}'
    disk.clear(leader) if isinstance(disk, Disk) else None
    train(out, '--resume', out, '--steps', kept + 1)
    assert latest(out) == kept + 1


@pytest.mark.mended
def test_a_directory_that_cannot_be_made_anew_for_a_while(tmp_path, begin):
    out = tmp_path / 'run'
    p = begin(out, '--model', 'mlp:hidden=16', *WIDE[2:], '--save-every', 20)
    os.rename(out, tmp_path / 'gone')
    out.write_text('mine')
    time.sleep(1)
    assert p.poll() is None and out.read_text() == 'mine'
    out.unlink()
    wait_for(lambda: os.path.exists(out / 'latest'), 60)
    p.terminate()
    _, err = p.communicate(timeout=60)
    assert p.returncode == 128 + signal.SIGTERM and 'error' not in err, err
    assert 'cannot be made anew' in err and err.count('without what was in it') == 1, err
    assert latest(out) == end(out)['steps']


# ---- who dies, leads, leaves ----


def writes(pid, out):
    """whether it has a file of the run open that has no name yet"""
    found = []
    for fd in os.listdir(f'/proc/{pid}/fd'):
        try:
            found.append(os.readlink(f'/proc/{pid}/fd/{fd}'))
        except OSError:  # closed meanwhile
            pass
    return any(f.startswith(f'{out}/#') and f.endswith('(deleted)') for f in found)


def stop_in_a_write(pid, out):
    """whether it was met in one before it ended"""

    def caught():
        os.kill(pid, signal.SIGSTOP)
        if writes(pid, out):
            return True
        os.kill(pid, signal.SIGCONT)

    try:
        return wait_for(caught, 60, every=0.002)
    except ProcessLookupError:
        return False


# the write is long enough to be met, without others
BROAD = ['--model', 'mlp:hidden=2048', *WIDE[2:], '--workers', 3]


def end_in_the_last_write(out, stop, steps):
    """kills the leader there, and gives the launcher; None: it was missed"""
    p = start('train', '--out', out, '--quiet', '--steps', steps, *BROAD, *NEVER)
    leader = wait_for(lambda: len(children(p.pid)) == 3 and children(p.pid)[0])
    steps_logged(out, 5, 60)
    if stop:
        p.terminate()
    if not stop_in_a_write(leader, out):
        return end_now(p) and None
    assert not os.path.exists(out / 'latest')
    os.kill(leader, signal.SIGKILL)
    return p


@pytest.mark.parametrize('stop', [False, True])
def test_a_leader_that_is_killed_in_the_last_write(tmp_path, stop):
    """there is no other checkpoint, and no other step: the next one writes it"""
    steps = 1000000 if stop else 20
    for out in (tmp_path / f'{trial}' for trial in range(10)):
        if p := end_in_the_last_write(out, stop, steps):
            break
    _, err = p.communicate(timeout=60)
    assert p.returncode == (128 + signal.SIGTERM if stop else 0), err
    assert latest(out) == end(out)['steps'] == saved(out)[-1] and end(out)['losses'] == 1
    assert stop or latest(out) == steps
    weir('eval', out)


@pytest.mark.parametrize('victim', [0, 2])
def test_killed_in_the_simulated_world(tmp_path, victim):
    """a save a step: wherever it is met, what is saved last is whole; and it repeats"""
    args = ['--model', 'mlp:hidden=16', *WIDE[2:], '--steps', 12, '--save-every', 1]
    for k in range(4):
        for out in (tmp_path / f'{k}', tmp_path / f'{k} again'):
            train(out, *args, '--net', f'sim:nodes=3,cost=1e-3,kill={victim}@{0.01 + k * 8e-4:.4f}')
            assert latest(out) == end(out)['steps'] == 12 and end(out)['losses'] == 1
            assert set(saved(out)) == {*range(1, 13)}
        same_files(tmp_path / f'{k}', tmp_path / f'{k} again')
        weir('eval', out)


def test_a_worker_that_is_killed_meanwhile(tmp_path, begin):
    """what is being written is of a step that all had made: it is written to its end"""
    out = tmp_path / 'run'
    p = begin(out, *BROAD, '--save-every', 5, '--keep', 100)
    leader, _, victim = children(p.pid)
    assert stop_in_a_write(leader, out)
    written = latest(out) + 5
    os.kill(victim, signal.SIGKILL)
    os.kill(leader, signal.SIGCONT)
    wait_for(lambda: latest(out) > written + 5, 60)
    p.terminate()
    _, err = p.communicate(timeout=60)
    assert p.returncode == 128 + signal.SIGTERM, err
    assert end(out)['losses'] == 1 and end(out)['saving_s'] > 0
    steps = saved(out)
    assert steps == sorted(set(steps)) and written in steps and steps[-1] == end(out)['steps']
    for step in (written, written + 5):
        weir('eval', out / f'step-{step}')


@pytest.mark.parametrize('victim', [0, 1])
def test_below_the_least_meanwhile(tmp_path, begin, victim):
    """too few are left while a write is under way: it, or a new leader's own, is whole then"""
    out = tmp_path / 'run'
    p = begin(out, *BROAD, '--save-every', 1, '--keep', 1, '--min-workers', 3)
    ranks = children(p.pid)
    assert stop_in_a_write(ranks[0], out)
    before = latest(out)
    os.kill(ranks[victim], signal.SIGKILL)
    if victim:
        os.kill(ranks[0], signal.SIGCONT)
    _, err = p.communicate(timeout=60)
    assert p.returncode == 10, err
    assert events(out)[-1]['event'] == 'fault' and latest(out) > before
    assert latest(out) == [e['step'] for e in events(out, 'step')][-1]
    weir('eval', out)


def test_a_leader_that_leaves_meanwhile(tmp_path, begin):
    """always at writing: what it has begun is whole before another leads, who has nothing to save
    at once"""
    out = tmp_path / 'run'
    p = begin(out, *WIDE, '--workers', 3, '--save-every', 1, '--keep', 100000)
    leader = children(p.pid)[0]
    os.kill(leader, signal.SIGTERM)
    gone([leader], 30)
    (member,) = [e for e in whole_lines(out) if e['event'] == 'member']
    wait_for(lambda: latest(out) > member['step'] + 3, 60)
    p.terminate()
    _, err = p.communicate(timeout=60)
    assert p.returncode == 128 + signal.SIGTERM and 'was not saved' not in err, err
    assert member['left'] == 1 and member['lost'] == 0 and end(out)['losses'] == 0
    assert saved(out) == [*range(1, end(out)['steps'] + 1)]
    for step in (member['step'], member['step'] + 1):
        weir('eval', out / f'step-{step}')


def test_a_leader_that_is_killed_meanwhile(tmp_path, begin):
    """the next one saves at once"""
    out = tmp_path / 'run'
    p = begin(out, *BROAD, '--save-every', 10)
    leader = children(p.pid)[0]
    assert stop_in_a_write(leader, out)
    before = latest(out)
    os.kill(leader, signal.SIGKILL)
    wait_for(lambda: latest(out) >= before + 20, 60)  # the one at once, and the next
    p.terminate()
    _, err = p.communicate(timeout=60)
    assert p.returncode == 128 + signal.SIGTERM, err
    (member,) = events(out, 'member')
    after = [e['step'] for e in events(out, 'checkpoint') if e['t'] > member['t']]
    assert after[:2] == [member['step'], member['step'] // 10 * 10 + 10]
    assert latest(out) == end(out)['steps'] == after[-1]
    weir('eval', out)


def test_a_leader_that_was_given_up_touches_nothing(tmp_path, begin):
    """stopped past the time-out in the middle of a write, it comes back when another leads"""
    out = tmp_path / 'run'
    p = begin(out, *WIDE, '--workers', 3, '--save-every', 1, '--keep', 2, '--timeout', 2)
    old = children(p.pid)[0]
    assert stop_in_a_write(old, out)
    before = latest(out)
    wait_for(lambda: latest(out) > before + 5, 60)
    newest = latest(out)
    assert writes(old, out)
    os.kill(old, signal.SIGCONT)
    wait_for(lambda: not writes(old, out), 60)
    for _ in range(200):
        assert latest(out) >= newest
        newest = latest(out)
        time.sleep(0.005)
    if alive(old):
        os.kill(old, signal.SIGKILL)
    p.terminate()
    p.communicate(timeout=60)
    assert latest(out) == end(out)['steps'] == saved(out)[-1]
    weir('eval', out)
