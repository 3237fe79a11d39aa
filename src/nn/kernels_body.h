/* kernels_body.h - the text of the kernels, compiled once for each instruction set. The file that
 * includes it defines WEIR_KERNELS, the table's symbol, WEIR_KERNELS_ISA, its name, and how large a
 * tile the registers hold. */
#include "nn/kernels.h"
#include <math.h>
#include <string.h>

#ifdef __clang__ /* builds with little optimisation leave loops as they are: no reason to stop */
#pragma clang diagnostic ignored "-Wpass-failed"
#endif

#define INLINE static inline __attribute__((always_inline))

/* ---- products ---- */

typedef float vector __attribute__((vector_size(LANES * sizeof(float)), aligned(sizeof(float))));
enum { PER_UNIT = WEIR_UNIT / LANES };

/* A tile of rows x units, its sums in registers: the loops over constants are unrolled. */
INLINE void tile(const weir_product *p, int rows, int units, const float *a, const float *b,
                 float *c)
{
    vector sum[ROWS][UNITS * PER_UNIT];

    for (int r = 0; r < rows; r++)
        for (int v = 0; v < units * PER_UNIT; v++)
            sum[r][v] = p->add ? *(const vector *)(c + r * p->c.row + v / PER_UNIT * p->c.unit +
                                                   v % PER_UNIT * LANES)
                               : (vector){0};
    for (int64_t k = 0; k < p->k; k++) {
        vector row[UNITS * PER_UNIT];
        for (int v = 0; v < units * PER_UNIT; v++)
            row[v] = *(const vector *)(b + k * p->b.row + v / PER_UNIT * p->b.unit +
                                       v % PER_UNIT * LANES);
        for (int r = 0; r < rows; r++) {
            float x = a[r * p->a.row + k * p->a.col];
            for (int v = 0; v < units * PER_UNIT; v++)
                sum[r][v] += x * row[v];
        }
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < units * PER_UNIT; v++)
            *(vector *)(c + r * p->c.row + v / PER_UNIT * p->c.unit + v % PER_UNIT * LANES) =
                sum[r][v];
}

/* Some units of all rows, cut into tiles of nearly the same height. */
INLINE void strip(const weir_product *p, int units, const float *b, float *c)
{
    int64_t tiles = (p->m + ROWS - 1) / ROWS;

    for (int64_t t = 0, i = 0, next; t < tiles; t++, i = next) {
        const float *a = p->a.at + i * p->a.row;
        float *to = c + i * p->c.row;
        next = p->m * (t + 1) / tiles;
        switch (next - i) {
        case 1:
            tile(p, 1, units, a, b, to);
            break;
        case 2:
            tile(p, 2, units, a, b, to);
            break;
        case 3:
            tile(p, 3, units, a, b, to);
            break;
#if ROWS == 6
        case 4:
            tile(p, 4, units, a, b, to);
            break;
        case 5:
            tile(p, 5, units, a, b, to);
            break;
        case 6:
            tile(p, 6, units, a, b, to);
            break;
#endif
        }
    }
}

static void product(const weir_product *p)
{
    int64_t u = 0;

    for (; u + UNITS <= p->units; u += UNITS)
        strip(p, UNITS, p->b.at + u * p->b.unit, p->c.at + u * p->c.unit);
    for (; u < p->units; u++)
        strip(p, 1, p->b.at + u * p->b.unit, p->c.at + u * p->c.unit);
}

/* ---- the same in double ---- */

typedef double doubles
    __attribute__((vector_size(LANES / 2 * sizeof(double)), aligned(sizeof(double))));
enum {
    HALF = LANES / 2,
    SPAN = 2 * HALF
}; /* two vectors of columns at a time: with four rows their sums fill any machine's registers */

INLINE void wide_span(const weir_wide *p, const double *b, double *sum)
{
    doubles s[WEIR_WIDE_ROWS][2] = {0};
    const double *a = p->a;

    for (int64_t k = 0; k < p->depth; k++, a += WEIR_WIDE_ROWS, b += WEIR_WIDE_COLS) {
        doubles left = *(const doubles *)b, right = *(const doubles *)(b + HALF);
        for (int r = 0; r < WEIR_WIDE_ROWS; r++) {
            s[r][0] += a[r] * left;
            s[r][1] += a[r] * right;
        }
    }
    for (int r = 0; r < WEIR_WIDE_ROWS; r++) {
        *(doubles *)(sum + r * WEIR_WIDE_COLS) = s[r][0];
        *(doubles *)(sum + r * WEIR_WIDE_COLS + HALF) = s[r][1];
    }
}

