/* vec_feed.h - a part of vec_body.h: the kernels that codecs are made of. They run as fast as
 * memory does, so each goes once through it: it asks for lines well before it needs them, as a page
 * ends before the hardware has seen that it is read in order, and what is not read again in this
 * step goes past the caches, as a line need not be fetched to be overwritten. */
enum { FAR = 4096 /* bytes */, LINE = 64 / sizeof(float), WIDE_FLOATS = WIDE / sizeof(float) };

/* Always inline: gcc takes a function that only asks for one without effect, and leaves it out. */
static inline __attribute__((always_inline)) void ask(const float *x)
{
    if (x)
        __builtin_prefetch((const void *)((uintptr_t)x + FAR));
}

/* |x| as whole numbers have its order, with infinities and NaNs above all else: one maximum says
 * how large x gets, and whether it is finite. */
static inline wide_i32 larger(wide_i32 top, wide_f32 x)
{
    wide_i32 a = (wide_i32)x & INT32_MAX;

#if defined __AVX512F__
    return (wide_i32)_mm512_max_epi32((__m512i)a, (__m512i)top);
#elif defined __AVX2__
    return (wide_i32)_mm256_max_epi32((__m256i)a, (__m256i)top);
#else
    wide_i32 more = a > top;
    return (a & more) | (top & ~more);
#endif
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
        ask(x + i);
        for (size_t k = i; k < i + LINE; k += WIDE_FLOATS)
            top = larger(top, *(const wide_f32 *)(x + k));
    }
    for (; i < n; i++)
        rest = larger_one(rest, x[i]);
    return largest(top, rest);
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

/* Past them if it lies so that it can. */
static inline void put(float *y, wide_f32 x)
{
    if ((uintptr_t)y % WIDE)
        *(wide_f32 *)y = x;
    else
        put_past(y, x);
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
        k += (size_t)__builtin_popcount(
            signs((wide_f32)(*(const wide_i32 *)(x + i) & INT32_MAX) > least));
    for (; i < n; i++)
        k += fabsf(x[i]) > least;
    return k;
}

/* ---- x ---- */

static inline float made_one(const weir_vec_source *s, size_t i)
{
    float g = s->scale * s->grad[i];

    if (s->speed) {
        float u = s->sped[i] = s->momentum * s->speed[i] + g;
        g = s->nesterov ? g + s->momentum * u : u;
    }
    return s->held ? s->held[i] + g : g;
}

static inline __attribute__((always_inline)) wide_f32 made(const weir_vec_source *s, size_t i,
                                                           wide_f32 *sped)
{
    wide_f32 g = s->scale * *(const wide_f32 *)(s->grad + i);

    if (s->speed) {
        wide_f32 u = *sped = s->momentum * *(const wide_f32 *)(s->speed + i) + g;
        if (s->nesterov)
            u = g + s->momentum * u;
        g = u;
    }
    if (s->held)
        g = *(const wide_f32 *)(s->held + i) + g;
    return g;
}

static inline __attribute__((always_inline)) void ask_all(const weir_vec_source *s, size_t i)
{
    ask(s->grad + i);
    ask(s->held ? s->held + i : NULL);
    ask(s->speed ? s->speed + i : NULL);
}

static float feed(float *x, const weir_vec_source *source, size_t n)
{
    const weir_vec_source s = *source;
    wide_i32 top = {0};
    int32_t rest = 0;
    size_t i = 0;

    for (; i + LINE <= n; i += LINE) {
        ask_all(&s, i);
        for (size_t k = i; k < i + LINE; k += WIDE_FLOATS) {
            wide_f32 sped = {0}, v = made(&s, k, &sped);
            if (s.speed)
                put(s.sped + k, sped);
            top = larger(top, v);
            *(wide_f32 *)(x + k) = v;
        }
    }
    for (; i < n; i++) {
        x[i] = made_one(&s, i);
        rest = larger_one(rest, x[i]);
    }
    return largest(top, rest);
}

/* ---- the sieve ---- */

/* Beyond `least` an element is put aside, and `take` taken off it. */
typedef struct sieve_width {
    float least, take;
} sieve_width;

/* What a sieve has found: those put aside, and the largest of all. */
typedef struct sieve_found {
    weir_vec_sifted to;
    wide_i32 top;
} sieve_found;

