/* ways.c - the three ways in which encoded buckets become a sum, and the two in which plain ones
 * do.
 *
 *   add     messages are summed as they are, by the collective, once a round
 *   gather  everybody gets everybody's message (their lengths first) and adds them up, in the order
 * of the members stripe  member i gets everybody's message of stripe i, adds them up, encodes the
 * sum (and holds back what that loses), and everybody gets it
 *
 * Every rank decodes the same messages in the same order: sums have the same bits everywhere. */
#include "core/vec.h"
#include "exchange/lane.h"
#include <string.h>

struct weir_ways {
    uint64_t seed;
    char *mine;                  /* this rank's message, or its messages of all stripes */
    char *all;                   /* everybody's */
    size_t *off, *len;           /* by member */
    size_t *slot_off, *slot_len; /* by member: what comes in of a stripe */
    uint64_t *told;              /* lengths on their way */
    float *tile;
};

/* ---- memory ---- */

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* What the lane needs of `mine` and of `all`. */
static weir_err measure(weir_lane *l, const weir_group *g, weir_arena *arena, size_t *mine,
                        size_t *all)
{
    size_t bound = l->codec->raw ? 0 : l->codec->bound(l->coder), sum = 0;

    if (l->codec->raw)
        return WEIR_OK;
    if (l->codec->combine != WEIR_COMBINE_STRIPE) {
        *mine = larger(*mine, bound);
        *all = larger(*all, l->codec->combine == WEIR_COMBINE_GATHER ? bound * (size_t)g->size : 0);
        return WEIR_OK;
    }
    WEIR_TRY(weir_stripes_make(l, g, arena));
    for (int i = 0; i < g->size; i++)
        sum += l->stripe[i].bytes;
    *mine = larger(*mine, sum);
    *all = larger(*all, larger(sum, l->stripe[g->me].bytes * (size_t)g->size));
    return WEIR_OK;
}

static weir_err measure_rivals(weir_lane *l, const weir_group *g, weir_arena *arena, size_t *mine,
                               size_t *all)
{
    weir_err err = WEIR_OK;
    int now = l->now;

    for (int k = 0; k < l->rivals && !err; k++) {
        weir_lane_turn_to(l, k);
        err = measure(l, g, arena, mine, all);
    }
    weir_lane_turn_to(l, now);
    return err;
}

weir_err weir_ways_make(weir_lane *lane, int lanes, const weir_group *g, uint64_t seed,
                        weir_arena *arena, weir_ways **out)
{
    weir_ways *w = WEIR_NEW(arena, weir_ways, 1);
    size_t mine = 0, all = 0, p = (size_t)g->size;

    if (!w)
        return weir_fail_nomem(sizeof *w);
    w->seed = seed;
    for (int i = 0; i < lanes; i++)
        WEIR_TRY(measure_rivals(&lane[i], g, arena, &mine, &all));
    if (weir_net_dry(g->net))
        mine = all = 0;
    w->mine = mine ? weir_alloc(arena, mine) : NULL;
    w->all = all ? weir_alloc(arena, all) : NULL;
    w->off = WEIR_NEW(arena, size_t, 4 * p);
    w->told = WEIR_NEW(arena, uint64_t, p);
    w->tile = WEIR_NEW(arena, float, WEIR_TILE);
    if ((mine && !w->mine) || (all && !w->all) || !w->off || !w->told || !w->tile)
        return weir_fail_nomem(mine + all);
    w->len = w->off + p;
    w->slot_off = w->len + p;
    w->slot_len = w->slot_off + p;
    *out = w;
    return WEIR_OK;
}

/* ---- feeding ---- */

/* A part of it, as a bucket of its own. */
static weir_feed narrow(const weir_feed *whole, size_t at, size_t n, int number)
{
    weir_feed f = *whole;

    f.n = f.bad = n;
    f.grad += at;
    f.held = f.held ? f.held + at : NULL;
    f.hold = f.held ? f.hold + at : NULL;
    f.speed = f.speed ? f.speed + at : NULL;
    f.sped = f.speed ? f.sped + at : NULL;
    f.key ^= (uint64_t)(unsigned)(number + 1) << 48;
    return f;
}

