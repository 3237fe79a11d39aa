/* two_level.h - machines with several workers. They sum their gradients as they are; the first of
 * them, who leads, takes the machine's sum through the codec, together with the leaders of the
 * other machines; and the result goes to all of the machine. What is held back, and momentum where
 * it is the lane's, are the leaders' alone.
 *
 * On one machine there is nobody to compress for: the leader steps the momentum, and all is as
 * without a codec, to rounding. */
#ifndef WEIR_EXCHANGE_TWO_LEVEL_H
#define WEIR_EXCHANGE_TWO_LEVEL_H
#include "exchange/route.h"
#include "net/mesh.h"

typedef struct weir_two_level {
    weir_machines machines;
    weir_group *inner, *outer; /* the members of this machine; those who lead one */
    weir_coll_use *in, out;
    weir_coll_use own_in;
    bool leads;
    /* what members hold back has come to their leader: false when groups, or states, are new */
    bool collected;
} weir_two_level;

/* `each`: so many members in a row are taken for a machine; 0: as they lie. The group and its
 * collective serve where all is one machine. */
weir_err weir_two_level_open(weir_two_level *, weir_group *, weir_coll_use *, int64_t each,
                             weir_arena *);
/* The lane's gradient becomes the machine's sum. [blocks] */
weir_err weir_two_level_in(weir_two_level *, weir_lane *);
/* From there to the sum over all machines, on all members; its route is that of the outer group,
 * NULL where this one does not lead. [blocks] */
weir_err weir_two_level_out(weir_two_level *, weir_lane *, weir_route *, weir_when, float scale);
#endif