static inline float sift_one(float x, uint32_t at, sieve_width m, weir_vec_sifted *to)
{
    if (!(fabsf(x) > m.least))
        return x;
    to->word[to->count] = at << 1 | (x < 0);
    to->value[to->count++] = x;
    return x < 0 ? x + m.take : x - m.take;
}

/* Those of the line that have their bit in `hits`. */
static inline void put_aside(const float *line, unsigned hits, uint32_t at, weir_vec_sifted *to)
{
#if defined __AVX512F__
    const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    __m512i x = _mm512_loadu_si512(line),
            word = _mm512_slli_epi32(_mm512_add_epi32(lane, _mm512_set1_epi32((int)at)), 1);
    word = _mm512_or_si512(word, _mm512_srli_epi32(x, 31));
    _mm512_storeu_si512(to->word + to->count, _mm512_maskz_compress_epi32((__mmask16)hits, word));
    _mm512_storeu_si512(to->value + to->count, _mm512_maskz_compress_epi32((__mmask16)hits, x));
    to->count += (size_t)__builtin_popcount(hits);
#else
    for (; hits; hits &= hits - 1) {
        unsigned l = (unsigned)__builtin_ctz(hits);
        to->word[to->count] = (at + l) << 1 | (line[l] < 0);
        to->value[to->count++] = line[l];
    }
#endif
}

/* A line of x goes to y; a bit for each of those beyond. */
static inline __attribute__((always_inline)) unsigned sift_line(float *y, const weir_vec_source *s,
                                                                size_t i, sieve_width m,
                                                                float *line, wide_i32 *top)
{
    wide_f32 none = {0}, by = none + m.take;
    wide_i32 masked = (wide_i32)none - (s->mask && m.take > 0);
    unsigned hits = 0;

    for (size_t k = 0; k < LINE; k += WIDE_FLOATS) {
        wide_f32 sped = none, x = made(s, i + k, &sped);
        wide_i32 hit = (wide_f32)((wide_i32)x & INT32_MAX) > m.least;
        *top = larger(*top, x);
        *(wide_f32 *)(line + k) = x;
        hits |= signs(hit) << k;
        if (s->speed)
            put(s->sped + i + k, (wide_f32)((wide_i32)sped & ~(hit & masked)));
        put_past(y + i + k, x - (wide_f32)(((wide_i32)by | ((wide_i32)x & INT32_MIN)) & hit));
    }
    return hits;
}

/* Those that do not fill a vector. */
static inline int32_t sift_few(float *y, const weir_vec_source *s, size_t i, size_t end,
                               sieve_width m, weir_vec_sifted *to)
{
    int32_t top = 0;

    for (; i < end; i++) {
        float x = made_one(s, i);
        top = larger_one(top, x);
        if (s->speed && s->mask && m.take > 0 && fabsf(x) > m.least)
            s->sped[i] = 0;
        y[i] = sift_one(x, (uint32_t)i, m, to);
    }
    return top;
}

/* Whole lines from i on; the first element that is left. */
static inline __attribute__((always_inline)) size_t sift_lines(float *y, const weir_vec_source *s,
                                                               size_t i, size_t n, sieve_width m,
                                                               sieve_found *f)
{
    wide_i32 top = f->top;
    float line[LINE];

    for (; i + LINE <= n; i += LINE) {
        unsigned hits = sift_line(y, s, i, m, line, &top);
        ask_all(s, i);
        if (hits)
            put_aside(line, hits, (uint32_t)i, &f->to);
    }
    f->top = top;
    return i;
}

static void sift(float *y, const weir_vec_source *source, size_t n, float least, float take,
                 weir_vec_sifted *result)
{
    const weir_vec_source s = *source;
    const sieve_width m = {least, take};
    sieve_found f = {.to = {result->word, result->value, 0, 0}};
    size_t i = (WIDE - (uintptr_t)y % WIDE) % WIDE / sizeof *y;
    int32_t rest, last;

    i = i < n ? i : n;
    rest = sift_few(y, &s, 0, i, m, &f.to);
    if (s.speed)
        i = sift_lines(y, &s, i, n, m, &f);
    else { /* the same loop, compiled for a source without momentum: a tenth faster */
        weir_vec_source still = s;
        still.speed = NULL;
        i = sift_lines(y, &still, i, n, m, &f);
    }
    last = sift_few(y, &s, i, n, m, &f.to);
    f.to.most = largest(f.top, last > rest ? last : rest);
    *result = f.to;
}
