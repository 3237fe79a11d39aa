/* select.h - inside codec/: the k-th largest, without sorting; and what a sample says of a
 * tensor. */
#ifndef WEIR_CODEC_SELECT_H
#define WEIR_CODEC_SELECT_H
#include "codec/feed.h"

enum { WEIR_SELECT_SAMPLE = 16384 }; /* floats of the longest sample */

/* The k-th largest of n floats, 1 <= k <= n; they are left in another order. NaNs may come out
 * anywhere. */
float weir_select(float *x, size_t n, size_t k);
/* What `portion` of x[at .. at + n) is larger than, by a sample of |x| (side 1 or -1: of what has
 * that sign, else 0), spread evenly from a place that moves with `when`. Tiles are not made yet.
 * `sample` has room for WEIR_SELECT_SAMPLE; mean and most are the sample's. */
typedef struct weir_select_sampled {
    float level, mean, most;
    size_t index; /* the level's among the sample, from 1 */
} weir_select_sampled;
weir_select_sampled weir_select_level(const weir_feed *, size_t at, size_t n, uint64_t when,
                                      int side, double portion, float *sample);
#endif
