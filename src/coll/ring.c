/* ring.c - every member talks to its right and hears its left neighbour.
 *
 * Words: the buffer is cut in p pieces. In ring step s member r sends piece (r - 1 - s) and
 * receives piece (r - 2 - s), modulo p. During the first p - 1 steps what comes in is added
 * (reduce-scatter: member r ends with piece r whole); during the next p - 1 it replaces
 * (all-gather). A piece travels in segments, so that adding overlaps receiving; item k is segment k
 * mod nseg of step k / nseg. Item k may leave when item k - nseg, the same segment one step
 * earlier, has come in. Up to `window` receives are posted ahead, and as many sends are under way.
 *
 * An all-gather lands straight in the buffer, where an earlier send of the same piece may not have
 * been reported done yet: what lands there depends on that send having been read by the neighbour,
 * so its bytes are no longer needed. */
#include "coll/coll.h"
#include <string.h>

enum { WINDOW = 64, PARTS = 16, SHORT = 64 << 10, LONG = 256 << 10 };

typedef struct ring {
    int64_t segment, window;
    weir_net_op in[WINDOW], out[WINDOW];
} ring;

static const weir_opt options[] = {
    {"segment", WEIR_OPT_INT, offsetof(ring, segment), "0",
     "bytes of a piece that travel together; 0: by its length", .min = 0, .max = 1 << 30},
    {"window", WEIR_OPT_INT, offsetof(ring, window), "16", "segments under way at once", .min = 1,
     .max = WINDOW},
    {0},
};

/* One collective under way. */
typedef struct trip {
    ring *self;
    weir_group *group;
    char *buf; /* NULL: dry */
    const weir_sum *sum;
    size_t units;            /* pieces by weir_coll_cut of these ... */
    const size_t *off, *len; /* ... or, for an all-gather of unequal lengths, as given, in bytes */
    size_t segment;          /* bytes, a multiple of the unit */
    int nseg, adds, items;   /* items [0, adds) are added, [adds, items) replace */
    int shift;               /* step 0 sends piece r - shift */
    uint32_t sequence;
} trip;

static void piece(const trip *t, int i, size_t *at, size_t *bytes)
{
    if (t->off) {
        *at = t->off[i];
        *bytes = t->len[i];
        return;
    }
    *at = weir_coll_cut(t->units, t->group->size, i) * t->sum->unit;
    *bytes = weir_coll_cut(t->units, t->group->size, i + 1) * t->sum->unit - *at;
}

/* Where item k lies: of the piece sent (behind = 0) or received (behind = 1). */
static char *item(const trip *t, int k, int behind, size_t *bytes)
{
    int p = t->group->size, i = (t->group->me - t->shift - k / t->nseg - behind) % p;
    size_t at, whole, from = (size_t)(k % t->nseg) * t->segment;

    piece(t, i < 0 ? i + p : i, &at, &whole);
    if (from > whole)
        from = whole;
    *bytes = whole - from < t->segment ? whole - from : t->segment;
    return t->buf ? t->buf + at + from : NULL;
}

static int neighbour(const trip *t, int by)
{
    int p = t->group->size;
    return t->group->member[(t->group->me + by + p) % p];
}

static void post(trip *t, int k)
{
    size_t bytes;
    char *at = item(t, k, 1, &bytes);
    bool lands = k >= t->adds && bytes && at;

    weir_net_recv(t->group->net, neighbour(t, -1),
                  weir_tag(WEIR_CHANNEL_COLL, t->sequence, (uint32_t)k), lands ? at : NULL,
                  lands ? bytes : 0, &t->self->in[k % t->self->window]);
}

static weir_err send(trip *t, int k)
{
    weir_net_op *op = &t->self->out[k % t->self->window];
    size_t bytes;
    char *at = item(t, k, 0, &bytes);

    if (k >= t->self->window)
        WEIR_TRY(weir_net_wait_all(t->group->net, op, 1, 0));
    weir_net_send(t->group->net, neighbour(t, 1),
                  weir_tag(WEIR_CHANNEL_COLL, t->sequence, (uint32_t)k), at, bytes, op);
    return WEIR_OK;
}

/* Waits for what is posted; it must have the length that was expected. */
static weir_err hear(trip *t, weir_net_op *op, size_t bytes)
{
    weir_err err = weir_net_wait_all(t->group->net, op, 1, 0);

    if (err == WEIR_BIG || (!err && op->len != bytes))
        return weir_fail(WEIR_MISFIT,
                         "rank %d sent %zu bytes where %zu were expected: the ranks do not run the "
                         "same collective",
                         op->peer, op->len, bytes);
    return err;
}

static weir_err take(trip *t, int k)
{
    weir_net_op *op = &t->self->in[k % t->self->window];
    size_t bytes;
    char *at = item(t, k, 1, &bytes);

    WEIR_TRY(hear(t, op, bytes));
    if (k < t->adds && bytes && at)
        t->sum->add(at, op->data, bytes / t->sum->unit);
    weir_net_release(t->group->net, op);
    return WEIR_OK;
}

static void unwind(trip *t, int posted, int sent)
{
    for (int i = 0; i < t->self->window; i++) {
        weir_net_op *in = &t->self->in[i], *out = &t->self->out[i];
        if (i < posted)
            weir_net_cancel(t->group->net, &in, 1);
        if (i < sent)
            weir_net_cancel(t->group->net, &out, 1);
    }
}

