/* mpi_words.c - words and signs of life between ranks under MPI: a TCP connection a pair, because MPI tells nobody of a death.
 *
 * A word is a head of frame.h and its body. The end of a connection is the end of the peer; what it said before is read first. */
#include "net/mpi_link.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS = 64 };
static const double LINGER = 0.3; /* seconds to let the last words out */

/* ---- out ---- */

static void wait_for_room(weir_net *n, int peer, bool waits)
{
    mpi_link *l = n->link;
    struct epoll_event e = {.events = EPOLLIN | (waits ? EPOLLOUT : 0), .data.u32 = (uint32_t)peer};

    if (l->word[peer].waits != waits && !epoll_ctl(l->poll, EPOLL_CTL_MOD, l->word[peer].fd, &e))
        l->word[peer].waits = waits;
}

static void flush(weir_net *n, int peer)
{
    word_link *w = &((mpi_link *)n->link)->word[peer];
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

/* One who does not read for so long that the sockets and this buffer are full is not missing much. */
void weir_mpi_tell(weir_net *n, int peer, weir_word word, const void *body, size_t len)
{
    word_link *w = &((mpi_link *)n->link)->word[peer];
    weir_frame head;

    if (w->fd < 0 || w->kept + sizeof head + len > sizeof w->out)
        return;
    weir_frame_make(&head, word, n, 0, len);
    memcpy(w->out + w->kept, &head, sizeof head);
    w->kept += sizeof head;
    if (len)
        memcpy(w->out + w->kept, body, len);
    w->kept += len;
    flush(n, peer);
}

/* ---- in ---- */

/* Takes whole words out of what has come; false: these are none, and nothing behind them can be trusted. */
static bool take_words(weir_net *n, int peer)
{
    word_link *w = &((mpi_link *)n->link)->word[peer];
    weir_frame head;
    size_t at = 0;

    while (w->have - at >= sizeof head) {
        if (!weir_frame_read(w->in + at, sizeof head, n->size, &head) || head.from != (uint32_t)peer ||
            head.len > sizeof w->in - sizeof head || head.kind == WEIR_WORD_DATA || head.kind == WEIR_WORD_DONE)
            return false;
        if (w->have - at - sizeof head < head.len)
            break;
        weir_life_word(n, peer, (weir_word)head.kind, head.doing, w->in + at + sizeof head, head.len);
        at += sizeof head + head.len;
    }
    w->have -= at;
    memmove(w->in, w->in + at, w->have);
    return true;
}

/* Reads all that is there; was there any. */
static bool read_link(weir_net *n, int peer)
{
    word_link *w = &((mpi_link *)n->link)->word[peer];
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
        w->ended = got <= 0 || !take_words(n, peer);
    }
    return any;
}

static void shut(weir_net *n, int peer)
{
    mpi_link *l = n->link;

    if (l->word[peer].fd < 0)
        return;
    close(l->word[peer].fd);
    l->word[peer].fd = -1;
    l->ends++;
}

/* Some have ended. What others said before is read first: they may know the reason why. */
static void end_links(weir_net *n)
{
    mpi_link *l = n->link;

    for (int p = 0; p < n->size; p++)
        read_link(n, p);
    for (int p = 0; p < n->size; p++)
        if (l->word[p].ended && l->word[p].fd >= 0) {
            shut(n, p);
            weir_life_gone(n, p);
        }
}

bool weir_mpi_words(weir_net *n)
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
        ended |= l->word[p].ended;
    }
    if (ended)
        end_links(n);
    return any;
}

/* ---- the end ---- */

/* The last words leave, and what came in is read: closing with something unread would throw them away. */
void weir_mpi_words_close(weir_net *n)
{
    mpi_link *l = n->link;
    double limit = weir_mpi_now(n->sched) + LINGER;
    struct epoll_event event;
    bool more = l->word != NULL;

    while (more && weir_mpi_now(n->sched) < limit) {
        more = false;
        for (int p = 0; p < n->size; p++) {
            flush(n, p);
            more |= l->word[p].fd >= 0 && l->word[p].kept;
        }
        if (more)
            epoll_wait(l->poll, &event, 1, 10);
    }
    for (int p = 0; l->word && p < n->size; p++) {
        if (l->word[p].fd < 0)
            continue;
        shutdown(l->word[p].fd, SHUT_WR);
        while (recv(l->word[p].fd, l->word[p].in, sizeof l->word[p].in, MSG_DONTWAIT) > 0)
            ;
        shut(n, p);
    }
    if (l->poll >= 0)
        close(l->poll);
    free(l->word);
}
