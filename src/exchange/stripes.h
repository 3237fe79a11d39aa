/* stripes.h - a bucket cut in stripes of whole rows, one a member: its owner sums what all send of
 * it, and encodes the sum for all (codec.h: WEIR_COMBINE_STRIPE).
 *
 * Stripes belong to a group, and lie in its generation's memory. What an owner holds back of its
 * stripe is the worker's own: when stripes go, it joins the rest of what the lane holds back. */
#ifndef WEIR_EXCHANGE_STRIPES_H
#define WEIR_EXCHANGE_STRIPES_H
#include "core/bucket.h"
#include "exchange/pair.h"
#include "net/net.h"

struct weir_lane;
struct weir_lane_codec;

typedef struct weir_stripe {
    weir_bucket bucket;
    size_t at, bytes; /* where it begins in the lane's bucket; of a message of it */
    void *coder;      /* a codec's private state for it */
} weir_stripe;

/* Of one codec that a lane may go by. */
typedef struct weir_stripes {
    weir_stripe *stripe; /* NULL: the bucket is not cut */
    int count, mine;     /* count: as many as members; 0: this worker is none of them */
    void *owner;         /* who encodes the sum of one's own: a codec's private state */
    weir_pair owned;     /* what is held back of one's own, as its owner */
} weir_stripes;

static inline const weir_stripe *weir_stripes_own(const weir_stripes *s)
{
    return s->stripe ? &s->stripe[s->mine] : NULL;
}

/* Cuts the bucket anew, for these members; NULL: this worker is none of them, and owns nothing.
 * Those it had are dropped. */
weir_err weir_stripes_make(struct weir_lane *, struct weir_lane_codec *, const weir_group *,
                           weir_arena *);
/* What is held back of the stripe owned so far waits with the rest of what this worker holds back,
 * and begins anew; or the stripes go, too: of one codec, of all that the lane may go by. */
void weir_stripes_fold(struct weir_lane *, struct weir_lane_codec *);
void weir_stripes_drop(struct weir_lane *, struct weir_lane_codec *);
void weir_stripes_drop_all(struct weir_lane *);
#endif
