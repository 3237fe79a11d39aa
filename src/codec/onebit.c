/* onebit.c - one bit an element and two values a row, the means of what is below and of what is not below 0; the error waits (Seide et al. 2014,
 * whose matrices have their columns where ours have rows: the weights of one output).
 *
 * Body: for each row two floats, then a bit for each of its elements, from the lowest bit on, 1 where it is not below
 * 0, padded to 4 bytes. */
#include "codec/message.h"
#include "codec/quant.h"
#include "core/vec.h"
#include <math.h>
#include <string.h>

typedef struct onebit {
    weir_feedback feedback;
    const weir_bucket *bucket;
} onebit;

static const weir_opt options[] = {WEIR_FEEDBACK("yes", "yes", "0", "0"), {0}};

static weir_err init(void *self, const weir_bucket *b, weir_arena *arena)
{
    (void)arena;
    ((onebit *)self)->bucket = b;
    return WEIR_OK;
}

static size_t bound(const void *self)
{
    const weir_bucket *b = ((const onebit *)self)->bucket;
    size_t bytes = WEIR_MESSAGE_HEAD;

    for (const weir_view *v = b->view; v < b->view + b->views; v++)
        bytes += v->rows * (8 + weir_bits_bytes(v->cols));
    return bytes;
}

/* ---- encoding ---- */

static unsigned char *encode_row(weir_feed *f, size_t at, size_t n, unsigned char *to)
{
    float *x = n <= WEIR_TILE ? weir_feed_tile(f, at, n) : weir_feed_whole(f, at, n), value[2];
    double below, above;
    size_t up = weir_quant_best()->to_bits((uint32_t *)(void *)(to + 8), x, n, &below, &above);

    value[0] = weir_mean(below, n - up);
    value[1] = weir_mean(above, up);
    memcpy(to, value, 8);
    weir_quant_best()->add_bits(x, (const uint32_t *)(const void *)(to + 8), -value[0], -value[1], n);
    if (n <= WEIR_TILE)
        weir_feed_leave(f, at, n);
    return to + 8 + weir_bits_bytes(n);
}

static weir_err encode(void *self, weir_turn turn, weir_feed *f, void *msg, size_t *len)
{
    const onebit *s = self;
    const weir_bucket *b = s->bucket;
    unsigned char *to = (unsigned char *)msg + WEIR_MESSAGE_HEAD;

    (void)turn;
    for (const weir_view *v = b->view; v < b->view + b->views; v++)
        for (size_t r = 0; r < v->rows; r++)
            to = encode_row(f, v->at + r * v->cols, v->cols, to);
    *len = weir_message_head(msg, &weir_codec_onebit, b->n, bound(s) - WEIR_MESSAGE_HEAD);
    return WEIR_OK;
}

/* ---- decoding ---- */

static weir_err decode_row(const unsigned char **from, size_t n, float *acc)
{
    float value[2];

    memcpy(value, *from, 8);
    if (!isfinite(value[0]) || !isfinite(value[1]))
        return weir_message_bad(&weir_codec_onebit, "a value is not finite");
    weir_quant_best()->add_bits(acc, (const uint32_t *)(const void *)(*from + 8), value[0], value[1], n);
    *from += 8 + weir_bits_bytes(n);
    return WEIR_OK;
}

static weir_err decode(void *self, weir_turn turn, const void *msg, size_t len, float *acc)
{
    const weir_bucket *b = ((const onebit *)self)->bucket;
    const unsigned char *body;
    size_t bytes;

    (void)turn;
    WEIR_TRY(weir_message_open(msg, len, &weir_codec_onebit, b->n, &body, &bytes));
    if (len != bound(self))
        return weir_message_bad(&weir_codec_onebit, "it is of another length");
    for (const weir_view *v = b->view; v < b->view + b->views; v++)
        for (size_t r = 0; r < v->rows; r++)
            WEIR_TRY(decode_row(&body, v->cols, acc + v->at + r * v->cols));
    return WEIR_OK;
}

const weir_codec weir_codec_onebit = {
    .plug = {"onebit", "one bit an element, two values a row; the error waits", sizeof(onebit), options},
    .combine = WEIR_COMBINE_STRIPE,
    .rounds = 1,
    .mark = 'B',
    .rate = 0.4,
    .drop = 0.7,
    .init = init,
    .bound = bound,
    .encode = encode,
    .decode = decode,
};
