/* qsgd.c - levels between 0 and the norm of a block, drawn up or down so that the mean is right
 * (QSGD, Alistarh et al. 2017).
 *
 * Body: for each 128 floats their norm (float), then `bits` bits an element from the lowest bit on,
 * padded to 4 bytes: its level, negative ones in two's complement; x is norm * level / levels. */
#include "codec/fixed.h"
#include "codec/levels.h"
#include "codec/quant.h"
#include "core/vec.h"
#include <float.h>

enum { BLOCK = 128 };

typedef struct qsgd {
    weir_fixed fixed;
    int64_t levels;
} qsgd;

static const weir_opt options[] = {
    WEIR_FEEDBACK("no", "yes", "0"),
    {"levels", WEIR_OPT_INT, offsetof(qsgd, levels), "15", "between 0 and the norm of a block",
     .min = 1, .max = 127},
    {0},
};

static void write(const void *self, const weir_fixed_part *p, const float *x, float *value,
                  void *bits)
{
    const qsgd *s = self;
    double sum = sqrt(weir_vec_best()->sumsq(x, p->n));
    float norm = isfinite(sum) ? (float)fmin(sum, FLT_MAX) : 0; /* no element is beyond that */
    int8_t level[BLOCK];
    weir_quant_draw d = {.most = (int)s->levels, .key = p->draw, .at = p->at};

    *value = norm;
    if (norm > 256 * FLT_MIN) /* of less it would be infinite */
        d.factor = (float)s->levels / norm;
    weir_quant_best()->draw(level, x, p->n, &d);
    weir_levels_pack(level, p->n, s->fixed.bits, bits);
}

static void add(const void *self, const float *value, const void *bits, size_t n, float *acc)
{
    const qsgd *s = self;
    int8_t level[BLOCK];

    weir_levels_unpack(bits, n, s->fixed.bits, level);
    weir_quant_best()->add_int8(acc, level, *value / (float)s->levels, n);
}

static weir_err init(void *self, const weir_bucket *b, weir_arena *arena)
{
    static const weir_fixed_way way = {&weir_codec_qsgd, WEIR_FIXED_BLOCKS, BLOCK, 1, write, add};
    int bits = 2;

    (void)arena;
    while ((1 << (bits - 1)) - 1 < ((const qsgd *)self)->levels)
        bits++;
    return weir_fixed_init(self, &way, b, bits);
}

const weir_codec weir_codec_qsgd = {
    .plug = {"qsgd", "levels of a block's norm, drawn so that the mean is right", sizeof(qsgd),
             options},
    .combine = WEIR_COMBINE_STRIPE,
    .mark = 'Q',
    .drop = 0.5,
    .init = init,
    WEIR_FIXED,
};
