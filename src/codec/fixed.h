/* fixed.h - inside codec/: what the codecs have in common whose message is as long as the bucket
 * alone says. It is a row of parts: blocks of so many floats, rows, or tensors. A part is a value
 * or two (floats) and some bits for each element, from the lowest bit on, padded with 0 to 4 bytes.
 * A codec says how the elements of a part become that, and how they are added back; what it does
 * not say of them is held back here. */
#ifndef WEIR_CODEC_FIXED_H
#define WEIR_CODEC_FIXED_H
#include "codec/message.h"

enum { WEIR_FIXED_VALUES = 2 };

/* The private state of each begins with it. */
typedef struct weir_fixed {
    weir_feedback feedback;
    const struct weir_fixed_way *way;
    const weir_bucket *bucket;
    int bits; /* an element */
} weir_fixed;

typedef struct weir_fixed_part {
    size_t at, n;
    float most;    /* the largest |x| */
    uint64_t draw; /* a key, of this worker and step */
    bool past;     /* the message is longer than caches are: write past them */
} weir_fixed_part;

typedef struct weir_fixed_way {
    const weir_codec *codec;
    enum { WEIR_FIXED_BLOCKS, WEIR_FIXED_ROWS, WEIR_FIXED_TENSORS } by;
    size_t block; /* floats of a block; at most WEIR_FEED_TILE */
    int values;
    void (*write)(const void *self, const weir_fixed_part *, const float *x, float *value,
                  void *bits);
    void (*add)(const void *self, const float *value, const void *bits, size_t n, float *acc);
} weir_fixed_way;

/* A descriptor's verbs, but for init. */
#define WEIR_FIXED \
    .rounds = 1, .bound = weir_fixed_bound, .encode = weir_fixed_encode, .decode = weir_fixed_decode

weir_err weir_fixed_init(weir_fixed *, const weir_fixed_way *, const weir_bucket *, int bits);
size_t weir_fixed_bound(const void *self);
weir_err weir_fixed_encode(void *self, weir_when, weir_feed *, void *msg, size_t *len);
weir_err weir_fixed_decode(void *self, weir_when, const void *msg, size_t len, float *acc);
#endif
