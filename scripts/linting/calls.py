"""Threads, clocks, sockets, processes, signals, printing: each has its files."""
import re
from linting.tree import Fault

KINDS = ('call',)
WORLD = r'core/(task|fifo|fibre)\.c|net/\w+\.[ch]'
CLOCKS = (
    'clock_gettime|clock_nanosleep|gettimeofday|time|clock|nanosleep|usleep|sleep|timerfd_' + r'\w+'
)
PROCESSES = 'v?fork|exec[lv]p?e?|execvpe|posix_spawnp?|wait|waitpid|waitid|popen|system'
# words before a parenthesis (or alone, where the pattern ends in \b), the files that may use them,
# what to say
CALLS = [
    (r'(pthread|thrd|mtx|cnd|sem)_\w+\s*\(', WORLD, 'threads belong in core/task.c and net/'),
    (rf'({CLOCKS})\s*\(', WORLD, 'clocks belong in core/task.c and net/'),
    (
        r'(socket|socketpair|epoll_\w+|eventfd|accept4?|connect|bind|listen)\s*\(',
        WORLD,
        'sockets belong in net/',
    ),
    (
        r'p?(poll|select)\s*\(',
        WORLD + r'|cli/signals\.c',
        'waiting for a descriptor belongs in net/',
    ),
    (rf'({PROCESSES})\s*\(', WORLD, 'processes belong in net/'),
    (r'(signal|sigaction)\s*\(', r'cli/\w+\.c|net/launch\w*\.c', 'the library handles no signals'),
    (
        r'(signalfd|isatty)\s*\(',
        r'cli/\w+\.c|net/launch\.c',
        'only cli/ and the launcher read signals and look at terminals',
    ),
    (
        r'(exit|_exit|_Exit|quick_exit|abort|assert)\s*\(',
        r'cli/\w+\.c|net/launch\w*\.c|core/fibre\.c',
        'the library never ends the process',
    ),
    (r'weir_group_(make|all)\s*\(', r'net/(net|group|mesh)\.[ch]', 'net/mesh.c makes the groups'),
    (r'(v?printf|puts|putchar|perror)\s*\(|stdout\b', r'cli/\w+\.[ch]', 'only cli/ prints'),
    (
        r'stderr\b',
        r'cli/\w+\.[ch]|net/launch\.c',
        'only cli/ and the launcher write to stderr',
    ),
]


def check_calls(tree):
    for f in tree.ours():
        for pattern, files, why in CALLS:
            if re.fullmatch(files, f.inside):
                continue
            for n, line in enumerate(f.bare.split('\n'), 1):
                if re.match(r'\s*#', line):
                    continue
                # a member or a field of that name is somebody else's
                for m in re.finditer(r'(?<![\w.>])(?:' + pattern + ')', line):
                    yield Fault('call', f.path, n, f'{m[0].rstrip("( ")}: {why}')


CHECKS = (check_calls,)
