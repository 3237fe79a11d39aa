/* hier.c - see hier.h. */
#include "exchange/hier.h"

/* Added to the group's id. Those from 64 on are the collectives' own (coll.h): theirs for these
 * groups differ too. */
enum { INNER_ID = 16, OUTER_ID = 32 };

/* ---- opening ---- */

static int machine(const weir_group *g, int i, int64_t each)
{
    return each ? i / (int)each : weir_net_machine(g->net, g->member[i]);
}

/* The members of this one's machine, and the first of each. `seen` has room for every rank, `ranks`
 * for every member. */
static weir_err open_inner(weir_hier *h, weir_group *g, weir_coll_use *coll, int64_t each,
                           int *ranks, weir_arena *arena)
{
    int n = 0;

    for (int i = 0; i < g->size; i++)
        if (machine(g, i, each) == machine(g, g->me, each))
            ranks[n++] = g->member[i];
    h->leads = ranks[0] == g->member[g->me];
    h->inner = g;
    h->in = coll;
    if (n == g->size)
        return WEIR_OK;
    WEIR_TRY(weir_group_make(g->net, g->id + INNER_ID, ranks, n, arena, &h->own));
    h->own.flight = g->flight;
    h->inner = &h->own;
    h->in = &h->own_in;
    return weir_coll_open("auto", h->inner, arena, h->in);
}

static weir_err open_outer(weir_hier *h, const weir_group *g, int64_t each, int *ranks, bool *seen,
                           weir_arena *arena)
{
    h->machines = 0;
    for (int i = 0; i < g->size; i++) {
        int m = machine(g, i, each);
        if (!seen[m])
            ranks[h->machines++] = g->member[i];
        seen[m] = true;
    }
    if (!h->leads)
        return WEIR_OK;
    WEIR_TRY(weir_group_make(g->net, g->id + OUTER_ID, ranks, h->machines, arena, &h->outer));
    h->outer.flight = g->flight;
    return weir_coll_open("auto", &h->outer, arena, &h->out);
}

weir_err weir_hier_open(weir_hier *h, weir_group *g, weir_coll_use *coll, int64_t each,
                        weir_arena *arena)
{
    int *ranks = WEIR_NEW(arena, int, g->size);
    bool *seen = WEIR_NEW(arena, bool, weir_net_size(g->net));

    if (!ranks || !seen)
        return weir_fail_nomem((size_t)weir_net_size(g->net) * sizeof *ranks);
    h->settled = false;
    WEIR_TRY(open_inner(h, g, coll, each, ranks, arena));
    return open_outer(h, g, each, ranks, seen, arena);
}

/* ---- a lane's way ---- */

weir_err weir_hier_in(weir_hier *h, weir_lane *l)
{
    double begun = weir_net_now(h->inner->net);

    if (!h->settled)
        WEIR_TRY(weir_lane_collect(l, h->in, h->inner));
    WEIR_TRY(
        weir_allreduce(h->in, h->inner, l->bucket->grad, l->bucket->n + l->notes, &weir_sum_f32));
    l->wire_s += weir_net_now(h->inner->net) - begun;
    return WEIR_OK;
}

weir_err weir_hier_out(weir_hier *h, weir_lane *l, weir_ways *ways, weir_turn turn, float scale)
{
    double begun;

    if (h->leads)
        WEIR_TRY((h->machines > 1 ? weir_lane_sum : weir_lane_dense)(l, ways, &h->out, &h->outer,
                                                                     turn, scale));
    begun = weir_net_now(h->inner->net);
    WEIR_TRY(weir_broadcast(h->in, h->inner, 0, l->bucket->grad,
                            (l->bucket->n + l->notes) * sizeof(float)));
    l->wire_s += weir_net_now(h->inner->net) - begun;
    return WEIR_OK;
}
