/* quant.h - inside codec/: loops between floats and few bits, one set for each instruction set,
 * chosen as core/vec.h chooses. All sets give the same bits. */
#ifndef WEIR_CODEC_QUANT_H
#define WEIR_CODEC_QUANT_H
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where low parts of eight words lie, b + 1 bits each, b at most WEIR_RICE_LOWS_BITS: four bytes
 * each out of the 16 from the first on, and, for the last four, out of those from byte (b + 1) / 2
 * on; shifted. */
enum { WEIR_RICE_LOWS_BITS = 24, WEIR_RICE_LOWS_MORE = 16 };
typedef struct weir_rice_lows {
    unsigned char byte[8][4];
    uint32_t shift[8];
    int b;
} weir_rice_lows;
weir_rice_lows weir_rice_lows_of(int b);

/* How levels are drawn. */
typedef struct weir_quant_draw {
    float factor;
    int most;
    uint64_t key, at;
} weir_quant_draw;

typedef struct weir_quant {
    const char *isa;
    /* h = factor * x, to nearest even; past the caches, if it says so: then somebody has to see to
     * a fence */
    void (*to_fp16)(uint16_t *h, const float *x, float factor, size_t n, bool past);
    /* y += factor * h; as do all add_ */
    void (*add_fp16)(float *y, const uint16_t *h, float factor, size_t n);
    void (*to_bf16)(uint16_t *h, const float *x, size_t n);
    void (*add_bf16)(float *y, const uint16_t *h, float factor, size_t n);
    void (*to_int8)(int8_t *q, const float *x, float factor, size_t n); /* clamped at +-127 */
    void (*add_int8)(float *y, const int8_t *q, float factor, size_t n);
    /* bit i % 32 of word i / 32: x[i] is not below 0; the rest of the last word 0. Sums of what is
     * and what is not. How many are not */
    size_t (*to_bits)(uint32_t *bits, const float *x, size_t n, double *below, double *above);
    /* y += bit ? one : zero */
    void (*add_bits)(float *y, const uint32_t *bits, float zero, float one, size_t n);
    /* level = sign of x * floor(factor * |x| + u), at most `most`, u in [0, 1) drawn by (key, at +
     * i): its mean is factor * x */
    void (*draw)(int8_t *level, const float *x, size_t n, const weir_quant_draw *);
    /* Eight words of rice.h: high[i] is the high parts' sum since the first word of all, `before`
     * the low parts' sum of the words before these eight. May read up to WEIR_RICE_LOWS_MORE bytes
     * beyond their low parts. The sum of these eight low parts alone */
    uint32_t (*unrice)(uint32_t *word, const uint32_t *high, const unsigned char *low,
                       const weir_rice_lows *, uint32_t before);
    float (*dot)(const float *x, const float *y, size_t n);
} weir_quant;

static inline size_t weir_quant_bits_bytes(size_t n) { return (n + 31) / 32 * 4; }
/* 0 of none, and of what is not finite: that is the feed's to notice. */
static inline float weir_quant_mean(double sum, size_t n)
{
    float m = n ? (float)(sum / (double)n) : 0;

    return isfinite(m) ? m : 0;
}

const weir_quant *weir_quant_best(void);
const weir_quant *weir_quant_of(const char *isa); /* NULL: not on this machine */
#endif
