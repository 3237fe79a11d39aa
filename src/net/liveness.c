/* liveness.c - peers as living things: they give signs of life and fall silent (liveness_meet.c:
 * they meet and say goodbye). The same for every world whose peers are real processes.
 *
 * Words travel on a path of their own, so that a sign of life never waits behind megabytes of data,
 * and so that a last word comes before the end of the link it came by. */
#include "net/liveness.h"
#include "core/log.h"
#include "net/frame.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double MEET = 60; /* seconds for all to come, or the timeout if that is longer */

weir_err weir_liveness_open(weir_net *n, const weir_rank_info *rank_info)
{
    weir_liveness *l = calloc(1, sizeof *l);

    if (!l || !(l->peer = calloc((size_t)n->size, sizeof *l->peer))) {
        free(l);
        return weir_fail_nomem((size_t)n->size * sizeof *l->peer);
    }
    l->timeout = rank_info->timeout > 0 ? rank_info->timeout : 30;
    l->stall = rank_info->stall > 0 ? rank_info->stall : 600;
    /* those who met at a rendezvous are all there */
    l->meet = rank_info->rendezvous[0] || l->timeout > MEET ? l->timeout : MEET;
    l->beat = l->timeout / 5 < 1 ? l->timeout / 5 : 1;
    l->clock = l->next_beat = n->world->now(n->sched);
    snprintf(l->host, sizeof l->host, "%s", rank_info->host);
    n->life = l;
    return WEIR_OK;
}

void weir_liveness_close(weir_net *n)
{
    if (n->life)
        free(n->life->peer);
    free(n->life);
    n->life = NULL;
}

weir_err weir_liveness_grow(weir_net *n, int size)
{
    peer *more = realloc(n->life->peer, weir_net_room(size) * sizeof *more);

    if (!more)
        return weir_fail_nomem((size_t)size * sizeof *more);
    memset(more + n->size, 0, (size_t)(size - n->size) * sizeof *more);
    n->life->peer = more;
    return WEIR_OK;
}

void weir_liveness_name(weir_net *n, int p, const char *host, int pid)
{
    n->life->peer[p].pid = pid;
    snprintf(n->life->peer[p].host, sizeof n->life->peer[p].host, "%s", host);
}

void weir_liveness_wake(weir_net *n)
{
    if (n->life && n->life->waiter)
        weir_sched_ready(n->life->waiter);
}

void weir_liveness_watch(weir_net *n, double deadline)
{
    n->life->waiter = n->sched->current;
    weir_sched_block(n, deadline);
    n->life->waiter = NULL;
}

/* ---- faults ---- */

/* It is of the same launcher as this one. */
static bool on_board(const weir_net *n, int p)
{
    return n->board && (uint64_t)p < n->board->ranks &&
           atomic_load_explicit(&n->board->slot[p].pid, memory_order_relaxed);
}

/* Where there is a common board it is exact to the last moment; the last word may be a beat old. */
static uint64_t doing_of(const weir_net *n, int p)
{
    if (p == n->rank)
        return atomic_load(&n->doing);
    if (on_board(n, p))
        return atomic_load(&n->board->slot[p].doing);
    return n->life->peer[p].doing;
}

bool weir_net_stopping(const weir_net *n)
{
    for (int p = 0; p < n->size; p++)
        if (on_board(n, p) && !atomic_load(&n->board->slot[p].reaped) &&
            (atomic_load_explicit(&n->board->slot[p].doing, memory_order_relaxed) & 0xff) ==
                WEIR_PHASE_STOP)
            return true;
    return atomic_load_explicit(&n->stopping, memory_order_relaxed);
}

void weir_liveness_fault(weir_net *n, int p, weir_err code, weir_fault *f)
{
    const weir_liveness *l = n->life;
    uint64_t doing;

    *f = (weir_fault){.code = code, .rank = p};
    if (!l && n->world->know)
        n->world->know(n, p, f);
    if (!l)
        return;
    doing = doing_of(n, p);
    f->phase = (doing & 0xff) < WEIR_PHASES ? (weir_phase)(doing & 0xff) : WEIR_PHASE_START;
    f->step = doing >> 8;
    snprintf(f->host, sizeof f->host, "%s", p == n->rank ? l->host : l->peer[p].host);
    f->pid = p == n->rank ? (int)getpid() : l->peer[p].pid;
}

