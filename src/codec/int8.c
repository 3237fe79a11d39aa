/* int8.c - 8 bits a float, scaled by the largest of each block.
 *
 * Body: for each 256 floats a scale (float), then a signed byte each: the number divided by the
 * scale, rounded to nearest even; the last block padded to 4 bytes. The scale is the largest |x| /
 * 127, but not below 2^-120: what is smaller becomes 0, and nothing is divided by 0. */
#include "codec/fixed.h"
#include "codec/quant.h"

static const float LEAST = 0x1p-120f;

static const weir_opt options[] = {WEIR_FEEDBACK("no", "yes", "0"), {0}};

static void write(const void *self, const weir_fixed_part *p, const float *x, float *value,
                  void *bits)
{
    float scale = p->most < INFINITY ? p->most / 127 : 0;

    (void)self;
    *value = scale > LEAST ? scale : LEAST;
    weir_quant_best()->to_int8(bits, x, 1 / *value, p->n);
}

static void add(const void *self, const float *value, const void *bits, size_t n, float *acc)
{
    (void)self;
    weir_quant_best()->add_int8(acc, bits, *value, n);
}

static weir_err init(void *self, const weir_bucket *b, weir_arena *arena)
{
    static const weir_fixed_way way = {&weir_codec_int8, WEIR_FIXED_BLOCKS, 256, 1, write, add};

    (void)arena;
    return weir_fixed_init(self, &way, b, 8);
}

const weir_codec weir_codec_int8 = {
    .plug = {"int8", "8 bits a float, scaled by blocks", sizeof(weir_fixed), options},
    .combine = WEIR_COMBINE_STRIPE,
    .mark = 'I',
    .drop = 0.3,
    .init = init,
    WEIR_FIXED,
};
