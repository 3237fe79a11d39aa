/* two_level.c - see two_level.h. */
#include "exchange/two_level.h"
#include "exchange/hand_over.h"

/* ---- opening ---- */

/* Where all is one machine the group itself is its inside. */
static weir_err open_inner(weir_two_level *h, weir_group *g, weir_coll_use *coll, weir_arena *arena)
{
    h->inner = g;
    h->in = coll;
    if (h->machines.count == 1)
        return WEIR_OK;
    h->inner = &h->machines.inside;
    h->in = &h->own_in;
    h->inner->flight = g->flight;
    return weir_coll_open("auto", h->inner, arena, h->in);
}

static weir_err open_outer(weir_two_level *h, const weir_group *g, weir_arena *arena)
{
    h->leads = h->machines.position[g->me] == 0;
    if (!h->leads)
        return WEIR_OK;
    h->outer = &h->machines.outside;
    h->outer->flight = g->flight;
    return weir_coll_open("auto", h->outer, arena, &h->out);
}

weir_err weir_two_level_open(weir_two_level *h, weir_group *g, weir_coll_use *coll, int64_t each,
                             weir_arena *arena)
{
    h->collected = false;
    WEIR_TRY(weir_mesh_machines(g, each, arena, &h->machines));
    WEIR_TRY(open_inner(h, g, coll, arena));
    return open_outer(h, g, arena);
}

/* ---- a lane's way ---- */

weir_err weir_two_level_in(weir_two_level *h, weir_lane *l)
{
    double begun = weir_net_now(h->inner->net);

    if (!h->collected)
        WEIR_TRY(weir_hand_collect(l, h->in, h->inner));
    WEIR_TRY(
        weir_allreduce(h->in, h->inner, l->bucket->grad, l->bucket->n + l->notes, &weir_sum_f32));
    l->wire_s += weir_net_now(h->inner->net) - begun;
    return WEIR_OK;
}

weir_err weir_two_level_out(weir_two_level *h, weir_lane *l, weir_route *route, weir_when when,
                            float scale)
{
    double begun;

    if (h->leads)
        WEIR_TRY(
            (h->machines.count > 1 ? weir_route_sum : weir_route_dense)(route, l, when, scale));
    begun = weir_net_now(h->inner->net);
    WEIR_TRY(weir_broadcast(h->in, h->inner, 0, l->bucket->grad,
                            (l->bucket->n + l->notes) * sizeof(float)));
    l->wire_s += weir_net_now(h->inner->net) - begun;
    return WEIR_OK;
}
