"""Where data sets are that benches and long checks train on.

Fashion-MNIST is a Debian package. CIFAR-10 is where `scripts/data cifar10` puts it. What no package
registry has is looked for in the folder that WEIR_DATA names: ptb/ (ptb.train.txt, ptb.valid.txt,
ptb.test.txt), tinyshakespeare/input.txt, speech-audiomnist/frames/ (IDX files); and cifar10/ there
too (the binary batches). Files may be packed with xz. What is missing is left out, and said so."""
import lzma, os, shutil

# name: (folder under WEIR_DATA, what must be in it, the spec)
SETS = {
    'cifar10': ('cifar10', 'data_batch_1.bin', 'cifar10:{},augment=yes'),
    'ptb': ('ptb', 'ptb.train.txt', 'text:{},length=35'),
    'shakespeare': ('tinyshakespeare', 'input.txt', 'text:{}/input.txt,unit=char,length=128'),
    'speech': ('speech-audiomnist/frames', 'train-frames-idx2-ubyte.gz', 'frames:{},window=11'),
}


def placed(name):
    """where scripts/data puts a set"""
    base, home = os.environ.get('XDG_DATA_HOME', ''), os.environ.get('HOME', '')
    return os.path.join(base if base.startswith('/') else f'{home}/.local/share', 'weir', name)


def unpacked(folder, to):
    """the folder, or a copy whose files are not packed"""
    packed = [f for f in os.listdir(folder) if f.endswith('.xz')]
    if not packed:
        return folder
    os.makedirs(to, exist_ok=True)
    for f in packed:
        if not os.path.exists(os.path.join(to, f[:-3])):
            with lzma.open(os.path.join(folder, f)) as a:
                with open(os.path.join(to, f[:-3]), 'wb') as b:
                    shutil.copyfileobj(a, b)
    return to


def find(name, scratch):
    """(spec, None), or (None, why not); what has to be unpacked is put into the scratch folder"""
    if name == 'fashion-mnist':
        return name, None
    folder, file, spec = SETS[name]
    given = os.environ.get('WEIR_DATA', '')
    own = os.path.join(given, folder)
    if given and any(os.path.exists(os.path.join(own, file + end)) for end in ('', '.xz')):
        return spec.format(unpacked(own, os.path.join(scratch, name))), None
    if name == 'cifar10' and os.path.exists(os.path.join(placed(name), file)):
        return spec.format(placed(name)), None
    cure = 'run scripts/data cifar10' if name == 'cifar10' else 'no package has it'
    looked = f'{own}/{file} is not there' if given else 'WEIR_DATA names no folder to look in'
    return None, f'{looked}; {cure}'
