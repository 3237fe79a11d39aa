"""What a run leaves: its log, its config, its checkpoints; and what it leaves alone."""
import json, os, subprocess
from weirlib import SMALL, WEIR, end, environment, events, fails, port, tensors, train, weir

TINY = ['--model', 'mlp:hidden=16', '--data', SMALL, '--steps', 3, '--threads', 1]


def test_log_has_the_contract_keys(tmp_path):
    out = tmp_path / 'r'
    train(out, *TINY, '--workers', 2)
    keys = dict(
        start='version model params data workers threads batch exchange codec coll net seed rank_source isa',
        step='step epoch samples loss lr grad_norm samples_per_s sent_bytes received_bytes dense_bytes wait_ms compute_ms codec_ms residual_norm',
        eval='step epoch loss metric value',
        checkpoint='step path bytes seconds',
        end='steps samples wall_s train_s samples_per_s loss metric value best workers sent_bytes dense_bytes ratio ratio_all faults params_hash replicas peak_rss_mib exit',
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