static void clear(weir_lane *l) { memset(l->bucket->grad, 0, l->bucket->n * sizeof(float)); }

static weir_err encode(weir_lane *l, void *coder, weir_turn turn, weir_feed *f, void *msg,
                       size_t *len, weir_group *g, const weir_bucket *b)
{
    double begun = weir_net_now(g->net);
    weir_err err = l->codec->encode(coder, turn, f, msg, len);

    l->codec_s += weir_net_now(g->net) - begun;
    return err ? err : weir_lane_check(f, b, turn);
}

static weir_err decode(weir_lane *l, void *coder, weir_turn turn, const void *msg, size_t len,
                       float *acc, weir_group *g, int from)
{
    double begun = weir_net_now(g->net);
    weir_err err = l->codec->decode(coder, turn, msg, len, acc);

    l->codec_s += weir_net_now(g->net) - begun;
    return err ? weir_fail(err, "from rank %d: %s", g->member[from], weir_why_text()) : WEIR_OK;
}

/* ---- the ways ---- */

static weir_err add(weir_lane *l, weir_ways *w, weir_coll_use *coll, weir_group *g, weir_turn turn,
                    weir_feed *f)
{
    size_t len;

    for (turn.round = 0; turn.round < l->codec->rounds; turn.round++) {
        WEIR_TRY(encode(l, l->coder, turn, f, w->mine, &len, g, l->bucket));
        WEIR_TRY(weir_allreduce(coll, g, w->mine, len / l->codec->sum->unit, l->codec->sum));
        if (turn.round + 1 < l->codec->rounds)
            WEIR_TRY(l->codec->absorb(l->coder, turn, w->mine, len));
    }
    turn.round--;
    if (l->codec->settle && f->held)
        l->codec->settle(l->coder, f->hold);
    clear(l);
    return decode(l, l->coder, turn, w->mine, len, l->bucket->grad, g, g->me);
}

static void lay_out(weir_ways *w, int p)
{
    for (int i = 0; i < p; i++)
        w->off[i] = i ? w->off[i - 1] + w->len[i - 1] : 0;
}

/* A group of one tells nobody, and hears itself. */
static weir_err tell_lengths(weir_ways *w, weir_coll_use *coll, weir_group *g, size_t mine)
{
    for (int i = 0; i < g->size; i++)
        w->off[i] = (size_t)i * sizeof *w->told, w->len[i] = sizeof *w->told;
    w->told[g->me] = mine;
    WEIR_TRY(
        weir_allgather(coll, g, weir_net_dry(g->net) ? NULL : (void *)w->told, w->off, w->len));
    for (int i = 0; i < g->size; i++)
        w->len[i] = weir_net_dry(g->net) ? mine : w->told[i];
    lay_out(w, g->size);
    return WEIR_OK;
}

static weir_err gather(weir_lane *l, weir_ways *w, weir_coll_use *coll, weir_group *g,
                       weir_turn turn, weir_feed *f)
{
    size_t len, bound = l->codec->bound(l->coder);

    WEIR_TRY(encode(l, l->coder, turn, f, w->mine, &len, g, l->bucket));
    if (l->codec->told)
        l->codec->told(l->coder, w->mine, &l->told);
    WEIR_TRY(tell_lengths(w, coll, g, len));
    for (int i = 0; i < g->size; i++)
        if (w->len[i] > bound)
            return weir_fail(
                WEIR_INVALID,
                "rank %d announces a message of %zu bytes, where %zu are the most there can be",
                g->member[i], w->len[i], bound);
    memcpy(w->all + w->off[g->me], w->mine, len);
    WEIR_TRY(weir_allgather(coll, g, w->all, w->off, w->len));
    clear(l);
    for (int i = 0; i < g->size; i++)
        WEIR_TRY(decode(l, l->coder, turn, w->all + w->off[i], w->len[i], l->bucket->grad, g, i));
    return WEIR_OK;
}

