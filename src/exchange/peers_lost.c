/* peers_lost.c - members of `peers` are lost, and the others go on.
 *
 * One of them, who has made the most steps, gets from the others what it lacks of their deltas
 * (ledger.h). Everybody keeps those of its last bound + 1 steps, and who is ahead of all lacks no
 * older ones, as nobody ends step t before it has everybody's deltas of step t - bound. Then all
 * take its weights.
 *
 * Deltas of a step that was broken off count if they are in these weights, and their senders commit
 * what they left behind, lane by lane; else they were never sent. The run goes back to the first
 * step of which a delta is missing, a lost member's among them: by `bound` steps at most. Momentum
 * and what is held back stay as they are. With bound=0 nothing is missing, and it does not go
 * back. */
#include "exchange/peers_inside.h"
#include <stdlib.h>

/* What comes from others when the groups are over is summed up in memory of its own: the
 * gradient's may be gone. */
typedef struct collecting {
    weir_peers *x;
    float *room, **was; /* was: the gradient's, by lane. NULL: nothing has come */
} collecting;

static weir_err make_collecting(collecting *c)
{
    const weir_exchange_env *env = &c->x->env;
    size_t n = 0;

    for (int i = 0; i < env->lanes; i++)
        n += env->lane[i].bucket->n;
    c->room = calloc(n, sizeof *c->room);
    c->was = calloc((size_t)env->lanes, sizeof *c->was);
    if (!c->room || !c->was)
        return free(c->was), c->was = NULL, weir_fail_nomem(n * sizeof *c->room);
    n = 0;
    for (int i = 0; i < env->lanes; i++) {
        weir_bucket *b = env->lane[i].bucket;
        c->was[i] = b->grad;
        b->grad = c->room + n;
        n += b->n;
    }
    return WEIR_OK;
}

static void end_collecting(collecting *c)
{
    for (int i = 0; i < c->x->env.lanes && c->was; i++)
        c->x->env.lane[i].bucket->grad = c->was[i];
    free(c->was);
    free(c->room);
}

/* A delta that this one lacked. */
static weir_err collect(void *collecting_, int rank, uint64_t number, const void *data, size_t len)
{
    collecting *c = collecting_;
    weir_peers *x = c->x;
    const weir_ledger *l = &x->ledger;
    int pair[] = {weir_net_rank(x->net), rank};
    weir_group both = {.net = x->net, .size = 2, .member = pair};
    weir_delta_writer writer = {.group = &both, .base = l->base};
    weir_delta delta = {.from = 1,
                        .lane = (int)(number % (uint64_t)l->each),
                        .step = l->first + number / (uint64_t)l->each,
                        .data = data,
                        .len = len};
    float notes[WEIR_EXCHANGE_NOTES];
    uint64_t sum;

    if (!c->was)
        WEIR_TRY(make_collecting(c));
    return weir_delta_read(&x->env.lane[delta.lane], &writer, &delta, notes, &sum);
}

/* What another lacks of this one's: what its own weights have moved by. */
static const void *sent(void *self, int generation, uint64_t number, size_t *len)
{
    const weir_peers *x = self;
    const uint64_t *mine = weir_ledger_count(&x->ledger, x->generation, weir_net_rank(x->net));
    uint64_t each = (uint64_t)x->env.lanes;

    if (generation != x->generation || !mine || number >= *mine)
        return NULL;
    weir_delta d =
        weir_mailbox_own(x->mailbox, x->ledger.first + number / each, (int)(number % each));
    *len = d.len;
    return d.data;
}

/* The source. A ledger of an older generation says that nothing was done in this one, and the run
 * has gone back already. */
static weir_err lead(weir_peers *x, weir_recovery *r)
{
    collecting c = {.x = x};
    weir_ledger_talk talk = {.net = x->net, .list = r->list, .self = &c, .apply = collect};
    weir_ledger *l = &x->ledger;
    double norm;
    weir_err err = weir_ledger_collect(&talk, l, &r->moved);

    if (!err && r->moved)
        err = weir_peers_move(x, weir_ledger_whole(l), l->base, &norm);
    end_collecting(&c);
    WEIR_TRY(err);
    if (l->generation == x->generation) {
        r->step = weir_ledger_whole(l);
        r->untouched = weir_ledger_untouched(l);
    }
    weir_peers_drop_step(x);
    x->generation = r->list->generation;
    return weir_ledger_tell(&talk, l, r->moved);
}

weir_err weir_peers_recover(void *self, weir_recovery *r)
{
    weir_peers *x = self;
    weir_ledger_talk talk = {.net = x->net, .list = r->list, .self = x, .sent = sent};

    if (x->mailbox)
        weir_mailbox_close(x->mailbox);
    x->begun = false;
    if (r->list->source == weir_net_rank(x->net))
        return lead(x, r);
    x->agreed = r->list->generation;
    return weir_ledger_answer(&talk, &x->told, x->env.arena, &r->moved);
}

/* By how many of this one's deltas the weights that have come were moved decides what becomes of
 * its broken-off step, lane by lane. */
void weir_peers_catch_up(void *self)
{
    weir_peers *x = self;
    int me = weir_net_rank(x->net);
    const uint64_t *mine = weir_ledger_count(&x->ledger, x->generation, me),
                   *told = weir_ledger_count(&x->told, x->generation, me);
    uint64_t committed = mine ? *mine : 0, counted = told ? *told : 0;
    weir_ledger old = x->ledger;

    for (int i = 0; i < x->env.lanes && committed + (uint64_t)i < counted; i++)
        weir_peers_commit_lane(x, &x->env.lane[i]);
    weir_peers_drop_step(x);
    x->ledger = x->told;
    x->told = old;
    x->generation = x->agreed;
}
