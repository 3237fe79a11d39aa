/* codec.h - turn a bucket of floats into a message and back. One instance per bucket; no peer, no network.
 *
 * In round r a codec encodes a message, somebody combines everybody's, and it absorbs the result. Error feedback, momentum
 * correction and clipping are not codecs: they live once, in exchange/lane.c. */
#ifndef WEIR_CODEC_CODEC_H
#define WEIR_CODEC_CODEC_H
#include "core/bucket.h"
#include "core/plug.h"
#include "core/state.h"

typedef enum {
    WEIR_COMBINE_ADD,    /* messages are summed undecoded (`sum`), and their length depends on the bucket alone: all-reduce */
    WEIR_COMBINE_GATHER, /* all-gather, then decode-add each */
    WEIR_COMBINE_STRIPE  /* each rank owns a stripe cut on `grain`: decodes, sums, encodes again with a residual of its own, all-gathers */
} weir_combine;

typedef struct weir_codec {
    weir_plug plug;
    weir_combine combine;
    unsigned rounds; /* exchanges per bucket: 1 for nearly every codec */
    bool exact;      /* loses nothing: no residual */
    bool raw;        /* the message is the floats themselves: summed in place, encode and decode are never called */
    bool whole;      /* a tensor must not be cut over buckets */
    weir_sum sum;    /* ADD: how two messages add */
    size_t grain;    /* STRIPE: floats that must stay together */
    weir_err (*init)(void *self, const weir_bucket *, weir_arena *);
    size_t (*bound)(const void *self); /* bytes of the worst message */
    /* Writes the message of x, at most bound() bytes; *len on success. A value that is not finite is WEIR_NAN and names the tensor. */
    weir_err (*encode)(void *self, weir_turn, const float *x, void *msg, size_t *len);
    /* The combined message of a round before the last. NULL if rounds == 1. */
    weir_err (*absorb)(void *self, weir_turn, const void *sum, size_t len);
    /* acc += the value of msg. Bytes from a network: hostile ones give WEIR_INVALID, never a crash nor a write outside the
     * bucket. With rounds == 1 a pure function of turn and message: an instance that never encoded decodes alike. */
    weir_err (*decode)(void *self, weir_turn, const void *msg, size_t len, float *acc);
    /* Fields to keep in a checkpoint. NULL: none. */
    weir_err (*state)(void *self, weir_io *);
} weir_codec;

#define X(name) extern const weir_codec weir_codec_##name;
#include "codec/list.h"
#undef X
extern weir_plugs weir_codecs;
#endif