/* Message i of `mine` goes to member i; what comes from member i lands in slot i of `all`. */
static weir_err deal(weir_lane *l, weir_ways *w, weir_coll_use *coll, weir_group *g)
{
    weir_pieces out = {w->mine, w->off, w->len}, in = {w->all, w->slot_off, w->slot_len};
    weir_err err;

    for (int i = 0; i < g->size; i++) {
        w->slot_len[i] = l->stripe[g->me].bytes;
        w->slot_off[i] = (size_t)i * w->slot_len[i];
    }
    err = weir_alltoall(coll, g, &out, &in);
    return err == WEIR_MISFIT
               ? weir_fail(err, "the stripes of bucket %d: %s", l->bucket->id, weir_why_text())
               : err;
}

static weir_err own_stripe(weir_lane *l, weir_ways *w, weir_group *g, weir_turn turn,
                           const weir_feed *whole)
{
    const weir_stripe *s = &l->stripe[g->me];
    float *sum = l->bucket->grad + s->at;
    weir_feed f = narrow(whole, s->at, s->bucket.n, g->size);
    size_t len;

    memset(sum, 0, s->bucket.n * sizeof *sum);
    for (int i = 0; i < g->size; i++)
        WEIR_TRY(decode(l, s->coder, turn, w->all + (size_t)i * s->bytes, s->bytes, sum, g, i));
    f.scale = 1;
    f.held = l->owned.now;
    f.hold = l->owned.next;
    f.speed = NULL;
    f.mask = false;
    l->owned.fresh = l->owned.now != NULL;
    return encode(l, l->owner_coder, turn, &f, w->mine + w->off[g->me], &len, g, &s->bucket);
}

static weir_err stripe(weir_lane *l, weir_ways *w, weir_coll_use *coll, weir_group *g,
                       weir_turn turn, weir_feed *f)
{
    weir_stripe *s = l->stripe;
    bool dry = weir_net_dry(g->net);
    size_t len;

    for (int i = 0; i < g->size; i++)
        w->len[i] = s[i].bytes;
    lay_out(w, g->size);
    for (int i = 0; i < g->size && !dry; i++) {
        weir_feed part = narrow(f, s[i].at, s[i].bucket.n, i);
        WEIR_TRY(encode(l, s[i].coder, turn, &part, w->mine + w->off[i], &len, g, &s[i].bucket));
    }
    WEIR_TRY(deal(l, w, coll, g));
    if (!dry)
        WEIR_TRY(own_stripe(l, w, g, turn, f));
    WEIR_TRY(weir_allgather(coll, g, w->mine, w->off, w->len));
    if (dry)
        return WEIR_OK;
    clear(l);
    for (int i = 0; i < g->size; i++)
        WEIR_TRY(decode(l, s[i].coder, turn, w->mine + w->off[i], s[i].bytes,
                        l->bucket->grad + s[i].at, g, i));
    return WEIR_OK;
}

/* What is held back here goes with a dense step: nothing would send it before the next one that is
 * not. */
static void let_go(weir_lane *l)
{
    const weir_stripe *s;

    l->held.fresh = false;
    if (!l->stray || !l->held.now)
        return;
    weir_vec_best()->add(l->bucket->grad, l->held.now, l->bucket->n);
    memset(l->held.next, 0, l->bucket->n * sizeof(float));
    l->held.fresh = true;
    if (!l->owned.now)
        return;
    s = &l->stripe[l->mine];
    weir_vec_best()->add(l->bucket->grad + s->at, l->owned.now, s->bucket.n);
    memset(l->owned.next, 0, s->bucket.n * sizeof(float));
    l->owned.fresh = true;
}

