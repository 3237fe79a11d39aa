/* mpi_meet.c - how the words' connections come about under MPI: by MPI itself, every rank tells all
 * others where it listens; then each connects to the ranks below it and hears from those above.
 * Ends by knowing which ranks share a machine.
 *
 * A caller shows a secret that rank 0 drew and MPI carried to all: one who does not know it is let
 * go before anything else is read. The one who answers shows it too, with its rank: the same
 * address may be another machine on another network. */
#include "core/hash.h"
#include "core/log.h"
#include "net/mpi_link.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ADDRESSES = 8, GREETING = 0x54454d57 /* "WMET" */, BACKLOG = 4096 };
static const double COME = 60; /* seconds for the others to call */
static const double REACH = 3; /* seconds to reach an address, and to be answered */

typedef struct card {    /* what a rank tells the others */
    uint64_t machine[3]; /* the kernel that runs it; its network; its processes */
    uint64_t chunk;
    uint16_t port, count;
    struct in6_addr address[ADDRESSES], mask[ADDRESSES]; /* version 4: mapped */
} card;

typedef struct greeting {
    uint32_t magic;
    int32_t from, to;
    unsigned char secret[16];
} greeting;

typedef struct meeting {
    int listener;
    unsigned char secret[16];
    card *all;
} meeting;

/* ---- where am I ---- */

static struct in6_addr mapped(const struct in_addr *four)
{
    struct in6_addr a = {0};

    a.s6_addr[10] = a.s6_addr[11] = 0xff;
    memcpy(a.s6_addr + 12, four, 4);
    return a;
}

/* The addresses of this machine's interfaces, with their masks; loopback and those that need to
 * know the link left out. */
static void list_addresses(card *c)
{
    struct ifaddrs *all, *i;

    if (getifaddrs(&all))
        return;
    for (i = all; i && c->count < ADDRESSES; i = i->ifa_next) {
        if (!i->ifa_addr || !i->ifa_netmask || i->ifa_flags & IFF_LOOPBACK ||
            !(i->ifa_flags & IFF_UP))
            continue;
        if (i->ifa_addr->sa_family == AF_INET) {
            c->address[c->count] = mapped(&((struct sockaddr_in *)(void *)i->ifa_addr)->sin_addr);
            c->mask[c->count] = mapped(&((struct sockaddr_in *)(void *)i->ifa_netmask)->sin_addr);
            memset(&c->mask[c->count++], 0xff, 12);
        } else if (i->ifa_addr->sa_family == AF_INET6) {
            const struct sockaddr_in6 *six = (void *)i->ifa_addr;
            if (IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr))
                continue;
            c->address[c->count] = six->sin6_addr;
            c->mask[c->count++] = ((struct sockaddr_in6 *)(void *)i->ifa_netmask)->sin6_addr;
        }
    }
    freeifaddrs(all);
}

/* Two ranks are on one machine if one kernel runs them, and they share a network and see each
 * other's processes. Host names do not tell, nor does MPI_COMM_TYPE_SHARED: Open MPI goes by names,
 * and crashes where two hosts have the same. */
static void name_machine(card *c)
{
    char text[64] = "";
    struct stat st;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, sizeof text) : -1;

    if (fd >= 0)
        close(fd);
    if (got <= 0)
        got = gethostname(text, sizeof text) ? 0 : (ssize_t)strnlen(text, sizeof text);
    c->machine[0] = weir_hash(text, (size_t)got, 0);
    if (!stat("/proc/self/ns/net", &st))
        c->machine[1] = (uint64_t)st.st_ino;
    if (!stat("/proc/self/ns/pid", &st))
        c->machine[2] = (uint64_t)st.st_ino;
}

static weir_err listen_here(meeting *m, card *c)
{
    struct sockaddr_in6 at = {.sin6_family = AF_INET6};
    struct sockaddr_in four = {.sin_family = AF_INET};
    struct sockaddr_storage name;
    socklen_t size = sizeof name;
    int no = 0, bad;

    m->listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (m->listener >= 0) {
        setsockopt(m->listener, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
        bad = bind(m->listener, (void *)&at, sizeof at);
    } else { /* a machine without version 6 */
        m->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bad = m->listener < 0 || bind(m->listener, (void *)&four, sizeof four);
    }
    if (bad || listen(m->listener, BACKLOG) || getsockname(m->listener, (void *)&name, &size))
        return weir_fail(WEIR_FAILED, "no socket to hear the other ranks' signs of life: %s",
                         strerror(errno));
    c->port = name.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&name)->sin6_port
                                         : ((struct sockaddr_in *)&name)->sin_port;
    return WEIR_OK;
}

