/* mpi_control.c - words and signs of life between ranks under MPI: a TCP connection a pair, because
 * MPI tells nobody of a death.
 *
 * A word is a head of frame.h and its body. The end of a connection is the end of the peer; what it
 * said before is read first. */
#include "net/mpi_link.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS = 64 };
static const double LINGER = 0.3; /* seconds to let the last words out */
/* seconds to wait, after a failure, for the others to leave too */
static const double TOGETHER = 2;

/* ---- out ---- */

static void wait_for_room(weir_net *n, int peer, bool waits)
{
    mpi_link *l = n->link;
    struct epoll_event e = {.events = EPOLLIN | (waits ? EPOLLOUT : 0), .data.u32 = (uint32_t)peer};

    if (l->control[peer].waits != waits &&
        !epoll_ctl(l->poll, EPOLL_CTL_MOD, l->control[peer].fd, &e))
        l->control[peer].waits = waits;
}

static void flush(weir_net *n, int peer)
{
    control_link *w = &((mpi_link *)n->link)->control[peer];
    ssize_t sent = 1;

    while (w->fd >= 0 && w->kept && sent > 0) {
        sent = send(w->fd, w->out, w->kept, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0) {
            w->kept -= (size_t)sent;
            memmove(w->out, w->out + sent, w->kept);
        }
    }
    if (w->fd >= 0)
        wait_for_room(n, peer, w->kept > 0);
}

/* One who does not read for so long that the sockets and this buffer are full is not missing
 * much. */
void weir_mpi_tell(weir_net *n, int peer, weir_frame_kind control, const void *body, size_t len)
{
    control_link *w = &((mpi_link *)n->link)->control[peer];
    weir_frame head;

    if (w->fd < 0 || w->kept + sizeof head + len > sizeof w->out)
        return;
    weir_frame_make(&head, control, n, 0, len);
    memcpy(w->out + w->kept, &head, sizeof head);
    w->kept += sizeof head;
    if (len)
        memcpy(w->out + w->kept, body, len);
    w->kept += len;
    flush(n, peer);
}

/* ---- in ---- */

/* Takes whole words out of what has come; false: these are none, and nothing behind them can be
 * trusted. */
static bool take_control(weir_net *n, int peer)
{
    control_link *w = &((mpi_link *)n->link)->control[peer];
    weir_frame head;
    size_t at = 0;

    while (w->have - at >= sizeof head) {
        if (!weir_frame_read(w->in + at, sizeof head, n->size, &head) ||
            head.from != (uint32_t)peer || head.len > sizeof w->in - sizeof head ||
            head.kind == WEIR_FRAME_DATA || head.kind == WEIR_FRAME_DONE)
            return false;
        if (w->have - at - sizeof head < head.len)
            break;
        weir_liveness_heard(n, peer, (weir_frame_kind)head.kind, head.doing,
                            w->in + at + sizeof head, head.len);
        at += sizeof head + head.len;
    }
    w->have -= at;
    memmove(w->in, w->in + at, w->have);
    return true;
}

/* Reads all that is there; was there any. */
static bool read_link(weir_net *n, int peer)
{
    control_link *w = &((mpi_link *)n->link)->control[peer];
    bool any = false;
    ssize_t got;

    while (w->fd >= 0 && !w->ended) {
        got = recv(w->fd, w->in + w->have, sizeof w->in - w->have, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        any = true;
        w->have += got > 0 ? (size_t)got : 0;
        w->ended = got <= 0 || !take_control(n, peer);
    }
    return any;
}

static void shut(weir_net *n, int peer)
{
    mpi_link *l = n->link;

    if (l->control[peer].fd < 0)
        return;
    close(l->control[peer].fd);
    l->control[peer].fd = -1;
    l->ends++;
}

/* Some have ended. What others said before is read first: they may know the reason why. */
static void end_links(weir_net *n)
{
    mpi_link *l = n->link;

    for (int p = 0; p < n->size; p++)
        read_link(n, p);
    for (int p = 0; p < n->size; p++)
        if (l->control[p].ended && l->control[p].fd >= 0) {
            shut(n, p);
            weir_liveness_gone(n, p);
        }
}

bool weir_mpi_control(weir_net *n)
{
    mpi_link *l = n->link;
    struct epoll_event event[EVENTS];
    bool any = false, ended = false;
    int count = epoll_wait(l->poll, event, EVENTS, 0);

    for (int i = 0; i < count; i++) {
        int p = (int)event[i].data.u32;
        if (event[i].events & EPOLLOUT)
            flush(n, p);
        any |= read_link(n, p);
        ended |= l->control[p].ended;
    }
    if (ended)
        end_links(n);
    return any;
}

/* The kernel of a stopped process still acknowledges our signs of life; that of one behind a cut
 * link does not. */
const char *weir_mpi_silence(weir_net *n, int peer, double seconds)
{
    int fd = ((mpi_link *)n->link)->control[peer].fd;
    struct tcp_info info;
    socklen_t len = sizeof info;

    if (seconds < 1.8 || fd < 0 || getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len))
        return "";
    return info.tcpi_last_ack_recv > 750 * seconds
               ? ", and its machine does not answer: the link is cut, or the machine is down"
               : ", but its machine answers: it is stopped";
}

/* ---- the end ---- */

static void let_out(weir_net *n)
{
    mpi_link *l = n->link;
    double limit = weir_mpi_now(n->sched) + LINGER;
    struct epoll_event event;
    bool more = true;

    while (more && weir_mpi_now(n->sched) < limit) {
        more = false;
        for (int p = 0; p < n->size; p++) {
            flush(n, p);
            more |= l->control[p].fd >= 0 && l->control[p].kept;
        }
        if (more)
            epoll_wait(l->poll, &event, 1, 10);
    }
}

/* What came in is read: closing with something unread would throw our last words away. True: the
 * peer has nothing more to say. */
static bool heard_out(control_link *w)
{
    ssize_t got;

    while ((got = recv(w->fd, w->in, sizeof w->in, MSG_DONTWAIT)) > 0)
        ;
    return !got || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

static bool is_to_blame(const weir_net *n, int peer)
{
    for (const weir_loss *k = n->losses; k; k = k->next)
        if (k->fault.rank == peer)
            return true;
    return false;
}

/* Some launchers end all ranks as soon as one has left with an error: so all who are well leave
 * together, when each has told and logged why. */
static void wait_for_the_others(weir_net *n)
{
    mpi_link *l = n->link;
    double limit = weir_mpi_now(n->sched) + TOGETHER;

    for (int p = 0; p < n->size; p++)
        while (l->control[p].fd >= 0 && !is_to_blame(n, p) && !heard_out(&l->control[p]) &&
               weir_mpi_now(n->sched) < limit) {
            struct pollfd event = {.fd = l->control[p].fd, .events = POLLIN};
            poll(&event, 1, 10);
        }
}

void weir_mpi_control_close(weir_net *n, bool in_order)
{
    mpi_link *l = n->link;

    if (l->control) {
        let_out(n);
        for (int p = 0; p < n->size; p++)
            if (l->control[p].fd >= 0)
                shutdown(l->control[p].fd, SHUT_WR);
        if (!in_order)
            wait_for_the_others(n);
        for (int p = 0; p < n->size; p++)
            if (l->control[p].fd >= 0) {
                heard_out(&l->control[p]);
                shut(n, p);
            }
    }
    if (l->poll >= 0)
        close(l->poll);
    free(l->control);
}
