#!/usr/bin/env python3
"""Test hosts on this machine: network namespaces, each with a link of a given rate to one switch.

  bench/lab/hosts.py HOSTS RATE -- COMMAND...   runs COMMAND once a host, with torchrun's variables
  bench/lab/hosts.py HOSTS RATE                 says how to enter each host; stays until its input
                                                ends (Ctrl-D)

RATE is as tc writes it: 100mbit, 1gbit; `none` for links that are not shaped. Needs root and
iproute2. Host I has the address 10.99.0.I, on eth0. A link is a veth pair with a token bucket at
either end, so that it is full duplex; the switch is a bridge in a namespace of its own. Nothing
leads to this machine's network. Links have a rate and no delay of their own. Only the network
differs between hosts: host name, files and memory are this machine's.

A namespace has no name and lives as long as a process in it: each is held by a `cat` that ends when
whoever made the lab does, however that ended. Commands started on hosts die with it too. So nothing
is left behind, and any number of labs can be up at once."""
import argparse, json, os, signal, subprocess, sys, time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from runs import ROOT, environment, lines

MOST = 250  # addresses are 10.99.0.1 and so on
BURST = ['burst', '128kb', 'latency', '100ms']  # of tc's token bucket
SECONDS = 20  # for a command that sets something up: each takes milliseconds
NETS = ('ip', 'tc', 'unshare', 'nsenter', 'setpriv', 'taskset')


def trouble():
    """why there can be no hosts here; None: there can"""
    if os.geteuid() != 0:
        return 'test hosts are network namespaces, which need root'
    path = os.environ.get('PATH', '') + ':/usr/sbin:/sbin'
    for name in NETS:
        if not any(os.access(os.path.join(d, name), os.X_OK) for d in path.split(':')):
            return f'test hosts need {name}: install iproute2 and util-linux (scripts/deps bench)'
    return None


def setup(bench):
    """for a bench or a check: says why not, and ends it"""
    if os.geteuid() == 0:
        subprocess.run([os.path.join(ROOT, 'scripts/deps'), 'bench'], check=True)
    why = trouble()
    if why:
        sys.exit(f'{bench}: {why}')


def run(command):
    p = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=SECONDS, env=tools()
    )
    if p.returncode:
        said = f'{p.stdout}{p.stderr}'.strip()
        raise RuntimeError(f'{" ".join(map(str, command))}: exit {p.returncode}: {said}')
    return p.stdout


def tools():
    return dict(os.environ, PATH=os.environ.get('PATH', '') + ':/usr/sbin:/sbin')


class Namespace:
    """a network of its own, for as long as this process lives or until close()"""

    def __init__(self):
        self.holder = subprocess.Popen(
            ['setpriv', '--pdeathsig', 'KILL', 'unshare', '--net', 'sh', '-c', 'echo; exec cat'],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=tools(),
        )
        if not self.holder.stdout.readline():
            said = self.holder.communicate(timeout=SECONDS)[1].decode().strip()
            raise RuntimeError(f'a network namespace cannot be made: {said}')

    def enter(self, *command):
        return ['nsenter', '-t', str(self.holder.pid), '-n', *map(str, command)]

    def run(self, *command):
        return run(self.enter(*command))

    def close(self):
        self.holder.communicate(timeout=SECONDS)


