/* qsgd.c - levels between 0 and the norm of a block, drawn up or down so that the mean is right (QSGD, Alistarh et al. 2017). And terngrad: -s, 0
 * or s, with s the largest of the tensor (Wen et al. 2017), clipped at 2.5 deviations.
 *
 * Body of qsgd: for each 512 floats their norm (float), then `bits` bits an element from the lowest bit on, padded to 4 bytes: its level, negative
 * ones in two's complement; x is norm * level / levels. Of terngrad: for each tensor s (float), then 2 bits an element likewise. */
#include "codec/message.h"
#include "codec/quant.h"
#include "core/vec.h"
#include <math.h>
#include <string.h>

enum { BLOCK = 512, TERNARY_BITS = 2 };

typedef struct qsgd {
    weir_feedback feedback;
    int64_t levels;
    double clip;
    int bits;
    const weir_bucket *bucket;
} qsgd;

static const weir_opt options[] = {
    WEIR_FEEDBACK("no", "yes", "0", "0"),
    {"levels", WEIR_OPT_INT, offsetof(qsgd, levels), "15", "between 0 and the norm of a block", .min = 1, .max = 127},
    {0},
};
static const weir_opt tern_options[] = {
    WEIR_FEEDBACK("no", "yes", "0", "0"),
    {"clip", WEIR_OPT_REAL, offsetof(qsgd, clip), "2.5", "deviations beyond which elements are clipped; 0: none are", .min = 0, .max = 1e6},
    {0},
};

static weir_err init(void *self, const weir_bucket *b, weir_arena *arena)
{
    qsgd *s = self;

    (void)arena;
    s->bucket = b;
    for (s->bits = 2; (1 << (s->bits - 1)) - 1 < s->levels;)
        s->bits++;
    return WEIR_OK;
}

static size_t cells(size_t n, int bits) { return (n * (size_t)bits + 31) / 32 * 4; }

static size_t bound(const void *self)
{
    const qsgd *s = self;
    size_t n = s->bucket->n;

    return WEIR_MESSAGE_HEAD + n / BLOCK * (4 + cells(BLOCK, s->bits)) + (n % BLOCK ? 4 + cells(n % BLOCK, s->bits) : 0);
}

static size_t bound_tern(const void *self)
{
    const weir_bucket *b = ((const qsgd *)self)->bucket;
    size_t bytes = WEIR_MESSAGE_HEAD;

    for (const weir_view *v = b->view; v < b->view + b->views; v++)
        bytes += 4 + cells(weir_view_length(v), TERNARY_BITS);
    return bytes;
}

/* ---- bits ---- */

static void pack(const int8_t *level, size_t n, int bits, unsigned char *to)
{
    uint64_t hold = 0;
    int have = 0;
    size_t k = 0, all = cells(n, bits);

    for (size_t i = 0; i < n; i++) {
        hold |= (uint64_t)((unsigned)level[i] & ((1u << bits) - 1)) << have;
        for (have += bits; have >= 8; have -= 8, hold >>= 8)
            to[k++] = (unsigned char)hold;
    }
    for (; k < all; hold >>= 8)
        to[k++] = (unsigned char)hold;
}

static void unpack(const unsigned char *from, size_t n, int bits, int8_t *level)
{
    uint64_t hold = 0;
    int have = 0, half = 1 << (bits - 1);

    for (size_t i = 0; i < n; i++) {
        for (; have < bits; have += 8)
            hold |= (uint64_t)*from++ << have;
        level[i] = (int8_t)(((int)(hold & (2u * (unsigned)half - 1)) ^ half) - half);
        hold >>= bits;
        have -= bits;
    }
}

static void add_levels(float *acc, const int8_t *level, float unit, size_t n) { weir_quant_best()->add_int8(acc, level, unit, n); }

/* ---- qsgd ---- */

static uint64_t draws(const weir_feed *f, weir_turn turn) { return f->key * 0x9e3779b97f4a7c15ull + turn.step; }

