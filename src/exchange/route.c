/* route.c - see route.h. */
#include "exchange/route.h"
#include "core/vec.h"
#include <string.h>

struct weir_route {
    weir_coll_use *coll;
    weir_group *group;
    uint64_t seed;
    char *mine;                  /* this rank's message, or its messages of all stripes */
    char *all;                   /* everybody's */
    size_t *off, *len;           /* by member */
    size_t *slot_off, *slot_len; /* by member: what comes in of a stripe */
    uint64_t *lengths;           /* on their way */
    float *tile;
};

/* A lane on its way. */
typedef struct trip {
    weir_route *route;
    weir_lane *lane;
    const weir_lane_codec *codec;
    weir_when when;
    float scale;
    bool dry;
    weir_feed feed; /* where it goes through the codec */
} trip;

/* ---- memory ---- */

/* Bytes that lanes need of `mine` and of `all`. */
typedef struct needs {
    size_t mine, all;
} needs;

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static weir_err measure_stripes(const weir_route *r, weir_lane *l, weir_lane_codec *c,
                                weir_arena *arena, needs *n)
{
    size_t p = (size_t)r->group->size, sum = 0;

    WEIR_TRY(weir_stripes_make(l, c, r->group, arena));
    for (size_t i = 0; i < p; i++)
        sum += c->stripes.stripe[i].bytes;
    n->mine = larger(n->mine, sum);
    n->all = larger(n->all, larger(sum, c->stripes.stripe[r->group->me].bytes * p));
    return WEIR_OK;
}

static weir_err measure(const weir_route *r, weir_lane *l, weir_arena *arena, needs *n)
{
    for (weir_lane_codec *c = l->candidate; c < l->candidate + l->candidates; c++) {
        if (c->kind->raw)
            continue;
        if (c->kind->combine == WEIR_COMBINE_STRIPE) {
            WEIR_TRY(measure_stripes(r, l, c, arena, n));
            continue;
        }
        size_t bound = c->kind->bound(c->self);
        n->mine = larger(n->mine, bound);
        if (c->kind->combine == WEIR_COMBINE_GATHER)
            n->all = larger(n->all, bound * (size_t)r->group->size);
    }
    return WEIR_OK;
}

static weir_err make_room(weir_route *r, needs n, weir_arena *arena)
{
    size_t p = (size_t)r->group->size;

    r->mine = n.mine ? weir_alloc(arena, n.mine) : NULL;
    r->all = n.all ? weir_alloc(arena, n.all) : NULL;
    r->off = WEIR_NEW(arena, size_t, 4 * p);
    r->lengths = WEIR_NEW(arena, uint64_t, p);
    r->tile = WEIR_NEW(arena, float, WEIR_FEED_TILE);
    if ((n.mine && !r->mine) || (n.all && !r->all) || !r->off || !r->lengths || !r->tile)
        return weir_fail_nomem(n.mine + n.all);
    r->len = r->off + p;
    r->slot_off = r->len + p;
    r->slot_len = r->slot_off + p;
    return WEIR_OK;
}

weir_err weir_route_make(const weir_exchange_env *env, weir_coll_use *coll, weir_group *g,
                         weir_route **out)
{
    weir_route *r = WEIR_NEW(env->group_arena, weir_route, 1);
    needs n = {0};

    if (!r)
        return weir_fail_nomem(sizeof *r);
    *r = (weir_route){.coll = coll, .group = g, .seed = env->seed};
    for (int i = 0; i < env->lanes; i++)
        WEIR_TRY(measure(r, &env->lane[i], env->group_arena, &n));
    WEIR_TRY(make_room(r, weir_net_dry(g->net) ? (needs){0} : n, env->group_arena));
    *out = r;
    return WEIR_OK;
}

/* ---- codecs ---- */

/* A part of the feed, as a bucket of its own. */
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

/* Who encodes, and what: the lane's bucket or a stripe of it. */
typedef struct coder {
    void *self;
    const weir_bucket *bucket;
} coder;

