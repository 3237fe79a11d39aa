/* sim_life.c - ranks that leave, die or fall silent, and who hears of it when. The world knows all;
 * it tells each rank only what it could know by then: of an end after `detect`, of silence after
 * the time-out, of words after a latency. */
#include "core/log.h"
#include "net/frame.h"
#include "net/sim.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct notice {
    int from;
    weir_fault fault;
} notice;

static bool gone(const weir_sim_node *a) { return weir_sim_gone(a); }

/* It has a link to that rank. */
static bool knows(const weir_sim_node *b, int rank)
{
    return b->here && rank < b->net.size && !weir_net_outside(&b->net);
}

void weir_sim_know(weir_net *n, int peer, weir_fault *f)
{
    weir_sim *s = weir_sim_of(n);
    const weir_sim_node *a = weir_sim_at(s, peer);
    uint64_t doing = !a ? 0 : a->dead ? a->doing : atomic_load(&a->net.doing);

    f->phase = (doing & 0xff) < WEIR_PHASES ? (weir_phase)(doing & 0xff) : WEIR_PHASE_START;
    f->step = doing >> 8;
    f->pid = (int)getpid();
    snprintf(f->host, sizeof f->host, "%s", s->rank_info->host);
}

/* ---- words ---- */

static void send_control(weir_sim *s, int from, int to, double at, const weir_fault *f)
{
    notice *w = malloc(sizeof *w);

    if (!w) {
        s->nomem = true;
        return;
    }
    *w = (notice){from, *f};
    weir_sim_push(s, at, WEIR_SIM_CONTROL, to, w);
}

void weir_sim_tell(weir_net *n, int peer, weir_frame_kind kind, const void *body, size_t len)
{
    weir_sim *s = weir_sim_of(n);
    weir_sim_node *b = weir_sim_at(s, peer);
    int from = weir_sim_index(n), to;
    weir_fault f;
    double since, heals;

    if (kind != WEIR_FRAME_FAIL || !b || gone(b) || weir_sim_node_of(n)->dead)
        return;
    /* through a cut: when it has healed the link is found to be closed */
    heals = weir_sim_cut_until(s, from, to = weir_sim_index(&b->net), &since);
    if (heals < WEIR_NEVER && weir_cause_read(body, len, n->size, &f))
        send_control(s, n->rank, to, fmax(s->now, heals) + weir_sim_latency(s, from, to), &f);
}

/* `b` hears that `from` is gone, now, or as soon as it can hear anything. */
static void hear(weir_sim *s, weir_sim_node *b, int from, const weir_fault *f)
{
    if (weir_sim_paused(s, b))
        send_control(s, from, weir_sim_index(&b->net), s->now, f);
    else
        weir_loss_add(&b->net, from, f);
}

/* All that are left and can be reached; who is cut off hears of it when the link heals. */
static void all_hear(weir_sim *s, weir_sim_node *a, const weir_fault *f)
{
    int from = weir_sim_index(&a->net);
    double since, heals;

    for (int i = 0; i < s->nodes; i++) {
        if (i == from || gone(&s->node[i]) || !knows(&s->node[i], a->net.rank))
            continue;
        heals = weir_sim_cut_until(s, i, from, &since);
        if (heals <= 0)
            hear(s, &s->node[i], a->net.rank, f);
        else if (heals < WEIR_NEVER)
            send_control(s, a->net.rank, i, heals, f);
    }
}

void weir_sim_hears_end(weir_sim *s, int node, int rank)
{
    weir_fault f = {.code = WEIR_LOST, .rank = rank, .what = "ended"};

    weir_sim_know(&s->node[node].net, rank, &f);
    send_control(s, rank, node, s->now + s->o->detect, &f);
}

void weir_sim_control_close(weir_sim *s)
{
    for (size_t i = 0; i < s->events; i++)
        if (s->heap[i].kind == WEIR_SIM_CONTROL)
            free(s->heap[i].thing);
    for (int r = 0; r < s->nodes; r++)
        free(s->node[r].last_word);
}

/* ---- leaving ---- */

bool weir_sim_left(weir_net *n, int peer)
{
    weir_sim *s = weir_sim_of(n);
    weir_sim_node *a = weir_sim_at(s, peer);
    double since;

    return a && a->left &&
           !(weir_sim_cut_until(s, weir_sim_index(n), weir_sim_index(&a->net), &since) > 0);
}

