/* onebit.c - one bit an element and two values a row, the means of what is below and of what is not
 * below 0; the error waits (Seide et al. 2014, whose matrices have their columns where ours have
 * rows: the weights of one output).
 *
 * Body: for each row two floats, then a bit for each of its elements, from the lowest bit on, 1
 * where it is not below 0, padded to 4 bytes. */
#include "codec/fixed.h"
#include "codec/quant.h"

static const weir_opt options[] = {WEIR_FEEDBACK("yes", "yes", "0.5"), {0}};

static void write(const void *self, const weir_fixed_part *p, const float *x, float *value,
                  void *bits)
{
    double below, above;
    size_t up = weir_quant_best()->to_bits(bits, x, p->n, &below, &above);

    (void)self;
    value[0] = weir_quant_mean(below, p->n - up);
    value[1] = weir_quant_mean(above, up);
}

static void add(const void *self, const float *value, const void *bits, size_t n, float *acc)
{
    (void)self;
    weir_quant_best()->add_bits(acc, bits, value[0], value[1], n);
}

static weir_err init(void *self, const weir_bucket *b, weir_arena *arena)
{
    static const weir_fixed_way way = {&weir_codec_onebit, WEIR_FIXED_ROWS, 0, 2, write, add};

    (void)arena;
    return weir_fixed_init(self, &way, b, 1);
}

const weir_codec weir_codec_onebit = {
    .plug = {"onebit", "one bit an element, two values a row; the error waits", sizeof(weir_fixed),
             options},
    .combine = WEIR_COMBINE_STRIPE,
    .mark = 'B',
    .drop = 0.7,
    .init = init,
    WEIR_FIXED,
};
