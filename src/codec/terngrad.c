/* terngrad.c - -s, 0 or s, drawn so that the mean is right, with s the largest of the tensor (Wen
 * et al. 2017), clipped at 2.5 deviations.
 *
 * Body: for each tensor s (float), then 2 bits an element (levels.h). */
#include "codec/fixed.h"
#include "codec/levels.h"
#include "codec/quant.h"
#include "core/vec.h"
#include <float.h>

/* blocks of whole words: one behind the other they are the tensor's levels */
enum { BLOCK = 512, BITS = 2 };

typedef struct terngrad {
    weir_fixed fixed;
    double clip;
} terngrad;

static const weir_opt options[] = {
    WEIR_FEEDBACK("no", "yes", "0"),
    {"clip", WEIR_OPT_REAL, offsetof(terngrad, clip), "2.5",
     "deviations beyond which elements are clipped; 0: none are", .min = 0, .max = 1e6},
    {0},
};

static float largest(const terngrad *s, const weir_fixed_part *p, const float *x)
{
    double clip =
        s->clip > 0 ? s->clip * sqrt(weir_vec_best()->sumsq(x, p->n) / (double)p->n) : INFINITY;
    float most = clip < (double)p->most ? (float)clip : p->most;

    return isfinite(most) ? most : 0;
}

static void write(const void *self, const weir_fixed_part *p, const float *x, float *value,
                  void *bits)
{
    float most = *value = largest(self, p, x);
    weir_quant_draw d = {.most = 1, .key = p->draw};
    unsigned char *to = bits;
    int8_t level[BLOCK];

    if (most > FLT_MIN) /* of less it would be infinite */
        d.factor = 1 / most;
    for (size_t k = 0, n; k < p->n; k += n, to += weir_levels_bytes(n, BITS)) {
        n = p->n - k < BLOCK ? p->n - k : BLOCK;
        d.at = p->at + k;
        weir_quant_best()->draw(level, x + k, n, &d);
        weir_levels_pack(level, n, BITS, to);
    }
}

static void add(const void *self, const float *value, const void *bits, size_t n, float *acc)
{
    const unsigned char *from = bits;
    int8_t level[BLOCK];

    (void)self;
    for (size_t k = 0, some; k < n; k += some, from += weir_levels_bytes(some, BITS)) {
        some = n - k < BLOCK ? n - k : BLOCK;
        weir_levels_unpack(from, some, BITS, level);
        weir_quant_best()->add_int8(acc + k, level, *value, some);
    }
}

static weir_err init(void *self, const weir_bucket *b, weir_arena *arena)
{
    static const weir_fixed_way way = {&weir_codec_terngrad, WEIR_FIXED_TENSORS, 0, 1, write, add};

    (void)arena;
    return weir_fixed_init(self, &way, b, BITS);
}

const weir_codec weir_codec_terngrad = {
    .plug = {"terngrad", "-s, 0 or s, drawn so that the mean is right", sizeof(terngrad), options},
    .combine = WEIR_COMBINE_GATHER,
    .mark = 'N',
    .rate = 0.25,
    .drop = 1,
    .adamw_drop = 5.2,
    .init = init,
    WEIR_FIXED,
};
