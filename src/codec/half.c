/* half.c - 16 bits a float. fp16 has its numbers scaled by a power of two a block, so that small
 * gradients keep their bits; bf16 has the range of floats.
 *
 * Body: for each 4096 floats a scale (float, a power of two), then 16 bits each: the number divided
 * by the scale, rounded to nearest even; the last block padded to 4 bytes. */
#include "codec/fixed.h"
#include "codec/quant.h"

enum { FP16, BF16 };

typedef struct half {
    weir_fixed fixed;
    int kind;
} half;

static const weir_opt options[] = {
    WEIR_FEEDBACK("no", "yes", "0"),
    {"kind", WEIR_OPT_CHOICE, offsetof(half, kind), "fp16", "which 16 bits", .choices = "fp16|bf16",
     .bare = true},
    {0},
};

/* The largest becomes at most 2^14: far from the end of the range, and all below have their bits
 * down to 2^-28 of it. */
static float scale_of(float most)
{
    int e;

    if (!(most > 0 && most < INFINITY))
        return 1;
    frexpf(most, &e);
    e -= 14;
    return ldexpf(1, e < -126 ? -126 : e > 112 ? 112 : e);
}

static void write(const void *self, const weir_fixed_part *p, const float *x, float *value,
                  void *bits)
{
    if (((const half *)self)->kind == FP16)
        weir_quant_best()->to_fp16(bits, x, 1 / (*value = scale_of(p->most)), p->n, p->past);
    else
        weir_quant_best()->to_bf16(bits, x, p->n), *value = 1;
}

static void add(const void *self, const float *value, const void *bits, size_t n, float *acc)
{
    const weir_quant *q = weir_quant_best();

    (((const half *)self)->kind == FP16 ? q->add_fp16 : q->add_bf16)(acc, bits, *value, n);
}

static weir_err init(void *self, const weir_bucket *b, weir_arena *arena)
{
    static const weir_fixed_way way = {&weir_codec_half, WEIR_FIXED_BLOCKS, 4096, 1, write, add};

    (void)arena;
    return weir_fixed_init(self, &way, b, 16);
}

const weir_codec weir_codec_half = {
    .plug = {"half", "16 bits a float", sizeof(half), options},
    .combine = WEIR_COMBINE_STRIPE,
    .mark = 'H',
    .drop = 0.3,
    .init = init,
    WEIR_FIXED,
};
