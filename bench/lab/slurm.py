#!/usr/bin/env python3
"""A Slurm of one node on this machine, for trying srun.

  bench/lab/slurm.py [--slots 8] -- SRUN-ARGUMENTS...     e.g.  -- -n 4 build/release/weir train ...

Needs root and the Debian packages slurm-wlm and munge (scripts/deps bench). munged, slurmctld and
slurmd run as children of this program, out of a folder of their own with a key of their own, on
ports that were free: a Slurm that this machine may have is not touched, and all of it ends when
this program does, however that ended."""
import argparse, os, shutil, signal, socket, subprocess, sys, tempfile, time

PATH = os.environ.get('PATH', '') + ':/usr/sbin:/sbin'
PROGRAMS = ('munged', 'slurmctld', 'slurmd', 'srun', 'sinfo', 'setpriv')
SECONDS = 30  # until the node is idle: it takes about three
CONF = '''
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldPort={port1}
SlurmdPort={port2}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MpiDefault=none
NodeName={host} NodeAddr=127.0.0.1 CPUs={slots} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES State=UP OverSubscribe=FORCE:8
'''


def trouble():
    """why there can be no Slurm here; None: there can"""
    for name in PROGRAMS:
        if not shutil.which(name, path=PATH):
            return f'{name} is missing: install slurm-wlm and munge (scripts/deps bench)'
    return None if os.geteuid() == 0 else 'a Slurm of one\'s own needs root'


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(('127.0.0.1', 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Slurm:
    """with Slurm(8) as slurm: subprocess.run(slurm.srun('-n', 4, ...), env=slurm.environment())"""

    def __init__(self, slots=8):
        self.slots, self.daemons = slots, []

    def __enter__(self):
        why = trouble()
        if why:
            raise RuntimeError(why)
        self.temporary = tempfile.TemporaryDirectory(prefix='weir-slurm-')
        self.folder = self.temporary.name
        try:
            self.write()
            self.daemon('munged', '-F', '--force', *self.munge())
            self.wait('munged', lambda: os.path.exists(f'{self.folder}/munge.socket'))
            self.daemon('slurmctld', '-D', '-f', self.conf)
            self.daemon('slurmd', '-D', '-f', self.conf)
            self.wait('the node', self.idle)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for _, p in reversed(self.daemons):
            p.terminate()
            try:
                p.wait(timeout=10)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
        self.daemons = []
        self.temporary.cleanup()

    def write(self):
        for name in ('state', 'spool'):
            os.mkdir(f'{self.folder}/{name}')
        with open(f'{self.folder}/munge.key', 'wb', opener=private) as f:
            f.write(os.urandom(128))
        self.conf = f'{self.folder}/slurm.conf'
        port1, port2 = free_ports(2)
        host = socket.gethostname().split('.')[0]
        fill = dict(host=host, folder=self.folder, slots=self.slots, port1=port1, port2=port2)
        with open(self.conf, 'w') as f:
            f.write(CONF.format(**fill))

    def munge(self):
        names = dict(
            socket='socket', key_file='key', pid_file='pid', seed_file='seed', log_file='log'
        )
        return [f'--{k.replace("_", "-")}={self.folder}/munge.{v}' for k, v in names.items()]

    def daemon(self, name, *options):
        """a child that dies with us"""
        log = open(f'{self.folder}/{name}.log', 'w')
        p = subprocess.Popen(
            ['setpriv', '--pdeathsig', 'KILL', shutil.which(name, path=PATH), *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=self.environment(),
        )
        log.close()
        self.daemons.append((name, p))

    def wait(self, what, ready):
        until = time.monotonic() + SECONDS
        while not ready():
            ended = [name for name, p in self.daemons if p.poll() is not None]
            if ended or time.monotonic() > until:
                name = ended[0] if ended else self.daemons[-1][0]
                with open(f'{self.folder}/{name}.log') as f:
                    said = f.read()[-2000:]
                how = f'{name} ended' if ended else f'not ready in {SECONDS} s'
                raise RuntimeError(f'Slurm: {what}: {how}: {said}')
            time.sleep(0.1)

    def idle(self):
        command = [shutil.which('sinfo', path=PATH), '-h', '-o', '%T']
        p = subprocess.run(command, capture_output=True, text=True, env=self.environment())
        return 'idle' in p.stdout

    def srun(self, *arguments):
        return [shutil.which('srun', path=PATH), *map(str, arguments)]

    def own(self):
        """the variables that srun needs"""
        return dict(SLURM_CONF=f'{self.folder}/slurm.conf', PATH=PATH)

    def environment(self):
        return dict(os.environ, **self.own())


def private(path, flags):
    return os.open(path, flags, 0o600)


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument('--slots', type=int, default=8)
    p.add_argument('arguments', nargs='+')
    a = p.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with Slurm(a.slots) as slurm:
            return subprocess.run(slurm.srun(*a.arguments), env=slurm.environment()).returncode
    except RuntimeError as e:
        sys.exit(f'bench/lab/slurm.py: {e}')


if __name__ == '__main__':
    sys.exit(main())