/* Floats as they are. Where momentum is the lane's, it is so from the first step on. */
static weir_err plain(weir_lane *l, weir_ways *w, weir_coll_use *coll, weir_group *g,
                      weir_turn turn, float scale)
{
    size_t n = l->bucket->n + l->notes;

    l->leaves = false;
    if (l->exact) {
        WEIR_TRY(weir_allreduce(coll, g, l->exact, n, &weir_sum_f64));
        weir_vec_best()->narrow(l->bucket->grad, l->exact, n);
        return WEIR_OK;
    }
    if ((l->speed.now || scale != 1) && !weir_net_dry(g->net)) {
        weir_feed f = weir_lane_feed(l, w->seed, g->me, scale, w->tile);
        f.held = NULL;
        f.mask = false;
        weir_feed_whole(&f, 0, f.n);
        l->speed.fresh = l->speed.now != NULL;
        WEIR_TRY(weir_lane_check(&f, l->bucket, turn));
    }
    let_go(l);
    if (l->waits)
        return WEIR_OK;
    return weir_allreduce(coll, g, l->before ? l->bucket->grad - l->before : l->bucket->grad,
                          n + l->before, &weir_sum_f32);
}

/* Sizes alone. */
static weir_err rehearse(weir_lane *l, weir_ways *w, weir_coll_use *coll, weir_group *g,
                         weir_turn turn)
{
    if (l->codec->combine == WEIR_COMBINE_STRIPE)
        return stripe(l, w, coll, g, turn, NULL);
    for (turn.round = 0; turn.round < l->codec->rounds && l->codec->combine == WEIR_COMBINE_ADD;
         turn.round++)
        WEIR_TRY(weir_allreduce(coll, g, NULL,
                                weir_codec_usual(l->codec, l->coder, turn) / l->codec->sum->unit,
                                l->codec->sum));
    if (l->codec->combine == WEIR_COMBINE_ADD)
        return WEIR_OK;
    WEIR_TRY(tell_lengths(w, coll, g, weir_codec_usual(l->codec, l->coder, turn)));
    return weir_allgather(coll, g, NULL, w->off, w->len);
}

static weir_err sum(weir_lane *l, weir_ways *w, weir_coll_use *coll, weir_group *g, weir_turn turn,
                    float scale)
{
    weir_feed f;

    /* alone there is nobody to send less to */
    if (!l->feedback || turn.epochs < l->feedback->warmup || g->size == 1)
        return plain(l, w, coll, g, turn, scale);
    if (weir_net_dry(g->net))
        return rehearse(l, w, coll, g, turn);
    f = weir_lane_feed(l, w->seed, g->me, scale, w->tile);
    l->leaves = true;
    l->held.fresh = l->held.now != NULL;
    l->speed.fresh = l->speed.now != NULL;
    return l->codec->combine == WEIR_COMBINE_ADD      ? add(l, w, coll, g, turn, &f)
           : l->codec->combine == WEIR_COMBINE_GATHER ? gather(l, w, coll, g, turn, &f)
                                                      : stripe(l, w, coll, g, turn, &f);
}

static weir_err timed(weir_err (*way)(weir_lane *, weir_ways *, weir_coll_use *, weir_group *,
                                      weir_turn, float),
                      weir_lane *l, weir_ways *w, weir_coll_use *coll, weir_group *g,
                      weir_turn turn, float scale)
{
    double begun = weir_net_now(g->net), coded = l->codec_s;
    weir_err err;

    l->told.sent = l->bucket->n;
    if (l->told.tau)
        memset(l->told.tau, 0, (size_t)l->bucket->views * sizeof(float));
    err = way(l, w, coll, g, turn, scale);
    l->wire_s += weir_net_now(g->net) - begun - (l->codec_s - coded);
    return err;
}

weir_err weir_lane_sum(weir_lane *l, weir_ways *w, weir_coll_use *coll, weir_group *g,
                       weir_turn turn, float scale)
{
    return timed(sum, l, w, coll, g, turn, scale);
}

weir_err weir_lane_dense(weir_lane *l, weir_ways *w, weir_coll_use *coll, weir_group *g,
                         weir_turn turn, float scale)
{
    return timed(plain, l, w, coll, g, turn, scale);
}