static weir_err encode(void *self, weir_turn turn, weir_feed *f, void *msg, size_t *len)
{
    const qsgd *s = self;
    const weir_vec *vec = weir_vec_best();
    unsigned char *to = (unsigned char *)msg + WEIR_MESSAGE_HEAD;
    int8_t level[BLOCK];

    for (size_t k = 0; k < s->bucket->n; k += BLOCK) {
        size_t n = s->bucket->n - k < BLOCK ? s->bucket->n - k : BLOCK;
        float *x = weir_feed_tile(f, k, n), norm = (float)sqrt(vec->sumsq(x, n));
        norm = isfinite(norm) ? norm : 0;
        weir_quant_best()->draw(level, x, norm > 0 ? (float)s->levels / norm : 0, (int)s->levels, draws(f, turn), k, n);
        memcpy(to, &norm, 4);
        pack(level, n, s->bits, to + 4);
        to += 4 + cells(n, s->bits);
        if (f->held)
            add_levels(x, level, -norm / (float)s->levels, n);
        weir_feed_leave(f, k, n);
    }
    *len = weir_message_head(msg, &weir_codec_qsgd, s->bucket->n, bound(s) - WEIR_MESSAGE_HEAD);
    return WEIR_OK;
}

static weir_err decode(void *self, weir_turn turn, const void *msg, size_t len, float *acc)
{
    const qsgd *s = self;
    const unsigned char *body;
    int8_t level[BLOCK];
    size_t bytes;

    (void)turn;
    WEIR_TRY(weir_message_open(msg, len, &weir_codec_qsgd, s->bucket->n, &body, &bytes));
    if (len != bound(s))
        return weir_message_bad(&weir_codec_qsgd, "it is of another length");
    for (size_t k = 0; k < s->bucket->n; k += BLOCK) {
        size_t n = s->bucket->n - k < BLOCK ? s->bucket->n - k : BLOCK;
        float norm;
        memcpy(&norm, body, 4);
        if (!isfinite(norm))
            return weir_message_bad(&weir_codec_qsgd, "a norm is not finite");
        unpack(body + 4, n, s->bits, level);
        add_levels(acc + k, level, norm / (float)s->levels, n);
        body += 4 + cells(n, s->bits);
    }
    return WEIR_OK;
}

/* ---- terngrad ---- */

static float largest(const qsgd *s, const float *x, size_t n)
{
    double sum, deviation = sqrt(weir_vec_best()->sumsq(x, n) / (double)n);
    float most;

    weir_vec_best()->size(x, n, &sum, &most);
    if (s->clip > 0 && s->clip * deviation < (double)most)
        most = (float)(s->clip * deviation);
    return isfinite(most) ? most : 0;
}

static weir_err encode_tern(void *self, weir_turn turn, weir_feed *f, void *msg, size_t *len)
{
    const qsgd *s = self;
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
            pack(level, n, TERNARY_BITS, to);
            to += cells(n, TERNARY_BITS);
            if (f->held)
                add_levels(x + k, level, -most, n);
        }
    }
    *len = weir_message_head(msg, &weir_codec_terngrad, b->n, bound_tern(s) - WEIR_MESSAGE_HEAD);
    return WEIR_OK;
}

static weir_err decode_tern(void *self, weir_turn turn, const void *msg, size_t len, float *acc)
{
    const qsgd *s = self;
    const weir_bucket *b = s->bucket;
    const unsigned char *body;
    int8_t level[BLOCK];
    size_t bytes;

    (void)turn;
    WEIR_TRY(weir_message_open(msg, len, &weir_codec_terngrad, b->n, &body, &bytes));
    if (len != bound_tern(s))
        return weir_message_bad(&weir_codec_terngrad, "it is of another length");
    for (const weir_view *v = b->view; v < b->view + b->views; v++) {
        size_t all = weir_view_length(v), n;
        float most;
        memcpy(&most, body, 4);
        if (!isfinite(most))
            return weir_message_bad(&weir_codec_terngrad, "a scale is not finite");
        body += 4;
        for (size_t k = 0; k < all; k += n, body += cells(n, TERNARY_BITS)) {
            n = all - k < BLOCK ? all - k : BLOCK;
            unpack(body, n, TERNARY_BITS, level);
            add_levels(acc + v->at + k, level, most, n);
        }
    }
    return WEIR_OK;
}

const weir_codec weir_codec_qsgd = {
    .plug = {"qsgd", "levels of a block's norm, drawn so that the mean is right", sizeof(qsgd), options},
    .combine = WEIR_COMBINE_STRIPE,
    .rounds = 1,
    .mark = 'Q',
    .drop = 0.5,
    .init = init,
    .bound = bound,
    .encode = encode,
    .decode = decode,
};

const weir_codec weir_codec_terngrad = {
    .plug = {"terngrad", "-s, 0 or s, drawn so that the mean is right", sizeof(qsgd), tern_options},
    .combine = WEIR_COMBINE_GATHER,
    .rounds = 1,
    .mark = 'N',
    .rate = 0.2,
    .drop = 1,
    .init = init,
    .bound = bound_tern,
    .encode = encode_tern,
    .decode = decode_tern,
};