static weir_err go(trip *t)
{
    int window = (int)t->self->window, posted = 0, sent = 0;
    weir_err err = WEIR_OK;

    for (int k = 0; k < t->items && !err; k++) {
        for (; posted < t->items && posted < k + window; posted++)
            post(t, posted);
        for (; !err && sent < t->items && sent < k + t->nseg && sent < k + window; sent++)
            if ((err = send(t, sent)))
                break;
        if (!err)
            err = take(t, k);
    }
    for (int k = sent > window ? sent - window : 0; k < sent && !err; k++)
        err = weir_net_wait_all(t->group->net, &t->self->out[k % window], 1, 0);
    if (err)
        unwind(t, posted, sent);
    return err;
}

/* How many segments a piece of at most `most` bytes needs; at least one, so that even nothing is
 * said. Where nobody says how long they are, a piece is passed on in some 16 segments, unless that
 * makes them too short or too long: with few, neighbours wait for each other at the end of each
 * piece. */
static void cut_segments(trip *t, size_t most, size_t unit)
{
    size_t fit = most / PARTS < SHORT ? SHORT : most / PARTS > LONG ? LONG : most / PARTS, segment;

    t->nseg = most ? (int)((most + fit - 1) / fit) : 1;
    /* all alike */
    segment = t->self->segment
                  ? (size_t)t->self->segment / unit * unit
                  : ((most + (size_t)t->nseg - 1) / (size_t)t->nseg + unit - 1) / unit * unit;
    t->segment = segment ? segment : unit;
    t->nseg = most ? (int)((most + t->segment - 1) / t->segment) : 1;
}

static char *buffer(const weir_group *group, void *buf)
{
    return weir_net_dry(group->net) ? NULL : buf;
}

static weir_err reduce(void *self, weir_group *group, void *buf, size_t units, const weir_sum *sum,
                       int steps)
{
    int p = group->size;
    trip t = {.self = self,
              .group = group,
              .buf = buffer(group, buf),
              .sum = sum,
              .units = units,
              .shift = 1};

    t.sequence = weir_coll_sequence(group);
    cut_segments(&t, (units + (size_t)p - 1) / (size_t)p * sum->unit, sum->unit);
    t.adds = (p - 1) * t.nseg;
    t.items = steps * t.nseg;
    return go(&t);
}

static weir_err allreduce(void *self, weir_group *group, void *buf, size_t units,
                          const weir_sum *sum)
{
    return reduce(self, group, buf, units, sum, 2 * (group->size - 1));
}

static weir_err reduce_scatter(void *self, weir_group *group, void *buf, size_t units,
                               const weir_sum *sum)
{
    return reduce(self, group, buf, units, sum, group->size - 1);
}

static weir_err allgather(void *self, weir_group *group, void *all, const size_t *off,
                          const size_t *len)
{
    trip t = {.self = self,
              .group = group,
              .buf = buffer(group, all),
              .off = off,
              .len = len,
              .sequence = weir_coll_sequence(group)};
    size_t most = 0;

    for (int i = 0; i < group->size; i++)
        most = len[i] > most ? len[i] : most;
    cut_segments(&t, most, 1);
    t.items = (group->size - 1) * t.nseg;
    return go(&t);
}

/* Down the ring from the root: hear a segment, pass it on; the root's left neighbour passes nothing
 * on. */
static weir_err broadcast(void *self, weir_group *group, int root, void *buf, size_t bytes)
{
    trip t = {.self = self,
              .group = group,
              .buf = buffer(group, buf),
              .sequence = weir_coll_sequence(group)};
    int p = group->size, far = (group->me - root + p) % p, posted = 0, sent = 0,
        window = (int)t.self->window;
    weir_err err = WEIR_OK;

    cut_segments(&t, bytes, 1);
    for (int k = 0; k < t.nseg && !err; k++) {
        size_t from = (size_t)k * t.segment,
               n = bytes - from < t.segment ? bytes - from : t.segment;
        char *at = t.buf ? t.buf + from : NULL;
        uint64_t tag = weir_tag(WEIR_CHANNEL_COLL, t.sequence, (uint32_t)k);
        weir_net_op *in = &t.self->in[0], *out = &t.self->out[k % window];
        if (far) {
            weir_net_recv(group->net, neighbour(&t, -1), tag, n ? at : NULL, at ? n : 0, in);
            posted = 1;
            err = hear(&t, in, n);
            weir_net_release(group->net, in); /* of nothing, where there is nothing to land */
        }
        if (!err && far < p - 1) {
            if (k >= window)
                err = weir_net_wait_all(group->net, out, 1, 0);
            if (!err)
                weir_net_send(group->net, neighbour(&t, 1), tag, at, n, out), sent++;
        }
    }
    for (int k = sent > window ? sent - window : 0; k < sent && !err; k++)
        err = weir_net_wait_all(group->net, &t.self->out[k % window], 1, 0);
    if (err)
        unwind(&t, posted, sent);
    return err;
}

const weir_coll weir_coll_ring = {
    .plug = {"ring", "neighbours in a ring, in segments: fewest bytes on any number of ranks",
             sizeof(ring), options},
    .allreduce = allreduce,
    .reduce_scatter = reduce_scatter,
    .allgather = allgather,
    .broadcast = broadcast,
};