/* Something of it is on its way, and can come: whom it has given up it has no link to any more. */
static bool is_awaited(const weir_sim *s, const weir_sim_node *a)
{
    double since;

    for (const weir_sim_parcel *m = a->out; m; m = m->after) {
        const weir_sim_node *b = &s->node[m->to];
        bool lost = b->net.rank < a->net.size && weir_loss_is(&a->net, b->net.rank, WEIR_PEER_LOST),
             never = (weir_sim_paused(s, b) && b->paused_until >= WEIR_NEVER) ||
                     weir_sim_cut_until(s, m->from, m->to, &since) >= WEIR_NEVER;
        if (m->holds & WEIR_SIM_FLYING && !lost && !never)
            return true;
    }
    return false;
}

void weir_sim_look_left(weir_sim *s, weir_sim_node *a)
{
    if (a->ended && !a->err && !a->dead && !a->left && !is_awaited(s, a))
        weir_sim_push(s, s->now + a->port[WEIR_SIM_WIRE].latency, WEIR_SIM_LEFT,
                      weir_sim_index(&a->net), NULL);
}

static void leave_with(weir_sim *s, weir_sim_node *a, weir_err err, const char *sentence)
{
    weir_fault *f;

    if (weir_net_outside(&a->net)) /* it has come too late: nobody minds */
        return;
    if (s->first_bad < 0) {
        s->first_bad = weir_sim_index(&a->net);
        if (!s->stuck)
            snprintf(s->why, sizeof s->why, "rank %d: %s", a->net.rank, sentence);
    }
    if (!(f = malloc(sizeof *f))) {
        s->nomem = true;
        return;
    }
    weir_net_ended_by(&a->net, f);
    if (!f->code) { /* nobody else is to blame */
        weir_liveness_fault(&a->net, a->net.rank, WEIR_LOST, f);
        f->cause = (weir_err)weir_err_exit(err);
        snprintf(f->what, sizeof f->what, "%s", sentence);
    }
    a->last_word = f;
    weir_sim_push(s, s->now + a->port[WEIR_SIM_WIRE].latency, WEIR_SIM_FAILED,
                  weir_sim_index(&a->net), NULL);
}

void weir_sim_leave(weir_sim *s, weir_sim_node *a, weir_err err, const char *sentence)
{
    a->err = err;
    weir_sim_let(&a->net, NULL);
    a->ended = true;
    weir_sim_guests_look(s, a);
    if (a->dead)
        return;
    if (err)
        leave_with(s, a, err, sentence);
    else
        weir_sim_look_left(s, a);
}

static void on_left(weir_sim *s, weir_sim_node *a)
{
    double since, heals;

    if (a->left || a->dead)
        return;
    a->left = true;
    for (int r = 0; r < s->nodes; r++) {
        weir_sim_node *b = &s->node[r];
        if (gone(b) || !b->net.posted)
            continue;
        heals = weir_sim_cut_until(s, r, weir_sim_index(&a->net), &since);
        if (heals > 0 && heals < WEIR_NEVER)
            weir_sim_push(s, heals, WEIR_SIM_NEWS, r, NULL);
        else if (weir_sim_paused(s, b))
            weir_sim_push(s, s->now, WEIR_SIM_NEWS, r, NULL);
        else
            weir_loss_look(&b->net);
    }
}

/* ---- dying ---- */

/* Its tasks are not cut off in the middle, which would leak all they hold: every verb fails from
 * now on, and nobody hears of what they do on their way out. */
void weir_sim_kill(weir_sim *s, weir_sim_node *a)
{
    if (gone(a) || !a->here)
        return;
    weir_log(WEIR_LOG_INFO, "net", "rank %d is killed at %.9g s", a->net.rank, weir_sim_seconds(s));
    s->count.mishaps.kills++;
    a->doing = atomic_load(&a->net.doing);
    a->dead = true;
    a->paused_until = 0;
    weir_sim_unsend(s, weir_sim_index(&a->net));
    weir_net_abort(&a->net, WEIR_FAILED);
    for (weir_net_task *t = s->sched.all; t; t = t->next)
        if (t->net == &a->net)
            weir_sched_ready(t);
    weir_sim_push(s, s->now + s->o->detect, WEIR_SIM_DEAD, weir_sim_index(&a->net), NULL);
}

static void on_dead(weir_sim *s, weir_sim_node *a)
{
    weir_fault f = {.code = WEIR_LOST, .rank = a->net.rank, .what = "ended"};

    weir_sim_know(&a->net, a->net.rank, &f);
    if (!weir_net_outside(&a->net))
        all_hear(s, a, &f);
    weir_sim_guests_look(s, a);
    if (!a->ended) /* it waits for something that an abort does not end: a queue, a task */
        weir_loss_end(&a->net);
}

