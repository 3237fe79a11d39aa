"""Test hosts on this machine with links of a given rate (../shared/tools/netlab), and the same
command once a host."""
import json, os, subprocess, sys, tempfile, time
from peers import ROOT, environment, finish, lines

NETLAB = os.path.join(ROOT, '../shared/tools/netlab')
os.environ.setdefault('NETLAB', 'wbnch')


def setup(bench):
    if not os.path.exists(NETLAB):
        sys.exit(f'{bench}: ../shared/tools/netlab is missing: there are no hosts to run on')
    subprocess.run([os.path.join(ROOT, 'scripts/deps'), 'bench'], check=True)


class Lab:
    """with Lab(4, '1gbit') as lab: lab.run(...)"""

    port = 29100

    def __init__(self, hosts, rate):
        self.hosts, self.rate = hosts, rate

    def __enter__(self):
        subprocess.run([NETLAB, 'up', str(self.hosts), self.rate], check=True)
        return self

    def __exit__(self, *_):
        subprocess.run([NETLAB, 'down'], check=True)

    def start(self, host, command, **env):
        """held to one core, which hosts share alike: a host cannot borrow another's, as it could
        not if they were machines"""
        cores = sorted(os.sched_getaffinity(0))
        return subprocess.Popen(
            [
                NETLAB,
                'exec',
                str(host),
                'taskset',
                '-c',
                str(cores[(host - 1) % len(cores)]),
                *map(str, command),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(**env),
        )

    def all(self, command, **env):
        """torchrun's variables on every host; rank 0's JSON lines"""
        Lab.port += 7
        started = [
            self.start(
                r + 1,
                command,
                RANK=r,
                WORLD_SIZE=self.hosts,
                LOCAL_RANK=0,
                MASTER_ADDR='10.99.0.1',
                MASTER_PORT=Lab.port,
                GLOO_SOCKET_IFNAME='eth0',
                **env,
            )
            for r in range(self.hosts)
        ]
        out = [finish(p, command) for p in started]
        return lines(out[0])

    def apart(self, command):
        """once a host, without knowing of each other; everybody's JSON lines"""
        started = [self.start(r + 1, command) for r in range(self.hosts)]
        return [lines(finish(p, command)) for p in started]

    def iperf(self, seconds=3):
        """bytes a second that TCP moves from host 2 to host 1"""
        server, until = self.start(1, ['iperf3', '-s', '-1']), time.time() + 10
        while True:
            got = json.loads(
                self.start(2, ['iperf3', '-c', '10.99.0.1', '-t', seconds, '-J']).communicate()[0]
            )
            if 'sum_received' in got['end']:
                break
            if time.time() > until:
                raise SystemExit(f'iperf3: {got.get("error")}')  # until the server listens
        server.wait()
        return got['end']['sum_received']['bits_per_second'] / 8


def profile(text):
    """seconds of forward, backward and update in a file that --profile wrote"""
    p = json.loads(text)
    return (
        p['forward_ns'] * 1e-9,
        (sum(p['backward_ns']) + p['rest_ns']) * 1e-9,
        p['update_ns'] * 1e-9,
    )


def scratch():
    return tempfile.TemporaryDirectory()
