/* blocks.c - binary blocks: no rank is folded away.
 *
 * Words: the members are cut into blocks by the bits of their number, the largest first (13 = 8 + 4
 * + 1). Each block halves the buffer between its own. Then, from the smallest block up, each member
 * cuts its piece for the members of the next larger block, who add; the largest ends with the sum.
 * The way back is the same backwards. Pieces come out in the order of ranks (halves.c halves with
 * the farthest first), so who has what is plain division. */
#include "coll/halves.h"

typedef struct position {
    weir_halves own, larger, smaller; /* size 0: there is none */
} position;

static position find(const weir_group *g)
{
    int q = weir_halves_floor2(g->size), first = 0, size = q;
    position at = {.own = {.first = 0, .size = q, .whole = q}};

    while (g->me >= first + size) {
        at.larger = at.own;
        first += size;
        size = weir_halves_floor2(g->size - first);
        at.own = (weir_halves){.first = first, .size = size, .whole = q};
    }
    at.own.id = g->me - first;
    if (first + size < g->size)
        at.smaller = (weir_halves){.first = first + size,
                                   .size = weir_halves_floor2(g->size - first - size),
                                   .whole = q};
    return at;
}

/* Our whole piece, to or from the one of the smaller block in whose piece it lies. */
static weir_talk_leg below(const weir_talk *t, const position *at)
{
    int id = at->own.id / (at->own.size / at->smaller.size);
    weir_talk_leg leg = {.member = at->smaller.first + id};

    weir_halves_piece(t, &at->own, at->own.id, &leg.at, &leg.bytes);
    return leg;
}

/* The i-th part of our piece, to or from the one of the larger block whose piece it is. */
static weir_talk_leg above(const weir_talk *t, const position *at, int i)
{
    int id = at->own.id * (at->larger.size / at->own.size) + i;
    weir_talk_leg leg = {.member = at->larger.first + id};

    weir_halves_piece(t, &at->larger, id, &leg.at, &leg.bytes);
    return leg;
}

static int pieces_above(const position *at) { return at->larger.size / at->own.size; }

static weir_err climb(weir_talk *t, const position *at)
{
    WEIR_TRY(weir_halves_reduce(t, &at->own));
    if (at->smaller.size)
        WEIR_TRY(weir_talk_swap(t, WEIR_TALK_NO_LEG, below(t, at), WEIR_TALK_AFTER));
    for (int i = 0; i < pieces_above(at); i++)
        WEIR_TRY(weir_talk_swap(t, above(t, at, i), WEIR_TALK_NO_LEG, WEIR_TALK_AFTER));
    return WEIR_OK;
}

static weir_err descend(weir_talk *t, const position *at)
{
    for (int i = 0; i < pieces_above(at); i++)
        WEIR_TRY(weir_talk_swap(t, WEIR_TALK_NO_LEG, above(t, at, i), WEIR_TALK_LAND));
    if (at->smaller.size)
        WEIR_TRY(weir_talk_swap(t, below(t, at), WEIR_TALK_NO_LEG, WEIR_TALK_LAND));
    return weir_halves_gather(t, &at->own);
}

static weir_err allreduce(void *self, weir_group *group, void *buf, size_t units,
                          const weir_sum *sum)
{
    position at = find(group);
    weir_err err;

    weir_talk_begin(self, group, buf, units, sum);
    if (!(err = climb(self, &at)))
        err = descend(self, &at);
    return weir_talk_end(self, err);
}

static weir_err reduce_scatter(void *self, weir_group *group, void *buf, size_t units,
                               const weir_sum *sum)
{
    position at = find(group);
    int q = weir_halves_floor2(group->size);
    weir_halves top = {.size = q, .whole = q, .id = group->me < q ? group->me : -1};
    weir_err err;

    weir_talk_begin(self, group, buf, units, sum);
    if (!(err = climb(self, &at)))
        err = weir_halves_deal(self, &top);
    return weir_talk_end(self, err);
}

const weir_coll weir_coll_blocks = {
    .plug = {"blocks",
             "binary blocks: halving on any number of ranks without folding; best where p is 3/2 "
             "of a power of two",
             sizeof(weir_talk), weir_talk_options},
    .open = weir_talk_open,
    .allreduce = allreduce,
    .reduce_scatter = reduce_scatter,
    .allgather = weir_talk_allgather,
    .broadcast = weir_talk_broadcast,
};
