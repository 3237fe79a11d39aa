/* buckets.h - the flat vector cut into buckets. */
#ifndef WEIR_EXCHANGE_BUCKETS_H
#define WEIR_EXCHANGE_BUCKETS_H
#include "core/arena.h"
#include "core/bucket.h"

/* A model's flat vectors, and the tensors that lie in them. */
typedef struct weir_flat {
    const weir_tensor *tensor;
    int tensors;
    float *param, *grad; /* NULLs: sizes alone (dry) */
} weir_flat;

typedef struct weir_cut_rules {
    size_t bytes; /* of a bucket, about */
    bool whole;   /* tensors are not cut */
    bool fuse;    /* all is dense: the tail is no bucket of its own */
    size_t small; /* elements below which a tensor belongs to the tail */
} weir_cut_rules;

/* The first ones are smaller, so that the wire starts early; a tensor is cut at rows, if at all;
 * the dense tail is the last bucket or the end of it. */
weir_err weir_buckets_cut(const weir_flat *, const weir_cut_rules *, weir_arena *, weir_bucket **,
                          int *count);
#endif
