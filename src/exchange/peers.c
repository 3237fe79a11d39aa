/* peers.c - every worker sends to every other, and applies what has come: no server, no barrier
 * (Strom 2015).
 *
 * A step of a worker: its gradient goes, lane by lane and while backward still runs, into deltas
 * to all others (delta.h); then its weights move by its own delta, as it was sent, and by all
 * deltas that have come since its last step. Replicas differ by deltas on their way and by the
 * order of additions, and by nothing else.
 *
 * Nobody ends step t before it has everybody's deltas of step t - bound: no two are further apart.
 * With bound=0 all step together, add in the order of the members, and hold the same bits. Deltas
 * of up to `bound` steps ahead are taken when they come.
 *
 * The sums behind the last lane (exchange.h) are, at the end of step t, those of step t - bound,
 * which everybody has by then; in the first steps those of the first one, for which everybody
 * waits. So all ranks see the same sums at the same step, and what the trainer decides by them it
 * decides everywhere alike.
 *
 * settle: waits for all deltas, applies them, and compares what was applied: the checksums of all
 * deltas, added up, must be the same on all ranks, and their weights the same but for rounding.
 * Then the first member's are taken by all.
 *
 * Momentum and decay are the sender's: it adds its portion of the pull on its own weights to its
 * gradient. A bound on the norm is kept by each worker, at 1/sqrt(p) of it, before its deltas are
 * written.
 *
 * What was sent cannot be called back; what becomes of it when members are lost: peers_lost.c. */
#include "core/vec.h"
#include "exchange/hand_over.h"
#include "exchange/peers_inside.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- making ---- */

/* Momentum and decay go to whoever writes deltas. */
static weir_err take_over(weir_peers *x, weir_lane *l)
{
    weir_pull pull;

    if (x->owns)
        return WEIR_OK; /* the groups have changed, no more */
    l->optim->bare(l->stepper, &pull);
    x->decay = pull.decay;
    l->momentum = pull.momentum;
    if (pull.momentum.factor <= 0 || l->speed.now || l->bucket->dry)
        return WEIR_OK;
    l->speed.now = WEIR_NEW(x->env.arena, float, l->bucket->n);
    l->speed.next = WEIR_NEW(x->env.arena, float, l->bucket->n);
    return l->speed.now && l->speed.next ? WEIR_OK
                                         : weir_fail_nomem(2 * l->bucket->n * sizeof(float));
}

static weir_err make_room(weir_peers *x)
{
    weir_arena *arena = x->env.group_arena;
    size_t p = (size_t)x->env.same->size, lanes = (size_t)x->env.lanes,
           *most = WEIR_NEW(arena, size_t, lanes);
    bool dry = weir_net_dry(x->env.same->net);

    if (!most)
        return weir_fail_nomem(lanes * sizeof *most);
    for (size_t i = 0; i < lanes; i++)
        most[i] = weir_delta_most(&x->env.lane[i]);
    x->noted = x->env.lane[lanes - 1].notes;
    x->notes = WEIR_NEW(arena, float, dry ? 1 : (2 * (size_t)x->bound + 2) * p * x->noted);
    x->writer.tile = WEIR_NEW(arena, float, WEIR_FEED_TILE);
    if (!x->notes || !x->writer.tile)
        return weir_fail_nomem((2 * (size_t)x->bound + 2) * p * x->noted * sizeof(float));
    WEIR_TRY(weir_reconcile_make(&x->env, &x->equal));
    return weir_mailbox_make(x->env.same, most, x->env.lanes, (int)x->bound, arena, &x->mailbox);
}

/* Nothing of the step that is under way was ever sent. */
void weir_peers_drop_step(weir_peers *x)
{
    for (weir_lane *l = x->env.lane; l < x->env.lane + x->env.lanes; l++)
        l->held.fresh = l->speed.fresh = false;
}

