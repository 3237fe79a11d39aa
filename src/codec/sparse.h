/* sparse.h - inside codec/: what the codecs that send single elements have in common. Each tensor
 * of the bucket has a part of the message (indices.h), and a number that is kept from step to
 * step. */
#ifndef WEIR_CODEC_SPARSE_H
#define WEIR_CODEC_SPARSE_H
#include "codec/indices.h"

/* The private state of each begins with it. */
typedef struct weir_sparse {
    weir_feedback feedback;
    double density; /* in the end */
    const weir_codec *codec;
    const struct weir_sparse_way *way;
    const weir_bucket *bucket;
    float *now, *next; /* by view: what a step begins with, and leaves for the next */
} weir_sparse;

typedef struct weir_sparse_way {
    /* bytes of the longest part of n elements */
    size_t (*room)(const void *self, size_t n);
    /* and of a usual one, where about k of them are to be sent */
    size_t (*usual)(const void *self, size_t n, size_t k);
    weir_indices (*write)(void *self, weir_when, weir_feed *, int view, double density,
                          unsigned char *to);
    bool threshold; /* a part's value is one, for the log */
} weir_sparse_way;

#define WEIR_SPARSE_DENSITY(density_, ramp_)                                                 \
    {"ramp",                                                                                 \
     WEIR_OPT_REAL,                                                                          \
     offsetof(weir_feedback, ramp),                                                          \
     ramp_,                                                                                  \
     "epochs in which density falls from 1/4 by quarters",                                   \
     .min = 0,                                                                               \
     .max = 1e6},                                                                            \
        {"mask",                                                                             \
         WEIR_OPT_CHOICE,                                                                    \
         offsetof(weir_feedback, mask),                                                      \
         "auto",                                                                             \
         "momentum of what was sent begins anew; auto: if less than half an epoch is dense", \
         .choices = "auto|yes|no"},                                                          \
    {                                                                                        \
        "density", WEIR_OPT_REAL, offsetof(weir_sparse, density), density_,                  \
            "portion of a tensor's elements to send", .min = 1e-7, .max = 1                  \
    }
/* A descriptor's verbs. */
#define WEIR_SPARSE                                                                          \
    .combine = WEIR_COMBINE_GATHER, .rounds = 1, .sparse = true, .bound = weir_sparse_bound, \
    .usual = weir_sparse_usual, .encode = weir_sparse_encode, .decode = weir_sparse_decode,  \
    .stats = weir_sparse_stats

/* Numbers begin with `first`. */
weir_err weir_sparse_init(weir_sparse *, const weir_codec *, const weir_sparse_way *,
                          const weir_bucket *, float first, weir_arena *);
/* As dense as it ever gets; and how many words a part of n elements may have then, if it may have
 * twice as many as are aimed at. */
double weir_sparse_densest(const weir_sparse *);
size_t weir_sparse_twice(const weir_sparse *, size_t n);
size_t weir_sparse_bound(const void *self);
size_t weir_sparse_usual(const void *self, weir_when);
weir_err weir_sparse_encode(void *self, weir_when, weir_feed *, void *msg, size_t *len);
weir_err weir_sparse_decode(void *self, weir_when, const void *msg, size_t len, float *acc);
void weir_sparse_stats(const void *self, const void *msg, weir_codec_stats *);
void weir_sparse_keep(void *self);
#endif
