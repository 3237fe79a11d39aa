/* terngrad.c - -s, 0 or s, drawn so that the mean is right, with s the largest of the tensor (Wen et al. 2017), clipped at 2.5 deviations.
 *
 * Body: for each tensor s (float), then 2 bits an element (levels.h). */
#include "codec/levels.h"
#include "codec/message.h"
#include "codec/quant.h"
#include "core/vec.h"
#include <math.h>
#include <string.h>

enum { BLOCK = 512, BITS = 2 };

typedef struct terngrad {
    weir_feedback feedback;
    double clip;
    const weir_bucket *bucket;
} terngrad;

static const weir_opt options[] = {
    WEIR_FEEDBACK("no", "yes", "0", "0"),
    {"clip", WEIR_OPT_REAL, offsetof(terngrad, clip), "2.5", "deviations beyond which elements are clipped; 0: none are", .min = 0, .max = 1e6},
    {0},
};

static weir_err init(void *self, const weir_bucket *b, weir_arena *arena)
{
    (void)arena;
    ((terngrad *)self)->bucket = b;
    return WEIR_OK;
}

static size_t bound(const void *self)
{
    const weir_bucket *b = ((const terngrad *)self)->bucket;
    size_t bytes = WEIR_MESSAGE_HEAD;

    for (const weir_view *v = b->view; v < b->view + b->views; v++)
        bytes += 4 + weir_levels_bytes(weir_view_length(v), BITS);
    return bytes;
}

static uint64_t draws(const weir_feed *f, weir_turn turn) { return f->key * 0x9e3779b97f4a7c15ull + turn.step; }

static float largest(const terngrad *s, const float *x, size_t n)
{
    double sum, deviation = sqrt(weir_vec_best()->sumsq(x, n) / (double)n);
    float most;

    weir_vec_best()->size(x, n, &sum, &most);
    if (s->clip > 0 && s->clip * deviation < (double)most)
        most = (float)(s->clip * deviation);
    return isfinite(most) ? most : 0;
}

static weir_err encode(void *self, weir_turn turn, weir_feed *f, void *msg, size_t *len)
{
    const terngrad *s = self;
    const weir_bucket *b = s->bucket;
    unsigned char *to = (unsigned char *)msg + WEIR_MESSAGE_HEAD;
    int8_t level[BLOCK];

    for (const weir_view *v = b->view; v < b->view + b->views; v++) {
        size_t all = weir_view_length(v), n;
        float *x = weir_feed_whole(f, v->at, all), most = largest(s, x, all);
        memcpy(to, &most, 4);
        to += 4;
        for (size_t k = 0; k < all; k += n) {
            n = all - k < BLOCK ? all - k : BLOCK;
            weir_quant_best()->draw(level, x + k, most > 0 ? 1 / most : 0, 1, draws(f, turn), v->at + k, n);
            weir_levels_pack(level, n, BITS, to);
            to += weir_levels_bytes(n, BITS);
            if (f->held)
                weir_quant_best()->add_int8(x + k, level, -most, n);
        }
    }
    *len = weir_message_head(msg, &weir_codec_terngrad, b->n, bound(s) - WEIR_MESSAGE_HEAD);
    return WEIR_OK;
}

static weir_err decode(void *self, weir_turn turn, const void *msg, size_t len, float *acc)
{
    const terngrad *s = self;
    const weir_bucket *b = s->bucket;
    const unsigned char *body;
    int8_t level[BLOCK];
    size_t bytes;

    (void)turn;
    WEIR_TRY(weir_message_open(msg, len, &weir_codec_terngrad, b->n, &body, &bytes));
    if (len != bound(s))
        return weir_message_bad(&weir_codec_terngrad, "it is of another length");
    for (const weir_view *v = b->view; v < b->view + b->views; v++) {
        size_t all = weir_view_length(v), n;
        float most;
        memcpy(&most, body, 4);
        if (!isfinite(most))
            return weir_message_bad(&weir_codec_terngrad, "a scale is not finite");
        body += 4;
        for (size_t k = 0; k < all; k += n, body += weir_levels_bytes(n, BITS)) {
            n = all - k < BLOCK ? all - k : BLOCK;
            weir_levels_unpack(body, n, BITS, level);
            weir_quant_best()->add_int8(acc + v->at + k, level, most, n);
        }
    }
    return WEIR_OK;
}

const weir_codec weir_codec_terngrad = {
    .plug = {"terngrad", "-s, 0 or s, drawn so that the mean is right", sizeof(terngrad), options},
    .combine = WEIR_COMBINE_GATHER,
    .rounds = 1,
    .mark = 'N',
    .rate = 0.2,
    .drop = 1,
    .init = init,
    .bound = bound,
    .encode = encode,
    .decode = decode,
};
