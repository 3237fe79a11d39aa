/* sign.c - signs, and one value a tensor, the mean of |x|; the error waits (EF-signSGD, Karimireddy
 * et al. 2019).
 *
 * Body: for each tensor a float, then a bit for each of its elements, from the lowest bit on, 1
 * where it is not below 0, padded to 4 bytes. */
#include "codec/fixed.h"
#include "codec/quant.h"

static const weir_opt options[] = {WEIR_FEEDBACK("yes", "yes", "0.5"), {0}};

static void write(const void *self, const weir_fixed_part *p, const float *x, float *value,
                  void *bits)
{
    double below, above;

    (void)self;
    weir_quant_best()->to_bits(bits, x, p->n, &below, &above);
    *value = weir_quant_mean(above - below, p->n);
}

static void add(const void *self, const float *value, const void *bits, size_t n, float *acc)
{
    (void)self;
    weir_quant_best()->add_bits(acc, bits, -*value, *value, n);
}

static weir_err init(void *self, const weir_bucket *b, weir_arena *arena)
{
    static const weir_fixed_way way = {&weir_codec_sign, WEIR_FIXED_TENSORS, 0, 1, write, add};

    (void)arena;
    return weir_fixed_init(self, &way, b, 1);
}

const weir_codec weir_codec_sign = {
    .plug = {"sign", "signs, and one value a tensor; the error waits", sizeof(weir_fixed), options},
    .combine = WEIR_COMBINE_STRIPE,
    .mark = 'G',
    .drop = 0.7,
    .init = init,
    WEIR_FIXED,
};
