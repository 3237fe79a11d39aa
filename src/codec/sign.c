/* sign.c - signs, and one value a tensor, the mean of |x|; the error waits (EF-signSGD, Karimireddy et al. 2019).
 *
 * Body: for each tensor a float, then a bit for each of its elements, from the lowest bit on, 1 where it is not below 0, padded to 4 bytes. */
#include "codec/message.h"
#include "codec/quant.h"
#include <math.h>
#include <string.h>

typedef struct sign {
    weir_feedback feedback;
    const weir_bucket *bucket;
} sign;

static const weir_opt options[] = {WEIR_FEEDBACK("yes", "yes", "0", "0"), {0}};

static weir_err init(void *self, const weir_bucket *b, weir_arena *arena)
{
    (void)arena;
    ((sign *)self)->bucket = b;
    return WEIR_OK;
}

static size_t bound(const void *self)
{
    const weir_bucket *b = ((const sign *)self)->bucket;
    size_t bytes = WEIR_MESSAGE_HEAD;

    for (const weir_view *v = b->view; v < b->view + b->views; v++)
        bytes += 4 + weir_bits_bytes(weir_view_length(v));
    return bytes;
}

static weir_err encode(void *self, weir_turn turn, weir_feed *f, void *msg, size_t *len)
{
    const sign *s = self;
    const weir_bucket *b = s->bucket;
    unsigned char *to = (unsigned char *)msg + WEIR_MESSAGE_HEAD;

    (void)turn;
    for (const weir_view *v = b->view; v < b->view + b->views; v++) {
        size_t n = weir_view_length(v);
        float *x = weir_feed_whole(f, v->at, n), value;
        double below, above;
        weir_quant_best()->to_bits((uint32_t *)(void *)(to + 4), x, n, &below, &above);
        value = weir_mean(above - below, n);
        memcpy(to, &value, 4);
        weir_quant_best()->add_bits(x, (const uint32_t *)(const void *)(to + 4), value, -value, n);
        to += 4 + weir_bits_bytes(n);
    }
    *len = weir_message_head(msg, &weir_codec_sign, b->n, bound(s) - WEIR_MESSAGE_HEAD);
    return WEIR_OK;
}

static weir_err decode(void *self, weir_turn turn, const void *msg, size_t len, float *acc)
{
    const weir_bucket *b = ((const sign *)self)->bucket;
    const unsigned char *body;
    size_t bytes;

    (void)turn;
    WEIR_TRY(weir_message_open(msg, len, &weir_codec_sign, b->n, &body, &bytes));
    if (len != bound(self))
        return weir_message_bad(&weir_codec_sign, "it is of another length");
    for (const weir_view *v = b->view; v < b->view + b->views; v++) {
        size_t n = weir_view_length(v);
        float value;
        memcpy(&value, body, 4);
        if (!isfinite(value))
            return weir_message_bad(&weir_codec_sign, "a value is not finite");
        weir_quant_best()->add_bits(acc + v->at, (const uint32_t *)(const void *)(body + 4), -value, value, n);
        body += 4 + weir_bits_bytes(n);
    }
    return WEIR_OK;
}

const weir_codec weir_codec_sign = {
    .plug = {"sign", "signs, and one value a tensor; the error waits", sizeof(sign), options},
    .combine = WEIR_COMBINE_STRIPE,
    .rounds = 1,
    .mark = 'G',
    .rate = 0.4,
    .drop = 0.7,
    .init = init,
    .bound = bound,
    .encode = encode,
    .decode = decode,
};