static void wide(const weir_wide *p)
{
    double sum[WEIR_WIDE_ROWS * WEIR_WIDE_COLS];

    for (int at = 0; at < WEIR_WIDE_COLS; at += SPAN)
        wide_span(p, p->b + at, sum + at);
    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t c = 0; c < p->cols; c++)
            p->c[r * p->row + c] += sum[r * WEIR_WIDE_COLS + c];
}

enum { SQUARE = WEIR_UNIT * WEIR_UNIT };

/* A perfect shuffle. The place's bits go round by one: after half of them, rows have become
 * columns. */
INLINE void shuffle(float *restrict to, const float *restrict from)
{
#pragma omp simd
    for (int i = 0; i < SQUARE / 2; i++) {
        to[2 * i] = from[i];
        to[2 * i + 1] = from[i + SQUARE / 2];
    }
}

static void transpose(float *to, const float *from, int64_t n)
{
    float a[SQUARE], b[SQUARE];

    for (int64_t k = 0; k < n; k += WEIR_UNIT, to += SQUARE) {
        for (int j = 0; j < WEIR_UNIT; j++)
            memcpy(a + j * WEIR_UNIT, from + j * n + k, WEIR_UNIT * sizeof *a);
        shuffle(b, a);
        shuffle(a, b);
        shuffle(b, a);
        shuffle(to, b);
    }
}

/* ---- functions: within a few units of the last place ---- */

/* x = n ln 2 + r, |r| <= ln 2 / 2; gives r and 2^n. The odd constant makes the sum's last bits the
 * whole number n. */
INLINE float reduce(float x, float *two_n)
{
    const float whole = 12582912.f;
    float n = x * 1.44269504f + whole, r;
    uint32_t bits;

    memcpy(&bits, &n, sizeof bits);
    n -= whole;
    r = x - n * 0.693359375f;
    bits = (bits + 127) << 23;
    memcpy(two_n, &bits, sizeof bits);
    return r + n * 2.12194440e-4f;
}

/* exp(r) - 1 for small r. */
INLINE float small_expm1(float r)
{
    float p = 1.9875691500e-4f;

    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    return p * r * r + r;
}

/* Below -87.3 it is the smallest normal number, or 0. */
INLINE float exp_of(float x)
{
    float two_n, r;

    x = x > 88.f ? 88.f : x;
    r = reduce(x < -87.3f ? -87.3f : x, &two_n);
    r = small_expm1(r) * two_n + two_n;
    return x < -87.3f ? 0 : r;
}

INLINE float sigmoid(float x) { return 1 / (1 + exp_of(-x)); }

/* From exp(-2|x|) - 1, which is exact to the last places for small x too. */
INLINE float tanh_of(float x)
{
    float y = -2 * fabsf(x), two_n, m;

    y = y < -40.f ? -40.f : y;
    m = reduce(y, &two_n);
    m = small_expm1(m) * two_n + (two_n - 1);
    return copysignf(-m / (2 + m), x);
}

/* ---- rows of a softmax ---- */

static float most(const float *x, int64_t n)
{
    float m = -INFINITY;

#pragma omp simd reduction(max : m)
    for (int64_t i = 0; i < n; i++)
        m = x[i] > m ? x[i] : m;
    return m;
}

/* Blocks, so that long rows lose nothing. */
static double exp_sum(const float *x, int64_t n, float scale, float top)
{
    double sum = 0;

    for (int64_t at = 0; at < n; at += 512) {
        int64_t end = n < at + 512 ? n : at + 512;
        float part = 0;
#pragma omp simd reduction(+ : part)
        for (int64_t i = at; i < end; i++)
            part += exp_of(scale * (x[i] - top));
        sum += part;
    }
    return sum;
}

