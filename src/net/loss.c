/* loss.c - peers that are gone: who is to blame, what ends because of it, and how a smaller set
 * goes on. */
#include "core/log.h"
#include "net/world.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is known of peers ---- */

bool weir_loss_is(const weir_net *n, int peer, int bits) { return n->peer && n->peer[peer] & bits; }

static bool mark(weir_net *n, int peer, int bit)
{
    if (!n->peer)
        n->peer = calloc((size_t)n->size, 1);
    if (!n->peer) {
        /* out of memory with a loss at hand: nothing sensible can go on */
        weir_net_abort(n, WEIR_FAILED);
        return false;
    }
    n->peer[peer] |= (unsigned char)bit;
    return true;
}

static const weir_loss *loss_of(const weir_net *n, int peer)
{
    for (const weir_loss *l = n->losses; l; l = l->next)
        if (l->peer == peer)
            return l;
    return NULL;
}

weir_err weir_loss_all(weir_net *n, int generation, int *who)
{
    int aborted = atomic_load(&n->aborted);

    if (aborted)
        return *who = n->rank, (weir_err)aborted;
    if (n->closing)
        return WEIR_STALE;
    if (!n->strict || generation == WEIR_EVER)
        return WEIR_OK;
    if (n->first)
        return *who = n->first->fault.rank, n->first->fault.code;
    return n->ended >= n->generation ? WEIR_STALE : WEIR_OK;
}

/* A WEIR_ANY receive hears of each loss once. told: the bit of its kind. */
static weir_err untold(weir_net *n, int told, int *who)
{
    for (const weir_loss *l = n->losses; l; l = l->next)
        if (!(n->peer[l->peer] & (told | WEIR_PEER_OUT))) {
            n->peer[l->peer] |= (unsigned char)told;
            return *who = l->peer, l->fault.code;
        }
    return WEIR_OK;
}

static bool has_left(weir_net *n, int peer)
{
    return weir_loss_is(n, peer, WEIR_PEER_LEFT) || (n->world->left && n->world->left(n, peer));
}

weir_err weir_loss_of(weir_net *n, int generation, int peer, int *who)
{
    const weir_loss *l;

    if (peer == WEIR_ANY && generation == WEIR_EVER)
        return n->peer ? untold(n, WEIR_PEER_TOLD_EVER, who) : WEIR_OK;
    if (peer == WEIR_ANY)
        return n->strict || !n->peer ? WEIR_OK : untold(n, WEIR_PEER_TOLD, who);
    if (weir_loss_is(n, peer, WEIR_PEER_LOST)) {
        l = loss_of(n, peer);
        return *who = peer, l ? l->fault.code : WEIR_LOST;
    }
    return has_left(n, peer) ? (*who = peer, WEIR_LOST) : WEIR_OK;
}

bool weir_net_alive(weir_net *n, int peer)
{
    return peer >= 0 && peer < n->size && !weir_loss_is(n, peer, WEIR_PEER_LOST) &&
           !has_left(n, peer);
}

/* Where it is, peers take no more of what is on its way to them: whoever waits for that would wait
 * for ever. */
static void look_whether_over(weir_net *n)
{
    bool over = n->strict && (n->first || n->ended >= n->generation);

    atomic_store(&n->over, over);
    if (over && n->world->let)
        n->world->let(n, NULL);
}

void weir_net_strict(weir_net *n, bool strict)
{
    n->strict = strict;
    look_whether_over(n);
}

bool weir_net_over(const weir_net *n)
{
    return atomic_load_explicit(&n->over, memory_order_relaxed);
}

/* ---- losing one ---- */

static weir_err judge(weir_net *n, weir_net_op *o, int *who)
{
    weir_err err = weir_loss_all(n, o->generation, who);

    return err ? err : weir_loss_of(n, o->generation, o->peer, who);
}

void weir_loss_add(weir_net *n, int peer, const weir_fault *fault)
{
    weir_loss *l;
    char text[400];

    if (weir_loss_is(n, peer, WEIR_PEER_LOST))
        return;
    if (!mark(n, peer, WEIR_PEER_LOST) || !(l = calloc(1, sizeof *l))) {
        weir_net_abort(n, WEIR_FAILED);
        n->world->cut(n, peer); /* lent bytes come back all the same */
        return;
    }
    l->peer = peer;
    l->fault = *fault;
    *n->losses_tail = l;
    n->losses_tail = &l->next;
    weir_fault_text(fault, text, sizeof text);
    weir_log(WEIR_LOG_INFO, "net", "rank %d has lost rank %d: %s", n->rank, peer, text);
    if (!n->first && !weir_loss_is(n, peer, WEIR_PEER_OUT))
        n->first = l;
    look_whether_over(n);
    weir_match_judge(n, judge);
    n->world->cut(n, peer);
    weir_liveness_wake(n);
}

void weir_loss_left(weir_net *n, int peer)
{
    if (weir_loss_is(n, peer, WEIR_PEER_LOST | WEIR_PEER_LEFT) || !mark(n, peer, WEIR_PEER_LEFT))
        return;
    weir_match_judge(n, judge);
    weir_liveness_wake(n);
}

void weir_loss_look(weir_net *n) { weir_match_judge(n, judge); }

void weir_loss_end(weir_net *n)
{
    n->closing = true;
    weir_match_judge(n, judge);
    for (weir_net_task *t = n->sched->all; t; t = t->next)
        if (t->net == n)
            weir_sched_ready(t);
}

static void aborted(weir_wake *w)
{
    weir_net *n = (weir_net *)((char *)w - offsetof(weir_net, abort_wake));

    weir_match_judge(n, judge);
    if (n->world->let)
        n->world->let(n, NULL);
    weir_liveness_wake(n);
}