static weir_err encode(const trip *t, coder by, weir_feed *f, void *msg, size_t *len)
{
    weir_net *net = t->route->group->net;
    double begun = weir_net_now(net);
    weir_err err = t->codec->kind->encode(by.self, t->when, f, msg, len);

    t->lane->codec_s += weir_net_now(net) - begun;
    return err ? err : weir_lane_check(f, by.bucket, t->when);
}

typedef struct message {
    const void *at;
    size_t len;
    int from; /* a member */
} message;

static weir_err decode(const trip *t, void *self, message m, float *acc)
{
    const weir_group *g = t->route->group;
    double begun = weir_net_now(g->net);
    weir_err err = t->codec->kind->decode(self, t->when, m.at, m.len, acc);

    t->lane->codec_s += weir_net_now(g->net) - begun;
    return err ? weir_fail(err, "from rank %d: %s", g->member[m.from], weir_why_text()) : WEIR_OK;
}

/* ---- add ---- */

static weir_err add(trip *t)
{
    weir_route *r = t->route;
    const weir_lane_codec *c = t->codec;
    coder whole = {c->self, t->lane->bucket};
    size_t len;

    for (t->when.round = 0; t->when.round < c->kind->rounds; t->when.round++) {
        WEIR_TRY(encode(t, whole, &t->feed, r->mine, &len));
        WEIR_TRY(
            weir_allreduce(r->coll, r->group, r->mine, len / c->kind->sum->unit, c->kind->sum));
        if (t->when.round + 1 < c->kind->rounds)
            WEIR_TRY(c->kind->absorb(c->self, t->when, r->mine, len));
    }
    t->when.round--;
    if (c->kind->take_sent && t->feed.held)
        c->kind->take_sent(c->self, t->feed.hold);
    clear(t->lane);
    return decode(t, c->self, (message){r->mine, len, r->group->me}, t->lane->bucket->grad);
}

/* ---- gather ---- */

static void lay_out(weir_route *r)
{
    for (int i = 0; i < r->group->size; i++)
        r->off[i] = i ? r->off[i - 1] + r->len[i - 1] : 0;
}

/* A group of one tells nobody, and hears itself. */
static weir_err tell_lengths(const trip *t, size_t mine)
{
    weir_route *r = t->route;
    weir_group *g = r->group;

    for (int i = 0; i < g->size; i++)
        r->off[i] = (size_t)i * sizeof *r->lengths, r->len[i] = sizeof *r->lengths;
    r->lengths[g->me] = mine;
    WEIR_TRY(weir_allgather(r->coll, g, t->dry ? NULL : (void *)r->lengths, r->off, r->len));
    for (int i = 0; i < g->size; i++)
        r->len[i] = t->dry ? mine : r->lengths[i];
    lay_out(r);
    return WEIR_OK;
}

static weir_err check_lengths(const weir_route *r, size_t bound)
{
    for (int i = 0; i < r->group->size; i++)
        if (r->len[i] > bound)
            return weir_fail(
                WEIR_INVALID,
                "rank %d announces a message of %zu bytes, where %zu are the most there can be",
                r->group->member[i], r->len[i], bound);
    return WEIR_OK;
}

static weir_err gather(trip *t)
{
    weir_route *r = t->route;
    const weir_lane_codec *c = t->codec;
    weir_lane *l = t->lane;
    size_t len;

    WEIR_TRY(encode(t, (coder){c->self, l->bucket}, &t->feed, r->mine, &len));
    if (c->kind->stats)
        c->kind->stats(c->self, r->mine, &l->stats);
    WEIR_TRY(tell_lengths(t, len));
    WEIR_TRY(check_lengths(r, c->kind->bound(c->self)));
    memcpy(r->all + r->off[r->group->me], r->mine, len);
    WEIR_TRY(weir_allgather(r->coll, r->group, r->all, r->off, r->len));
    clear(l);
    for (int i = 0; i < r->group->size; i++)
        WEIR_TRY(decode(t, c->self, (message){r->all + r->off[i], r->len[i], i}, l->bucket->grad));
    return WEIR_OK;
}

