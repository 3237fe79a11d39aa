/* exact.c - sums over rows, in double. A product of matrices takes some rows at a time, copied to
 * doubles tile by tile. */
#include "nn/exact.h"
#include "core/vec.h"
#include "nn/kernels.h"
#include "nn/parallel.h"

enum { DEPTH = 64, GRAIN = 512, R = WEIR_WIDE_ROWS, C = WEIR_WIDE_COLS };

/* ---- rows ---- */

typedef struct rows {
    weir_mem *to, *x;
    int64_t rows, n;
} rows;

static void add_rows(void *arg, int64_t from, int64_t to)
{
    const rows *s = arg;
    const float *x = (const float *)s->x->at + from;

    for (int64_t i = 0; i < s->rows; i++)
        weir_vec_best()->add_wide((double *)s->to->at + from, x + i * s->n, (size_t)(to - from));
}

static weir_err run_rows(void *arg)
{
    weir_parallel_for(((rows *)arg)->n, GRAIN, add_rows, arg);
    return WEIR_OK;
}

weir_err weir_exact_rows(const weir_bind *b, weir_mem *to, weir_mem *x, int64_t count, int64_t n)
{
    rows *s = WEIR_NEW(b->arena, rows, 1);

    if (!s)
        return weir_fail_nomem(sizeof *s);
    *s = (rows){to, x, count, n};
    return weir_bind_loop(b, WEIR_LAYER_BACK_WEIGHTS, run_rows, s, (weir_mem *[]){x, NULL});
}

/* ---- products ---- */

typedef struct outer {
    weir_mem *to, *dy, *x, *turned; /* turned: DEPTH rows of dy, in tiles of R columns */
    int64_t rows, in, out;
    int64_t first, depth; /* the rows that are being added */
} outer;

static int64_t tiles(int64_t n, int64_t of) { return (n + of - 1) / of; }
static double *tile_of(const outer *s, int64_t t)
{
    return (double *)s->turned->at + t * DEPTH * R;
}

/* Some columns of some rows as doubles, with zeros where there are no more columns. */
static void widen(double *to, const float *from, int64_t depth, int64_t step, int64_t have,
                  int64_t want)
{
    for (int64_t k = 0; k < depth; k++, from += step)
        for (int64_t i = 0; i < want; i++)
            *to++ = i < have ? (double)from[i] : 0;
}

static int64_t at_most(int64_t n, int64_t most) { return n < most ? n : most; }

static void turn_tiles(void *arg, int64_t from, int64_t to)
{
    const outer *s = arg;

    for (int64_t t = from; t < to; t++)
        widen(tile_of(s, t), (const float *)s->dy->at + s->first * s->out + t * R, s->depth, s->out,
              at_most(s->out - t * R, R), R);
}

static void add_tiles(void *arg, int64_t from, int64_t to)
{
    const outer *s = arg;
    double x[DEPTH * C];

    for (int64_t u = from; u < to; u++) {
        weir_wide p = {.depth = s->depth, .cols = at_most(s->in - u * C, C), .b = x, .row = s->in};
        widen(x, (const float *)s->x->at + s->first * s->in + u * C, s->depth, s->in, p.cols, C);
        for (int64_t t = 0; t < tiles(s->out, R); t++) {
            p.rows = at_most(s->out - t * R, R);
            p.a = tile_of(s, t);
            p.c = (double *)s->to->at + t * R * s->in + u * C;
            weir_kernels_best()->wide(&p);
        }
    }
}

static weir_err run_outer(void *arg)
{
    outer *s = arg;

    for (s->first = 0; s->first < s->rows; s->first += DEPTH) {
        s->depth = at_most(s->rows - s->first, DEPTH);
        weir_parallel_for(tiles(s->out, R), 16, turn_tiles, s);
        weir_parallel_for(tiles(s->in, C), 1, add_tiles, s);
    }
    return WEIR_OK;
}

weir_err weir_exact_outer(const weir_bind *b, weir_mem *to, weir_mem *dy, weir_mem *x,
                          const weir_dense_desc *d)
{
    outer *s = WEIR_NEW(b->arena, outer, 1);

    if (!s)
        return weir_fail_nomem(sizeof *s);
    *s = (outer){.to = to, .dy = dy, .x = x, .rows = d->rows, .in = d->in, .out = d->out};
    WEIR_TRY(weir_bind_mem(b, (size_t)(tiles(d->out, R) * R * DEPTH) * sizeof(double), &s->turned));
    return weir_bind_loop(b, WEIR_LAYER_BACK_WEIGHTS, run_outer, s,
                          (weir_mem *[]){dy, x, s->turned, NULL});
}
