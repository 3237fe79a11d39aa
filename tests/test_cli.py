"""Commands and options: help, lists, config files, benches, the library; a slip is named, with code
2."""
import json, os, re, shutil, subprocess
import pytest
from weirlib import ROOT, SMALL, WEIR, end, environment, events, fails, train, weir

TINY = ['--model', 'mlp:hidden=16', '--data', SMALL, '--steps', 3, '--threads', 1]


# ---- help ----


def test_help_fits_a_screen_and_names_every_command():
    out, _ = weir('help')
    for command in ('train', 'eval', 'bench', 'storm', 'keygen', 'list', 'help'):
        assert re.search(rf'^  {command} ', out, re.M)
        text, _ = weir('help', command)
        assert 1 < len(text.splitlines()) <= 44
        assert weir(command, '--help')[0] == text
    assert 'doctor' not in out


def test_list_shows_what_exists():
    out, _ = weir('list')
    for axis, names in dict(
        model='lenet mlp',
        data='idx synth',
        optim='sgd',
        rate='constant step cosine linear',
        codec='none',
        coll='auto ring halving doubling blocks tree hier',
        exchange='allreduce',
        net='zmq',
        layer='dense conv relu maxpool flatten softmax',
    ).items():
        one, _ = weir('list', axis)
        assert one in out
        for name in names.split():
            assert re.search(rf'^  {name}\b', one, re.M), (axis, name)
    assert 'momentum=0' in weir('list', 'optim')[0]
    fails(2, 'list', 'nothing', says=['nothing', 'codec'])


def test_version():
    assert re.fullmatch(r'weir \d+\.\d+\.\d+\n', weir('--version')[0])


def test_man_page():
    p = subprocess.run(
        ['man', '--warnings', '-l', os.path.join(ROOT, 'man/weir.1')],
        capture_output=True,
        text=True,
        env=dict(os.environ, MANWIDTH='100'),
    )
    for word in ('--workers', '--resume', 'EXIT'):
        assert word in p.stdout
    assert not p.stderr


# ---- options ----


def test_config_file_and_flags_win(tmp_path):
    config = tmp_path / 'c'
    config.write_text(
        '# a run\nmodel mlp:hidden=16\ndata ' + SMALL + '\nsteps 9\nbatch 32\nseed 5\n\nthreads=1\n'
    )
    train(tmp_path / 'a', '--config', config, '--steps', 4)
    e = events(tmp_path / 'a')
    assert e[0]['batch'] == 32 and e[0]['seed'] == 5 and e[-1]['steps'] == 4
    config.write_text('model mlp\nbatsh 32\n')
    fails(2, 'train', '--config', config, says=['c:2', 'batsh', 'batch'])
    fails(2, 'train', '--config', tmp_path / 'none', says=['none'])


@pytest.mark.mended
def test_comments_in_config_files(tmp_path):
    config, out = tmp_path / 'c', tmp_path / 'out #1'
    lines = ['# all of it', 'model mlp:hidden=16\t# small', f'data {SMALL}', 'steps 2 # few']
    lines += ['seed 3  #', 'quiet yes #', f'out "{out}" # a # in its name', 'batch 32']
    config.write_text('\n'.join(lines))
    weir('train', '--config', config, '--threads', 1)
    assert end(out)['steps'] == 2 and events(out, 'start')[0]['batch'] == 32
    for bad, says in (
        ('"64', 'not closed'),
        ('"64" x', 'behind the closing quote'),
        ('6#4', '6#4'),
    ):
        config.write_text(f'batch {bad}\n')
        fails(2, 'train', '--config', config, says=['c:1', says])


def test_a_config_says_again_what_was_said(tmp_path):
    """what must stand in quotes does"""
    for k, name in enumerate(('a #b', '#c', 'd "e" #f', 'plain#g')):
        folder, out = tmp_path / name, tmp_path / f'out{k}'
        folder.mkdir()
        shutil.copy(f'{ROOT}/models/mlp.net', folder)
        args = ['--model', f'{folder}/mlp.net:hidden=4', '--data', SMALL, '--threads', 1]
        train(out, *args, '--steps', 1)
        train(out, '--resume', out, '--steps', 2)
        assert events(out, 'start')[1]['model'] == events(out, 'start')[0]['model']


