/* vec_body.h - the text of the kernels, compiled once for each instruction set. The file that
 * includes it defines WEIR_VEC, the table's symbol, and WEIR_VEC_ISA, its name.
 *
 * Loops over single elements give the same bits however they are cut into vectors, as nothing is
 * contracted; a sum does not, so it runs in 16 lanes, element i in lane i % 16, added up in a fixed
 * tree. NaNs agree in being NaNs, not in their payload. */
#include "core/vec.h"
#include "core/wide.h"
#include <math.h>
#include <stdint.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#ifdef __clang__ /* builds with little optimisation leave loops as they are: no reason to stop */
#pragma clang diagnostic ignored "-Wpass-failed"
#endif

enum { LANES = 16 };

static void add(float *restrict y, const float *restrict x, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        y[i] += x[i];
}

static void add_f64(double *restrict y, const double *restrict x, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        y[i] += x[i];
}

static void add_wide(double *restrict y, const float *restrict x, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        y[i] += (double)x[i];
}

static void narrow(float *restrict y, const double *restrict x, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        y[i] = (float)x[i];
}

/* By whole registers: whichever way a compiler cuts a loop over k vectors, it leaves their sums in
 * memory, which costs half the speed. Each vector is read and written once, and what was read is
 * written while it is in the cache. Four registers a turn: with one, the loops over k cost more
 * than the sums. */
/* bytes: a page ends before the hardware has seen that it is read in order */
enum { AHEAD = 2048 };

static void add_all(void *const *x, int k, size_t n)
{
    size_t i = 0, bytes = n * sizeof(float) / WIDE * WIDE;

    for (; i + 4 * WIDE <= bytes; i += 4 * WIDE) {
        const wide_f32 *first = (const wide_f32 *)((const char *)x[0] + i);
        wide_f32 a = first[0], b = first[1], c = first[2], d = first[3];
        for (int j = 1; j < k; j++) {
            const wide_f32 *from = (const wide_f32 *)((const char *)x[j] + i);
            a += from[0], b += from[1], c += from[2], d += from[3];
        }
        for (int j = 0; j < k; j++) {
            wide_f32 *to = (wide_f32 *)((char *)x[j] + i);
            for (int line = 0; line < 4 * WIDE; line += 64)
                __builtin_prefetch((const char *)to + AHEAD + line, 1);
            to[0] = a, to[1] = b, to[2] = c, to[3] = d;
        }
    }
    for (; i < bytes; i += WIDE) {
        wide_f32 sum = *(const wide_f32 *)((const char *)x[0] + i);
        for (int j = 1; j < k; j++)
            sum += *(const wide_f32 *)((const char *)x[j] + i);
        for (int j = 0; j < k; j++)
            *(wide_f32 *)((char *)x[j] + i) = sum;
    }
    for (i /= sizeof(float); i < n; i++) {
        float sum = ((const float *)x[0])[i];
        for (int j = 1; j < k; j++)
            sum += ((const float *)x[j])[i];
        for (int j = 0; j < k; j++)
            ((float *)x[j])[i] = sum;
    }
}

static void add_all_f64(void *const *x, int k, size_t n)
{
    size_t i = 0, bytes = n * sizeof(double) / WIDE * WIDE;

    for (; i < bytes; i += WIDE) {
        wide_f64 sum = *(const wide_f64 *)((const char *)x[0] + i);
        for (int j = 1; j < k; j++)
            sum += *(const wide_f64 *)((const char *)x[j] + i);
        for (int j = 0; j < k; j++)
            *(wide_f64 *)((char *)x[j] + i) = sum;
    }
    for (i /= sizeof(double); i < n; i++) {
        double sum = ((const double *)x[0])[i];
        for (int j = 1; j < k; j++)
            sum += ((const double *)x[j])[i];
        for (int j = 0; j < k; j++)
            ((double *)x[j])[i] = sum;
    }
}

static void scale(float *x, float a, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        x[i] *= a;
}

static void axpy(float *restrict y, float a, const float *restrict x, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        y[i] += a * x[i];
}

static double sumsq(const float *x, size_t n)
{
    double lane[LANES] = {0};
    size_t i = 0;

    for (; i + LANES <= n; i += LANES)
#pragma omp simd
        for (int l = 0; l < LANES; l++)
            lane[l] += (double)x[i + (size_t)l] * (double)x[i + (size_t)l];
    for (size_t l = 0; i + l < n; l++)
        lane[l] += (double)x[i + l] * (double)x[i + l];
    for (int half = LANES / 2; half; half /= 2)
        for (int l = 0; l < half; l++)
            lane[l] += lane[l + half];
    return lane[0];
}

static void sgd(float *restrict w, float *restrict m, const float *restrict grad, size_t n,
                const weir_vec_sgd *s)
{
    const weir_vec_sgd f = *s;

    if (!f.nesterov) {
#pragma omp simd
        for (size_t i = 0; i < n; i++) {
            float g = grad[i] * f.scale + f.decay * w[i];
            m[i] = f.momentum * m[i] + g;
            w[i] -= f.rate * m[i];
        }
        return;
    }
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        float g = grad[i] * f.scale + f.decay * w[i];
        m[i] = f.momentum * m[i] + g;
        w[i] -= f.rate * (g + f.momentum * m[i]);
    }
}

static void sgd_apart(float *restrict w, float *restrict m, const float *restrict grad, size_t n,
                      const weir_vec_sgd *s)
{
    const weir_vec_sgd f = *s;

#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        float d = f.decay * w[i];
        m[i] = f.momentum * m[i] + d;
        w[i] -= f.rate * (grad[i] * f.scale + (f.nesterov ? d + f.momentum * m[i] : m[i]));
    }
}

static void sgd_plain(float *restrict w, const float *restrict grad, size_t n, float rate,
                      float decay, float scale)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        w[i] -= rate * (grad[i] * scale + decay * w[i]);
}

/* Square roots and quotients are rounded correctly everywhere; the quick estimates that some
 * instruction sets have are not. */
static void adagrad(float *restrict w, float *restrict s, const float *restrict grad, size_t n,
                    const weir_vec_adagrad *a)
{
    const weir_vec_adagrad f = *a;

#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        float g = grad[i] * f.scale + f.decay * w[i];
        s[i] += g * g;
        w[i] -= f.rate * (g / (sqrtf(s[i]) + f.eps));
    }
}

static void adam(float *restrict w, float *restrict m, float *restrict v,
                 const float *restrict grad, size_t n, const weir_vec_adam *a)
{
    const weir_vec_adam f = *a;

#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        float g = grad[i] * f.scale + f.decay * w[i];
        m[i] += f.take1 * (g - m[i]);
        v[i] = f.beta2 * v[i] + f.take2 * g * g;
        w[i] = f.keep * w[i] - f.rate * (m[i] / (sqrtf(v[i]) * f.root + f.eps));
    }
}

/* An exponent of all ones is an infinity or a NaN. */
static bool all_finite(const float *x, size_t n)
{
    uint32_t bad = 0;

#pragma omp simd reduction(| : bad)
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        bad |= (bits & 0x7F800000u) == 0x7F800000u;
    }
    return !bad;
}

#include "core/vec_feed.h"

const weir_vec WEIR_VEC = {WEIR_VEC_ISA, add,     add_f64, add_wide,   narrow, add_all,
                           add_all_f64,  scale,   axpy,    sumsq,      sgd,    sgd_apart,
                           sgd_plain,    adagrad, adam,    all_finite, most,   feed,
                           sift,         stream,  fence,   count_over};