/* ---- calling and being called ---- */

static void be_patient(int fd, double seconds)
{
    struct timeval t = {.tv_sec = (time_t)seconds,
                        .tv_usec = (suseconds_t)((seconds - (double)(time_t)seconds) * 1e6)};

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t); /* a connect's patience too */
}

static bool greet(int fd, const meeting *m, int from, int to)
{
    greeting g = {.magic = GREETING, .from = from, .to = to};

    memcpy(g.secret, m->secret, sizeof g.secret);
    return send(fd, &g, sizeof g, MSG_NOSIGNAL) == (ssize_t)sizeof g;
}

/* Who is there, if he knows the secret and means us; -1: nobody we know. */
static int hear(int fd, const meeting *m, int me)
{
    greeting g;

    if (recv(fd, &g, sizeof g, MSG_WAITALL) != (ssize_t)sizeof g || g.magic != GREETING ||
        g.to != me)
        return -1;
    return memcmp(g.secret, m->secret, sizeof g.secret) ? -1 : g.from;
}

static int dial(const struct in6_addr *address, uint16_t port)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = *address, .sin6_port = port};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = port};
    bool is_four = IN6_IS_ADDR_V4MAPPED(address);
    int fd = socket(is_four ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    be_patient(fd, REACH);
    memcpy(&four.sin_addr, address->s6_addr + 12, 4);
    if (connect(fd, is_four ? (void *)&four : (void *)&six, is_four ? sizeof four : sizeof six)) {
        close(fd);
        return -1;
    }
    return fd;
}

static bool call_at(weir_net *n, const meeting *m, int peer, const struct in6_addr *address)
{
    int fd = dial(address, m->all[peer].port);

    if (fd < 0)
        return false;
    be_patient(fd, COME); /* it may be calling others itself */
    if (!greet(fd, m, n->rank, peer) || hear(fd, m, n->rank) != peer) {
        close(fd);
        return false;
    }
    ((mpi_link *)n->link)->control[peer].fd = fd;
    return true;
}

static bool one_network(const card *mine, const struct in6_addr *address)
{
    for (int i = 0; i < mine->count; i++) {
        bool same = true;
        for (int k = 0; k < 16; k++)
            same = same && !((mine->address[i].s6_addr[k] ^ address->s6_addr[k]) &
                             mine->mask[i].s6_addr[k]);
        if (same)
            return true;
    }
    return false;
}

static bool same_machine(const card *a, const card *b)
{
    return !memcmp(a->machine, b->machine, sizeof a->machine);
}

/* Addresses on a network of ours first: others may lead nowhere, and tell so late. */
static weir_err call(weir_net *n, const meeting *m, int peer)
{
    const card *mine = &m->all[n->rank], *its = &m->all[peer];
    struct in_addr here = {htonl(INADDR_LOOPBACK)};
    struct in6_addr loopback = mapped(&here);

    if (same_machine(mine, its) && call_at(n, m, peer, &loopback))
        return WEIR_OK;
    for (int far = 0; far < 2; far++)
        for (int i = 0; i < its->count && i < ADDRESSES; i++)
            if (one_network(mine, &its->address[i]) == !far &&
                call_at(n, m, peer, &its->address[i]))
                return WEIR_OK;
    return weir_fail(WEIR_LOST,
                     "rank %d cannot reach rank %d by TCP at any of its %d addresses (port %d): "
                     "signs of life go that way "
                     "beside MPI, is there a firewall?",
                     n->rank, peer, its->count, ntohs(its->port));
}

