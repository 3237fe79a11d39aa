/* half.c - 16 bits a float. fp16 has its numbers scaled by a power of two a block, so that small gradients keep their bits; bf16 has the range of
 * floats.
 *
 * Body: for each 4096 floats a scale (float, a power of two), then 16 bits each: the number divided by the scale, rounded to nearest even; the
 * last block padded to 4 bytes. */
#include "codec/message.h"
#include "codec/quant.h"
#include "core/vec.h"
#include <math.h>
#include <string.h>

enum { FP16, BF16 };

typedef struct half {
    weir_feedback feedback;
    int kind;
    size_t n;
} half;

static const weir_opt options[] = {
    WEIR_FEEDBACK("no", "yes", "0", "0"),
    {"kind", WEIR_OPT_CHOICE, offsetof(half, kind), "fp16", "which 16 bits", .choices = "fp16|bf16", .bare = true},
    {0},
};

static weir_err init(void *self, const weir_bucket *b, weir_arena *arena)
{
    (void)arena;
    ((half *)self)->n = b->n;
    return WEIR_OK;
}

static size_t block_bytes(size_t n) { return 4 + (2 * n + 3) / 4 * 4; }

static size_t bound(const void *self)
{
    size_t n = ((const half *)self)->n;

    return WEIR_MESSAGE_HEAD + n / WEIR_TILE * block_bytes(WEIR_TILE) + (n % WEIR_TILE ? block_bytes(n % WEIR_TILE) : 0);
}

/* The largest becomes at most 2^14: far from the end of the range, and all below have their bits down to 2^-28 of it. */
static float scale_of(const float *x, size_t n)
{
    double sum;
    float most;
    int e;

    weir_vec_best()->size(x, n, &sum, &most);
    if (!(most > 0 && most < INFINITY))
        return 1;
    frexpf(most, &e);
    e -= 14;
    return ldexpf(1, e < -126 ? -126 : e > 112 ? 112 : e);
}

static void encode_block(const half *s, weir_feed *f, size_t at, size_t n, unsigned char *to)
{
    float *x = weir_feed_tile(f, at, n), scale = s->kind == FP16 ? scale_of(x, n) : 1;
    uint16_t *h = (uint16_t *)(void *)(to + 4);

    memcpy(to, &scale, 4);
    if (n % 2)
        h[n] = 0;
    if (s->kind == FP16)
        weir_quant_best()->to_fp16(h, x, 1 / scale, n);
    else
        weir_quant_best()->to_bf16(h, x, n);
    if (!f->held)
        return;
    if (s->kind == FP16)
        weir_quant_best()->add_fp16(x, h, -scale, n);
    else
        weir_quant_best()->add_bf16(x, h, -1, n);
    weir_feed_leave(f, at, n);
}

static weir_err encode(void *self, weir_turn turn, weir_feed *f, void *msg, size_t *len)
{
    const half *s = self;
    unsigned char *to = (unsigned char *)msg + WEIR_MESSAGE_HEAD;

    (void)turn;
    for (size_t k = 0; k < s->n; k += WEIR_TILE) {
        size_t n = s->n - k < WEIR_TILE ? s->n - k : WEIR_TILE;
        encode_block(s, f, k, n, to);
        to += block_bytes(n);
    }
    *len = weir_message_head(msg, &weir_codec_half, s->n, bound(s) - WEIR_MESSAGE_HEAD);
    return WEIR_OK;
}

static weir_err decode(void *self, weir_turn turn, const void *msg, size_t len, float *acc)
{
    const half *s = self;
    const unsigned char *body;
    size_t bytes;

    (void)turn;
    WEIR_TRY(weir_message_open(msg, len, &weir_codec_half, s->n, &body, &bytes));
    if (len != bound(s))
        return weir_message_bad(&weir_codec_half, "it is of another length");
    for (size_t k = 0; k < s->n; k += WEIR_TILE) {
        size_t n = s->n - k < WEIR_TILE ? s->n - k : WEIR_TILE;
        const uint16_t *h = (const uint16_t *)(const void *)(body + 4);
        float scale;
        memcpy(&scale, body, 4);
        if (!isfinite(scale))
            return weir_message_bad(&weir_codec_half, "a scale is not finite");
        if (s->kind == FP16)
            weir_quant_best()->add_fp16(acc + k, h, scale, n);
        else
            weir_quant_best()->add_bf16(acc + k, h, scale, n);
        body += block_bytes(n);
    }
    return WEIR_OK;
}

const weir_codec weir_codec_half = {
    .plug = {"half", "16 bits a float", sizeof(half), options},
    .combine = WEIR_COMBINE_STRIPE,
    .rounds = 1,
    .mark = 'H',
    .drop = 0.3,
    .init = init,
    .bound = bound,
    .encode = encode,
    .decode = decode,
};