class Hosts:
    """with Hosts(4, '1gbit') as hosts: hosts.all([...])"""

    port = 29100

    def __init__(self, count, rate='none'):
        if not 1 <= count <= MOST:
            raise ValueError(f'{count} hosts; 1 to {MOST} are possible')
        self.count, self.rate = count, rate
        self.spaces, self.started = [], []

    def __enter__(self):
        why = trouble()
        if why:
            raise SystemExit(f'{os.path.basename(sys.argv[0])}: {why}')
        try:
            self.switch = self.space()
            self.switch.run('ip', 'link', 'add', 'br0', 'type', 'bridge')
            self.switch.run('ip', 'link', 'set', 'br0', 'up')
            for i in range(1, self.count + 1):
                self.plug(i)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for p in self.started:
            if p.poll() is None:
                p.kill()
                p.wait()
        for s in reversed(self.spaces):
            s.close()
        self.spaces, self.started = [], []

    def space(self):
        self.spaces.append(Namespace())
        return self.spaces[-1]

    def host(self, i):
        if not 1 <= i <= self.count:
            raise ValueError(f'there is no host {i}; they are 1 to {self.count}')
        return self.spaces[i]  # the first is the switch

    def plug(self, i):
        host = self.space()
        to = ['peer', 'name', 'eth0', 'netns', host.holder.pid]
        self.switch.run('ip', 'link', 'add', f'p{i}', 'type', 'veth', *to)
        self.switch.run('ip', 'link', 'set', f'p{i}', 'master', 'br0', 'up')
        host.run('ip', 'addr', 'add', f'{self.address(i)}/24', 'dev', 'eth0')
        host.run('ip', 'link', 'set', 'eth0', 'up')
        host.run('ip', 'link', 'set', 'lo', 'up')
        if self.rate != 'none':
            self.shape(i, self.rate)

    # ---- links ----

    def address(self, i):
        return f'10.99.0.{i}'

    def shape(self, i, rate):
        """host i's link, both ways"""
        for space, link in ((self.host(i), 'eth0'), (self.switch, f'p{i}')):
            space.run('tc', 'qdisc', 'replace', 'dev', link, 'root', 'tbf', 'rate', rate, *BURST)

    def cut(self, i):
        self.switch.run('ip', 'link', 'set', f'p{i}', 'down')

    def heal(self, i):
        self.switch.run('ip', 'link', 'set', f'p{i}', 'up')

    def split(self, group):
        """those of the group reach only one another"""
        if 'br1' not in self.switch.run('ip', '-o', 'link', 'show', 'type', 'bridge'):
            self.switch.run('ip', 'link', 'add', 'br1', 'type', 'bridge')
            self.switch.run('ip', 'link', 'set', 'br1', 'up')
        for i in group:
            self.switch.run('ip', 'link', 'set', f'p{i}', 'master', 'br1')

    def join(self):
        for i in range(1, self.count + 1):
            self.switch.run('ip', 'link', 'set', f'p{i}', 'master', 'br0')

    def moved(self, i):
        """(sent, received): bytes of host i's link"""
        found = json.loads(self.host(i).run('ip', '-j', '-s', 'link', 'show', 'eth0'))[0]['stats64']
        return found['tx']['bytes'], found['rx']['bytes']

    # ---- commands ----

    def start(self, i, command, core=None, **env):
        """A process on host i, its pipes ours. It is killed when the thread that started it ends:
        start what is to last from the main one."""
        held = ['taskset', '-c', core] if core is not None else []
        inside = self.host(i).enter(*held, *command)
        p = subprocess.Popen(
            ['setpriv', '--pdeathsig', 'KILL', *map(str, inside)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(**dict(dict(PATH=tools()['PATH']), **env)),
        )
        self.started.append(p)
        return p

    def start_held(self, i, command, **env):
        """on one core, which hosts share alike: a host cannot borrow another's, as it could not if
        they were machines"""
        cores = sorted(os.sched_getaffinity(0))
        return self.start(i, command, core=cores[(i - 1) % len(cores)], **env)

    def finish(self, process, command, until):
        """what it printed; ends this program if it failed or is not done in time"""
        try:
            out, err = process.communicate(timeout=max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            sys.exit(f'{" ".join(map(str, command))}: did not end in time')
        finally:
            if process.poll() is not None and process in self.started:
                self.started.remove(process)
        if process.returncode:
            sys.exit(f'{" ".join(map(str, command))}: exit {process.returncode}\n{out}{err}')
        return out

    def ranks(self, **env):
        """torchrun's variables, a host at a time"""
        Hosts.port += 7
        for r in range(self.count):
            yield dict(
                env,
                RANK=r,
                WORLD_SIZE=self.count,
                LOCAL_RANK=0,
                MASTER_ADDR=self.address(1),
                MASTER_PORT=Hosts.port,
                GLOO_SOCKET_IFNAME='eth0',
            )

    def all(self, command, seconds=3600, **env):
        """one rank a host; rank 0's JSON lines"""
        until = time.monotonic() + seconds
        started = [
            self.start_held(i, command, **e) for i, e in enumerate(self.ranks(**env), start=1)
        ]
        out = [self.finish(p, command, until) for p in started]
        return lines(out[0])

    def iperf(self, seconds=3):
        """bytes a second that TCP moves from host 2 to host 1"""
        server, until = self.start_held(1, ['iperf3', '-s', '-1']), time.time() + 10
        while True:
            command = ['iperf3', '-c', self.address(1), '-t', seconds, '-J']
            got = json.loads(self.start_held(2, command).communicate(timeout=60)[0])
            if 'sum_received' in got['end']:
                break
            if time.time() > until:  # until the server listens
                raise SystemExit(f'iperf3: {got.get("error")}')
        server.communicate(timeout=60)
        return got['end']['sum_received']['bits_per_second'] / 8


def on_all(hosts, command):
    """with their output as it comes; the first exit code that is not 0"""
    started = []
    for i, env in enumerate(hosts.ranks(), start=1):
        inside = hosts.host(i).enter(*command)
        held = ['setpriv', '--pdeathsig', 'KILL', *map(str, inside)]
        started.append(subprocess.Popen(held, env=environment(**env)))
        hosts.started.append(started[-1])
    return next((c for c in [p.wait() for p in started] if c), 0)


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument('hosts', type=int)
    p.add_argument('rate')
    p.add_argument('command', nargs='*')
    a = p.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with Hosts(a.hosts, a.rate) as hosts:
            if a.command:
                return on_all(hosts, a.command)
            for i in range(1, a.hosts + 1):
                print(f'host {i}, {hosts.address(i)}: {" ".join(hosts.host(i).enter("COMMAND"))}')
            sys.stdout.flush()
            sys.stdin.read()
    except (RuntimeError, ValueError, subprocess.TimeoutExpired) as e:
        sys.exit(f'bench/lab/hosts.py: {e}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
