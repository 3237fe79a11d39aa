/* attention.c - causal multi-head self-attention: every place looks at itself and the places before
 * it. The input has queries, keys and values of all heads side by side, as one dense layer gives
 * them.
 *
 * One head of one sample at a time, so that all of it stays in the cache: scores are made for a
 * block of queries against the keys up to its end, and never kept. Backward makes them again from
 * two numbers a row. Operands are copied to memory of the thread's own, padded to whole units: what
 * is padded is 0. */
#include "nn/kernels.h"
#include "nn/layer.h"
#include "nn/parallel.h"
#include <math.h>
#include <string.h>

enum { BLOCK = 32 }; /* queries at a time */

typedef struct attention {
    int64_t heads;
} attention;

/* What forward keeps of a query: its largest score, and the inverse of the sum of exponentials. */
typedef struct row {
    float most, inverse;
} row;

/* For one batch size. */
typedef struct bound {
    weir_mem *x, *dx, *y, *dy, *row, *room, *back_room;
    int64_t n, length, width, heads;
    int64_t head, deep, span; /* a head's width; that and the length in whole units */
    float scale;
} bound;

/* A thread's room, and the head it is at. */
typedef struct work {
    const bound *b;
    const float *q, *k, *v; /* in the input */
    row *row;
    float *keys, *values; /* transposed, in units of places: [span / 16][deep][16] */
    /* [span][deep]: queries and values; backward: queries, keys and the output's gradients */
    float *flat[3];
    float *dk, *dv; /* [span][deep] */
    float *score, *dscore, *out;
} work;

static const weir_opt options[] = {{"heads", WEIR_OPT_INT, offsetof(attention, heads), NULL,
                                    "how many heads share the width", 1, 1 << 16, NULL, false,
                                    false},
                                   {0}};

static weir_err shape(void *self, const weir_model_input *input, const weir_shape *in,
                      weir_shape *out, weir_weights *w, int *weights)
{
    const attention *a = self;

    (void)input, (void)w;
    if (in->dims != 3 || in->dim[2] % 3)
        return weir_fail(WEIR_INVALID, "attention needs queries, keys and values side by side at "
                                       "every place: three times a width");
    if (in->dim[2] / 3 % a->heads)
        return weir_fail(WEIR_INVALID, "a width of %lld cannot be shared by %lld heads",
                         (long long)in->dim[2] / 3, (long long)a->heads);
    *out = *in;
    out->dim[2] = in->dim[2] / 3;
    *weights = 0;
    return WEIR_OK;
}

/* ---- a thread's room ---- */

static size_t room_floats(const bound *b)
{
    return (size_t)(7 * b->span * b->deep + BLOCK * (2 * b->span + b->deep));
}

static void lay_out(const bound *b, const weir_mem *room, work *w)
{
    float *at = (float *)room->at + (size_t)weir_parallel_slot() * room_floats(b);
    const int64_t all = b->span * b->deep;

    *w = (work){.b = b,
                .keys = at,
                .values = at + all,
                .dk = at + 5 * all,
                .dv = at + 6 * all,
                .score = at + 7 * all};
    for (int i = 0; i < 3; i++)
        w->flat[i] = at + (2 + i) * all;
    w->dscore = w->score + BLOCK * b->span;
    w->out = w->dscore + BLOCK * b->span;
}

/* Head h of sample i, counted through. */
static void go_to(work *w, int64_t at)
{
    const bound *b = w->b;
    int64_t i = at / b->heads, h = at % b->heads;

    w->q = (const float *)b->x->at + i * b->length * 3 * b->width + h * b->head;
    w->k = w->q + b->width;
    w->v = w->k + b->width;
    w->row = (row *)b->row->at + at * b->length;
}

/* ---- copies ---- */

static void copy_flat(const bound *b, const float *x, int64_t step, float *to)
{
    for (int64_t i = 0; i < b->span; i++, to += b->deep) {
        int64_t n = i < b->length ? b->head : 0;
        memcpy(to, x + i * step, (size_t)n * sizeof *to);
        memset(to + n, 0, (size_t)(b->deep - n) * sizeof *to);
    }
}

/* Of a flat copy, so that what lies far apart is read once. */
static void copy_turned(const bound *b, const float *flat, float *to)
{
    for (int64_t u = 0; u < b->span; u += WEIR_UNIT)
        weir_kernels_best()->transpose(to + u * b->deep, flat + u * b->deep, b->deep);
}

/* ---- products ---- */

