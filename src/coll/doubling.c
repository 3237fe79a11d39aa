/* doubling.c - recursive doubling: everything to and from partners me ^ 1, me ^ 2, me ^ 4, ...: the
 * fewest steps, for small things.
 *
 * Both partners add the same two buffers, so both must add them in the same order: the lower rank's
 * stands first. Who is beyond the largest power of two is folded. A reduce-scatter is an
 * all-reduce: nothing shorter takes as few steps. */
#include "coll/halves.h"

static weir_err double_up(weir_talk *t, const weir_halves *h)
{
    for (int d = 1; d < h->size && h->id >= 0; d *= 2) {
        int other = h->id ^ d, member = other < h->fold ? 2 * other + 1 : other + h->fold;
        weir_talk_leg leg = {.member = member, .bytes = t->units * t->unit};
        WEIR_TRY(weir_talk_swap(t, leg, leg, other < h->id ? WEIR_TALK_BEFORE : WEIR_TALK_AFTER));
    }
    return WEIR_OK;
}

static weir_err allreduce(void *self, weir_group *group, void *buf, size_t units,
                          const weir_sum *sum)
{
    weir_halves h = weir_halves_fold(group);
    weir_err err;

    weir_talk_begin(self, group, buf, units, sum);
    if (!(err = weir_halves_fold_in(self, &h)) && !(err = double_up(self, &h)))
        err = weir_halves_fold_out(self, &h);
    return weir_talk_end(self, err);
}

const weir_coll weir_coll_doubling = {
    .plug = {"doubling",
             "recursive doubling: all of it in lg p steps; fewest steps, for small sizes",
             sizeof(weir_talk), weir_talk_options},
    .open = weir_talk_open,
    .allreduce = allreduce,
    .reduce_scatter = allreduce,
    .allgather = weir_talk_allgather,
    .broadcast = weir_talk_broadcast,
};