static weir_err init(void *self, const weir_exchange_env *env)
{
    weir_peers *x = self;

    x->env = *env;
    x->early = env->clip > 0;
    x->writer = (weir_delta_writer){.group = env->same, .seed = env->seed, .base = 1};
    for (int i = 0; i < env->lanes; i++)
        WEIR_TRY(take_over(x, &env->lane[i]));
    if (!x->owns)
        x->ledger.generation = -1;
    x->net = env->same->net;
    x->generation = weir_net_generation(x->net);
    WEIR_TRY(weir_ledger_reserve(&x->ledger, env->same->size, env->arena));
    WEIR_TRY(weir_ledger_reserve(&x->told, env->same->size, env->arena));
    x->owns = true;
    x->begun = false;
    x->deltas = x->added = 0;
    weir_peers_drop_step(x);
    WEIR_TRY(make_room(x));
    return x->update ? WEIR_OK : weir_update_make(env->lane, env->lanes, env->arena, &x->update);
}

/* ---- sending ---- */

/* The first delta since all have agreed. */
static void begin(weir_peers *x, weir_when when)
{
    if (!weir_mailbox_is_open(x->mailbox))
        weir_mailbox_open(x->mailbox, when.step);
    x->begun = true;
    x->since = when.step;
    x->writer.base = when.rate > 0 ? when.rate : 1;
    for (int i = 0; i < x->env.lanes; i++)
        weir_lane_in_unit(&x->env.lane[i], 1);
}

/* This worker's portion of the pull of weights towards 0. */
static void pull(const weir_peers *x, const weir_lane *l, float scale)
{
    const weir_bucket *b = l->bucket;
    float portion = x->decay / (float)x->env.same->size / scale;

    for (const weir_view *v = b->view; v < b->view + b->views && x->decay > 0 && !b->dry; v++)
        if (v->tensor->decays)
            weir_vec_best()->axpy(b->grad + v->at, portion, b->param + v->at, weir_view_length(v));
}

static weir_err send_lane(weir_peers *x, weir_lane *l, weir_when when, float scale)
{
    int lane = (int)(l - x->env.lane);
    size_t len;

    if (!x->begun)
        begin(x, when);
    x->unit = (float)weir_delta_unit(&x->writer, when);
    pull(x, l, scale);
    WEIR_TRY(weir_delta_write(l, &x->writer, when, scale,
                              weir_mailbox_slot(x->mailbox, when.step, lane), &len));
    weir_mailbox_send(x->mailbox, when.step, lane, len);
    return WEIR_OK;
}

/* What p workers add is clipped at 1/sqrt(p) of the bound on each of them: their sum is, if they
 * point anywhere, within it. */
static weir_err send_clipped(weir_peers *x, const weir_commit *commit)
{
    double norm = weir_net_dry(x->env.all->net) ? 0 : sqrt(weir_update_sumsq(x->update, &x->env)),
           most = commit->clip / sqrt(x->env.same->size);

    if (!isfinite(norm))
        return weir_update_blame(&x->env, commit->when.step);
    for (int i = 0; i < x->env.lanes; i++)
        WEIR_TRY(send_lane(x, &x->env.lane[i], commit->when,
                           commit->clip > 0 && norm > most ? (float)(most / norm) : 1));
    return WEIR_OK;
}

/* ---- applying ---- */

static float *notes_at(const weir_peers *x, uint64_t step, int member)
{
    return x->notes + ((size_t)(step % (2 * (uint64_t)x->bound + 2)) * (size_t)x->env.same->size +
                       (size_t)member) *
                          x->noted;
}

static weir_err apply(weir_peers *x, const weir_delta *delta)
{
    uint64_t sum = 0;

    if (!weir_net_dry(x->env.same->net))
        WEIR_TRY(weir_delta_read(&x->env.lane[delta->lane], &x->writer, delta,
                                 notes_at(x, delta->step, delta->from), &sum));
    x->deltas += sum;
    return WEIR_OK;
}