/* scores[rows, keys] = a[rows, deep] turned */
static void multiply_turned(const bound *b, const float *a, int64_t rows, int64_t keys,
                            const float *turned, float *score)
{
    weir_kernels_best()->product(&(weir_product){rows,
                                                 weir_units(keys),
                                                 b->head,
                                                 {a, b->deep, 1},
                                                 {turned, WEIR_UNIT, b->deep * WEIR_UNIT},
                                                 {score, b->span, WEIR_UNIT},
                                                 false});
}

/* to[rows, deep] = score[rows, keys] flat */
static void multiply_flat(const bound *b, const float *score, int64_t rows, int64_t keys,
                          const float *flat, float *to)
{
    weir_kernels_best()->product(&(weir_product){rows,
                                                 b->deep / WEIR_UNIT,
                                                 keys,
                                                 {score, b->span, 1},
                                                 {flat, b->deep, WEIR_UNIT},
                                                 {to, b->deep, WEIR_UNIT},
                                                 false});
}

/* to[keys, deep] += score[rows, keys]' flat */
static void add_by_keys(const bound *b, const float *score, int64_t rows, int64_t keys,
                        const float *flat, float *to)
{
    weir_kernels_best()->product(&(weir_product){keys,
                                                 b->deep / WEIR_UNIT,
                                                 rows,
                                                 {score, 1, b->span},
                                                 {flat, b->deep, WEIR_UNIT},
                                                 {to, b->deep, WEIR_UNIT},
                                                 true});
}

/* ---- forward ---- */

/* Probabilities of queries from first on, but for their sums, which the output is divided by; 0
 * behind a query's own place. */
static void forward_rows(const work *w, int64_t first, int64_t rows)
{
    const weir_kernels *kernels = weir_kernels_best();

    for (int64_t r = 0; r < rows; r++) {
        float *score = w->score + r * w->b->span;
        row *keep = &w->row[first + r];
        int64_t sees = first + r + 1;
        keep->most = kernels->most(score, sees);
        keep->inverse =
            (float)(1 / kernels->exp_to(score, score, sees, w->b->scale, keep->most, 1));
        memset(score + sees, 0, (size_t)(first + rows - sees) * sizeof *score);
    }
}

static void forward_block(const work *w, int64_t first, int64_t rows, float *y)
{
    const bound *b = w->b;

    multiply_turned(b, w->flat[0] + first * b->deep, rows, first + rows, w->keys, w->score);
    forward_rows(w, first, rows);
    multiply_flat(b, w->score, rows, first + rows, w->flat[1], w->out);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < b->head; k++)
            y[(first + r) * b->width + k] = w->out[r * b->deep + k] * w->row[first + r].inverse;
}

static void forward_heads(void *arg, int64_t from, int64_t to)
{
    const bound *b = arg;
    work w;

    lay_out(b, b->room, &w);
    for (int64_t at = from; at < to; at++) {
        float *y =
            (float *)b->y->at + at / b->heads * b->length * b->width + at % b->heads * b->head;
        go_to(&w, at);
        copy_flat(b, w.k, 3 * b->width, w.flat[1]);
        copy_turned(b, w.flat[1], w.keys);
        copy_flat(b, w.q, 3 * b->width, w.flat[0]);
        copy_flat(b, w.v, 3 * b->width, w.flat[1]);
        for (int64_t i = 0; i < b->length; i += BLOCK)
            forward_block(&w, i, b->length - i < BLOCK ? b->length - i : BLOCK, y);
    }
}

static weir_err forward(void *arg)
{
    const bound *b = arg;

    weir_parallel_for(b->n * b->heads, 1, forward_heads, arg);
    return WEIR_OK;
}

/* ---- backward ---- */

/* Probabilities again, and the gradients of the scores in place of those of the probabilities. */
static void back_rows(const work *w, int64_t first, int64_t rows)
{
    const weir_kernels *kernels = weir_kernels_best();

    for (int64_t r = 0; r < rows; r++) {
        float *p = w->score + r * w->b->span, *dp = w->dscore + r * w->b->span;
        const row *kept = &w->row[first + r];
        int64_t sees = first + r + 1;
        size_t hidden = (size_t)(first + rows - sees) * sizeof *p;
        kernels->exp_to(p, p, sees, w->b->scale, kept->most, kept->inverse);
        kernels->softmax_back(dp, p, sees, w->b->scale);
        memset(p + sees, 0, hidden);
        memset(dp + sees, 0, hidden);
    }
}

