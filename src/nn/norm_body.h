/* norm_body.h - the text of the loops of norm.h, compiled once for each instruction set. The file
 * that includes it defines WEIR_NORM, the table's symbol. Forward and backward must agree on where
 * a relu lets through: both have the same text, and nothing is contracted. */
#include "nn/norm.h"

#ifdef __clang__ /* builds with little optimisation leave loops as they are: no reason to stop */
#pragma clang diagnostic ignored "-Wpass-failed"
#endif

enum { RUN = 4 }; /* places that are summed in float */

typedef weir_norm_piece piece;

/* Each loop is written once, for any number of lanes, and compiled for 16, for 8 and for any. */
#define WEIR_INLINE static inline __attribute__((always_inline))

/* By-lane values into an array that nothing else points to, and so into registers. */
WEIR_INLINE void take(float *to, const float *from, int lanes)
{
    for (int l = 0; l < lanes; l++)
        to[l] = from[l];
}

WEIR_INLINE void add_run(double *sum, const float *s, int lanes)
{
    for (int l = 0; l < lanes; l++)
        sum[l] += s[l];
}

WEIR_INLINE void sums_of(const piece *p, const int lanes)
{
    float mean[WEIR_NORM_LANES];

    take(mean, p->mean, lanes);
    for (int l = 0; l < 2 * lanes; l++)
        p->sum[l] = 0;
    for (int64_t from = 0; from < p->places; from += RUN) {
        int64_t to = from + RUN < p->places ? from + RUN : p->places;
        float s[WEIR_NORM_LANES] = {0}, q[WEIR_NORM_LANES] = {0};
        for (int64_t i = from; i < to; i++) {
            const float *x = p->x + i * p->step;
#pragma omp simd
            for (int l = 0; l < lanes; l++) {
                float d = x[l] - mean[l];
                s[l] += d;
                q[l] += d * d;
            }
        }
        add_run(p->sum, s, lanes);
        add_run(p->sum + lanes, q, lanes);
    }
}

WEIR_INLINE void apply_to(const piece *p, const int lanes, const bool relu)
{
    float mean[WEIR_NORM_LANES], a[WEIR_NORM_LANES], b[WEIR_NORM_LANES];

    take(mean, p->mean, lanes);
    take(a, p->a, lanes);
    take(b, p->b, lanes);
    for (int64_t i = 0; i < p->places; i++) {
        const float *x = p->x + i * p->step;
        float *y = p->y + i * p->step;
#pragma omp simd
        for (int l = 0; l < lanes; l++) {
            float v = (x[l] - mean[l]) * a[l] + b[l];
            y[l] = !relu || v > 0 ? v : 0;
        }
    }
}

WEIR_INLINE void back_sums_of(const piece *p, const int lanes, const bool relu)
{
    float mean[WEIR_NORM_LANES], a[WEIR_NORM_LANES], b[WEIR_NORM_LANES];

    take(mean, p->mean, lanes);
    take(a, p->a, lanes);
    take(b, p->b, lanes);
    for (int l = 0; l < 2 * lanes; l++)
        p->sum[l] = 0;
    for (int64_t from = 0; from < p->places; from += RUN) {
        int64_t to = from + RUN < p->places ? from + RUN : p->places;
        float s[WEIR_NORM_LANES] = {0}, q[WEIR_NORM_LANES] = {0};
        for (int64_t i = from; i < to; i++) {
            const float *x = p->x + i * p->step, *dy = p->dy + i * p->step;
#pragma omp simd
            for (int l = 0; l < lanes; l++) {
                float d = x[l] - mean[l], g = !relu || d * a[l] + b[l] > 0 ? dy[l] : 0;
                s[l] += g;
                q[l] += g * d;
            }
        }
        add_run(p->sum, s, lanes);
        add_run(p->sum + lanes, q, lanes);
    }
}

WEIR_INLINE void back_to(const piece *p, const int lanes, const bool relu)
{
    float mean[WEIR_NORM_LANES], a[WEIR_NORM_LANES], b[WEIR_NORM_LANES];
    float by_dy[WEIR_NORM_LANES], by_x[WEIR_NORM_LANES], rest[WEIR_NORM_LANES];

    take(mean, p->mean, lanes);
    take(a, p->a, lanes);
    take(b, p->b, lanes);
    take(by_dy, p->by_dy, lanes);
    take(by_x, p->by_x, lanes);
    take(rest, p->rest, lanes);
    for (int64_t i = 0; i < p->places; i++) {
        const float *x = p->x + i * p->step, *dy = p->dy + i * p->step;
        float *dx = p->dx + i * p->step;
#pragma omp simd
        for (int l = 0; l < lanes; l++) {
            float d = x[l] - mean[l], g = !relu || d * a[l] + b[l] > 0 ? dy[l] : 0;
            dx[l] = by_dy[l] * g + by_x[l] * d + rest[l];
        }
    }
}

static void sums(const piece *p)
{
    if (p->lanes == 16)
        sums_of(p, 16);
    else if (p->lanes == 8)
        sums_of(p, 8);
    else
        sums_of(p, (int)p->lanes);
}

#define WEIR_BY_LANES(f)               \
    if (p->lanes == 16 && p->relu)     \
        f(p, 16, true);                \
    else if (p->lanes == 16)           \
        f(p, 16, false);               \
    else if (p->lanes == 8 && p->relu) \
        f(p, 8, true);                 \
    else if (p->lanes == 8)            \
        f(p, 8, false);                \
    else                               \
        f(p, (int)p->lanes, p->relu)

static void apply(const piece *p) { WEIR_BY_LANES(apply_to); }
static void back_sums(const piece *p) { WEIR_BY_LANES(back_sums_of); }
static void back(const piece *p) { WEIR_BY_LANES(back_to); }

const weir_norm_loops WEIR_NORM = {sums, apply, back_sums, back};
