"""What a run leaves: its log, its config, its checkpoints; and what it leaves alone."""
import json, os, shutil, signal, socket, subprocess, time
import pytest
from help_runs import steps_logged
from weirlib import (
    SMALL,
    WEIR,
    children,
    end,
    environment,
    events,
    fails,
    port,
    start,
    tensors,
    train,
    wait_for,
    weir,
)

TINY = ['--model', 'mlp:hidden=16', '--data', SMALL, '--steps', 3, '--threads', 1]


def test_log_has_the_contract_keys(tmp_path):
    out = tmp_path / 'r'
    train(out, *TINY, '--workers', 2)
    keys = dict(
        start='version model params data workers threads batch exchange codec coll net seed '
        'rank_source isa',
        step='step epoch samples loss lr grad_norm samples_per_s sent_bytes received_bytes '
        'dense_bytes wait_ms compute_ms codec_ms residual_norm',
        eval='step epoch loss metric value',
        checkpoint='step path bytes seconds',
        end='steps samples wall_s train_s samples_per_s loss metric value best workers sent_bytes '
        'dense_bytes ratio ratio_all faults params_hash replicas peak_rss_mib exit',
    )
    for kind, names in keys.items():
        found = events(out, kind)
        assert found, kind
        for e in found:
            assert set(names.split()) | {'event', 't'} <= set(e), (
                kind,
                set(names.split()) - set(e),
            )
    assert events(out, 'start')[0]['rank_source'] == 'weir'
    t = [e['t'] for e in events(out)]
    assert t == sorted(t)


def test_log_option_and_no_out(tmp_path):
    weir('train', *TINY, '--log', tmp_path / 'l', '--quiet')
    assert json.loads((tmp_path / 'l').read_text().splitlines()[-1])['event'] == 'end'
    assert os.listdir(tmp_path) == ['l']


def test_bytes_of_every_step(tmp_path):
    """8 (p - 1) (n + 16) bytes a step over all ranks, evaluation not counted, and the lines add up
    to the end's"""
    out = tmp_path / 'r'
    train(out, *TINY, '--steps', 7, '--workers', 3, '--eval-every', 2)
    steps, n = events(out, 'step'), events(out, 'start')[0]['params']
    assert [e['step'] for e in steps] == list(range(1, 8))
    assert all(e['sent_bytes'] == e['received_bytes'] == 8 * 2 * (n + 16) for e in steps)
    assert sum(e['sent_bytes'] for e in steps) == end(out)['sent_bytes']


def test_checkpoint_names_and_shapes(tmp_path):
    train(tmp_path / 'r', '--model', 'lenet', '--data', SMALL, '--steps', 1)
    w = tensors(tmp_path / 'r/latest/model.safetensors')
    assert sum(x.size for x in w.values()) == 61706
    assert sorted(x.shape for x in w.values()) == sorted(
        [
            (6, 1, 5, 5),
            (6,),
            (16, 6, 5, 5),
            (16,),
            (120, 400),
            (120,),
            (84, 120),
            (84,),
            (10, 84),
            (10,),
        ]
    )


def test_out_that_holds_a_run_is_refused(tmp_path):
    out = tmp_path / 'r'
    train(out, *TINY)
    before = sorted((f, os.stat(out / f).st_mtime_ns) for f in os.listdir(out))
    fails(2, 'train', *TINY, '--out', out, '--quiet', says=['holds a run', '--resume'])
    assert sorted((f, os.stat(out / f).st_mtime_ns) for f in os.listdir(out)) == before


def test_failed_runs_leave_what_was_there(tmp_path):
    out, other, log = tmp_path / 'r', tmp_path / 'o', tmp_path / 'l'
    log.write_text('mine\n')
    weir('train', *TINY, '--data', 'idx:/no/such', '--out', out, '--log', log, '--quiet', code=17)
    assert (
        not out.exists() and log.read_text() == 'mine\n'
    )  # a first run that fails does not block its own directory
    train(out, *TINY)
    train(other, *TINY, '--steps', 5)
    before = {d: {f: (d / f).read_bytes() for f in ('config', 'log.jsonl')} for d in (out, other)}
    fails(16, 'train', '--resume', out, '--model', 'mlp:hidden=17', '--steps', 5, '--quiet')
    fails(
        2, 'train', '--resume', out, '--out', other, '--steps', 5, '--quiet', says=['holds a run']
    )
    fails(2, 'train', '--resume', tmp_path / 'typo', *TINY, '--quiet')
    assert not (tmp_path / 'typo').exists()
    assert {
        d: {f: (d / f).read_bytes() for f in ('config', 'log.jsonl')} for d in (out, other)
    } == before
    train(out, '--resume', out, '--epochs', 1)  # how long, said the other way than before
    assert end(out)['steps'] == 16
    assert (
        'resume' not in (out / 'config').read_text() and 'out' not in (out / 'config').read_text()
    )
    weir('train', *TINY, '--log', log, '--quiet')
    assert log.read_text().startswith('mine\n')


