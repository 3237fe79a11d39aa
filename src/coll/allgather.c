/* allgather.c - all-gather of unequal lengths and broadcast, for all who have no better way. */
#include "coll/halves.h"

/* ---- all-gather ---- */

typedef struct gathering {
    weir_talk *talk;
    const size_t *off, *len;
} gathering;

static bool in_a_row(const size_t *off, const size_t *len, int p)
{
    for (int i = 1; i < p; i++)
        if (off[i] != off[i - 1] + len[i - 1])
            return false;
    return true;
}

/* Pieces a, a + 1, ... of them n, modulo p, for or from `member`: one leg, or two where they pass
 * the end. */
static int legs(const gathering *g, int member, int a, int n, weir_talk_leg leg[2])
{
    int p = g->talk->group->size, first = a + n > p ? p - a : n;

    leg[0] = (weir_talk_leg){.member = member,
                             .at = g->off[a],
                             .bytes = g->off[a + first - 1] + g->len[a + first - 1] - g->off[a]};
    if (first == n)
        return 1;
    leg[1] = (weir_talk_leg){.member = member,
                             .at = g->off[0],
                             .bytes = g->off[n - first - 1] + g->len[n - first - 1] - g->off[0],
                             .stream = 1};
    return 2;
}

static weir_err gather_by_powers(const gathering *g)
{
    int p = g->talk->group->size, me = g->talk->group->me;
    weir_talk_leg out[2], in[2];

    for (int d = 1; d < p; d *= 2) {
        bool even = !(p & (p - 1));
        int to = even ? me ^ d : (me - d + p) % p, from = even ? to : (me + d) % p,
            n = d < p - d ? d : p - d;
        int ours = even ? me & ~(d - 1) : me, theirs = even ? ours ^ d : from;
        int outs = legs(g, to, ours, n, out), ins = legs(g, from, theirs, n, in);
        WEIR_TRY(weir_talk_trade(g->talk, out, outs, in, ins, WEIR_TALK_LAND));
    }
    return WEIR_OK;
}

static weir_err gather_round(const gathering *g)
{
    int p = g->talk->group->size, me = g->talk->group->me;

    for (int s = 0; s < p - 1; s++) {
        int ours = (me - s + p) % p, theirs = (me - s - 1 + p) % p;
        weir_talk_leg out = {.member = (me + 1) % p, .at = g->off[ours], .bytes = g->len[ours]};
        weir_talk_leg in = {.member = (me - 1 + p) % p,
                            .at = g->off[theirs],
                            .bytes = g->len[theirs]};
        WEIR_TRY(weir_talk_swap(g->talk, out, in, WEIR_TALK_LAND));
    }
    return WEIR_OK;
}

static weir_err gather(weir_talk *t, const size_t *off, const size_t *len)
{
    gathering g = {t, off, len};

    return in_a_row(off, len, t->group->size) ? gather_by_powers(&g) : gather_round(&g);
}

weir_err weir_talk_allgather(void *self, weir_group *group, void *all, const size_t *off,
                             const size_t *len)
{
    weir_talk_begin(self, group, all, 0, NULL);
    return weir_talk_end(self, gather(self, off, len));
}

/* ---- broadcast ---- */

/* Counted from the root, member v hears v's parent (v - 1) / 2 and tells 2 v + 1 and 2 v + 2. */
static weir_err spread(weir_talk *t, int root)
{
    int p = t->group->size, v = (t->group->me - root + p) % p, tells = 0;
    weir_talk_leg leg = {.member = v ? ((v - 1) / 2 + root) % p : -1, .bytes = t->units};
    weir_talk_flow *in, *out[2];

    WEIR_TRY(weir_talk_flow_open(t, &leg, false, WEIR_TALK_LAND, &in));
    for (long long c = 2LL * v + 1; c <= 2LL * v + 2 && c < p; c++, tells++) {
        leg.member = (int)((c + root) % p);
        WEIR_TRY(weir_talk_flow_open(t, &leg, true, WEIR_TALK_LAND, &out[tells]));
    }
    for (int k = 0; k < (in ? in->segments : tells ? out[0]->segments : 0); k++) {
        if (in)
            WEIR_TRY(weir_talk_flow_take(t, in, k, WEIR_TALK_LAND));
        for (int i = 0; i < tells; i++)
            WEIR_TRY(weir_talk_flow_send(t, out[i], k));
    }
    return WEIR_OK;
}

weir_err weir_talk_broadcast(void *self, weir_group *group, int root, void *buf, size_t bytes)
{
    weir_talk_begin(self, group, buf, bytes, NULL);
    return weir_talk_end(self, spread(self, root));
}
