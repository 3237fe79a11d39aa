/* quant_body.h - the text of quant.h's loops. The file that includes it defines WEIR_QUANT, the
 * table's symbol, and WEIR_QUANT_ISA. */
#include "codec/quant.h"
#include "core/wide.h"
#include <math.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"
#endif

enum { LANES = 16, WORD = 32, BLOCK = 4096 };

static uint32_t bits_of(float x)
{
    uint32_t b;

    memcpy(&b, &x, sizeof b);
    return b;
}

static float of_bits(uint32_t b)
{
    float x;

    memcpy(&x, &b, sizeof x);
    return x;
}

/* ---- 16 bits ---- */

/* Adding 2^k * 0.5 where the last kept bit stands for 2^k rounds as the hardware does; below the
 * smallest normal number the sum does it all. */
static inline uint16_t half_of(float x)
{
#ifdef __F16C__
    return _cvtss_sh(x, 0);
#else
    uint32_t b = bits_of(x), sign = b >> 16 & 0x8000, a = b & 0x7fffffff;

    if (a >= 0x47800000) /* 65536 and beyond, infinities, NaNs */
        return (uint16_t)(sign | (a > 0x7f800000 ? 0x7e00 : 0x7c00));
    if (a < 0x38800000)
        return (uint16_t)(sign | (bits_of(of_bits(a) + 0.5f) - 0x3f000000));
    return (uint16_t)(sign | ((a - 0x38000000 + 0xfff + (a >> 13 & 1)) >> 13));
#endif
}

static float of_half(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, a = h & 0x7fff;

    if (a >= 0x7c00)
        return of_bits(sign | 0x7f800000 | (a & 0x3ff) << 13);
    if (a < 0x400)
        return of_bits(bits_of((float)a * 0x1p-24f) | sign);
    return of_bits(sign | ((a << 13) + 0x38000000));
}

static void to_fp16(uint16_t *h, const float *x, float factor, size_t n, bool past)
{
    size_t i = 0;

    for (; past && i < n && (uintptr_t)(h + i) % 64; i++)
        h[i] = half_of(factor * x[i]);
#if defined __AVX512F__
    for (; i + 32 <= n; i += 32) {
        __m256i low =
            _mm512_cvtps_ph(_mm512_mul_ps(_mm512_loadu_ps(x + i), _mm512_set1_ps(factor)), 0);
        __m256i high =
            _mm512_cvtps_ph(_mm512_mul_ps(_mm512_loadu_ps(x + i + 16), _mm512_set1_ps(factor)), 0);
        __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
        if (past)
            _mm512_stream_si512((__m512i *)(void *)(h + i), both);
        else
            _mm512_storeu_si512(h + i, both);
    }
#elif defined __F16C__
    for (; i + 16 <= n; i += 16) {
        __m128i low =
            _mm256_cvtps_ph(_mm256_mul_ps(_mm256_loadu_ps(x + i), _mm256_set1_ps(factor)), 0);
        __m128i high =
            _mm256_cvtps_ph(_mm256_mul_ps(_mm256_loadu_ps(x + i + 8), _mm256_set1_ps(factor)), 0);
        __m256i both = _mm256_set_m128i(high, low);
        if (past)
            _mm256_stream_si256((__m256i *)(void *)(h + i), both);
        else
            _mm256_storeu_si256((__m256i *)(void *)(h + i), both);
    }
#endif
    for (; i < n; i++)
        h[i] = half_of(factor * x[i]);
}

static void add_fp16(float *y, const uint16_t *h, float factor, size_t n)
{
    size_t i = 0;

#if defined __AVX512F__
    for (; i + 16 <= n; i += 16) {
        __m512 v = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(h + i)));
        _mm512_storeu_ps(y + i, _mm512_add_ps(_mm512_loadu_ps(y + i),
                                              _mm512_mul_ps(v, _mm512_set1_ps(factor))));
    }
#elif defined __F16C__
    for (; i + 8 <= n; i += 8) {
        __m256 v = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(h + i)));
        _mm256_storeu_ps(y + i, _mm256_add_ps(_mm256_loadu_ps(y + i),
                                              _mm256_mul_ps(v, _mm256_set1_ps(factor))));
    }
#endif
    for (; i < n; i++)
        y[i] += factor * of_half(h[i]);
}

static void to_bf16(uint16_t *restrict h, const float *restrict x, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        uint32_t b = bits_of(x[i]);
        h[i] = (uint16_t)((b + 0x7fff + (b >> 16 & 1)) >> 16);
    }
}