def test_spellings(tmp_path):
    out, _ = weir('train', *TINY, '--save_every=2', '--eval-every', '1e')
    assert 'accuracy' in out and '\r' not in out
    assert weir('train', *TINY, '--quiet')[0] == ''


def test_commands_refuse_what_they_would_ignore(tmp_path):
    fails(2, 'eval', tmp_path, '--lr', 3, says=['--lr'])
    fails(2, 'bench', 'train', '--model', 'mlp', '--out', tmp_path, says=['--out'])
    assert '--threads' in weir('help', 'bench')[0] and '--resume' not in weir('help', 'bench')[0]


def test_debug_shows_what_happens():
    _, err = weir('train', *TINY, '--quiet', '--workers', 2, WEIR_DEBUG='trace,coll')
    assert 'all-reduce' in err and 'net:' not in err
    assert 'has met' in weir('train', *TINY, '--quiet', '--workers', 2, WEIR_DEBUG='info')[1]
    assert 'WEIR_TYPO' in weir('list', 'codec', WEIR_TYPO='1')[1]


def test_output_that_cannot_be_written():
    with open('/dev/full', 'w') as full:
        p = subprocess.run(
            [WEIR, 'list'], stdout=full, stderr=subprocess.PIPE, text=True, env=environment()
        )
    assert p.returncode == 14 and 'standard output' in p.stderr


def test_bench():
    out, _ = weir(
        'bench',
        'compute',
        '--model',
        'lenet',
        '--batch',
        16,
        '--threads',
        1,
        '--steps',
        2,
        '--json',
    )
    e = json.loads(out)
    assert (
        set('bench model params batch threads step_ms samples_per_s peak_rss_mib'.split()) <= set(e)
        and e['params'] == 61706
    )
    out, _ = weir(
        'bench', 'train', '--model', 'mlp', '--batch', 16, '--workers', 2, '--steps', 2, '--json'
    )
    e = json.loads(out)
    assert (
        e['workers'] == 2
        and e['replicas'] == 1
        and set(
            'samples wall_s train_s loss metric value best ratio ratio_all faults params_hash '
            'exit sent_bytes dense_bytes optim coll'.split()
        )
        <= set(e)
    )
    assert (
        0 < e['compute_ms'] <= e['slowest_ms'] < e['step_ms']
        and 0 < e['forward_ms'] < e['compute_ms']
        and e['forward_ms'] <= e['slowest_forward_ms'] < e['slowest_ms']
    )
    for line in weir('bench', 'allreduce', '--workers', 3, '--floats', 1000, '--json')[
        0
    ].splitlines():
        assert set('bench net coll ranks floats us gb_per_s busbw'.split()) <= set(json.loads(line))
    fails(2, 'bench', 'nothing')


@pytest.mark.mended
@pytest.mark.parametrize('floats', (4097, 10000))
def test_bench_codec_takes_as_many_floats_as_it_is_told(floats):
    for line in weir('bench', 'codec', '--floats', floats, '--json')[0].splitlines():
        e = json.loads(line)
        assert e['floats'] == floats, e
        if e['codec'] == 'none':
            assert e['ratio'] == 1


# ---- bad input ----


def test_usage_errors():
    fails(2, 'train', says=['model'])
    fails(2, 'trian', says=['trian'])
    fails(2, 'train', *TINY, '--btach', 3, says=['--btach'])
    fails(2, 'train', *TINY, '--batch', 'x', says=['batch', 'x', 'whole number'])
    fails(2, 'train', *TINY, '--batch', 0, says=['batch'])
    fails(2, 'train', *TINY, '--lr', 'abc', says=['abc'])
    fails(2, 'train', *TINY, '--optim', 'sgd:momentun=1', says=['momentun', 'momentum'])
    fails(2, 'train', *TINY, '--codec', 'zip', says=['zip', 'none'])
    fails(2, 'train', *TINY, '--coll', 'star', says=['star', 'ring'])
    fails(2, 'train', *TINY, '--model', 'mlp:width=3', says=['width', 'hidden'])
    fails(2, 'train', *TINY, '--save-every', '3x', says=['3x'])
    fails(2, 'train', '--model', 'mlp', '--data', SMALL, says=['--epochs'])
    fails(2, 'train', *TINY, '--epochs', 3, says=['--epochs', '--steps'])
    fails(2, 'train', *TINY, '--batch', says=['--batch'])