static weir_err be_called(weir_net *n, const meeting *m, int calls)
{
    mpi_link *l = n->link;
    double limit = weir_mpi_now(n->sched) + COME, left;

    while (calls && (left = limit - weir_mpi_now(n->sched)) > 0) {
        struct pollfd p = {.fd = m->listener, .events = POLLIN};
        int fd = poll(&p, 1, (int)(left * 1000) + 1) > 0
                     ? accept4(m->listener, NULL, NULL, SOCK_CLOEXEC)
                     : -1,
            from;
        if (fd < 0)
            continue;
        be_patient(fd, REACH);
        from = hear(fd, m, n->rank);
        if (from > n->rank && from < n->size && l->control[from].fd < 0 &&
            greet(fd, m, n->rank, from)) {
            l->control[from].fd = fd;
            calls--;
        } else {
            weir_log(WEIR_LOG_WARN, "net",
                     "rank %d let somebody go who called but is not of this run", n->rank);
            close(fd);
        }
    }
    return calls ? weir_fail(WEIR_SILENT, "%d of the ranks above %d did not call within %.0f s",
                             calls, n->rank, COME)
                 : WEIR_OK;
}

/* ---- together ---- */

static weir_err tell_all(weir_net *n, meeting *m)
{
    mpi_link *l = n->link;
    card mine = {.chunk = l->chunk};
    int code;

    list_addresses(&mine);
    name_machine(&mine);
    WEIR_TRY(listen_here(m, &mine));
    if (n->rank == 0 && getrandom(m->secret, sizeof m->secret, 0) != (ssize_t)sizeof m->secret)
        return weir_fail(WEIR_FAILED, "no random numbers: %s", strerror(errno));
    code = MPI_Bcast(m->secret, sizeof m->secret, MPI_BYTE, 0, l->comm);
    if (!code)
        code = MPI_Allgather(&mine, sizeof mine, MPI_BYTE, m->all, sizeof mine, MPI_BYTE, l->comm);
    if (code)
        return weir_mpi_fail(code, "telling the ranks where each is");
    for (int p = 0; p < n->size; p++)
        if (m->all[p].chunk != l->chunk)
            return weir_fail(WEIR_MISFIT, "--net mpi: chunk=%zu on rank %d and %zu on rank %d",
                             l->chunk, n->rank, (size_t)m->all[p].chunk, p);
    return WEIR_OK;
}

static weir_err watch(weir_net *n)
{
    mpi_link *l = n->link;
    int yes = 1;

    if ((l->poll = epoll_create1(EPOLL_CLOEXEC)) < 0)
        return weir_fail(WEIR_FAILED, "no epoll: %s", strerror(errno));
    for (int p = 0; p < n->size; p++) {
        struct epoll_event e = {.events = EPOLLIN, .data.u32 = (uint32_t)p};
        if (p == n->rank)
            continue;
        setsockopt(l->control[p].fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        if (epoll_ctl(l->poll, EPOLL_CTL_ADD, l->control[p].fd, &e))
            return weir_fail(WEIR_FAILED, "a connection cannot be watched: %s", strerror(errno));
    }
    return WEIR_OK;
}

static weir_err meet(weir_net *n, meeting *m)
{
    WEIR_TRY(tell_all(n, m));
    for (int p = 0; p < n->size; p++) {
        n->machine[p] = p;
        for (int q = 0; q < p && n->machine[p] == p; q++)
            if (same_machine(&m->all[p], &m->all[q]))
                n->machine[p] = n->machine[q];
    }
    for (int p = 0; p < n->rank; p++)
        WEIR_TRY(call(n, m, p));
    WEIR_TRY(be_called(n, m, n->size - 1 - n->rank));
    return watch(n);
}

weir_err weir_mpi_meet(weir_net *n)
{
    mpi_link *l = n->link;
    meeting m = {.listener = -1, .all = calloc((size_t)n->size, sizeof(card))};
    weir_err err;

    l->control = calloc((size_t)n->size, sizeof *l->control);
    n->machine = calloc((size_t)n->size, sizeof *n->machine);
    for (int p = 0; l->control && p < n->size; p++)
        l->control[p].fd = -1;
    err = m.all && l->control && n->machine ? meet(n, &m)
                                            : weir_fail_nomem((size_t)n->size * sizeof *l->control);
    if (m.listener >= 0)
        close(m.listener);
    free(m.all);
    return err;
}
