/* hand.c - what is held back changes hands: nothing of it is lost, whoever comes or goes. */
#include "core/vec.h"
#include "exchange/lane.h"
#include <string.h>

/* ---- to the first of a group ---- */

static weir_err collect(weir_pair *p, size_t n, weir_coll_use *coll, weir_group *g)
{
    float others;

    if (!p->now) /* with one of them, with all */
        return WEIR_OK;
    others = g->me && weir_vec_best()->sumsq(p->now, n) > 0;
    WEIR_TRY(weir_allreduce(coll, g, &others, 1, &weir_sum_f32));
    if (!(others > 0))
        return WEIR_OK;
    memcpy(p->next, p->now, n * sizeof(float));
    WEIR_TRY(weir_allreduce(coll, g, p->next, n, &weir_sum_f32));
    if (g->me)
        memset(p->next, 0, n * sizeof(float));
    p->fresh = true;
    weir_pair_turn(p);
    return WEIR_OK;
}

weir_err weir_lane_collect(weir_lane *l, weir_coll_use *coll, weir_group *g)
{
    WEIR_TRY(collect(&l->held, l->bucket->n, coll, g));
    l->stray = true;
    return collect(&l->speed, l->bucket->n, coll, g);
}

/* ---- from those who leave to those who stay ---- */

static bool among(int rank, const int *ranks, int count)
{
    for (int i = 0; i < count; i++)
        if (ranks[i] == rank)
            return true;
    return false;
}

static weir_err give(weir_pair *p, size_t n, weir_group *g, int to, uint64_t tag)
{
    if (!p->now)
        return WEIR_OK;
    WEIR_TRY(weir_net_send_wait(g->net, to, tag, p->now, n * sizeof(float)));
    memset(p->now, 0, n * sizeof(float));
    return WEIR_OK;
}

static weir_err take(weir_pair *p, size_t n, weir_group *g, int from, uint64_t tag)
{
    size_t len;

    if (!p->now)
        return WEIR_OK;
    WEIR_TRY(weir_net_recv_wait(g->net, from, tag, p->next, n * sizeof(float), &len));
    if (len != n * sizeof(float))
        return weir_fail(WEIR_MISFIT,
                         "rank %d hands over %zu bytes that it held back, where %zu were expected",
                         from, len, n * sizeof(float));
    weir_vec_best()->add(p->now, p->next, n);
    return WEIR_OK;
}

/* All lanes of one who leaves, to one who stays; the rest look on. */
static weir_err hand(weir_lane *lane, int lanes, weir_group *g, int from, int to, uint32_t turn)
{
    int me = g->member[g->me];

    for (int i = 0; i < lanes; i++) {
        weir_lane *l = &lane[i];
        uint64_t tag = weir_tag(WEIR_CHANNEL_COLL, turn, (uint32_t)(2 * i));
        if (me == from) {
            weir_stripes_drop(l);
            WEIR_TRY(give(&l->held, l->bucket->n, g, to, tag));
            WEIR_TRY(give(&l->speed, l->bucket->n, g, to, tag + 1));
        } else if (me == to) {
            WEIR_TRY(take(&l->held, l->bucket->n, g, from, tag));
            WEIR_TRY(take(&l->speed, l->bucket->n, g, from, tag + 1));
            l->stray = true;
        }
    }
    return WEIR_OK;
}

weir_err weir_lanes_hand(weir_lane *lane, int lanes, weir_group *g, const int *stay, int count)
{
    int next = 0;

    if (!count)
        return weir_fail(WEIR_USAGE, "nobody stays to take over what is held back");
    for (int i = 0; i < g->size; i++) {
        uint32_t turn;
        if (among(g->member[i], stay, count))
            continue;
        turn = weir_coll_turn(g);
        WEIR_TRY(hand(lane, lanes, g, g->member[i], stay[next++ % count], turn));
    }
    return WEIR_OK;
}