void weir_liveness_tell_cause(weir_net *n, int p, const weir_fault *f)
{
    weir_cause body;

    weir_cause_make(f, &body);
    n->world->tell(n, p, WEIR_FRAME_FAIL, &body, sizeof body);
}

static void lose(weir_net *n, int p, const weir_fault *f)
{
    if ((n->life || n->world->know) && !weir_loss_is(n, p, WEIR_PEER_LOST | WEIR_PEER_LEFT))
        weir_liveness_tell_cause(
            n, p, f); /* it may still be there, and shall know that we do not count on it */
    weir_loss_add(n, p, f);
}

void weir_liveness_give_up(weir_net *n, int p, weir_err code, const char *what)
{
    weir_fault f;

    weir_liveness_fault(n, p, code, &f);
    snprintf(f.what, sizeof f.what, "%s", what);
    lose(n, p, &f);
}

/* ---- words ---- */

static void on_hello(weir_net *n, int from, const void *body, size_t len)
{
    weir_liveness *l = n->life;
    peer *p = &l->peer[from];
    weir_hello h;

    if (!weir_hello_read(body, len, &h)) {
        weir_log(WEIR_LOG_WARN, "net", "a greeting of rank %d that is none was dropped", from);
        return;
    }
    if (p->hello) { /* it has not heard our answer */
        n->world->tell(n, from, WEIR_FRAME_WELCOME, NULL, 0);
        return;
    }
    if (!l->met && h.size != (uint32_t)n->size)
        snprintf(l->misfit, sizeof l->misfit,
                 "rank %d was told that the run has %u ranks, rank %d that it has %d", from, h.size,
                 n->rank, n->size);
    p->hello = true;
    p->pid = h.pid;
    snprintf(p->host, sizeof p->host, "%s", h.host);
    l->hellos++;
    n->world->tell(n, from, WEIR_FRAME_WELCOME, NULL, 0);
    if (l->leaving)
        weir_liveness_tell_cause(n, from, l->leaving);
    weir_liveness_wake(n);
}

static void on_welcome(weir_net *n, int from)
{
    if (n->life->peer[from].welcome)
        return;
    n->life->peer[from].welcome = true;
    n->life->welcomes++;
    weir_liveness_wake(n);
}

static void on_fail(weir_net *n, int from, const void *body, size_t len)
{
    weir_fault f;

    if (weir_cause_read(body, len, n->size, &f))
        weir_loss_add(n, from, &f);
    else
        weir_log(WEIR_LOG_WARN, "net", "a fault told by rank %d that makes no sense was dropped",
                 from);
}

void weir_liveness_heard(weir_net *n, int from, weir_frame_kind kind, uint64_t doing,
                         const void *body, size_t len)
{
    weir_liveness *l = n->life;
    peer *p = &l->peer[from];

    p->heard = n->world->now(n->sched);
    if (kind == WEIR_FRAME_DATA || doing != p->doing)
        p->moved = p->heard;
    p->doing = doing;
    if ((doing & 0xff) == WEIR_PHASE_STOP)
        atomic_store_explicit(&n->stopping, true, memory_order_relaxed);
    switch (kind) {
    case WEIR_FRAME_HELLO:
        on_hello(n, from, body, len);
        break;
    case WEIR_FRAME_WELCOME:
        on_welcome(n, from);
        break;
    case WEIR_FRAME_DONE:
        weir_loss_left(n, from);
        break;
    case WEIR_FRAME_BYE:
        p->bye = true;
        weir_liveness_wake(n);
        break;
    case WEIR_FRAME_FAIL:
        on_fail(n, from, body, len);
        break;
    default:
        break;
    }
}

void weir_liveness_gone(weir_net *n, int p)
{
    if (!n->life->peer[p].bye && !n->closing)
        weir_liveness_give_up(n, p, WEIR_LOST, "ended");
}

/* ---- the clock ---- */

/* The peer, alive as far as we know, that was silent longest; -1: none for longer than the
 * timeout. */
