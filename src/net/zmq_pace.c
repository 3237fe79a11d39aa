/* zmq_pace.c - which congestion control TCP uses on the links that data leave by.
 *
 * Gradients come in bursts, with a forward pass between them. BBR, which some systems take by
 * default, paces every packet by what it has measured, probes for more, and lets a link run dry
 * every ten seconds to measure again: worth it on long paths that lose packets, a loss of some per
 * cent in a LAN. There an older one fills the link at once. */
#include "core/log.h"
#include "net/zmq_link.h"
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { NAME = 16 /* as the kernel has it */ };
static const unsigned SHORT_US = 5000; /* a round trip, below which a link is short */

static const char *wanted(const weir_net *n)
{
    return ((const weir_zmq_self *)n->self)->congestion;
}

static bool set(int fd, const char *name)
{
    return !setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name));
}

weir_err weir_zmq_pace_check(const weir_net *n)
{
    const char *name = wanted(n);
    char allowed[256] = "";
    int fd;
    bool good;
    FILE *f;

    if (!strcmp(name, "auto") || !strcmp(name, "system"))
        return WEIR_OK;
    if ((fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) < 0)
        return WEIR_OK; /* who opens sockets next will say why */
    good = strlen(name) < NAME && set(fd, name);
    close(fd);
    if (good)
        return WEIR_OK;
    if ((f = fopen("/proc/sys/net/ipv4/tcp_allowed_congestion_control", "re"))) {
        if (fgets(allowed, sizeof allowed, f))
            allowed[strcspn(allowed, "\n")] = 0;
        fclose(f);
    }
    return weir_fail(WEIR_MISFIT,
                     "--net zmq:congestion=%s: this system does not let us use it; it allows: %s",
                     name, allowed[0] ? allowed : "(unknown)");
}

/* A handshake has just told the kernel how long a round trip is. */
static bool is_short(int fd)
{
    struct tcp_info info;
    socklen_t len = sizeof info;

    return !getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) && info.tcpi_rtt < SHORT_US;
}

void weir_zmq_pace(const weir_net *n, int fd)
{
    const char *name = wanted(n);
    char now[NAME] = "";
    socklen_t len = sizeof now - 1;

    if (!strcmp(name, "system") || getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, now, &len))
        return;
    if (!strcmp(name, "auto")) {
        if (strncmp(now, "bbr", 3) || !is_short(fd))
            return;
        name = "reno"; /* every kernel has it and allows it */
    }
    if (set(fd, name))
        weir_log(WEIR_LOG_INFO, "net", "rank %d: congestion control %s in place of %s", n->rank,
                 name, now);
}
