/* select.h - inside codec/: the k-th largest, without sorting; and what a sample says of a
 * tensor. */
#ifndef WEIR_CODEC_SELECT_H
#define WEIR_CODEC_SELECT_H
#include "codec/feed.h"

enum { WEIR_SELECT_SAMPLE = 16384 }; /* floats of the longest sample */

/* The k-th largest of n floats, 1 <= k <= n; they are left in another order. NaNs may come out
 * anywhere. */
float weir_select(float *x, size_t n, size_t k);
/* What a sample is drawn from: x[at .. at + n) of a feed whose tiles are not made yet, spread
 * evenly from a place that moves with the step. side 1 or -1: what has another sign counts as 0. */
typedef struct weir_select_from {
    const weir_feed *feed;
    size_t at, n;
    uint64_t step;
    int side;
} weir_select_from;
/* `level`: what `portion` of them is larger than, by |x|. `sample` has room for WEIR_SELECT_SAMPLE;
 * mean and most are the sample's. */
typedef struct weir_select_sampled {
    float level, mean, most;
    size_t index; /* the level's among the sample, from 1 */
} weir_select_sampled;
weir_select_sampled weir_select_level(const weir_select_from *, double portion, float *sample);
#endif
