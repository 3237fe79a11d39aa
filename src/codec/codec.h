/* codec.h - turn a bucket of floats into a message and back. One instance per bucket; no peer, no
 * network.
 *
 * In round r a codec encodes a message, somebody combines everybody's, and it absorbs the result.
 * Error feedback, momentum correction, clipping and warm-up are not codecs: they live once, in
 * exchange/lane.c, and reach the codec through its feed (feed.h).
 *
 * A step is a transaction: what encode and absorb learn (thresholds, bases) is put aside, and
 * becomes the codec's state in `keep`. */
#ifndef WEIR_CODEC_CODEC_H
#define WEIR_CODEC_CODEC_H
#include "codec/feed.h"
#include "core/bucket.h"
#include "core/plug.h"
#include "core/state.h"

typedef enum {
    /* messages are summed undecoded (`sum`), and their length depends on the bucket alone:
       all-reduce */
    WEIR_COMBINE_ADD,
    WEIR_COMBINE_GATHER, /* all-gather, then decode-add each */
    WEIR_COMBINE_STRIPE  /* each rank owns a stripe of whole rows: decodes, sums, encodes again with
                          * a residual of its own, all-gathers. A  message's length depends on the
                          * stripe alone */
} weir_combine;

/* What the lane does for every codec alike. The private state of each begins with it, its options
 * with WEIR_FEEDBACK. */
typedef struct weir_feedback {
    bool residual, correct;
    int64_t small;
    double warmup;
    /* Of those that send single elements: */
    double ramp; /* in epochs, as the warm-up is */
    int mask;
} weir_feedback;
#define WEIR_FEEDBACK(residual_, correct_, warmup_)                            \
    {"residual", WEIR_OPT_BOOL, offsetof(weir_feedback, residual), residual_,  \
     "what is not sent waits for the next step"},                              \
        {"correct", WEIR_OPT_BOOL, offsetof(weir_feedback, correct), correct_, \
         "with a residual: momentum at the worker, before the codec"},         \
        {"small",                                                              \
         WEIR_OPT_INT,                                                         \
         offsetof(weir_feedback, small),                                       \
         "256",                                                                \
         "tensors of fewer elements stay dense",                               \
         .min = 1,                                                             \
         .max = 1e15},                                                         \
    {                                                                          \
        "warmup", WEIR_OPT_REAL, offsetof(weir_feedback, warmup), warmup_,     \
            "epochs that stay dense", .min = 0, .max = 1e6                     \
    }

/* What a message says of itself, for the log. */
typedef struct weir_codec_stats {
    size_t sent; /* elements; one that is sent several times counts as often */
    /* by view: the threshold beyond which elements are sent; 0: there is none. NULL: nobody asks */
    float *tau;
} weir_codec_stats;

typedef struct weir_codec {
    weir_plug plug;
    weir_combine combine;
    unsigned rounds; /* exchanges per bucket: 1 for nearly every codec */
    bool exact;      /* loses nothing: no residual */
    /* the message is the floats themselves: summed in place, encode and decode are never called */
    bool raw;
    bool whole;  /* a tensor must not be cut over buckets */
    bool sparse; /* sends single elements */
    /* stands for several, of which the exchange chooses (codec_auto.h): a lane never encodes by it
     */
    bool chooses;
    char mark;   /* of its messages, in their head */
    double rate; /* the factor on the learning rate that its promise is made with; 0: 1 */
    double drop; /* points of accuracy that it may lose against dense (bench/convergence) */
    /* what it lost with AdamW there, one seed; 0: no more than with SGD, or not known */
    double adamw_drop;
    const weir_sum *sum; /* ADD: how two messages add */
    weir_err (*init)(void *self, const weir_bucket *, weir_arena *);
    size_t (*bound)(const void *self); /* bytes of the worst message, its head included */
    /* Bytes of a usual message: for worlds without floats, and for choosing. NULL: bound. */
    size_t (*usual)(const void *self, weir_when);
    /* Writes the message of what it is fed, at most bound() bytes; *len on success. Whatever is not
     * finite is the feed's to notice: it must only not crash here. */
    weir_err (*encode)(void *self, weir_when, weir_feed *, void *msg, size_t *len);
    /* The combined message of a round before the last. NULL if rounds == 1. */
    weir_err (*absorb)(void *self, weir_when, const void *sum, size_t len);
    /* acc += the value of msg. Bytes from a network: hostile ones give WEIR_INVALID, never a crash
     * nor a write outside the bucket; acc may have got a part of it by then. With rounds == 1 a
     * pure function of `when` and message: an instance that never encoded decodes alike. */
    weir_err (*decode)(void *self, weir_when, const void *msg, size_t len, float *acc);
    /* With rounds > 1, where what this rank sent is not its message's alone to say: takes from x
     * what was sent of it. NULL: encode did. */
    void (*take_sent)(void *self, float *x);
    /* Looks at a message that encode wrote. NULL: it sends every element, and has no thresholds. */
    void (*stats)(const void *self, const void *msg, weir_codec_stats *);
    /* The step is committed: what was put aside becomes the state. NULL: nothing is. */
    void (*keep)(void *self);
    /* Fields to keep in a checkpoint. NULL: none. */
    weir_err (*state)(void *self, weir_io *);
} weir_codec;

/* Bytes of a message as they are most often. */
size_t weir_codec_usual(const weir_codec *, const void *self, weir_when);

/* Of codecs that send single elements: the density now, on the way to its final value; and whether
 * the momentum of what is sent begins anew. */
double weir_codec_density(const weir_feedback *, weir_when, double final);
bool weir_codec_masks(const weir_feedback *);

/* Of n elements so many, at least one; and the longest of a bucket's views. */
size_t weir_codec_count(double density, size_t n);
size_t weir_codec_longest(const weir_bucket *);

#define X(name) extern const weir_codec weir_codec_##name;
#include "codec/list.h"
#undef X
extern weir_plugs weir_codecs;
#endif