static double exp_to(float *y, const float *x, int64_t n, float scale, float top, float times)
{
    double sum = 0;

    for (int64_t at = 0; at < n; at += 512) {
        int64_t end = n < at + 512 ? n : at + 512;
        float part = 0;
#pragma omp simd reduction(+ : part)
        for (int64_t i = at; i < end; i++)
            part += y[i] = exp_of(scale * (x[i] - top)) * times;
        sum += part;
    }
    return sum;
}

static void softmax_back(float *restrict y, const float *restrict p, int64_t n, float scale)
{
    float d = 0;

#pragma omp simd reduction(+ : d)
    for (int64_t i = 0; i < n; i++)
        d += p[i] * y[i];
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = p[i] * (y[i] - d) * scale;
}

/* ---- cells of an LSTM ---- */

INLINE void row_forward(const weir_lstm_cells *s, int64_t r, int64_t cells)
{
    float *restrict gate = s->gate + r * s->gate_row, *restrict c = s->c + r * s->c_row,
                    *restrict h = s->h + r * s->h_row;
    float *restrict carry = s->carry + r * s->carry_row;
    const float *restrict sum = s->sum + r * 4 * WEIR_UNIT, *restrict old = s->old + r * s->old_row;
    const int64_t gap = s->gap;

#pragma omp simd
    for (int64_t j = 0; j < cells; j++) {
        float in = sigmoid(gate[j] + sum[j]), forget = sigmoid(gate[gap + j] + sum[WEIR_UNIT + j]);
        float inner = tanh_of(gate[2 * gap + j] + sum[2 * WEIR_UNIT + j]);
        float out = sigmoid(gate[3 * gap + j] + sum[3 * WEIR_UNIT + j]);
        float cell = forget * old[j] + in * inner;
        gate[j] = in;
        gate[gap + j] = forget;
        gate[2 * gap + j] = inner;
        gate[3 * gap + j] = out;
        c[j] = cell;
        h[j] = carry[j] = out * tanh_of(cell);
    }
    if (s->copy)
        memcpy(s->copy + r * s->copy_row, h, (size_t)cells * sizeof *h);
}

static void lstm(const weir_lstm_cells *s)
{
    for (int64_t r = 0; r < s->rows; r++)
        if (s->cells == WEIR_UNIT)
            row_forward(s, r, WEIR_UNIT);
        else
            row_forward(s, r, s->cells);
}

INLINE void row_back(const weir_lstm_cells *s, int64_t r, int64_t cells)
{
    float *restrict gate = s->gate + r * s->gate_row, *restrict copy = s->copy + r * s->copy_row;
    float *restrict carry = s->carry + r * s->carry_row;
    const float *restrict sum = s->sum + r * WEIR_UNIT, *restrict old = s->old + r * s->old_row;
    const float *restrict c = s->c + r * s->c_row, *restrict dy = s->h + r * s->h_row;
    const int64_t gap = s->gap, copy_gap = s->copy_gap;

#pragma omp simd
    for (int64_t j = 0; j < cells; j++) {
        float in = gate[j], forget = gate[gap + j], inner = gate[2 * gap + j],
              out = gate[3 * gap + j];
        float t = tanh_of(c[j]), dh = dy[j] + sum[j], dc = carry[j] + dh * out * (1 - t * t);
        gate[j] = copy[j] = dc * inner * in * (1 - in);
        gate[gap + j] = copy[copy_gap + j] = dc * old[j] * forget * (1 - forget);
        gate[2 * gap + j] = copy[2 * copy_gap + j] = dc * in * (1 - inner * inner);
        gate[3 * gap + j] = copy[3 * copy_gap + j] = dh * t * out * (1 - out);
        carry[j] = dc * forget;
    }
}

static void lstm_back(const weir_lstm_cells *s)
{
    for (int64_t r = 0; r < s->rows; r++)
        if (s->cells == WEIR_UNIT)
            row_back(s, r, WEIR_UNIT);
        else
            row_back(s, r, s->cells);
}

const weir_kernels WEIR_KERNELS = {WEIR_KERNELS_ISA, product, wide,         transpose, most,
                                   exp_sum,          exp_to,  softmax_back, lstm,      lstm_back};