void weir_net_abort(weir_net *n, weir_err code)
{
    int none = 0;

    if (!atomic_compare_exchange_strong(&n->aborted, &none, (int)code))
        return;
    n->abort_wake.fn = aborted;
    weir_sched_remote(n->sched, &n->abort_wake);
}

/* ---- going on ---- */

static weir_err stale(weir_net *n, weir_net_op *o, int *who)
{
    (void)n, (void)who;
    return o->generation == WEIR_EVER ? WEIR_OK : WEIR_STALE;
}

void weir_net_end(weir_net *n, int generation)
{
    if (generation <= n->ended)
        return;
    n->ended = generation;
    look_whether_over(n);
    weir_match_judge(n, judge);
    weir_liveness_wake(n);
}

/* How those were lost who are no members any more is not asked again; but what the first loss of
 * all was may be (weir_net_fault). */
static void forget_losses(weir_net *n)
{
    weir_loss **at = n->losses ? &n->losses->next : &n->losses;

    while (*at) {
        weir_loss *l = *at;
        if (n->peer[l->peer] & WEIR_PEER_OUT) {
            *at = l->next;
            free(l);
        } else {
            at = &l->next;
        }
    }
    n->losses_tail = at;
}

void weir_net_renew(weir_net *n, int generation, const int *members, int count)
{
    if (!mark(n, n->rank, 0))
        return;
    for (int i = 0; i < n->size; i++)
        n->peer[i] |= WEIR_PEER_OUT;
    for (int i = 0; i < count; i++)
        if (members[i] >= 0 && members[i] < n->size)
            n->peer[members[i]] &= (unsigned char)~WEIR_PEER_OUT;
    n->generation = generation;
    atomic_store(&n->stopping, false); /* whoever that was has left, or says so again */
    forget_losses(n);
    n->first = n->losses;
    while (n->first && n->peer[n->first->peer] & WEIR_PEER_OUT)
        n->first = n->first->next;
    look_whether_over(n);
    weir_match_judge(n, stale);
    weir_match_drop(n, generation);
}

int weir_net_generation(const weir_net *n) { return n->generation; }

/* ---- saying so ---- */

static const char *const phase_name[WEIR_PHASES] = {"start",  "load", "compute", "exchange",
                                                    "update", "eval", "save",    "end",
                                                    "stop",   "agree"};

const char *weir_phase_name(weir_phase phase)
{
    return (unsigned)phase < WEIR_PHASES ? phase_name[phase] : "unknown";
}

void weir_fault_text(const weir_fault *f, char *text, size_t room)
{
    char who[120];
    const char *phase = weir_phase_name(f->phase);
    unsigned long long step = (unsigned long long)f->step;

    if (f->pid)
        snprintf(who, sizeof who, "rank %d (host %s, pid %d)", f->rank, f->host, f->pid);
    else /* it has not even said hello */
        snprintf(who, sizeof who, "rank %d", f->rank);
    if (f->cause)
        snprintf(text, room, "%s left with an error in phase %s of step %llu: %s", who, phase, step,
                 f->what);
    else if (f->silent > 0)
        snprintf(text, room, "%s %s, last seen in phase %s of step %llu", who, f->what, phase,
                 step);
    else
        snprintf(text, room, "%s %s in phase %s of step %llu", who, f->what, phase, step);
}

void weir_net_fault(weir_net *n, weir_fault *out)
{
    const weir_loss *l = n->first ? n->first : n->losses;

    *out = l ? l->fault : (weir_fault){.code = WEIR_OK, .rank = -1};
}

void weir_net_ended_by(weir_net *n, weir_fault *out)
{
    *out = n->first ? n->first->fault : (weir_fault){.code = WEIR_OK, .rank = -1};
}

/* The loss an operation that ended with (LOST or SILENT, peer) speaks of. */
static const weir_loss *blamed(const weir_net *n, int peer)
{
    const weir_loss *l;

    if (n->strict && n->first && n->first->fault.rank == peer)
        return n->first;
    l = loss_of(n, peer);
    for (const weir_loss *k = n->losses; !l && k; k = k->next)
        if (k->fault.rank == peer)
            l = k;
    return l;
}

weir_err weir_net_why(weir_net *n, const weir_net_op *o)
{
    const weir_loss *l = blamed(n, o->peer);
    char text[400];

    switch (o->err) {
    case WEIR_OK:
        return WEIR_OK;
    case WEIR_STALE:
        return weir_fail(WEIR_STALE, "the message belongs to an older generation or was cancelled");
    case WEIR_BIG:
        return weir_fail(WEIR_BIG,
                         "a message of %zu bytes from rank %d is longer than its buffer of %zu",
                         o->len, o->peer, o->cap);
    case WEIR_USAGE:
        return weir_fail(WEIR_USAGE, "there is no rank %d: the run has %d", o->peer, n->size);
    case WEIR_LOST:
    case WEIR_SILENT:
        if (!l)
            return weir_fail(o->err, "rank %d has left the run; nothing more will come from it",
                             o->peer);
        weir_fault_text(&l->fault, text, sizeof text);
        return weir_fail(o->err, "%s", text);
    default:
        return weir_fail(o->err, "the exchange was given up: this rank failed (%s)",
                         weir_err_name(o->err));
    }
}

weir_err weir_net_lost(weir_net *n)
{
    weir_net_op op = {.peer = n->rank};

    op.err = weir_loss_all(n, n->generation, &op.peer);
    return weir_net_why(n, &op);
}