/* All that has come from this member, up to a step; of ourselves, what we have sent. */
static weir_err apply_from(weir_peers *x, int member, uint64_t latest)
{
    weir_delta delta;
    bool taken = true;

    while (taken) {
        WEIR_TRY(weir_mailbox_take(x->mailbox, member, latest, &delta, &taken));
        if (!taken)
            break;
        WEIR_TRY(apply(x, &delta));
        weir_mailbox_done(x->mailbox, &delta);
    }
    return WEIR_OK;
}

static weir_err apply_own(weir_peers *x, uint64_t step)
{
    for (int i = 0; i < x->env.lanes; i++) {
        weir_delta delta = weir_mailbox_own(x->mailbox, step, i);
        WEIR_TRY(apply(x, &delta));
    }
    return WEIR_OK;
}

/* Gradients have left: their memory takes up what deltas say. */
static void clear(weir_peers *x)
{
    for (weir_lane *l = x->env.lane;
         l < x->env.lane + x->env.lanes && !weir_net_dry(x->env.same->net); l++)
        memset(l->bucket->grad, 0, l->bucket->n * sizeof(float));
}

static void sum_notes(weir_peers *x, uint64_t step)
{
    const weir_bucket *last = x->env.lane[x->env.lanes - 1].bucket;
    float *to = last->grad + last->n;

    memset(to, 0, x->noted * sizeof *to);
    for (int m = 0; m < x->env.same->size; m++)
        for (size_t i = 0; i < x->noted; i++)
            to[i] += notes_at(x, step, m)[i];
}

static uint64_t oldest(const weir_peers *x, uint64_t step)
{
    return step >= x->since + (uint64_t)x->bound ? step - (uint64_t)x->bound : x->since;
}

/* Deltas that must be here, then all that are; then there is a place for the next. */
static weir_err gather(weir_peers *x, uint64_t step)
{
    weir_net *net = x->env.same->net;
    double begun = weir_net_now(net);

    weir_net_yield(net); /* what has come meanwhile is seen */
    WEIR_TRY(weir_mailbox_wait(x->mailbox, oldest(x, step)));
    x->env.lane->wire_s += weir_net_now(net) - begun;
    clear(x);
    for (int m = 0; m < x->env.same->size; m++)
        WEIR_TRY(m == x->env.same->me ? apply_own(x, step)
                                      : apply_from(x, m, step + (uint64_t)x->bound));
    begun = weir_net_now(net);
    WEIR_TRY(weir_mailbox_free(x->mailbox, step + 1));
    x->env.lane->wire_s += weir_net_now(net) - begun;
    return WEIR_OK;
}

/* Weights move by what deltas have said, in units of this base. */
weir_err weir_peers_move(weir_peers *x, uint64_t step, double base, double *norm)
{
    weir_commit as = {.when = {.step = step}, .rate = base};

    *norm = sqrt(weir_update_sumsq(x->update, &x->env)) * base;
    if (!isfinite(*norm))
        return weir_update_blame(&x->env, step);
    weir_update_step(x->update, &x->env, &as, 1);
    x->added++;
    return WEIR_OK;
}

/* They have moved by all that was taken, and by what this worker sent before step `next`. */
static void count(weir_peers *x, uint64_t next)
{
    weir_ledger *l = &x->ledger;
    const weir_group *g = x->env.same;

    l->generation = x->generation;
    l->first = weir_mailbox_first(x->mailbox);
    l->each = x->env.lanes;
    l->base = x->writer.base;
    l->members = g->size;
    for (int m = 0; m < g->size; m++)
        l->entry[m] = (weir_ledger_entry){g->member[m], weir_mailbox_taken(x->mailbox, m)};
    l->entry[g->me].count = (next - l->first) * (uint64_t)l->each;
}

void weir_peers_commit_lane(const weir_peers *x, weir_lane *l)
{
    weir_lane_commit(l);
    l->unit = x->unit;
}

/* ---- the verbs ---- */

/* Nothing may be left in flight behind an error, whose sentence stays. */
static weir_err ended(weir_peers *x, weir_err err)
{
    char why[WEIR_WHY_MAX];

    if (!err)
        return WEIR_OK;
    snprintf(why, sizeof why, "%s", weir_why_text());
    weir_mailbox_close(x->mailbox);
    x->begun = false;
    return weir_fail(err, "%s", why);
}