/* ---- silence ---- */

/* Since when `b` has heard nothing of `a`; never: it does. One that was stopped itself for long
 * begins to count anew. */
static double silent_since(const weir_sim *s, const weir_sim_node *b, const weir_sim_node *a)
{
    double since = WEIR_NEVER, cut;

    if (weir_sim_paused(s, a))
        since = a->paused_at;
    if (weir_sim_cut_until(s, (int)(a - s->node), (int)(b - s->node), &cut) > 0 && cut < since)
        since = cut;
    if (since < b->paused_until && b->paused_until - b->paused_at > s->timeout / 2)
        since = b->paused_until;
    return since;
}

static void on_silence(weir_sim *s, weir_sim_node *b, weir_sim_node *a)
{
    weir_fault f = {.code = WEIR_SILENT, .rank = a->net.rank};
    weir_cause body;
    double since;

    if (gone(b) || weir_net_outside(&a->net) || !knows(b, a->net.rank) ||
        weir_loss_is(&b->net, a->net.rank, WEIR_PEER_LOST))
        return;
    since = silent_since(s, b, a);
    if (since >= WEIR_NEVER)
        return;
    if (s->now < (since + s->timeout) * (1 - 1e-12)) {
        weir_sim_push(s, since + s->timeout, WEIR_SIM_SILENCE, weir_sim_index(&b->net), a);
        return;
    }
    weir_sim_know(&b->net, a->net.rank, &f);
    f.silent = s->now - since;
    snprintf(f.what, sizeof f.what, "was silent for %.1f s", f.silent);
    weir_cause_make(&f, &body);
    weir_sim_tell(&b->net, a->net.rank, WEIR_FRAME_FAIL, &body, sizeof body); /* it may wake up */
    weir_loss_add(&b->net, a->net.rank, &f);
}

void weir_sim_on_life(weir_sim *s, const weir_sim_event *e)
{
    weir_sim_node *a = &s->node[e->node];
    notice *w = e->thing;

    if ((e->kind == WEIR_SIM_CONTROL || e->kind == WEIR_SIM_NEWS || e->kind == WEIR_SIM_SILENCE) &&
        weir_sim_put_off(s, e)) {
        if (e->kind == WEIR_SIM_CONTROL && a->paused_until >= WEIR_NEVER)
            free(w);
        return;
    }
    if (e->kind == WEIR_SIM_CONTROL) {
        if (!gone(a) && knows(a, w->from))
            weir_loss_add(&a->net, w->from, &w->fault);
        else
            weir_sim_given_up(a, w->from);
        free(w);
    } else if (e->kind == WEIR_SIM_NEWS) {
        weir_loss_look(&a->net);
    } else if (e->kind == WEIR_SIM_LEFT) {
        on_left(s, a);
    } else if (e->kind == WEIR_SIM_FAILED) {
        all_hear(s, a, a->last_word);
    } else if (e->kind == WEIR_SIM_DEAD) {
        on_dead(s, a);
    } else {
        on_silence(s, a, e->thing);
    }
}

/* ---- alive but busy ---- */

static int most_stalled(const weir_sim *s, const weir_sim_node *b, double *since)
{
    for (const weir_net_op *o = b->net.posted; o; o = o->next) {
        if (!o->waiter || o->peer < 0 || o->peer == b->net.rank || !weir_sim_at(s, o->peer))
            continue;
        *since = fmax(o->at, weir_sim_at(s, o->peer)->moved);
        if (s->now - *since > s->stall)
            return o->peer;
    }
    return -1;
}

void weir_sim_look(weir_sim *s)
{
    char what[80];
    double since;

    for (int r = 0; r < s->nodes; r++) {
        weir_sim_node *a = &s->node[r];
        uint64_t doing = atomic_load(&a->net.doing);
        if (a->dead || doing == a->doing)
            continue;
        a->doing = doing;
        a->moved = s->now;
    }
    for (int r = 0; r < s->nodes; r++)
        for (int p; s->node[r].here && !gone(&s->node[r]) && !weir_sim_paused(s, &s->node[r]) &&
                    (p = most_stalled(s, &s->node[r], &since)) >= 0;) {
            snprintf(what, sizeof what, "was waited for %.1f s, alive but busy", s->now - since);
            weir_liveness_give_up(&s->node[r].net, p, WEIR_SILENT, what);
        }
}
