/* qsgd.c - levels between 0 and the norm of a block, drawn up or down so that the mean is right (QSGD, Alistarh et al. 2017).
 *
 * Body of qsgd: for each 512 floats their norm (float), then `bits` bits an element from the lowest bit on, padded to 4 bytes: its level, negative
 * ones in two's complement; x is norm * level / levels. */
#include "codec/levels.h"
#include "codec/message.h"
#include "codec/quant.h"
#include "core/vec.h"
#include <math.h>
#include <string.h>

enum { BLOCK = 512 };

typedef struct qsgd {
    weir_feedback feedback;
    int64_t levels;
    int bits;
    const weir_bucket *bucket;
} qsgd;

static const weir_opt options[] = {
    WEIR_FEEDBACK("no", "yes", "0", "0"),
    {"levels", WEIR_OPT_INT, offsetof(qsgd, levels), "15", "between 0 and the norm of a block", .min = 1, .max = 127},
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

static size_t bound(const void *self)
{
    const qsgd *s = self;
    size_t n = s->bucket->n;

    return WEIR_MESSAGE_HEAD + n / BLOCK * (4 + weir_levels_bytes(BLOCK, s->bits)) + (n % BLOCK ? 4 + weir_levels_bytes(n % BLOCK, s->bits) : 0);
}

static void add_levels(float *acc, const int8_t *level, float unit, size_t n) { weir_quant_best()->add_int8(acc, level, unit, n); }

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
        weir_levels_pack(level, n, s->bits, to + 4);
        to += 4 + weir_levels_bytes(n, s->bits);
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
        weir_levels_unpack(body + 4, n, s->bits, level);
        add_levels(acc + k, level, norm / (float)s->levels, n);
        body += 4 + weir_levels_bytes(n, s->bits);
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
