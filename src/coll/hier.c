/* hier.c - within machines, between machines, within again: what is slow to cross is crossed by as
 * little as can be.
 *
 * Words: the members of one machine are its inner group. Where all machines have equally many, the
 * i-th members of all make up an outer group, and each of these groups carries one piece:
 * reduce-scatter inside, all-reduce between, all-gather inside. Where they have not, the first of
 * each machine are the only outer group: all-reduce inside, all-reduce between the first, broadcast
 * inside. On one machine, or with one member a machine, it is its inner or outer collective. */
#include "coll/parts.h"

enum { INNER_ID = 64, OUTER_ID = 128 }; /* added to the group's id: see coll.h */

typedef struct hier {
    weir_talk talk; /* first: for what has to go flat */
    const char *inner_spec, *outer_spec;
    int64_t each;
    int size, me, machines;
    bool equal, leads;    /* leads: has an outer group */
    int *machine, *place; /* by member: which machine, and which of its members */
    int *count;           /* by machine: its members */
    int *table;           /* members, sorted by machine; machine m's from start[m] on */
    int *start;
    weir_group inner, outer;
    weir_coll_use in, out;
    size_t *off, *len; /* room for a gather */
} hier;

static const weir_opt options[] = {
    WEIR_TALK_OPTIONS,
    {"inner", WEIR_OPT_TEXT, offsetof(hier, inner_spec), "auto",
     "collective within a machine: ring, or [ring:window=4,segment=65536]"},
    {"outer", WEIR_OPT_TEXT, offsetof(hier, outer_spec), "auto", "collective between machines"},
    {"each", WEIR_OPT_INT, offsetof(hier, each), "0",
     "so many ranks in a row make up a machine (0: as they really lie)", .min = 0, .max = 1e9},
    {0},
};

/* ---- opening ---- */

static weir_err room(hier *h, const weir_group *g, weir_arena *a)
{
    size_t p = (size_t)g->size;

    h->machine = WEIR_NEW(a, int, p);
    h->place = WEIR_NEW(a, int, p);
    h->count = WEIR_NEW(a, int, p);
    h->table = WEIR_NEW(a, int, p);
    h->start = WEIR_NEW(a, int, p + 1);
    h->off = WEIR_NEW(a, size_t, p);
    h->len = WEIR_NEW(a, size_t, p);
    return h->machine && h->place && h->count && h->table && h->start && h->off && h->len
               ? WEIR_OK
               : weir_fail_nomem(p * 36);
}

/* Numbers the machines in the order in which members meet them. `seen` has room for every rank. */
static void number(hier *h, const weir_group *g, int *seen)
{
    for (int i = 0; i < g->size; i++) {
        int label = h->each ? i / (int)h->each : weir_net_machine(g->net, g->member[i]);
        if (!seen[label])
            seen[label] = ++h->machines;
        h->machine[i] = seen[label] - 1;
        h->place[i] = h->count[h->machine[i]]++;
    }
    for (int m = 0; m < h->machines; m++)
        h->start[m + 1] = h->start[m] + h->count[m];
    for (int i = 0; i < g->size; i++)
        h->table[h->start[h->machine[i]] + h->place[i]] = i;
    h->equal = true;
    for (int m = 1; m < h->machines; m++)
        h->equal = h->equal && h->count[m] == h->count[0];
}

static int member(const hier *h, int machine, int place)
{
    return h->table[h->start[machine] + place];
}

static weir_err open_inner(hier *h, const weir_group *g, weir_arena *a)
{
    int m = h->machine[g->me], n = h->count[m], *ranks = WEIR_NEW(a, int, n);

    if (!ranks)
        return weir_fail_nomem((size_t)n * sizeof *ranks);
    for (int i = 0; i < n; i++)
        ranks[i] = g->member[member(h, m, i)];
    WEIR_TRY(weir_group_make(g->net, g->id + INNER_ID, ranks, n, a, &h->inner));
    return weir_coll_open(h->inner_spec, &h->inner, a, &h->in);
}

static weir_err open_outer(hier *h, const weir_group *g, weir_arena *a)
{
    int place = h->place[g->me], *ranks = WEIR_NEW(a, int, h->machines);

    h->leads = h->equal || !place;
    if (!ranks)
        return weir_fail_nomem((size_t)h->machines * sizeof *ranks);
    if (!h->leads)
        return WEIR_OK;
    for (int m = 0; m < h->machines; m++)
        ranks[m] = g->member[member(h, m, place)];
    WEIR_TRY(weir_group_make(g->net, g->id + OUTER_ID, ranks, h->machines, a, &h->outer));
    return weir_coll_open(h->outer_spec, &h->outer, a, &h->out);
}

static weir_err open_both(void *self, const weir_group *g, weir_arena *a)
{
    hier *h = self;
    int *seen = WEIR_NEW(a, int, weir_net_size(g->net));

    if (!seen)
        return weir_fail_nomem((size_t)weir_net_size(g->net) * sizeof *seen);
    WEIR_TRY(weir_talk_flows(&h->talk, WEIR_TALK_FLOWS, a));
    WEIR_TRY(room(h, g, a));
    h->size = g->size;
    h->me = g->me;
    number(h, g, seen);
    WEIR_TRY(open_inner(h, g, a));
    return open_outer(h, g, a);
}