@pytest.mark.mended
def test_options_that_are_unknown_or_misplaced_are_told_so():
    fails(2, 'train', *TINY, '--btach', 3, says=['no option --btach', 'is it --batch?'])
    fails(2, 'train', *TINY, '-batch', 3, says=['-batch: an option has two dashes: --batch'])
    fails(2, 'train', 'mlp', says=["'mlp' is no option", '--key value', 'weir help train'])
    fails(2, 'eval', 'x', '--workers', 3, says=['--workers is an option of train, bench', 'eval'])
    fails(2, 'bench', 'train', '--epochs', 3, says=['--epochs is an option of train', 'bench'])
    fails(2, 'bench', 'codec', '--flaots', 3, says=['is it --floats?'])
    fails(2, 'tarin', says=["no command 'tarin'", 'is it train?'])
    fails(2, '--model', 'mlp', says=['--model: options stand behind a command'])
    fails(2, 'list', 'codec', 'coll', says=["'coll' is one word too many"])
    fails(2, 'help', 'train', 'eval', says=["'eval' is one word too many"])
    # nothing is near these: no guess
    assert 'is it' not in fails(2, 'train', '--frobnicate', 3)
    assert 'is it' not in fails(2, 'frobnicate')


@pytest.mark.mended
def test_limits_are_whole_numbers():
    fails(2, 'train', *TINY, '--batch', 10**11, says=['a value from 1 to 16777216 was expected'])
    fails(2, 'train', *TINY, '--codec', 'strom:density=2', says=['from 1e-07 to 1 was expected'])


@pytest.mark.mended
def test_a_size_that_no_model_can_have_is_the_users_slip():
    """exit code 2, not 17: the model file is right; a file that is wrong itself stays 17"""

    def size(spec, *says):
        data = ('--data', 'synth:tokens=9,length=4') if spec.startswith('gpt') else ()
        for command in (['train', *TINY], ['bench', 'compute', '--steps', 1]):
            fails(2, *command, '--model', spec, *data, says=says)

    size('mlp:hidden=-5', 'hidden=-5', 'mlp.net:5:11', 'a value from 1 to 2147483647')
    size('mlp:hidden=0', 'hidden=0', 'a value from 1 to 2147483647')
    size('mlp:hidden=3-3', 'out=0')
    size('mlp:hidden=1/0', 'division by zero')
    size('mlp:hidden=2147483647', 'larger than 274877906944 values')
    size('mlp:hidden=2147483648', '32 bits')
    size('gpt:depth=-1', 'depth=-1', 'less than 0 times')
    size('gpt:heads=3', 'heads=3', '256 cannot be shared by 3')
    size('gpt:width=1000000000', 'width=1000000000', '32 bits')
    size('resnet20:sync=-5', 'sync=-5', '1 or 0')


@pytest.mark.mended
def test_without_mpi_its_cure_is_told():
    program = os.path.dirname(WEIR) + '-nompi/weir'
    for option in (['--net', 'mpi'], ['--coll', 'mpi'], ['--coll', 'hier:outer=mpi']):
        p = subprocess.run(
            [program, 'train', *map(str, TINY), '--workers', '2', *option],
            capture_output=True,
            text=True,
            env=environment(),
        )
        assert p.returncode == 2, p
        for word in ('without MPI', 'libopenmpi-dev', 'make MPI='):
            assert word in p.stderr, p.stderr


def test_options_that_would_do_nothing(tmp_path):
    for said, *args in (
        ('--profile', 'train', *TINY, '--steps', 1, '--profile', tmp_path / 'p'),
        ('--model', 'bench', 'allreduce', '--model', 'mlp'),
        ('--workers', 'bench', 'codec', '--workers', 2),
    ):
        assert said in weir(*args, code=2)[1]
    assert (
        'slow=x5'
        in weir(
            'bench', 'train', '--model', 'mlp', '--net', 'sim:nodes=2,cost=1ms,slow=x5', code=2
        )[1]
    )


def test_closed_output():
    p = subprocess.run(
        [WEIR, 'list'], preexec_fn=lambda: os.close(1), stderr=subprocess.PIPE, text=True
    )
    assert p.returncode == 14 and 'standard output' in p.stderr
