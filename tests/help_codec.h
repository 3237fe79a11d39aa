/* help_codec.h - a codec of one worker on one bucket, and gradients of every kind that it may
 * meet. */
#ifndef WEIR_HELP_CODEC_H
#define WEIR_HELP_CODEC_H
#include "codec/codec.h"

typedef enum { NORMAL, HEAVY, SPIKY, CONSTANT, ZERO, TINY, WHOLE, KINDS } kind;

void fill(float *x, size_t n, kind k, uint64_t seed);

enum { MOST_VIEWS = 4, MOST = 60000 };

typedef struct coder_rig {
    weir_arena *arena;
    const weir_codec *codec;
    const weir_feedback *feedback;
    void *self, *fresh;
    weir_tensor tensor[MOST_VIEWS];
    weir_view view[MOST_VIEWS];
    weir_bucket bucket;
    weir_feed feed;
    float *held, *hold, *grad, *value, *before;
    unsigned char *msg, *first;
    size_t len, first_len; /* of the last round, and of the first */
    weir_err coded;        /* of encoding, whatever decoding says */
    weir_when when;
} coder_rig;

coder_rig *coder_open(const char *spec, int views, const size_t (*shape)[2]);
void coder_close(coder_rig *);
/* All rounds of one step of a group of one; its value is in r->value, what is held back in r->hold.
 * A message stays within its bound. */
weir_err coder_step(coder_rig *, bool residual);
void coder_commit(coder_rig *);

/* Every codec, in every way that the laws are to hold for; ended by NULL. */
extern const char *const codec_specs[];

/* Buckets: four tensors; then nothing and one element, and tensors of nothing beside others. */
enum { FEW = 5 };
typedef struct bucket_shape {
    int views;
    const size_t (*shape)[2];
} bucket_shape;
extern const bucket_shape usual_bucket, few_elements[FEW];
#endif