static int most_silent(const weir_net *n, double now)
{
    const weir_liveness *l = n->life;
    double longest = l->timeout;
    int who = -1;

    for (int p = 0; p < n->size; p++)
        if (p != n->rank && l->peer[p].hello &&
            !weir_loss_is(n, p, WEIR_PEER_LOST | WEIR_PEER_LEFT) &&
            now - l->peer[p].heard > longest) {
            longest = now - l->peer[p].heard;
            who = p;
        }
    return who;
}

/* Have all others that we count on been silent too, for about as long: then it may be this rank
 * that is cut off. */
static bool all_silent(const weir_net *n, double now)
{
    const weir_liveness *l = n->life;
    int silent = 0;

    for (int p = 0; p < n->size; p++) {
        if (p == n->rank || !l->peer[p].hello ||
            weir_loss_is(n, p, WEIR_PEER_LOST | WEIR_PEER_LEFT))
            continue;
        if (now - l->peer[p].heard < 0.7 * l->timeout)
            return false;
        silent++;
    }
    return silent > 1;
}

static void end_silent(weir_net *n, double now)
{
    weir_fault f;

    for (int p; !atomic_load(&n->aborted) && (p = most_silent(n, now)) >= 0;) {
        /* it left in order, and the rest of what it sent will not come any more */
        if (n->life->peer[p].bye) {
            weir_loss_left(n, p);
            continue;
        }
        weir_liveness_fault(n, p, WEIR_SILENT, &f);
        f.silent = now - n->life->peer[p].heard;
        snprintf(f.what, sizeof f.what, "was silent for %.1f s%s%s", f.silent,
                 n->world->silence ? n->world->silence(n, p, f.silent) : "",
                 all_silent(n, now) ? " (so were all others: it may be this rank that is cut off)"
                                    : "");
        lose(n, p, &f);
    }
}

/* A live peer from whom a fibre has waited too long for something, while it did not get on
 * itself. */
static int most_stalled(const weir_net *n, double now, double *since)
{
    for (const weir_net_op *o = n->posted; o; o = o->next) {
        if (!o->waiter || o->peer < 0 || o->peer == n->rank)
            continue;
        *since = o->at > n->life->peer[o->peer].moved ? o->at : n->life->peer[o->peer].moved;
        if (now - *since > n->life->stall)
            return o->peer;
    }
    return -1;
}

static void end_stalled(weir_net *n, double now)
{
    double since;
    char what[80];

    for (int p; !atomic_load(&n->aborted) && (p = most_stalled(n, now, &since)) >= 0;) {
        snprintf(what, sizeof what, "was waited for %.1f s, alive but busy", now - since);
        weir_liveness_give_up(n, p, WEIR_SILENT, what);
    }
}

/* Signs of life: every beat; sooner when we do something else, so that if we end the others know in
 * what, but not too often. */
static void give_signs(weir_net *n, double now)
{
    weir_liveness *l = n->life;
    uint64_t doing = atomic_load_explicit(&n->doing, memory_order_relaxed);
    bool news = doing != l->shown && now >= l->last_beat + 0.1 + 1e-3 * n->size;

    if (now < l->next_beat && !news)
        return;
    for (int p = 0; p < n->size; p++)
        if (p != n->rank && l->peer[p].hello &&
            !weir_loss_is(n, p, WEIR_PEER_LOST | WEIR_PEER_LEFT))
            n->world->tell(n, p, WEIR_FRAME_LIFE, NULL, 0);
    l->shown = doing;
    l->last_beat = now;
    l->next_beat = now + l->beat;
}

double weir_liveness_tick(weir_net *n)
{
    weir_liveness *l = n->life;
    double now, gap;

    if (!l)
        return WEIR_NEVER;
    now = n->world->now(n->sched);
    gap = now - l->clock;
    l->clock = now;
    /* we did not look for long: stopped, or busy. That is nobody else's silence */
    if (gap > l->timeout / 2)
        for (int p = 0; p < n->size; p++)
            l->peer[p].heard = l->peer[p].moved = now;
    give_signs(n, now);
    if (!n->closing) {
        end_silent(n, now);
        end_stalled(n, now);
    }
    return now + l->beat / 4 < l->next_beat ? now + l->beat / 4 : l->next_beat;
}
