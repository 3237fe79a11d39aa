/* int8.c - 8 bits a float, scaled by the largest of each block.
 *
 * Body: for each 256 floats a scale (float), then a signed byte each: the number divided by the scale, rounded to nearest even; the last block
 * padded to 4 bytes. The scale is the largest |x| / 127, but not below 2^-120: what is smaller becomes 0, and nothing is divided by 0. */
#include "codec/message.h"
#include "codec/quant.h"
#include "core/vec.h"
#include <math.h>
#include <string.h>

enum { BLOCK = 256 };
static const float LEAST = 0x1p-120f;

typedef struct int8 {
    weir_feedback feedback;
    size_t n;
} int8;

static const weir_opt options[] = {WEIR_FEEDBACK("no", "yes", "0", "0"), {0}};

static weir_err init(void *self, const weir_bucket *b, weir_arena *arena)
{
    (void)arena;
    ((int8 *)self)->n = b->n;
    return WEIR_OK;
}

static size_t block_bytes(size_t n) { return 4 + (n + 3) / 4 * 4; }

static size_t bound(const void *self)
{
    size_t n = ((const int8 *)self)->n;

    return WEIR_MESSAGE_HEAD + n / BLOCK * block_bytes(BLOCK) + (n % BLOCK ? block_bytes(n % BLOCK) : 0);
}

static unsigned char *encode_block(float *x, size_t n, bool held, unsigned char *to)
{
    const weir_vec *vec = weir_vec_best();
    double sum;
    float most, scale;

    vec->size(x, n, &sum, &most);
    scale = most / 127;
    scale = scale > LEAST ? scale : LEAST; /* and if it is not a number */
    memcpy(to, &scale, 4);
    memset(to + 4 + n, 0, block_bytes(n) - 4 - n);
    weir_quant_best()->to_int8((int8_t *)(to + 4), x, 1 / scale, n);
    if (held)
        weir_quant_best()->add_int8(x, (const int8_t *)(to + 4), -scale, n);
    return to + block_bytes(n);
}

static weir_err encode(void *self, weir_turn turn, weir_feed *f, void *msg, size_t *len)
{
    const int8 *s = self;
    unsigned char *to = (unsigned char *)msg + WEIR_MESSAGE_HEAD;

    (void)turn;
    for (size_t k = 0; k < s->n; k += WEIR_TILE) {
        size_t n = s->n - k < WEIR_TILE ? s->n - k : WEIR_TILE;
        float *x = weir_feed_tile(f, k, n);
        for (size_t i = 0; i < n; i += BLOCK)
            to = encode_block(x + i, n - i < BLOCK ? n - i : BLOCK, f->held, to);
        weir_feed_leave(f, k, n);
    }
    *len = weir_message_head(msg, &weir_codec_int8, s->n, bound(s) - WEIR_MESSAGE_HEAD);
    return WEIR_OK;
}

static weir_err decode(void *self, weir_turn turn, const void *msg, size_t len, float *acc)
{
    const int8 *s = self;
    const unsigned char *body;
    size_t bytes;

    (void)turn;
    WEIR_TRY(weir_message_open(msg, len, &weir_codec_int8, s->n, &body, &bytes));
    if (len != bound(s))
        return weir_message_bad(&weir_codec_int8, "it is of another length");
    for (size_t k = 0; k < s->n; k += BLOCK) {
        size_t n = s->n - k < BLOCK ? s->n - k : BLOCK;
        float scale;
        memcpy(&scale, body, 4);
        if (!isfinite(scale))
            return weir_message_bad(&weir_codec_int8, "a scale is not finite");
        weir_quant_best()->add_int8(acc + k, (const int8_t *)(body + 4), scale, n);
        body += block_bytes(n);
    }
    return WEIR_OK;
}

const weir_codec weir_codec_int8 = {
    .plug = {"int8", "8 bits a float, scaled by blocks", sizeof(int8), options},
    .combine = WEIR_COMBINE_STRIPE,
    .rounds = 1,
    .mark = 'I',
    .drop = 0.3,
    .init = init,
    .bound = bound,
    .encode = encode,
    .decode = decode,
};
