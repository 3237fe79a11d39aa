/* lane.h - all that belongs to one bucket on its way out and back: the bucket, its codec, its optimiser, its memory. */
#ifndef WEIR_EXCHANGE_LANE_H
#define WEIR_EXCHANGE_LANE_H
#include "codec/codec.h"
#include "coll/coll.h"
#include "core/bucket.h"
#include "optim/optim.h"

typedef struct weir_lane {
    weir_bucket *bucket;
    const weir_codec *codec;
    void *coder;
    const weir_optim *optim;
    void *stepper;
    size_t notes;     /* floats behind the bucket's gradient that are summed with it (the last lane's, see exchange.h) */
    double *exact;    /* the gradient with its notes as sums in double, which are exchanged in its place; NULL: floats are */
    void *owner;      /* whose lane it is: the exchange passes it on, unread */
    double codec_s;   /* seconds spent in the codec since the last look */
} weir_lane;

/* Cuts the flat vector into buckets of about `bytes` (the first ones smaller, so that the wire starts early), never a tensor that
 * must stay whole; the dense tail is the last bucket or, if `fuse` (all is dense), the end of it. */
weir_err weir_buckets_cut(const weir_tensor *, int tensors, size_t bytes, bool whole, bool fuse, float *param, float *grad, weir_arena *,
                          weir_bucket **, int *count);
/* Specs as the user wrote them; dense buckets get the codec `none`. */
weir_err weir_lanes_make(weir_bucket *, int count, const char *codec, const char *optim, weir_arena *, weir_lane **);
/* The gradient of this lane becomes the sum over the group, through the lane's codec; of doubles the sum is rounded once. [blocks] */
weir_err weir_lane_sum(weir_lane *, weir_coll_use *, weir_group *, weir_turn);
weir_err weir_lane_state(weir_lane *, weir_io *);
#endif