def test_out_on_rank_0_alone(tmp_path):
    at, out = port(), tmp_path / 'run'
    ranks = [
        subprocess.Popen(
            [
                WEIR,
                'train',
                '--model',
                'resnet20:width=4',
                '--data',
                'synth:shape=3x32x32,classes=10,count=64,test=16',
                '--batch',
                '8',
                '--steps',
                '4',
                '--save-every',
                '2',
                '--threads',
                '1',
                '--quiet',
                '--rank',
                str(r),
                '--size',
                '2',
                '--rendezvous',
                f'127.0.0.1:{at}',
                *(['--out', str(out)] if r == 0 else []),
            ],
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        for r in range(2)
    ]
    for p in ranks:
        _, err = p.communicate(timeout=60)
        assert p.returncode == 0, err
    assert end(out)['steps'] == 4 and (out / 'latest' / 'model.safetensors').exists()


# ---- one directory, one run ----

LONG = ['--model', 'mlp:hidden=16', '--data', SMALL, '--steps', 1000000, '--threads', 1, '--quiet']


@pytest.fixture
def running():
    """starts runs, waits until they log steps, and ends them with the test"""
    begun = []

    def one(out, *args):
        begun.append(start('train', *args, '--out', out))
        steps_logged(out, 2)
        return begun[-1]

    yield one
    for p in begun:
        if p.poll() is None:
            end_now(p)


def end_now(p):
    for pid in [*children(p.pid), p.pid]:
        os.kill(pid, signal.SIGKILL)
    p.communicate()


@pytest.mark.mended
@pytest.mark.parametrize('workers', [1, 2])
def test_a_run_keeps_others_off_its_directory(tmp_path, running, workers):
    out = tmp_path / 'run'
    p = running(out, *LONG, '--workers', workers, '--save-every', 5)
    wait_for(lambda: (out / 'latest').exists())
    leader = children(p.pid)[0] if workers > 1 else p.pid
    who = [f'host {socket.gethostname()}', f'pid {leader}', time.strftime('since %Y-%m-%d')]
    fails(2, 'train', '--resume', out, '--quiet', says=who)
    assert p.poll() is None
    p.terminate()
    p.communicate(timeout=20)
    steps = [e['step'] for e in events(out, 'step')]
    assert steps == list(range(1, len(steps) + 1)) and not (out / 'lock').exists()


@pytest.mark.mended
def test_a_run_that_has_not_saved_keeps_others_off(tmp_path, running):
    out = tmp_path / 'run'
    p = running(out, *LONG, '--save-every', 0)
    fails(2, 'train', *TINY, '--out', out, '--quiet', says=[f'pid {p.pid}', 'another directory'])
    fails(2, 'train', '--resume', out, '--quiet', says=[f'pid {p.pid}', 'wait for it'])


def test_of_two_that_begin_at_once_one_runs(tmp_path):
    """none is there when either looks: whoever makes it has it"""
    out = tmp_path / 'run'
    both = [start('train', *TINY, '--quiet', '--out', out) for _ in range(2)]
    ends = sorted((p.communicate(timeout=60)[1], p.returncode) for p in both)
    assert sorted(code for _, code in ends) == [0, 2], ends
    assert any(x in ends[1][0] + ends[0][0] for x in ('in use by', 'holds a run'))
    assert [e['step'] for e in events(out, 'step')] == [1, 2, 3]


@pytest.mark.mended
def test_a_killed_run_holds_nothing(tmp_path, running):
    """before its first checkpoint: it can be resumed, and begun anew"""
    for k, again in enumerate((['--resume'], ['--out'])):
        out = tmp_path / f'run{k}'
        end_now(running(out, *LONG, '--save-every', 0))
        assert (out / 'config').exists() and not (out / 'latest').exists()
        more = TINY if again == ['--out'] else ['--steps', 3]
        err = weir('train', *again, out, *more, '--quiet')[1]
        assert end(out)['steps'] == 3 and (out / 'latest').exists()
        assert again == ['--out'] or 'no checkpoint yet' in err


@pytest.mark.mended
@pytest.mark.parametrize('what', ['nosuch', 'empty'])
def test_resuming_what_is_no_run(tmp_path, what):
    (tmp_path / 'empty').mkdir()
    says = dict(nosuch='no such directory', empty='no run in it')[what]
    fails(2, 'train', '--resume', tmp_path / what, '--quiet', says=[says, what])
    assert os.listdir(tmp_path) == ['empty'] and not os.listdir(tmp_path / 'empty')


@pytest.mark.mended
def test_a_config_that_cannot_be_read(tmp_path):
    """it is told by the option that asked for it"""
    train(tmp_path / 'run', *TINY)
    (tmp_path / 'run/config').unlink()
    (tmp_path / 'run/config').mkdir()
    said = fails(
        2, 'train', '--resume', tmp_path / 'run', says=[f'--resume: {tmp_path}/run/config']
    )
    assert '--config' not in said
    fails(2, 'train', '--config', tmp_path / 'no.conf', says=[f'--config: {tmp_path}/no.conf'])


@pytest.mark.mended
def test_a_directory_deleted_under_its_run(tmp_path, running):
    out = tmp_path / 'run'
    p = running(out, *LONG, '--steps', 100000000, '--save-every', 200)
    os.rename(out, tmp_path / 'gone')
    wait_for(lambda: (out / 'latest').exists(), 60)
    p.terminate()
    _, err = p.communicate(timeout=20)
    assert err.count('was deleted under this run') == 1
    assert [e['event'] for e in events(out)][0] == 'warning' and end(out)['exit'] == 143
    weir('train', '--resume', out, '--steps', end(out)['steps'] + 2, '--quiet')


@pytest.mark.mended
def test_a_directory_that_cannot_be_made_anew(tmp_path, running):
    out = tmp_path / 'run'
    p = running(out, *LONG, '--save-every', 0)
    shutil.rmtree(out)
    out.write_text('mine')
    p.terminate()
    _, err = p.communicate(timeout=20)
    assert p.returncode == 14 and err.count('was deleted under this run') == 1, err
    assert out.read_text() == 'mine'


@pytest.mark.mended
def test_a_directory_that_is_anothers_by_now(tmp_path, running):
    out = tmp_path / 'run'
    p = running(out, *LONG, '--save-every', 0)
    shutil.rmtree(out)
    q = running(out, *LONG, '--save-every', 0)
    p.terminate()
    _, err = p.communicate(timeout=20)
    assert p.returncode == 14 and f'pid {q.pid}' in err, err
    q.terminate()
    q.communicate(timeout=20)
    steps = [e['step'] for e in events(out, 'step')]
    assert steps == list(range(1, len(steps) + 1))


@pytest.mark.mended
def test_a_log_cut_in_a_line_goes_on_in_the_next(tmp_path):
    out = tmp_path / 'run'
    train(out, *TINY)
    text = (out / 'log.jsonl').read_text()
    (out / 'log.jsonl').write_text(text[:-20])
    train(out, '--resume', out, '--steps', 5)
    lines = (out / 'log.jsonl').read_text().splitlines()
    assert lines[: text.count('\n')] == text[:-20].splitlines()
    assert [json.loads(x)['event'] for x in lines[text.count('\n') :]][0] == 'start'


# ---- a run's model and paths are its own ----

NET = 'size hidden 8\nflatten\ndense out=hidden\nrelu\ndense out=classes\nmse\n'
TEXT_NET = 'embedding out=8\nlstm out=8\ndense out=classes\nsoftmax\n'
SHORT = ['--batch', 8, '--threads', 1, '--seed', 5]


def project(at):
    """a directory with a table, a text and a model for each"""
    (at / 'sub').mkdir(parents=True)
    rows = '\n'.join(f'{i % 7},{i % 5},{2 * (i % 7) - i % 5}' for i in range(80))
    (at / 't.csv').write_text('a,b,y\n' + rows + '\n')
    (at / 'words.txt').write_text('a b c d e f g ' * 200)
    (at / 'sub/table.net').write_text(NET)
    (at / 'words.net').write_text(TEXT_NET)
    return at


def result(out):
    e = end(out)
    return e['steps'], e['params_hash']


def warned(err):
    return [x for x in err.splitlines() if 'is not what it was when the run began' in x]


@pytest.mark.mended
@pytest.mark.parametrize(
    'data, net',
    [
        ('csv:t.csv,seed=3', 'sub/table.net:hidden=6'),
        ('csv:seed=3,file=./t.csv', './sub/table.net'),
        ('text:words.txt,length=5', 'words.net'),
    ],
)
@pytest.mark.parametrize('name', ['p', 'a,b=c:d'])
def test_a_run_goes_on_from_another_directory(tmp_path, monkeypatch, data, net, name):
    there = project(tmp_path / name)
    monkeypatch.chdir(there)
    train('whole', '--data', data, '--model', net, '--steps', 6, *SHORT)
    train('run', '--data', data, '--model', net, '--steps', 3, *SHORT)
    here = weir('eval', 'run')[0]
    monkeypatch.chdir(tmp_path)
    out = there / 'run'
    assert weir('eval', out)[0] == weir('eval', out / 'latest')[0] == here
    _, err = train(tmp_path / 'other', '--resume', out / 'step-3', '--steps', 6)
    assert not warned(err)
    weir('train', '--resume', out, '--steps', 6, '--quiet')
    assert result(out) == result(tmp_path / 'other') == result(there / 'whole')
    weir('eval', tmp_path / 'other')  # whose config names the same files


@pytest.mark.mended
def test_a_run_goes_on_where_its_paths_do_not_hold(tmp_path, monkeypatch):
    """on another machine, say: the same names from here, or beside the run"""
    there, moved = project(tmp_path / 'p/q'), tmp_path / 'r'
    monkeypatch.chdir(tmp_path / 'p')
    args = ['--data', 'csv:q/t.csv', '--model', 'q/sub/table.net', *SHORT]
    train('q/whole', *args, '--steps', 9)
    train('q/run', *args, '--steps', 3)
    before = weir('eval', 'q/run')[0]
    monkeypatch.chdir(tmp_path)
    shutil.move(there, moved)
    for here, found in ((moved, 't.csv'), (tmp_path, moved / 't.csv')):
        monkeypatch.chdir(here)
        said, err = weir('eval', moved / 'run')
        assert said == before and f'data csv:{there}/t.csv: it is not there; csv:{found} is' in err
    weir('train', '--resume', moved / 'run', '--steps', 6, '--quiet')
    assert f'data csv:{moved}/t.csv' in (moved / 'run/config').read_text().splitlines()
    assert 'it is not there' in events(moved / 'run', 'warning')[0]['what']
    monkeypatch.chdir(moved)
    _, err = train('run', '--resume', 'run', '--steps', 9)
    assert 'not there' not in err and result('run') == result('whole')


@pytest.mark.mended
def test_what_only_has_the_name_of_its_data_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(project(tmp_path / 'p'))
    train('run', '--data', 'csv:t.csv', '--model', 'sub/table.net', '--steps', 3, *SHORT)
    monkeypatch.chdir(project(tmp_path / 'other'))
    shutil.move(tmp_path / 'p/t.csv', 'kept.csv')
    rows = (tmp_path / 'other/t.csv').read_text()
    (tmp_path / 'other/t.csv').write_text(rows.replace('6,4,', '6,4.5,'))
    config = (tmp_path / 'p/run/config').read_text()
    for command in (['train', '--quiet', '--steps', 5, '--resume'], ['eval']):
        says = [
            'p/t.csv: it is not there',
            'csv:t.csv is not what the run was trained on',
            '--data',
        ]
        fails(17, *command, tmp_path / 'p/run', says=says)
    assert (tmp_path / 'p/run/config').read_text() == config
    weir('train', '--resume', tmp_path / 'p/run', '--steps', 5, '--data', 'csv:kept.csv', '--quiet')


def test_ranks_that_keep_the_data_elsewhere_go_on(tmp_path):
    """each has a copy under the same name in a directory of its own, as in homes that differ"""
    homes = [project(tmp_path / name) for name in ('a', 'b')]
    common = ['--model', 'sub/table.net', '--data', 'csv:t.csv', *SHORT]

    def ranks(*args, outs=([], [])):
        at = f'127.0.0.1:{port()}'
        name = ['--size', 2, '--rendezvous', at, '--quiet', '--timeout', 20]
        all = [start('train', *args, *outs[r], '--rank', r, *name, cwd=homes[r]) for r in (0, 1)]
        for p in all:
            _, err = p.communicate(timeout=60)
            assert p.returncode == 0, err

    ranks(*common, '--steps', 6, outs=(['--out', 'whole'], []))
    ranks(*common, '--steps', 3, outs=(['--out', 'run'], []))
    shutil.move(homes[0], tmp_path / 'c')  # so that nobody sees the leader's
    homes[0] = tmp_path / 'c'
    shutil.copytree(homes[0] / 'run', homes[1] / 'run', symlinks=True)
    ranks('--resume', 'run', '--steps', 6)
    assert result(homes[0] / 'run') == result(homes[0] / 'whole')


@pytest.mark.mended
@pytest.mark.parametrize('change', ['edited', 'deleted'])
@pytest.mark.parametrize('workers', [1, 2])
def test_a_model_file_that_changes_under_its_run(tmp_path, monkeypatch, change, workers):
    monkeypatch.chdir(project(tmp_path / 'p'))
    args = ['--data', 'csv:t.csv', '--model', 'sub/table.net', '--workers', workers, *SHORT]
    train('whole', *args, '--steps', 6)
    train('run', *args, '--steps', 3)
    before = weir('eval', 'run')[0]
    net = tmp_path / 'p/sub/table.net'
    if change == 'edited':
        net.write_text(NET.replace('relu', 'tanh'))  # the same weights: nothing else would tell
    else:
        net.unlink()
    says = 1 if change == 'edited' else 0
    for checkpoint in ('run', 'run/step-3'):
        out, err = weir('eval', checkpoint)
        assert out == before and len(warned(err)) == says and err.count(str(net)) == says, err
    for more in (['--resume', 'run/step-3', '--out', 'other'], ['--resume', 'run']):
        _, err = weir('train', *more, '--steps', 6, '--quiet')
        assert len(warned(err)) == says and err.count(str(net)) == says, err
    assert result('run') == result('other') == result('whole')
    for run in ('run', 'other', 'whole'):
        assert (tmp_path / 'p' / run / 'model.net').read_text() == NET


@pytest.mark.mended
def test_a_model_that_is_named_is_taken_as_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(project(tmp_path / 'p'))
    args = ['--data', 'csv:t.csv', '--model', 'sub/table.net', *SHORT]
    train('run', *args, '--steps', 3)
    before, edited = weir('eval', 'run')[0], NET.replace('relu', 'tanh')
    (tmp_path / 'p/sub/table.net').write_text(edited)
    assert weir('eval', 'run', '--model', 'sub/table.net')[0] != before
    _, err = train('run', '--resume', 'run', '--model', 'sub/table.net', '--steps', 4)
    assert not warned(err) and (tmp_path / 'p/run/model.net').read_text() == edited


def test_a_run_of_an_older_weir_has_no_copy(tmp_path, monkeypatch):
    monkeypatch.chdir(project(tmp_path / 'p'))
    train('run', '--data', 'csv:t.csv', '--model', 'sub/table.net', '--steps', 3, *SHORT)
    os.unlink('run/model.net')
    config = (tmp_path / 'p/run/config').read_text().replace(f'{tmp_path}/p/', '')
    (tmp_path / 'p/run/config').write_text(config)
    assert 'csv:t.csv' in config
    weir('eval', 'run')
    train('run', '--resume', 'run', '--steps', 5)
    assert (tmp_path / 'p/run/model.net').read_text() == NET


@pytest.mark.mended
def test_names_stay_and_zoo_models_are_copied(tmp_path):
    out = tmp_path / 'r'
    train(out, *TINY)
    lines = (out / 'config').read_text().splitlines()
    assert 'model mlp:hidden=16' in lines and f'data {SMALL}' in lines
    assert 'size hidden 1024' in (out / 'model.net').read_text().splitlines()


@pytest.mark.mended
def test_a_users_model_net_is_not_overwritten(tmp_path):
    mine = tmp_path / 'model.net'
    mine.write_text(NET)
    fails(2, 'train', *TINY, '--out', tmp_path, '--quiet', says=[str(mine), 'another model'])
    assert mine.read_text() == NET and not (tmp_path / 'config').exists()