static void add_bf16(float *restrict y, const uint16_t *restrict h, float factor, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        y[i] += factor * of_bits((uint32_t)h[i] << 16);
}

/* ---- 8 bits ---- */

static void to_int8(int8_t *restrict q, const float *restrict x, float factor, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        float v = rintf(factor * x[i]);
        v = v < 127 ? v : 127; /* NaNs too */
        v = v > -127 ? v : -127;
        q[i] = (int8_t)(int)v;
    }
}

static void add_int8(float *restrict y, const int8_t *restrict q, float factor, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        y[i] += factor * (float)q[i];
}

/* Two rounds of a 32-bit mixer over counter and key: the low bits of nearby counters have nothing
 * in common. */
static inline uint32_t mix(uint32_t h)
{
    h ^= h >> 16;
    h *= 0x85ebca6bu;
    h ^= h >> 13;
    h *= 0xc2b2ae35u;
    return h ^ h >> 16;
}

static void draw(int8_t *restrict level, const float *restrict x, size_t n,
                 const weir_quant_draw *d)
{
    const weir_quant_draw f = *d;
    const float most = (float)f.most;
    uint32_t low = (uint32_t)f.key, high = (uint32_t)(f.key >> 32);

#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        uint32_t h = mix(mix((uint32_t)(f.at + i) * 0x9e3779b1u + low) ^ high);
        float a = f.factor * fabsf(x[i]) + (float)(int)(h >> 8) * 0x1p-24f;
        int k = (int)(a < most ? a : most);
        level[i] = (int8_t)(x[i] < 0 ? -k : k);
    }
}

/* ---- one bit ---- */

static uint32_t word_of(const float *x, int n)
{
    uint32_t w = 0;

    for (int l = 0; l < n; l++)
        w |= (uint32_t) !(x[l] < 0) << l;
    return w;
}

enum { FLOATS = WIDE / sizeof(float), PARTS = LANES / FLOATS };

/* Bits and sums of a vector. (gcc makes two slow blends of plain operators, under AVX2.) */
static inline uint32_t wide_bits(const float *x, wide_f32 *low, wide_f32 *high)
{
#if defined __AVX2__ && !defined __AVX512F__
    __m256 v = _mm256_loadu_ps(x), minus = _mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_LT_OQ);
    *low += (wide_f32)_mm256_and_ps(minus, v);
    *high += (wide_f32)_mm256_andnot_ps(minus, v);
    return ~(uint32_t)_mm256_movemask_ps(minus) & 0xff;
#else
    wide_f32 v = *(const wide_f32 *)x;
    wide_i32 minus = v < 0;
    uint32_t bits = 0;

    *low += (wide_f32)((wide_i32)v & minus);
    *high += (wide_f32)((wide_i32)v & ~minus);
#ifdef __AVX512F__
    bits = _mm512_movepi32_mask((__m512i)~minus);
#else
    for (size_t l = 0; l < FLOATS; l++)
        bits |= (uint32_t)!minus[l] << l;
#endif
    return bits;
#endif
}

/* Bits and sums of a block; sums run in 16 lanes of floats, then in double. */
static size_t block_bits(uint32_t *bits, const float *x, size_t n, double *below, double *above)
{
    wide_f32 low[PARTS] = {0}, high[PARTS] = {0};
    size_t up = 0, i = 0;

    for (; i + WORD <= n; i += WORD) {
        uint32_t word = 0;
#ifdef __clang__
#pragma clang loop unroll(full)
#else
#pragma GCC unroll 8 /* or the sums are kept in memory */
#endif
        for (size_t k = 0; k < WORD / FLOATS; k++)
            word |= wide_bits(x + i + k * FLOATS, &low[k % PARTS], &high[k % PARTS]) << k * FLOATS;
        bits[i / WORD] = word;
        up += (size_t)__builtin_popcount(word);
    }
    if (i < n) {
        bits[i / WORD] = word_of(x + i, (int)(n - i));
        up += (size_t)__builtin_popcount(bits[i / WORD]);
    }
    for (size_t l = 0; i < n; i++, l = (l + 1) % LANES) {
        low[l / FLOATS][l % FLOATS] += x[i] < 0 ? x[i] : 0;
        high[l / FLOATS][l % FLOATS] += x[i] < 0 ? 0 : x[i];
    }
    for (size_t l = 0; l < LANES; l++) {
        *below += (double)low[l / FLOATS][l % FLOATS];
        *above += (double)high[l / FLOATS][l % FLOATS];
    }
    return up;
}