/* The groups are those of the group it was opened for. */
static weir_err same(const hier *h, const weir_group *g)
{
    if (h->size == g->size && h->me == g->me && g->member[g->me] == h->inner.member[h->inner.me])
        return WEIR_OK;
    return weir_fail(
        WEIR_MISFIT,
        "hier was opened for member %d of %d and is used by member %d of %d: open it anew", h->me,
        h->size, g->me, g->size);
}

/* ---- verbs ---- */

/* Where the inner one works best. */
static weir_err memory(void *self, weir_group *group, size_t bytes, void **out)
{
    hier *h = self;

    WEIR_TRY(same(h, group));
    if (h->inner.size == 1 || !h->in.coll->memory)
        return WEIR_OK;
    return h->in.coll->memory(h->in.self, &h->inner, bytes, out);
}

static weir_err pieces(hier *h, char *buf, size_t units, const weir_sum *sum)
{
    int k = h->inner.size, i = h->inner.me;
    size_t lo = weir_cut(units, k, i), n = weir_cut(units, k, i + 1) - lo;

    WEIR_TRY(weir_reduce_scatter(&h->in, &h->inner, buf, units, sum));
    WEIR_TRY(weir_allreduce(&h->out, &h->outer, buf ? buf + lo * sum->unit : NULL, n, sum));
    for (int m = 0; m < k; m++) {
        h->off[m] = weir_cut(units, k, m) * sum->unit;
        h->len[m] = weir_cut(units, k, m + 1) * sum->unit - h->off[m];
    }
    return weir_allgather(&h->in, &h->inner, buf, h->off, h->len);
}

/* Of nothing the last way is a barrier too: a broadcast of nothing need not be heard. */
static weir_err firsts(hier *h, void *buf, size_t units, const weir_sum *sum)
{
    WEIR_TRY(weir_allreduce(&h->in, &h->inner, buf, units, sum));
    if (h->leads)
        WEIR_TRY(weir_allreduce(&h->out, &h->outer, buf, units, sum));
    if (!units)
        return weir_reduce_scatter(&h->in, &h->inner, buf, 0, sum);
    return weir_broadcast(&h->in, &h->inner, 0, buf, units * sum->unit);
}

static weir_err allreduce(void *self, weir_group *group, void *buf, size_t units,
                          const weir_sum *sum)
{
    hier *h = self;

    WEIR_TRY(same(h, group));
    if (h->machines == 1)
        return weir_allreduce(&h->in, &h->inner, buf, units, sum);
    return h->equal ? pieces(h, buf, units, sum) : firsts(h, buf, units, sum);
}

/* With two levels an all-reduce: whose piece is where inside has nothing to do with whose it is in
 * the end. */
static weir_err reduce_scatter(void *self, weir_group *group, void *buf, size_t units,
                               const weir_sum *sum)
{
    hier *h = self;

    WEIR_TRY(same(h, group));
    if (h->machines == 1)
        return weir_reduce_scatter(&h->in, &h->inner, buf, units, sum);
    if (h->inner.size == 1 && h->equal)
        return weir_reduce_scatter(&h->out, &h->outer, buf, units, sum);
    return allreduce(self, group, buf, units, sum);
}

/* First what the i-th of all machines have, then machine by machine what each has of it. */
static weir_err allgather(void *self, weir_group *group, void *all, const size_t *off,
                          const size_t *len)
{
    hier *h = self;

    WEIR_TRY(same(h, group));
    if (!h->equal)
        return weir_talk_allgather(self, group, all, off, len);
    for (int m = 0; m < h->machines; m++) {
        h->off[m] = off[member(h, m, h->inner.me)];
        h->len[m] = len[member(h, m, h->inner.me)];
    }
    WEIR_TRY(weir_allgather(&h->out, &h->outer, all, h->off, h->len));
    for (int m = 0; m < h->machines; m++) {
        for (int i = 0; i < h->inner.size; i++) {
            h->off[i] = off[member(h, m, i)];
            h->len[i] = len[member(h, m, i)];
        }
        WEIR_TRY(weir_allgather(&h->in, &h->inner, all, h->off, h->len));
    }
    return WEIR_OK;
}

/* On the root's machine, then to one of every other, then there. */
static weir_err broadcast(void *self, weir_group *group, int root, void *buf, size_t bytes)
{
    hier *h = self;
    int home, relay;

    WEIR_TRY(same(h, group));
    home = h->machine[root];
    relay = h->equal ? h->place[root] : 0;
    if (h->machine[group->me] == home)
        WEIR_TRY(weir_broadcast(&h->in, &h->inner, h->place[root], buf, bytes));
    if (h->place[group->me] == relay)
        WEIR_TRY(weir_broadcast(&h->out, &h->outer, home, buf, bytes));
    return h->machine[group->me] == home ? WEIR_OK
                                         : weir_broadcast(&h->in, &h->inner, relay, buf, bytes);
}

const weir_coll weir_coll_hier = {
    .plug =
        {"hier",
         "within machines, between machines, within again: for machines with several ranks each",
         sizeof(hier), options},
    .open = open_both,
    .memory = memory,
    .allreduce = allreduce,
    .reduce_scatter = reduce_scatter,
    .allgather = allgather,
    .broadcast = broadcast,
};