/* ---- stripe ---- */

/* Message i of `mine` goes to member i; what comes from member i lands in slot i of `all`. */
static weir_err deal(const trip *t)
{
    weir_route *r = t->route;
    weir_pieces out = {r->mine, r->off, r->len}, in = {r->all, r->slot_off, r->slot_len};
    weir_err err;

    for (int i = 0; i < r->group->size; i++) {
        r->slot_len[i] = t->codec->stripes.stripe[r->group->me].bytes;
        r->slot_off[i] = (size_t)i * r->slot_len[i];
    }
    err = weir_alltoall(r->coll, r->group, &out, &in);
    return err == WEIR_MISFIT ? weir_fail(err, "the stripes of bucket %d: %s", t->lane->bucket->id,
                                          weir_why_text())
                              : err;
}

static weir_err encode_stripes(const trip *t)
{
    const weir_stripe *s = t->codec->stripes.stripe;
    size_t len;

    for (int i = 0; i < t->route->group->size; i++) {
        weir_feed part = narrow(&t->feed, s[i].at, s[i].bucket.n, i);
        WEIR_TRY(encode(t, (coder){s[i].coder, &s[i].bucket}, &part,
                        t->route->mine + t->route->off[i], &len));
    }
    return WEIR_OK;
}

/* As its owner: everybody's of our own stripe become their sum, encoded in its place. */
static weir_err own_stripe(trip *t)
{
    const weir_route *r = t->route;
    int p = r->group->size, me = r->group->me;
    weir_pair *owned = &t->lane->codec->stripes.owned;
    const weir_stripe *s = &t->codec->stripes.stripe[me];
    float *sum = t->lane->bucket->grad + s->at;
    weir_feed f = narrow(&t->feed, s->at, s->bucket.n, p);
    size_t len;

    memset(sum, 0, s->bucket.n * sizeof *sum);
    for (int i = 0; i < p; i++)
        WEIR_TRY(decode(t, s->coder, (message){r->all + (size_t)i * s->bytes, s->bytes, i}, sum));
    f.scale = 1;
    f.held = owned->now;
    f.hold = owned->next;
    f.speed = NULL;
    f.mask = false;
    owned->fresh = owned->now != NULL;
    return encode(t, (coder){t->codec->stripes.owner, &s->bucket}, &f, r->mine + r->off[me], &len);
}

static weir_err stripe(trip *t)
{
    weir_route *r = t->route;
    const weir_stripe *s = t->codec->stripes.stripe;

    for (int i = 0; i < r->group->size; i++)
        r->len[i] = s[i].bytes;
    lay_out(r);
    if (!t->dry)
        WEIR_TRY(encode_stripes(t));
    WEIR_TRY(deal(t));
    if (!t->dry)
        WEIR_TRY(own_stripe(t));
    WEIR_TRY(weir_allgather(r->coll, r->group, r->mine, r->off, r->len));
    if (t->dry)
        return WEIR_OK;
    clear(t->lane);
    for (int i = 0; i < r->group->size; i++)
        WEIR_TRY(decode(t, s[i].coder, (message){r->mine + r->off[i], s[i].bytes, i},
                        t->lane->bucket->grad + s[i].at));
    return WEIR_OK;
}

/* ---- floats as they are ---- */

/* What is held back here goes with a dense step: nothing would send it before the next one that is
 * not. */
static void let_go(weir_lane *l)
{
    weir_stripes *own = &l->codec->stripes;
    const weir_stripe *s = weir_stripes_own(own);

    l->held.fresh = false;
    if (!l->foreign || !l->held.now)
        return;
    weir_vec_best()->add(l->bucket->grad, l->held.now, l->bucket->n);
    memset(l->held.next, 0, l->bucket->n * sizeof(float));
    l->held.fresh = true;
    if (!own->owned.now)
        return;
    weir_vec_best()->add(l->bucket->grad + s->at, own->owned.now, s->bucket.n);
    memset(own->owned.next, 0, s->bucket.n * sizeof(float));
    own->owned.fresh = true;
}

