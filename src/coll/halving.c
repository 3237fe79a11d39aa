/* halving.c - recursive halving, and doubling back: as few bytes as the ring, in 2 lg p steps.
 *
 * Words: q is the largest power of two of members. Member i's partners are i ^ q/2, ..., i ^ 1:
 * with each it shares what it still holds, gives one half and adds to the other; it ends with piece
 * i of q. The way back is the same backwards. Who is beyond q is folded: its neighbour stands for
 * both. */
#include "coll/halves.h"

static weir_err allreduce(void *self, weir_group *group, void *buf, size_t units,
                          const weir_sum *sum)
{
    weir_halves h = weir_halves_fold(group);
    weir_err err;

    weir_talk_begin(self, group, buf, units, sum);
    if (!(err = weir_halves_fold_in(self, &h)) && !(err = weir_halves_reduce(self, &h)) &&
        !(err = weir_halves_gather(self, &h)))
        err = weir_halves_fold_out(self, &h);
    return weir_talk_end(self, err);
}

static weir_err reduce_scatter(void *self, weir_group *group, void *buf, size_t units,
                               const weir_sum *sum)
{
    weir_halves h = weir_halves_fold(group);
    weir_err err;

    weir_talk_begin(self, group, buf, units, sum);
    if (!(err = weir_halves_fold_in(self, &h)) && !(err = weir_halves_reduce(self, &h)))
        err = weir_halves_deal(self, &h);
    return weir_talk_end(self, err);
}

const weir_coll weir_coll_halving = {
    .plug = {"halving",
             "recursive halving, and doubling back: fewest bytes in 2 lg p steps; best on 2, 4, 8, "
             "... ranks",
             sizeof(weir_talk), weir_talk_options},
    .open = weir_talk_open,
    .allreduce = allreduce,
    .reduce_scatter = reduce_scatter,
    .allgather = weir_talk_allgather,
    .broadcast = weir_talk_broadcast,
};