static size_t to_bits(uint32_t *bits, const float *x, size_t n, double *below, double *above)
{
    size_t up = 0;

    *below = *above = 0;
    for (size_t k = 0; k < n; k += BLOCK)
        up += block_bits(bits + k / WORD, x + k, n - k < BLOCK ? n - k : BLOCK, below, above);
    return up;
}

static void add_bits(float *restrict y, const uint32_t *restrict bits, float zero, float one,
                     size_t n)
{
    size_t i = 0;

    for (; i + WORD <= n; i += WORD) {
        uint32_t w = bits[i / WORD];
#if defined __AVX512F__
        for (int k = 0; k < 2; k++) {
            __m512 v = _mm512_mask_blend_ps((__mmask16)(w >> 16 * k), _mm512_set1_ps(zero),
                                            _mm512_set1_ps(one));
            _mm512_storeu_ps(y + i + 16 * k, _mm512_add_ps(_mm512_loadu_ps(y + i + 16 * k), v));
        }
#else
#pragma omp simd
        for (int l = 0; l < WORD; l++)
            y[i + (size_t)l] += w >> l & 1 ? one : zero;
#endif
    }
    for (; i < n; i++)
        y[i] += bits[i / WORD] >> i % WORD & 1 ? one : zero;
}

/* ---- words ---- */

static uint32_t unrice(uint32_t *word, const uint32_t *high, const unsigned char *low,
                       const weir_rice_lows *l, uint32_t before)
{
    const int b = l->b;
#ifdef __AVX2__
    const __m128i by = _mm_cvtsi32_si128(b);
    __m256i v = _mm256_set_m128i(_mm_loadu_si128(
                                     (const __m128i *)(const void *)(low + (b + 1) / 2)),
                                 _mm_loadu_si128((const __m128i *)(const void *)low)),
            x, sign;

    v = _mm256_srlv_epi32(_mm256_shuffle_epi8(v, _mm256_loadu_si256(
                                                     (const __m256i *)(const void *)l->byte)),
                          _mm256_loadu_si256((const __m256i *)(const void *)l->shift));
    x = _mm256_and_si256(v, _mm256_set1_epi32((1 << b) - 1));
    sign = _mm256_and_si256(_mm256_srl_epi32(v, by), _mm256_set1_epi32(1));
    x = _mm256_add_epi32(x, _mm256_slli_si256(x, 4)); /* sums of two, of four, of eight */
    x = _mm256_add_epi32(x, _mm256_slli_si256(x, 8));
    x = _mm256_add_epi32(x, _mm256_blend_epi32(_mm256_setzero_si256(),
                                               _mm256_permutevar8x32_epi32(x, _mm256_set1_epi32(3)),
                                               0xf0));
    v = _mm256_add_epi32(_mm256_add_epi32(x, _mm256_set1_epi32((int)before)),
                         _mm256_sll_epi32(_mm256_loadu_si256((const __m256i *)(const void *)high),
                                          by));
    _mm256_storeu_si256((__m256i *)(void *)word, _mm256_or_si256(_mm256_add_epi32(v, v), sign));
    return (uint32_t)_mm256_extract_epi32(x, 7);
#else
    uint32_t sum = 0;

    for (unsigned i = 0, bit = 0; i < 8; i++, bit += (unsigned)b + 1) {
        uint32_t v;
        memcpy(&v, low + bit / 8, sizeof v);
        v >>= bit % 8;
        sum += v & ((1u << b) - 1);
        word[i] = ((high[i] << b) + before + sum) << 1 | (v >> b & 1);
    }
    return sum;
#endif
}

typedef float lanes_f32 __attribute__((vector_size(64), aligned(4), may_alias));

static float dot(const float *x, const float *y, size_t n)
{
    lanes_f32 lane = {0};
    size_t i = 0;

    for (; i + LANES <= n; i += LANES)
        lane += *(const lanes_f32 *)(x + i) * *(const lanes_f32 *)(y + i);
    for (int l = 0; i < n; i++, l++)
        lane[l] += x[i] * y[i];
    for (int half = LANES / 2; half; half /= 2)
        for (int l = 0; l < half; l++)
            lane[l] += lane[l + half];
    return lane[0];
}

const weir_quant WEIR_QUANT = {WEIR_QUANT_ISA, to_fp16, add_fp16, to_bf16, add_bf16, to_int8,
                               add_int8,       to_bits, add_bits, draw,    unrice,   dot};
