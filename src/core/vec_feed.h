/* vec_feed.h - a part of vec_body.h: the kernels that codecs are made of. They run as fast as memory does, so each goes once through it: it asks for lines well
 * before it needs them, as a page ends before the hardware has seen that it is read in order, and what is not read again in this step goes past the caches,
 * as a line need not be fetched to be overwritten. */
enum { FAR = 16384 /* bytes: a tile, so that memory has something to do while its owner works on the one before */, LINE = 64 / sizeof(float), WIDE_FLOATS = WIDE / sizeof(float) };
typedef int32_t wide_i32 __attribute__((vector_size(WIDE), aligned(4), may_alias));

static inline void ask(const float *x, const float *y)
{
    __builtin_prefetch((const char *)x + FAR);
    if (y)
        __builtin_prefetch((const char *)y + FAR);
}

/* |x| as whole numbers have its order, with infinities and NaNs above all else: one maximum says how large x gets, and whether it is finite. */
static inline wide_i32 larger(wide_i32 top, wide_f32 x)
{
    wide_i32 a = (wide_i32)x & INT32_MAX, more = a > top;

    return (a & more) | (top & ~more);
}

static inline int32_t larger_one(int32_t top, float x)
{
    int32_t a;

    memcpy(&a, &x, sizeof a);
    a &= INT32_MAX;
    return a > top ? a : top;
}

static float largest(wide_i32 top, int32_t most)
{
    float x;

    for (size_t l = 0; l < WIDE_FLOATS; l++)
        most = top[l] > most ? top[l] : most;
    memcpy(&x, &most, sizeof x);
    return x;
}

static float most(const float *x, size_t n)
{
    wide_i32 top = {0};
    int32_t rest = 0;
    size_t i = 0;

    for (; i + LINE <= n; i += LINE) {
        ask(x + i, NULL);
        for (size_t k = i; k < i + LINE; k += WIDE_FLOATS)
            top = larger(top, *(const wide_f32 *)(x + k));
    }
    for (; i < n; i++)
        rest = larger_one(rest, x[i]);
    return largest(top, rest);
}

static inline float made_one(const float *grad, float scale, const float *held, size_t i)
{
    float g = scale * grad[i];

    return held ? held[i] + g : g;
}

static inline wide_f32 made(const float *grad, float scale, const float *held, size_t i)
{
    wide_f32 g = scale * *(const wide_f32 *)(grad + i);

    if (held)
        g = *(const wide_f32 *)(held + i) + g;
    return g;
}

static float feed(float *x, const float *grad, float scale, const float *held, size_t n)
{
    wide_i32 top = {0};
    int32_t rest = 0;
    size_t i = 0;

    for (; i + LINE <= n; i += LINE) {
        ask(grad + i, held ? held + i : NULL);
        for (size_t k = i; k < i + LINE; k += WIDE_FLOATS) {
            wide_f32 v = made(grad, scale, held, k);
            top = larger(top, v);
            *(wide_f32 *)(x + k) = v;
        }
    }
    for (; i < n; i++) {
        x[i] = made_one(grad, scale, held, i);
        rest = larger_one(rest, x[i]);
    }
    return largest(top, rest);
}

static void speed_up(float *restrict x, float *restrict sped, const float *restrict speed, const float *restrict grad, size_t n, float scale,
                     float momentum, bool nesterov)
{
    if (!nesterov) {
#pragma omp simd
        for (size_t i = 0; i < n; i++)
            x[i] = sped[i] = momentum * speed[i] + scale * grad[i];
        return;
    }
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        float g = scale * grad[i];
        sped[i] = momentum * speed[i] + g;
        x[i] = g + momentum * sped[i];
    }
}

/* ---- past the caches ---- */

static inline void put_past(float *y, wide_f32 x)
{
#if defined __AVX512F__
    _mm512_stream_ps(y, (__m512)x);
#elif defined __AVX2__
    _mm256_stream_ps(y, (__m256)x);
#elif defined __SSE2__
    _mm_stream_ps(y, (__m128)x);
#else
    *(wide_f32 *)y = x;
#endif
}

static void fence(void)
{
#ifdef __SSE2__
    _mm_sfence();
#endif
}