static void back_block(const work *w, int64_t first, int64_t rows, float *dq)
{
    const bound *b = w->b;
    const float *q = w->flat[0] + first * b->deep, *dy = w->flat[2] + first * b->deep;
    int64_t keys = first + rows;

    multiply_turned(b, q, rows, keys, w->keys, w->score);
    multiply_turned(b, dy, rows, keys, w->values, w->dscore);
    back_rows(w, first, rows);
    add_by_keys(b, w->score, rows, keys, dy, w->dv);
    add_by_keys(b, w->dscore, rows, keys, q, w->dk);
    multiply_flat(b, w->dscore, rows, keys, w->flat[1], w->out);
    for (int64_t r = 0; r < rows; r++)
        memcpy(dq + (first + r) * 3 * b->width, w->out + r * b->deep, (size_t)b->head * sizeof *dq);
}

/* The input is read whole before its gradient is written: they may be one piece of memory. */
static void back_head(work *w, int64_t at)
{
    const bound *b = w->b;
    const float *dy =
        (const float *)b->dy->at + at / b->heads * b->length * b->width + at % b->heads * b->head;
    float *dx = (float *)b->dx->at + (w->q - (const float *)b->x->at);
    const size_t bytes = (size_t)b->head * sizeof *dx,
                 all = (size_t)(b->span * b->deep) * sizeof *dx;

    copy_flat(b, w->v, 3 * b->width, w->flat[1]);
    copy_turned(b, w->flat[1], w->values);
    copy_flat(b, w->k, 3 * b->width, w->flat[1]);
    copy_turned(b, w->flat[1], w->keys);
    copy_flat(b, w->q, 3 * b->width, w->flat[0]);
    copy_flat(b, dy, b->width, w->flat[2]);
    memset(w->dk, 0, all);
    memset(w->dv, 0, all);
    for (int64_t i = 0; i < b->length; i += BLOCK)
        back_block(w, i, b->length - i < BLOCK ? b->length - i : BLOCK, dx);
    for (int64_t i = 0; i < b->length; i++) {
        memcpy(dx + i * 3 * b->width + b->width, w->dk + i * b->deep, bytes);
        memcpy(dx + i * 3 * b->width + 2 * b->width, w->dv + i * b->deep, bytes);
    }
}

static void back_heads(void *arg, int64_t from, int64_t to)
{
    const bound *b = arg;
    work w;

    lay_out(b, b->back_room, &w);
    for (int64_t at = from; at < to; at++) {
        go_to(&w, at);
        back_head(&w, at);
    }
}

static weir_err back(void *arg)
{
    const bound *b = arg;

    weir_parallel_for(b->n * b->heads, 1, back_heads, arg);
    return WEIR_OK;
}

/* ---- the plan ---- */

static weir_err bind_attention(void *self, const weir_bind *b)
{
    const attention *a = self;
    const weir_layout *plain;
    bound *s = WEIR_NEW(b->arena, bound, 1);

    if (!s)
        return weir_fail_nomem(sizeof *s);
    WEIR_TRY(weir_layout_plain(b->dnn, &b->out->shape, &plain));
    WEIR_TRY(weir_bind_out(b, plain));
    *s = (bound){.x = b->in->data,
                 .dx = b->in->grad,
                 .y = b->out->data,
                 .dy = b->out->grad,
                 .heads = a->heads};
    s->n = b->out->shape.dim[0];
    s->length = b->out->shape.dim[1];
    s->width = b->out->shape.dim[2];
    s->head = s->width / s->heads;
    s->deep = weir_units(s->head) * WEIR_UNIT;
    s->span = weir_units(s->length) * WEIR_UNIT;
    s->scale = (float)(1 / sqrt((double)s->head));
    WEIR_TRY(weir_bind_mem(b, (size_t)(s->n * s->heads * s->length) * sizeof(row), &s->row));
    WEIR_TRY(
        weir_bind_mem(b, (size_t)weir_parallel_slots() * room_floats(s) * sizeof(float), &s->room));
    WEIR_TRY(weir_bind_loop(b, WEIR_LAYER_FORWARD, forward, s,
                            (weir_mem *[]){s->x, s->y, s->row, s->room, NULL}));
    if (!s->dx)
        return WEIR_OK;
    if (b->in->yields)
        weir_bind_same(b, s->x, s->dx);
    WEIR_TRY(weir_bind_mem(b, s->room->bytes, &s->back_room));
    return weir_bind_loop(b, WEIR_LAYER_BACK_DATA, back, s,
                          (weir_mem *[]){s->x, s->dx, s->dy, s->row, s->back_room, NULL});
}

const weir_layer weir_layer_attention = {
    .plug = {"attention",
             "every place looks at itself and those before: queries, keys and values to one width",
             sizeof(attention), options},
    .plain = true,
    .shape = shape,
    .bind = bind_attention,
};
