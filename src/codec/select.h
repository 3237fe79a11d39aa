/* select.h - inside codec/: the k-th largest, without sorting. */
#ifndef WEIR_CODEC_SELECT_H
#define WEIR_CODEC_SELECT_H
#include "codec/feed.h"

/* The k-th largest of n floats, 1 <= k <= n; they are left in another order. NaNs may come out anywhere. */
float weir_select(float *x, size_t n, size_t k);
/* |x| (side 1 or -1: of what has that sign, else 0) of at most `most` elements of x[at .. at + n), spread evenly from a place that moves with `turn`; how many. Tiles are not made yet. */
size_t weir_select_sample(const weir_feed *, size_t at, size_t n, uint64_t turn, int side, float *to, size_t most);
#endif
