/* route.h - how a lane's gradient becomes the sum over a group.
 *
 * A route is a group, its collective, and the room in which lanes take turns with their messages.
 * Floats go as they are, or doubles in their place; what a codec has encoded goes by what it says
 * of its messages (codec.h):
 *
 *   add     they are summed undecoded, by the collective, once a round
 *   gather  everybody gets everybody's (their lengths first), and adds them up in the order of the
 *           members
 *   stripe  member i gets everybody's of stripe i, adds them up, encodes the sum (and holds back
 *           what that loses), and everybody gets that
 *
 * Every rank decodes the same messages in the same order: sums have the same bits everywhere. */
#ifndef WEIR_EXCHANGE_ROUTE_H
#define WEIR_EXCHANGE_ROUTE_H
#include "exchange/exchange.h"

typedef struct weir_route weir_route;

/* For all lanes of the env, in the memory of its generation: over this group, which need not be the
 * env's own. Cuts stripes for it. */
weir_err weir_route_make(const weir_exchange_env *, weir_coll_use *, weir_group *, weir_route **);
/* The gradient of this lane, times `scale`, becomes the sum over the group, through the lane's
 * codec; of doubles the sum is rounded once. What is not finite is WEIR_NAN and names the tensor.
 * Nothing counts before weir_lane_commit. [blocks] */
weir_err weir_route_sum(weir_route *, weir_lane *, weir_when, float scale);
/* The same as if the codec's warm-up were not over. [blocks] */
weir_err weir_route_dense(weir_route *, weir_lane *, weir_when, float scale);
#endif