/* Where momentum is the lane's, it is so from the first step on. */
static weir_err step_momentum(const trip *t)
{
    weir_lane *l = t->lane;
    weir_feed f = weir_lane_feed(l, t->route->seed, t->route->group->me, t->scale, t->route->tile);

    f.held = NULL;
    f.mask = false;
    weir_feed_whole(&f, 0, f.n);
    l->speed.fresh = l->speed.now != NULL;
    return weir_lane_check(&f, l->bucket, t->when);
}

static weir_err plain(trip *t)
{
    weir_lane *l = t->lane;
    weir_route *r = t->route;
    size_t n = l->bucket->n + l->notes;

    l->leaves = false;
    if (l->exact) {
        WEIR_TRY(weir_allreduce(r->coll, r->group, l->exact, n, &weir_sum_f64));
        weir_vec_best()->narrow(l->bucket->grad, l->exact, n);
        return WEIR_OK;
    }
    if ((l->speed.now || t->scale != 1) && !t->dry)
        WEIR_TRY(step_momentum(t));
    let_go(l);
    if (l->waits)
        return WEIR_OK;
    return weir_allreduce(r->coll, r->group,
                          l->before ? l->bucket->grad - l->before : l->bucket->grad, n + l->before,
                          &weir_sum_f32);
}

/* ---- through the codec ---- */

/* Sizes alone. */
static weir_err rehearse(trip *t)
{
    const weir_lane_codec *c = t->codec;
    weir_route *r = t->route;

    if (c->kind->combine == WEIR_COMBINE_STRIPE)
        return stripe(t);
    if (c->kind->combine == WEIR_COMBINE_GATHER) {
        WEIR_TRY(tell_lengths(t, weir_codec_usual(c->kind, c->self, t->when)));
        return weir_allgather(r->coll, r->group, NULL, r->off, r->len);
    }
    for (t->when.round = 0; t->when.round < c->kind->rounds; t->when.round++)
        WEIR_TRY(weir_allreduce(r->coll, r->group, NULL,
                                weir_codec_usual(c->kind, c->self, t->when) / c->kind->sum->unit,
                                c->kind->sum));
    return WEIR_OK;
}

static weir_err coded(trip *t)
{
    weir_lane *l = t->lane;
    weir_combine how = t->codec->kind->combine;

    if (t->dry)
        return rehearse(t);
    t->feed = weir_lane_feed(l, t->route->seed, t->route->group->me, t->scale, t->route->tile);
    l->leaves = true;
    l->held.fresh = l->held.now != NULL;
    l->speed.fresh = l->speed.now != NULL;
    return how == WEIR_COMBINE_ADD ? add(t) : how == WEIR_COMBINE_GATHER ? gather(t) : stripe(t);
}

/* ---- timed ---- */

static weir_err timed(weir_err (*way)(trip *), trip *t)
{
    weir_lane *l = t->lane;
    weir_net *net = t->route->group->net;
    double begun = weir_net_now(net), coding = l->codec_s;
    weir_err err;

    t->codec = l->codec;
    t->dry = weir_net_dry(net);
    l->stats.sent = l->bucket->n;
    if (l->stats.tau)
        memset(l->stats.tau, 0, (size_t)l->bucket->views * sizeof(float));
    err = way(t);
    l->wire_s += weir_net_now(net) - begun - (l->codec_s - coding);
    return err;
}

weir_err weir_route_sum(weir_route *r, weir_lane *l, weir_when when, float scale)
{
    const weir_feedback *f = l->codec->feedback;
    /* alone there is nobody to send less to */
    bool dense = !f || when.epochs < f->warmup || r->group->size == 1;

    return timed(dense ? plain : coded,
                 &(trip){.route = r, .lane = l, .when = when, .scale = scale});
}

weir_err weir_route_dense(weir_route *r, weir_lane *l, weir_when when, float scale)
{
    return timed(plain, &(trip){.route = r, .lane = l, .when = when, .scale = scale});
}