static void stream(float *y, const float *x, size_t n)
{
    size_t i = 0;

    for (; i < n && (uintptr_t)(y + i) % WIDE; i++)
        y[i] = x[i];
    for (; i + WIDE_FLOATS <= n; i += WIDE_FLOATS)
        put_past(y + i, *(const wide_f32 *)(x + i));
    memcpy(y + i, x + i, (n - i) * sizeof *x);
}

/* Bit l: whether x[l] < 0. */
static inline unsigned signs(wide_i32 x)
{
#if defined __AVX512F__
    return _mm512_movepi32_mask((__m512i)x);
#elif defined __AVX2__
    return (unsigned)_mm256_movemask_ps((__m256)x);
#elif defined __SSE2__
    return (unsigned)_mm_movemask_ps((__m128)x);
#else
    unsigned bits = 0;
    for (size_t l = 0; l < WIDE_FLOATS; l++)
        bits |= (unsigned)(x[l] < 0) << l;
    return bits;
#endif
}

static size_t count_over(const float *x, size_t n, float least)
{
    size_t i = 0, k = 0;

    for (; i + WIDE_FLOATS <= n; i += WIDE_FLOATS)
        k += (size_t)__builtin_popcount(signs((wide_f32)(*(const wide_i32 *)(x + i) & INT32_MAX) > least));
    for (; i < n; i++)
        k += fabsf(x[i]) > least;
    return k;
}

/* ---- the sieve ---- */

static inline float sift_one(float x, uint32_t at, float least, float take, weir_sifted *to)
{
    if (!(fabsf(x) > least))
        return x;
    to->word[to->count] = at << 1 | (x < 0);
    to->value[to->count++] = x;
    return x < 0 ? x + take : x - take;
}

/* Those of the vector that have their bit in `hits`. */
static inline void put_aside(wide_f32 x, unsigned hits, uint32_t at, weir_sifted *to)
{
    unsigned minus = signs((wide_i32)x);
#if defined __AVX512F__
    const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    __m512i word = _mm512_slli_epi32(_mm512_add_epi32(lane, _mm512_set1_epi32((int)at)), 1);
    word = _mm512_mask_add_epi32(word, (__mmask16)minus, word, _mm512_set1_epi32(1));
    _mm512_storeu_si512(to->word + to->count, _mm512_maskz_compress_epi32((__mmask16)hits, word));
    _mm512_storeu_ps(to->value + to->count, _mm512_maskz_compress_ps((__mmask16)hits, (__m512)x));
    to->count += (size_t)__builtin_popcount(hits);
#else
    for (; hits; hits &= hits - 1) {
        unsigned l = (unsigned)__builtin_ctz(hits);
        to->word[to->count] = (at + l) << 1 | (minus >> l & 1);
        to->value[to->count++] = x[l];
    }
#endif
}

static inline wide_f32 sift_wide(wide_f32 x, uint32_t at, float least, float take, weir_sifted *to)
{
    wide_i32 hit = (wide_f32)((wide_i32)x & INT32_MAX) > least, sign = (wide_i32)x & INT32_MIN;
    unsigned hits = signs(hit);
    wide_f32 none = {0};

    if (!hits)
        return x;
    put_aside(x, hits, at, to);
    return x - (wide_f32)(((wide_i32)(none + take) | sign) & hit);
}

static void sift(float *y, const float *grad, float scale, const float *held, size_t n, float least, float take, weir_sifted *to)
{
    wide_i32 top = {0};
    int32_t rest = 0;
    size_t i = 0;

    to->count = 0;
    for (; i < n && (uintptr_t)(y + i) % WIDE; i++) {
        float x = made_one(grad, scale, held, i);
        rest = larger_one(rest, x);
        y[i] = sift_one(x, (uint32_t)i, least, take, to);
    }
    for (; i + LINE <= n; i += LINE) {
        ask(grad + i, held ? held + i : NULL);
        for (size_t k = i; k < i + LINE; k += WIDE_FLOATS) {
            wide_f32 x = made(grad, scale, held, k);
            top = larger(top, x);
            put_past(y + k, sift_wide(x, (uint32_t)k, least, take, to));
        }
    }
    for (; i < n; i++) {
        float x = made_one(grad, scale, held, i);
        rest = larger_one(rest, x);
        y[i] = sift_one(x, (uint32_t)i, least, take, to);
    }
    to->most = largest(top, rest);
}
