/* coll_hier.c - within machines, between machines, within again: what is slow to cross is crossed
 * by as little as can be.
 *
 * Words: the members of one machine are its inner group. Where all machines have equally many, the
 * i-th members of all make up an outer group, and each of these groups carries one piece:
 * reduce-scatter inside, all-reduce between, all-gather inside. Where they have not, the first of
 * each machine are the only outer group: all-reduce inside, all-reduce between the first, broadcast
 * inside. On one machine, or with one member a machine, it is its inner or outer collective. */
#include "coll/halves.h"
#include "net/mesh.h"

typedef struct hier {
    weir_talk talk; /* first: for what has to go flat */
    const char *inner_spec, *outer_spec;
    int64_t each;
    int size, me;
    weir_machines machines;
    weir_group *inner, *outer; /* of these machines; the outer one may be of nobody */
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

static weir_err open_both(void *self, const weir_group *g, weir_arena *a)
{
    hier *h = self;
    size_t p = (size_t)g->size;

    h->off = WEIR_NEW(a, size_t, p);
    h->len = WEIR_NEW(a, size_t, p);
    if (!h->off || !h->len)
        return weir_fail_nomem(2 * p * sizeof *h->off);
    WEIR_TRY(weir_talk_flows(&h->talk, WEIR_TALK_FLOWS, a));
    WEIR_TRY(weir_mesh_machines(g, h->each, a, &h->machines));
    h->size = g->size;
    h->me = g->me;
    h->inner = &h->machines.inside;
    h->outer = &h->machines.outside;
    WEIR_TRY(weir_coll_open(h->inner_spec, h->inner, a, &h->in));
    return h->outer->size ? weir_coll_open(h->outer_spec, h->outer, a, &h->out) : WEIR_OK;
}

/* The groups are those of the group it was opened for. */
static weir_err same(const hier *h, const weir_group *g)
{
    if (h->size == g->size && h->me == g->me && g->member[g->me] == h->inner->member[h->inner->me])
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
    if (h->inner->size == 1 || !h->in.coll->memory)
        return WEIR_OK;
    return h->in.coll->memory(h->in.self, h->inner, bytes, out);
}

static weir_err pieces(hier *h, char *buf, size_t units, const weir_sum *sum)
{
    int k = h->inner->size, i = h->inner->me;
    size_t lo = weir_coll_cut(units, k, i), n = weir_coll_cut(units, k, i + 1) - lo;

    WEIR_TRY(weir_reduce_scatter(&h->in, h->inner, buf, units, sum));
    WEIR_TRY(weir_allreduce(&h->out, h->outer, buf ? buf + lo * sum->unit : NULL, n, sum));
    for (int m = 0; m < k; m++) {
        h->off[m] = weir_coll_cut(units, k, m) * sum->unit;
        h->len[m] = weir_coll_cut(units, k, m + 1) * sum->unit - h->off[m];
    }
    return weir_allgather(&h->in, h->inner, buf, h->off, h->len);
}

/* Of nothing the last way is a barrier too: a broadcast of nothing need not be heard. */
static weir_err firsts(hier *h, void *buf, size_t units, const weir_sum *sum)
{
    WEIR_TRY(weir_allreduce(&h->in, h->inner, buf, units, sum));
    if (h->outer->size)
        WEIR_TRY(weir_allreduce(&h->out, h->outer, buf, units, sum));
    if (!units)
        return weir_reduce_scatter(&h->in, h->inner, buf, 0, sum);
    return weir_broadcast(&h->in, h->inner, 0, buf, units * sum->unit);
}

static weir_err allreduce(void *self, weir_group *group, void *buf, size_t units,
                          const weir_sum *sum)
{
    hier *h = self;

    WEIR_TRY(same(h, group));
    if (h->machines.count == 1)
        return weir_allreduce(&h->in, h->inner, buf, units, sum);
    return h->machines.equal ? pieces(h, buf, units, sum) : firsts(h, buf, units, sum);
}

/* With two levels an all-reduce: whose piece is where inside has nothing to do with whose it is in
 * the end. */
static weir_err reduce_scatter(void *self, weir_group *group, void *buf, size_t units,
                               const weir_sum *sum)
{
    hier *h = self;

    WEIR_TRY(same(h, group));
    if (h->machines.count == 1)
        return weir_reduce_scatter(&h->in, h->inner, buf, units, sum);
    if (h->inner->size == 1 && h->machines.equal)
        return weir_reduce_scatter(&h->out, h->outer, buf, units, sum);
    return allreduce(self, group, buf, units, sum);
}

/* First what the i-th of all machines have, then machine by machine what each has of it. */
static weir_err allgather(void *self, weir_group *group, void *all, const size_t *off,
                          const size_t *len)
{
    hier *h = self;

    WEIR_TRY(same(h, group));
    if (!h->machines.equal)
        return weir_talk_allgather(self, group, all, off, len);
    for (int m = 0; m < h->machines.count; m++) {
        h->off[m] = off[weir_machines_member(&h->machines, m, h->inner->me)];
        h->len[m] = len[weir_machines_member(&h->machines, m, h->inner->me)];
    }
    WEIR_TRY(weir_allgather(&h->out, h->outer, all, h->off, h->len));
    for (int m = 0; m < h->machines.count; m++) {
        for (int i = 0; i < h->inner->size; i++) {
            h->off[i] = off[weir_machines_member(&h->machines, m, i)];
            h->len[i] = len[weir_machines_member(&h->machines, m, i)];
        }
        WEIR_TRY(weir_allgather(&h->in, h->inner, all, h->off, h->len));
    }
    return WEIR_OK;
}

/* On the root's machine, then to one of every other, then there. */
static weir_err broadcast(void *self, weir_group *group, int root, void *buf, size_t bytes)
{
    hier *h = self;
    int home, relay;

    WEIR_TRY(same(h, group));
    home = h->machines.machine[root];
    relay = h->machines.equal ? h->machines.position[root] : 0;
    if (h->machines.machine[group->me] == home)
        WEIR_TRY(weir_broadcast(&h->in, h->inner, h->machines.position[root], buf, bytes));
    if (h->machines.position[group->me] == relay)
        WEIR_TRY(weir_broadcast(&h->out, h->outer, home, buf, bytes));
    return h->machines.machine[group->me] == home
               ? WEIR_OK
               : weir_broadcast(&h->in, h->inner, relay, buf, bytes);
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
