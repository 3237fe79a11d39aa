/* zmq_crowd.c - those who have connected to a socket that listens and have not said who they are.
 *
 * ZeroMQ accepts whoever connects, and a process may have only so many descriptors. When they are
 * used up, its thread turns in circles: somebody waits to be accepted, and cannot be. So no more
 * are borne than leave enough descriptors for the ranks and for files: when one more comes, the
 * oldest that says nothing is ended.
 *
 * The connections are ZeroMQ's, and we know their numbers only. It may close one at any time, and
 * its number may come to mean another: so a descriptor of our own is made to mean the same
 * connection, and only if that has the peer that was noted is it ended. */
#include "core/log.h"
#include "net/zmq_link.h"
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

/* Descriptors that are left for files; those that a rank takes: its links, and while it comes; how
 * many are borne at most besides the ranks that are to come. */
enum { FILES = 16, LINKS = 5 + 1, IDLERS = 256 };

static bool look_up(int fd, weir_stranger *s)
{
    struct sockaddr_storage from;
    socklen_t len = sizeof from;

    *s = (weir_stranger){.fd = fd};
    if (getpeername(fd, (struct sockaddr *)&from, &len))
        return false;
    if (from.ss_family == AF_INET) {
        struct sockaddr_in *in = (struct sockaddr_in *)&from;
        inet_ntop(AF_INET, &in->sin_addr, s->host, sizeof s->host);
        s->port = in->sin_port;
    } else if (from.ss_family == AF_INET6) {
        struct sockaddr_in6 *in = (struct sockaddr_in6 *)&from;
        inet_ntop(AF_INET6, &in->sin6_addr, s->host, sizeof s->host);
        s->port = in->sin6_port;
    }
    return true;
}

static void forget(weir_crowd *c, int i)
{
    memmove(c->in + i, c->in + i + 1, (size_t)(c->count - i - 1) * sizeof *c->in);
    c->count--;
}

static void end_oldest(weir_crowd *c)
{
    weir_stranger s = c->in[0], now;

    forget(c, 0);
    if (dup2(s.fd, c->hand) < 0)
        return; /* it is gone */
    if (look_up(c->hand, &now) && now.port == s.port && !strcmp(now.host, s.host))
        shutdown(c->hand, SHUT_RDWR);
    dup2(c->nothing, c->hand);
}

static void warn(weir_crowd *c)
{
    if (c->warned)
        return;
    c->warned = true;
    weir_log(WEIR_LOG_WARN, "net",
             "more than %d processes have connected to %s and not said who they are; of %d "
             "descriptors (ulimit -n) some must be left: the oldest are ended, the run goes on",
             c->most, c->at, c->limit);
}

void weir_crowd_add(weir_crowd *c, int fd)
{
    weir_stranger s;

    weir_crowd_leave(c, fd); /* one that had this number is gone */
    look_up(fd, &s);
    c->in[c->count++] = s;
    if (c->count <= c->most)
        return;
    warn(c);
    end_oldest(c);
}

void weir_crowd_leave(weir_crowd *c, int fd)
{
    for (int i = c->count - 1; i >= 0; i--)
        if (c->in[i].fd == fd)
            forget(c, i);
}

const char *weir_crowd_host(const weir_crowd *c, int fd)
{
    for (int i = 0; i < c->count; i++)
        if (c->in[i].fd == fd)
            return c->in[i].host;
    return "";
}

/* Descriptors in use; 0: nobody can say. */
static int count_used(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;

    for (struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.';
    if (d)
        closedir(d);
    return n;
}

/* How many may say nothing, if the ranks that are to come shall have their links: half of what is
 * left, as two sockets listen. Where there are more ranks than descriptors will do for, they are
 * let in all the same: who opens the links says what is wrong. */
static int how_many(int limit, int ranks)
{
    int most = ranks + IDLERS, left = limit - count_used();
    int spare = left - FILES - LINKS * ranks;

    spare = (spare < left / 2 ? left / 2 : spare) / 2;
    spare = spare < 1 ? 1 : spare;
    return spare < most ? spare : most;
}

weir_err weir_crowd_open(weir_crowd *c, int ranks, const char *at)
{
    struct rlimit most = {.rlim_cur = RLIM_INFINITY};

    getrlimit(RLIMIT_NOFILE, &most);
    c->limit = most.rlim_cur < INT32_MAX ? (int)most.rlim_cur : INT32_MAX;
    c->most = how_many(c->limit, ranks);
    c->at = at;
    c->nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    c->hand = c->nothing < 0 ? -1 : fcntl(c->nothing, F_DUPFD_CLOEXEC, 0);
    if (c->hand < 0)
        return weir_fail(WEIR_FAILED, "no descriptor is left of %d (ulimit -n): %s", c->limit,
                         strerror(errno));
    if (!(c->in = calloc((size_t)c->most + 1, sizeof *c->in)))
        return weir_fail_nomem((size_t)c->most * sizeof *c->in);
    return WEIR_OK;
}

void weir_crowd_close(weir_crowd *c)
{
    free(c->in);
    if (c->nothing >= 0)
        close(c->nothing);
    if (c->hand >= 0)
        close(c->hand);
    *c = (weir_crowd){.hand = -1, .nothing = -1};
}

/* ---- after the meeting ---- */

weir_err weir_crowd_watch(sockets *z)
{
    WEIR_TRY(weir_crowd_open(&z->crowd, 0, z->at));
    WEIR_TRY(weir_zmq_monitor(z, z->router, "inproc://router",
                              ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED, &z->router_events));
    z->poll[WEIR_ZMQ_ROUTER_EVENTS].fd = weir_zmq_fd(z->router_events);
    weir_crowd_look(z); /* what has come by now, the descriptor will not tell */
    return WEIR_OK;
}

void weir_crowd_look(sockets *z)
{
    uint32_t fd = 0;

    for (int event; z->router_events && (event = weir_zmq_event(z->router_events, &fd));) {
        if (event == ZMQ_EVENT_ACCEPTED)
            weir_crowd_add(&z->crowd, (int)fd);
        else if (event == ZMQ_EVENT_DISCONNECTED)
            weir_crowd_leave(&z->crowd, (int)fd);
    }
}