static weir_err bucket(void *self, weir_lane *lane, weir_when when)
{
    weir_peers *x = self;

    return x->early ? WEIR_OK : ended(x, send_lane(x, lane, when, 1));
}

static weir_err step(weir_peers *x, weir_commit *commit)
{
    weir_when when = commit->when;
    double moved;

    if (x->early)
        WEIR_TRY(send_clipped(x, commit));
    WEIR_TRY(gather(x, when.step));
    x->next = when.step + 1;
    commit->apart = weir_mailbox_apart(x->mailbox, when.step);
    if (!weir_net_dry(x->env.same->net) && commit->keep) {
        WEIR_TRY(weir_peers_move(x, when.step, x->writer.base, &moved));
        commit->norm = when.rate > 0 ? moved / when.rate : moved;
        count(x, x->next);
        for (int i = 0; i < x->env.lanes; i++)
            weir_peers_commit_lane(x, &x->env.lane[i]);
        sum_notes(x, oldest(x, when.step));
    }
    return WEIR_OK;
}

static weir_err finish(void *self, weir_commit *commit) { return ended(self, step(self, commit)); }

static weir_err drain(weir_peers *x)
{
    uint64_t last = x->next - 1;
    double moved;

    WEIR_TRY(weir_mailbox_wait(x->mailbox, last));
    clear(x);
    for (int m = 0; m < x->env.same->size; m++)
        if (m != x->env.same->me)
            WEIR_TRY(apply_from(x, m, last));
    if (!weir_net_dry(x->env.same->net)) {
        WEIR_TRY(weir_peers_move(x, last, x->writer.base, &moved));
        count(x, x->next);
        sum_notes(x, last);
    }
    return weir_reconcile_all(x->equal, &x->env, x->deltas, x->added, x->next);
}

static weir_err settle(void *self, weir_when when)
{
    weir_peers *x = self;

    if (!weir_mailbox_is_open(x->mailbox))
        weir_mailbox_open(x->mailbox, when.step); /* before anybody begins */
    if (!x->begun)
        return WEIR_OK;
    WEIR_TRY(ended(x, drain(x)));
    x->begun = false;
    x->added = x->deltas = 0;
    return WEIR_OK;
}

static void close_all(void *self)
{
    weir_peers *x = self;

    if (x->mailbox)
        weir_mailbox_close(x->mailbox);
    x->mailbox = NULL;
}

/* Settled: nothing is on its way, and what is held back is all there is. */
static weir_err hand_over(void *self, const int *stay, int count)
{
    weir_peers *x = self;

    for (int i = 0; i < x->env.lanes; i++)
        weir_lane_in_unit(&x->env.lane[i], 1);
    /* on all, before anybody of the next group sends: what is posted here for steps to come would
     * take it */
    weir_mailbox_close(x->mailbox);
    WEIR_TRY(weir_hand_over(&x->env, stay, count));
    return weir_barrier(x->env.coll, x->env.same);
}

static weir_err regroup(void *self, const weir_exchange_env *env)
{
    close_all(self);
    return init(self, env);
}

static void facts(const void *self, weir_exchange_facts *out)
{
    out->apart = (int)((const weir_peers *)self)->bound;
}

static const weir_opt options[] = {
    {"bound", WEIR_OPT_INT, offsetof(weir_peers, bound), "4",
     "steps that any two workers may be apart; 0: all step together", .min = 0, .max = 100,
     .bare = true},
    {0},
};

const weir_exchange weir_exchange_peers = {
    .plug = {"peers",
             "every worker sends to every other and applies what has come; nobody waits, but for "
             "who is too far behind",
             sizeof(weir_peers), options},
    .drifts = true,
    .facts = facts,
    .init = init,
    .bucket = bucket,
    .finish = finish,
    .settle = settle,
    .hand_over = hand_over,
    .recover = weir_peers_recover,
    .catch_up = weir_peers_catch_up,
    .regroup = regroup,
    .close = close_all,
};
