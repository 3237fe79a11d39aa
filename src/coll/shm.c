/* shm.c - ranks of one machine sum in place, in memory that all of them see.
 *
 * Buffers that lie in what `memory` gave are never copied: after a meeting each member takes a
 * slice, reads it in everybody's buffer and writes the sum into everybody's buffer, while the other
 * slices have other owners; one more meeting, and all have all. So p vectors cross the memory once
 * each way, whatever p is.
 *
 * Other buffers, and short ones, go by the stage. Up to `small` bytes everybody copies its own
 * there and, after the one meeting that this takes, sums all for itself: a second meeting would
 * cost more than the work it saves. Longer ones go in pieces of half a stage, each copied in,
 * summed as above, copied out.
 *
 * A sum is always taken in the order of the members: its bits depend neither on slices nor on the
 * way. */
#include "coll/shm_room.h"
#include <string.h>

enum { LINE = 64, BLOCK = 16384 /* bytes that stay in a cache while p of them are added */ };
enum { SUM, SCATTER, GATHER, SPREAD }; /* verbs, in notes */

typedef struct shm {
    int64_t small, stage;
    weir_arena *own; /* rooms and regions: touched by the comm task alone */
    weir_shm_room *rooms;
} shm;

static const weir_opt options[] = {
    {"small", WEIR_OPT_INT, offsetof(shm, small), "1024",
     "bytes up to which everybody sums everything", .min = 0, .max = 1 << 20},
    {"stage", WEIR_OPT_INT, offsetof(shm, stage), "1048576",
     "bytes at a time of buffers that lie elsewhere", .min = 4096, .max = 1 << 30},
    {0},
};

/* One collective under way. */
typedef struct trip {
    weir_shm_room *room;
    weir_shm_intent intent;
    char *buf;
    size_t units, unit, small;
    const weir_sum *sum;
    bool begun, inside;
} trip;

/* ---- opening ---- */

static const char *fits(const void *self, const weir_group *g)
{
    (void)self;
    if (g->size > 1 && !weir_net_shares(g->net))
        return "ranks cannot share memory in this world";
    for (int i = 1; i < g->size; i++)
        if (weir_net_machine(g->net, g->member[i]) != weir_net_machine(g->net, g->member[0]))
            return "the ranks are on more than one machine";
    return NULL;
}

static void free_own(void *arena) { weir_arena_free(arena); }

static weir_err open_shm(void *self, const weir_group *group, weir_arena *arena)
{
    shm *s = self;

    (void)group; /* rooms are made for whichever group comes */
    if (!(s->own = weir_arena_new()))
        return weir_fail_nomem(0);
    if (!weir_arena_later(arena, free_own, s->own))
        return weir_arena_free(s->own), weir_fail_nomem(0);
    s->stage = s->stage / 4096 * 4096;
    s->small = s->small < s->stage ? s->small : s->stage;
    return WEIR_OK;
}

static weir_err room_of(shm *s, weir_group *g, weir_shm_room **out)
{
    weir_shm_room *r = s->rooms;

    while (r && !weir_shm_room_is(r, g))
        r = r->next;
    if (!r) {
        WEIR_TRY(weir_shm_room_open(g, (size_t)s->stage, s->own, &r));
        r->next = s->rooms;
        s->rooms = r;
    }
    *out = r;
    return WEIR_OK;
}

static weir_err memory(void *self, weir_group *g, size_t bytes, void **out)
{
    shm *s = self;
    weir_shm_room *r;

    WEIR_TRY(room_of(s, g, &r));
    return weir_shm_room_memory(r, g, bytes, s->own, out);
}

static weir_err start(shm *s, weir_group *g, uint32_t verb, void *buf, size_t bytes, trip *t)
{
    *t = (trip){.intent = {.verb = verb, .bytes = bytes}, .buf = buf, .small = (size_t)s->small};
    WEIR_TRY(room_of(s, g, &t->room));
    weir_coll_sequence(g);
    return WEIR_OK;
}

/* The first meeting says what this is about. */
static weir_err meet(trip *t)
{
    if (t->begun)
        return weir_shm_meet(t->room);
    t->begun = true;
    return weir_shm_begin(t->room, &t->intent, t->buf, &t->inside);
}

/* What is moved here counts as the ring's messages would: everybody sends all pieces but one, in
 * each half of it. */
static void count(const trip *t, uint64_t all, uint64_t kept_out, uint64_t kept_in)
{
    weir_net_count_shared(t->room->net, all - kept_out, all - kept_in);
}

/* ---- sums ---- */

static size_t piece(const trip *t, int by)
{
    int p = t->room->size, i = (t->room->me + by + p) % p;

    return (weir_coll_cut(t->units, p, i + 1) - weir_coll_cut(t->units, p, i)) * t->unit;
}

