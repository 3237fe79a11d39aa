/* none.c - the floats themselves, summed where they lie. encode and decode exist for those who want
 * a message all the same. */
#include "codec/codec.h"
#include <string.h>

typedef struct none {
    size_t n;
} none;

static weir_err init(void *self, const weir_bucket *bucket, weir_arena *arena)
{
    (void)arena;
    ((none *)self)->n = bucket->n;
    return WEIR_OK;
}

static size_t bound(const void *self) { return ((const none *)self)->n * sizeof(float); }

static weir_err encode(void *self, weir_when when, weir_feed *feed, void *msg, size_t *len)
{
    (void)when;
    memcpy(msg, weir_feed_whole(feed, 0, feed->n), *len = bound(self));
    return WEIR_OK;
}

static weir_err decode(void *self, weir_when when, const void *msg, size_t len, float *acc)
{
    (void)when;
    if (len != bound(self))
        return weir_fail(WEIR_INVALID, "a message of %zu bytes came where %zu were expected", len,
                         bound(self));
    weir_sum_f32.add(acc, msg, ((none *)self)->n);
    return WEIR_OK;
}

const weir_codec weir_codec_none = {
    .plug = {"none", "dense float32, nothing is lost", sizeof(none), NULL},
    .combine = WEIR_COMBINE_ADD,
    .rounds = 1,
    .exact = true,
    .raw = true,
    .sum = &weir_sum_f32,
    .init = init,
    .bound = bound,
    .encode = encode,
    .decode = decode,
};
