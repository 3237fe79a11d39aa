"""Test hosts of the benches (bench/lab/hosts.py): they reach each other at the rate asked for,
links can be cut and hosts split, and nothing is left behind, however the lab ended."""
import os, signal, subprocess, sys, time
import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
BENCH = os.path.join(HERE, '../bench')
sys.path.insert(0, BENCH)
from lab import hosts as lab

why = lab.trouble()
needs_hosts = pytest.mark.skipif(why is not None, reason=str(why))
# the server says when it listens, then what it was sent, and after how many seconds all was there
SERVER = '''
import socket, time
s = socket.create_server(('0.0.0.0', 7000))
began, got = time.monotonic(), 0
print('listens', flush=True)
c, _ = s.accept()
while True:
    part = c.recv(1 << 16)
    if not part:
        break
    got += len(part)
print(got, time.monotonic() - began, flush=True)
'''
CLIENT = '''
import socket, sys
c = socket.create_connection((sys.argv[1], 7000), timeout=float(sys.argv[3]))
c.sendall(bytes(int(sys.argv[2])))
'''


def send(hosts, source, target, count, timeout=10):
    """(exit code of who sent, what the server printed)"""
    server = hosts.start(target, [sys.executable, '-c', SERVER])
    assert server.stdout.readline() == 'listens\n'
    to = [hosts.address(target), count, timeout]
    client = hosts.start(source, [sys.executable, '-c', CLIENT, *to])
    client.communicate(timeout=30)
    if client.returncode:
        server.kill()
    return client.returncode, server.communicate(timeout=30)[0]


@needs_hosts
def test_a_link_has_its_rate():
    """40 Mbit/s is 5 MB/s; either end of a link, of which there are two, lets 128 KiB through at
    once, if it is not yet in use: all else of 4 MB takes its time"""
    with lab.Hosts(2, '40mbit') as hosts:
        code, said = send(hosts, 2, 1, 4_000_000)
        got, seconds = said.split()
        assert code == 0 and int(got) == 4_000_000
        assert float(seconds) > (4e6 - 2 * 128 * 1024) / 5e6
        sent, received = hosts.moved(2)
        assert sent > 4_000_000 > received


@needs_hosts
def test_cut_healed_split_joined():
    with lab.Hosts(3) as hosts:
        hosts.cut(2)
        assert send(hosts, 2, 1, 10, timeout=0.5)[0] != 0
        hosts.heal(2)
        assert send(hosts, 2, 1, 10)[0] == 0
        hosts.split([2, 3])
        assert send(hosts, 2, 1, 10, timeout=0.5)[0] != 0
        assert send(hosts, 2, 3, 10)[0] == 0
        hosts.join()
        assert send(hosts, 2, 1, 10)[0] == 0


def gone(pid):
    try:
        with open(f'/proc/{pid}/stat') as f:
            return f.read().rsplit(')', 1)[1].split()[0] in 'ZX'
    except OSError:
        return True


OWNER = f'''
import sys
sys.path.insert(0, {BENCH!r})
from lab.hosts import Hosts
with Hosts(2) as hosts:
    started = hosts.start(1, ['sleep', '600'])
    print(started.pid, *(s.holder.pid for s in hosts.spaces), flush=True)
    sys.stdin.read()
'''


@needs_hosts
@pytest.mark.parametrize('how', ['input ends', signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left(how):
    """a namespace is gone when nobody is in it"""
    p = subprocess.Popen(
        [sys.executable, '-c', OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    pids = p.stdout.readline().split()
    assert len(pids) == 4 and not any(map(gone, pids))
    if how == 'input ends':
        p.stdin.close()
    else:
        p.send_signal(how)
    p.wait(timeout=30)
    until = time.time() + 10
    while not all(map(gone, pids)):
        assert time.time() < until, 'a process of the lab is left'
        time.sleep(0.01)


def test_not_root():
    """it says so"""
    if os.geteuid() != 0:
        command = []
    else:
        command = ['setpriv', '--reuid', '65534', '--clear-groups', '--']
    p = subprocess.run(
        [*command, sys.executable, os.path.join(BENCH, 'lab/hosts.py'), '2', '1gbit'],
        capture_output=True,
        text=True,
    )
    assert p.returncode == 1 and 'need root' in p.stderr


@needs_hosts
def test_a_rate_that_is_none():
    p = subprocess.run(
        [sys.executable, os.path.join(BENCH, 'lab/hosts.py'), '1', 'fast', '--', 'true'],
        capture_output=True,
        text=True,
    )
    assert p.returncode == 1 and 'rate fast' in p.stderr