/* This member's portion of n units, in whole lines of a cache. */
static void slice(const trip *t, size_t n, size_t *lo, size_t *hi)
{
    size_t per = LINE % t->unit ? LINE : LINE / t->unit, lines = (n + per - 1) / per;

    *lo = weir_coll_cut(lines, t->room->size, t->room->me) * per;
    *hi = weir_coll_cut(lines, t->room->size, t->room->me + 1) * per;
    *hi = *hi < n ? *hi : n;
    *lo = *lo < n ? *lo : n;
}

/* Units [lo, hi) of all members' `at`: the sum lands in all of them, or in the first (who owns
 * another piece) and in this one. */
static void add_up(const trip *t, char *const *at, size_t lo, size_t hi)
{
    weir_shm_room *r = t->room;
    bool everywhere = t->intent.verb == SUM;
    size_t step = BLOCK / t->unit ? BLOCK / t->unit : 1, n;

    if (everywhere && t->sum->all && lo < hi) {
        for (int i = 0; i < r->size; i++)
            r->x[i] = at[i] + lo * t->unit;
        t->sum->all(r->x, r->size, hi - lo);
        return;
    }
    for (size_t k = lo; k < hi; k += n) {
        n = hi - k < step ? hi - k : step;
        for (int i = 1; i < r->size; i++)
            t->sum->add(at[0] + k * t->unit, at[i] + k * t->unit, n);
        for (int i = 1; i < r->size; i++)
            if (everywhere || i == r->me)
                memcpy(at[i] + k * t->unit, at[0] + k * t->unit, n * t->unit);
    }
}

/* The units of the whole that this member must have in the end: all, or its piece. */
static void wanted(const trip *t, size_t *lo, size_t *hi)
{
    bool all = t->intent.verb == SUM;

    *lo = all ? 0 : weir_coll_cut(t->units, t->room->size, t->room->me);
    *hi = all ? t->units : weir_coll_cut(t->units, t->room->size, t->room->me + 1);
}

static weir_err reduce_small(trip *t)
{
    const weir_shm_room *r = t->room;
    size_t lo, hi, bytes, stride = 2 * r->half;
    char *first = weir_shm_stage(r, 0), *mine = weir_shm_stage(r, r->me);

    wanted(t, &lo, &hi);
    bytes = (hi - lo) * t->unit;
    if (t->intent.bytes)
        memcpy(mine, t->buf, t->intent.bytes);
    WEIR_TRY(meet(t));
    if (!bytes)
        return WEIR_OK;
    memcpy(t->buf + lo * t->unit, first + lo * t->unit, bytes);
    for (int i = 1; i < r->size; i++)
        t->sum->add(t->buf + lo * t->unit, first + (size_t)i * stride + lo * t->unit, hi - lo);
    return WEIR_OK;
}

/* Units [from, from + n) by the stage. */
static weir_err reduce_piece(trip *t, size_t from, size_t n)
{
    weir_shm_room *r = t->room;
    size_t lo, hi;

    for (int i = 0; i < r->size; i++)
        r->at[i] = weir_shm_stage(r, i);
    memcpy(r->at[r->me], t->buf + from * t->unit, n * t->unit);
    WEIR_TRY(meet(t));
    wanted(t, &lo, &hi);
    lo = lo > from ? lo - from : 0;
    hi = hi > from ? hi - from : 0;
    hi = hi < n ? hi : n;
    if (t->intent.verb == SUM)
        slice(t, n, &lo, &hi);
    add_up(t, r->at, lo, hi);
    WEIR_TRY(meet(t));
    if (t->intent.verb == SUM)
        memcpy(t->buf + from * t->unit, r->at[r->me], n * t->unit);
    else if (lo < hi)
        memcpy(t->buf + (from + lo) * t->unit, r->at[r->me] + lo * t->unit, (hi - lo) * t->unit);
    return WEIR_OK;
}

static weir_err reduce_inside(trip *t)
{
    size_t lo, hi;

    wanted(t, &lo, &hi);
    if (t->intent.verb == SUM)
        slice(t, t->units, &lo, &hi);
    add_up(t, t->room->at, lo, hi);
    return meet(t);
}

static weir_err reduce(shm *s, weir_group *g, uint32_t verb, void *buf, size_t units,
                       const weir_sum *sum)
{
    trip t;
    size_t step = (size_t)s->stage / sum->unit, n;

    if (!step)
        return weir_fail(WEIR_MISFIT,
                         "the collective shm cannot sum units of %zu bytes: its stage holds %lld",
                         sum->unit, (long long)s->stage);
    WEIR_TRY(start(s, g, verb, buf, units * sum->unit, &t));
    t.units = units, t.unit = sum->unit, t.sum = sum;
    count(&t, t.intent.bytes, piece(&t, 0), piece(&t, -1));
    if (verb == SUM)
        count(&t, t.intent.bytes, piece(&t, 1), piece(&t, 0));
    if (t.intent.bytes <= t.small)
        return reduce_small(&t);
    WEIR_TRY(meet(&t));
    if (t.inside)
        return reduce_inside(&t);
    for (size_t k = 0; k < units; k += n) {
        n = units - k < step ? units - k : step;
        WEIR_TRY(reduce_piece(&t, k, n));
    }
    return WEIR_OK;
}

static weir_err allreduce(void *self, weir_group *g, void *buf, size_t units, const weir_sum *sum)
{
    return reduce(self, g, SUM, buf, units, sum);
}

static weir_err reduce_scatter(void *self, weir_group *g, void *buf, size_t units,
                               const weir_sum *sum)
{
    return reduce(self, g, SCATTER, buf, units, sum);
}

/* ---- copies ---- */

/* Of a piece of `len` bytes, what lies in [from, from + half). */
static size_t part(const trip *t, size_t len, size_t from)
{
    size_t left = len > from ? len - from : 0;

    return left < t->room->half ? left : t->room->half;
}

/* By the stage: one meeting for each half of it. */
static weir_err gather_staged(trip *t, const size_t *off, const size_t *len, size_t most)
{
    const weir_shm_room *r = t->room;
    size_t from = 0, stride = 2 * r->half;

    do {
        char *first = weir_shm_stage(r, 0);
        if (part(t, len[r->me], from))
            memcpy(first + (size_t)r->me * stride, t->buf + off[r->me] + from,
                   part(t, len[r->me], from));
        WEIR_TRY(meet(t));
        for (int i = 0; i < r->size; i++)
            if (i != r->me && part(t, len[i], from))
                memcpy(t->buf + off[i] + from, first + (size_t)i * stride, part(t, len[i], from));
        from += r->half;
    } while (from < most);
    return WEIR_OK;
}

static weir_err gather_inside(trip *t, const size_t *off, const size_t *len)
{
    const weir_shm_room *r = t->room;

    for (int k = 1; k < r->size; k++) {
        int i = (r->me + k) % r->size;
        if (len[i])
            memcpy(t->buf + off[i], r->at[i] + off[i], len[i]);
    }
    return meet(t);
}

static weir_err allgather(void *self, weir_group *g, void *all, const size_t *off,
                          const size_t *len)
{
    size_t most = 0, end = 0, bytes = 0;
    trip t;

    for (int i = 0; i < g->size; i++) {
        bytes += len[i];
        most = len[i] > most ? len[i] : most;
        end = off[i] + len[i] > end ? off[i] + len[i] : end;
    }
    WEIR_TRY(start(self, g, GATHER, all, end, &t));
    count(&t, bytes, len[(g->me + 1) % g->size], len[g->me]);
    if (most <= t.small)
        return gather_staged(&t, off, len, most);
    WEIR_TRY(meet(&t));
    return t.inside ? gather_inside(&t, off, len) : gather_staged(&t, off, len, most);
}

static weir_err spread_staged(trip *t)
{
    const weir_shm_room *r = t->room;
    int root = (int)t->intent.root;
    size_t from = 0, n;

    do {
        char *stage = weir_shm_stage(r, root);
        n = part(t, t->intent.bytes, from);
        if (n && root == r->me)
            memcpy(stage, t->buf + from, n);
        WEIR_TRY(meet(t));
        if (n && root != r->me)
            memcpy(t->buf + from, stage, n);
        from += r->half;
    } while (from < t->intent.bytes);
    return WEIR_OK;
}

static weir_err broadcast(void *self, weir_group *g, int root, void *buf, size_t bytes)
{
    int p = g->size, far = (g->me - root + p) % p;
    trip t;

    WEIR_TRY(start(self, g, SPREAD, buf, bytes, &t));
    t.intent.root = (uint32_t)root;
    count(&t, bytes, far < p - 1 ? 0 : bytes, far ? 0 : bytes);
    if (bytes <= t.small)
        return spread_staged(&t);
    WEIR_TRY(meet(&t));
    if (!t.inside)
        return spread_staged(&t);
    if (far)
        memcpy(buf, t.room->at[root], bytes);
    return meet(&t);
}

const weir_coll weir_coll_shm = {
    .plug = {"shm", "ranks of one machine sum in place, in memory they have in common", sizeof(shm),
             options},
    .fits = fits,
    .open = open_shm,
    .memory = memory,
    .allreduce = allreduce,
    .reduce_scatter = reduce_scatter,
    .allgather = allgather,
    .broadcast = broadcast,
};
