/* powersgd.c - a matrix as the product of two thin ones, by one step of subspace iteration (Vogels
 * et al. 2019).
 *
 * Each tensor is its matrix M of rows x cols. Round 0 sums P = M Q; all orthonormalise the sum
 * alike. Round 1 sums Q = M^T P; then M is taken for P Q^T, and Q is where the next step begins.
 * What this worker sent is P times its own Q^T: that is taken from M, the rest waits. Tensors whose
 * thin matrices would not be smaller go whole, in round 0.
 *
 * Messages are floats without a head, summed by the collective: round 0 P of each tensor (or the
 * tensor), by columns; round 1 Q of each, likewise. */
#include "codec/codec.h"
#include "codec/quant.h"
#include "core/rng.h"
#include "core/vec.h"
#include <math.h>
#include <string.h>

static const double LEAST_NORM = 1e-30; /* below, nothing is worth sending yet */

typedef struct thin {
    size_t rows, cols, rank; /* rank 0: it goes whole */
    float *x;                /* M, while a step runs */
    float *p;                /* rank columns of `rows`, orthonormal; or the sum of all M */
    float *q, *mine, *next;  /* rank columns of `cols`: at the beginning, of this worker, of all */
} thin;

typedef struct powersgd {
    weir_feedback feedback;
    int64_t rank;
    const weir_bucket *bucket;
    thin *thin;
    size_t floats[2]; /* of the messages */
} powersgd;

static const weir_opt options[] = {
    WEIR_FEEDBACK("yes", "no", "0.5"),
    {"rank", WEIR_OPT_INT, offsetof(powersgd, rank), "2", "columns of the thin matrices", .min = 1,
     .max = 1 << 16, .bare = true},
    {0},
};

static weir_err init_thin(powersgd *s, const weir_view *v, thin *t, weir_arena *arena)
{
    size_t rank = (size_t)s->rank;

    *t = (thin){.rows = v->rows, .cols = v->cols};
    rank = rank < v->rows ? rank : v->rows;
    rank = rank < v->cols ? rank : v->cols;
    if (rank * (v->rows + v->cols) >= v->rows * v->cols) {
        s->floats[0] += v->rows * v->cols;
        t->p = WEIR_NEW(arena, float, v->rows * v->cols);
        return t->p ? WEIR_OK : weir_fail_nomem(v->rows * v->cols * sizeof(float));
    }
    t->rank = rank;
    s->floats[0] += rank * v->rows;
    s->floats[1] += rank * v->cols;
    t->p = WEIR_NEW(arena, float, rank * v->rows);
    t->q = WEIR_NEW(arena, float, 3 * rank * v->cols);
    if (!t->p || !t->q)
        return weir_fail_nomem(rank * (v->rows + 3 * v->cols) * sizeof(float));
    t->mine = t->q + rank * v->cols;
    t->next = t->mine + rank * v->cols;
    weir_rng r = weir_rng_at(0, WEIR_RNG_CODEC, v->tensor->at, 0); /* the same on all */
    for (size_t i = 0; i < rank * v->cols; i++)
        t->q[i] = weir_rng_normal(&r);
    return WEIR_OK;
}

static weir_err init(void *self, const weir_bucket *b, weir_arena *arena)
{
    powersgd *s = self;

    s->bucket = b;
    if (!(s->thin = WEIR_NEW(arena, thin, b->views)))
        return weir_fail_nomem((size_t)b->views * sizeof *s->thin);
    for (int v = 0; v < b->views; v++)
        WEIR_TRY(init_thin(s, &b->view[v], &s->thin[v], arena));
    return WEIR_OK;
}

static size_t bound(const void *self)
{
    const powersgd *s = self;

    return sizeof(float) * (s->floats[0] > s->floats[1] ? s->floats[0] : s->floats[1]);
}

static size_t usual(const void *self, weir_when when)
{
    return sizeof(float) * ((const powersgd *)self)->floats[when.round != 0];
}

/* ---- the two products ---- */

static void times_q(const thin *t, float *p)
{
    for (size_t i = 0; i < t->rows; i++)
        for (size_t k = 0; k < t->rank; k++)
            p[k * t->rows + i] =
                weir_quant_best()->dot(t->x + i * t->cols, t->q + k * t->cols, t->cols);
}

static void transposed_times_p(const thin *t, float *q)
{
    memset(q, 0, t->rank * t->cols * sizeof *q);
    for (size_t i = 0; i < t->rows; i++)
        for (size_t k = 0; k < t->rank; k++)
            weir_vec_best()->axpy(q + k * t->cols, t->p[k * t->rows + i], t->x + i * t->cols,
                                  t->cols);
}

/* y += sign * P Q^T */
static void add_product(const thin *t, const float *q, float sign, float *y)
{
    for (size_t i = 0; i < t->rows; i++)
        for (size_t k = 0; k < t->rank; k++)
            weir_vec_best()->axpy(y + i * t->cols, sign * t->p[k * t->rows + i], q + k * t->cols,
                                  t->cols);
}

/* Gram and Schmidt, twice each, so that rounding leaves them orthogonal; a column that the others
 * already say is none. */
static void orthonormalise(thin *t)
{
    for (size_t k = 0; k < t->rank; k++) {
        float *p = t->p + k * t->rows;
        double before = sqrt(weir_vec_best()->sumsq(p, t->rows)), norm;
        for (size_t j = 0; j < 2 * k; j++) {
            const float *other = t->p + j % k * t->rows;
            weir_vec_best()->axpy(p, -weir_quant_best()->dot(other, p, t->rows), other, t->rows);
        }
        norm = sqrt(weir_vec_best()->sumsq(p, t->rows));
        weir_vec_best()->scale(p, norm > 1e-5 * before && norm > LEAST_NORM ? (float)(1 / norm) : 0,
                               t->rows);
    }
}

/* ---- the verbs ---- */

static weir_err encode(void *self, weir_when when, weir_feed *f, void *msg, size_t *len)
{
    powersgd *s = self;
    float *to = msg;

    for (int v = 0; v < s->bucket->views; v++) {
        thin *t = &s->thin[v];
        size_t n = t->rows * t->cols;
        if (when.round == 0) {
            t->x = weir_feed_whole(f, s->bucket->view[v].at, n);
            if (t->rank)
                times_q(t, to);
            else
                memcpy(to, t->x, n * sizeof *to);
            to += t->rank ? t->rank * t->rows : n;
        } else if (t->rank) {
            transposed_times_p(t, t->mine);
            memcpy(to, t->mine, t->rank * t->cols * sizeof *to);
            to += t->rank * t->cols;
        }
    }
    *len = s->floats[when.round != 0] * sizeof *to;
    return WEIR_OK;
}

static weir_err check_length(const powersgd *s, int round, size_t len)
{
    size_t wanted = s->floats[round] * sizeof(float);

    return len == wanted
               ? WEIR_OK
               : weir_fail(WEIR_INVALID, "a message of %zu bytes came where %zu were expected", len,
                           wanted);
}

static weir_err absorb(void *self, weir_when when, const void *sum, size_t len)
{
    powersgd *s = self;
    const float *from = sum;

    (void)when;
    WEIR_TRY(check_length(s, 0, len));
    for (int v = 0; v < s->bucket->views; v++) {
        thin *t = &s->thin[v];
        size_t n = t->rank ? t->rank * t->rows : t->rows * t->cols;
        memcpy(t->p, from, n * sizeof *from);
        if (t->rank)
            orthonormalise(t);
        from += n;
    }
    return WEIR_OK;
}

static weir_err decode(void *self, weir_when when, const void *msg, size_t len, float *acc)
{
    powersgd *s = self;
    const float *from = msg;

    (void)when;
    WEIR_TRY(check_length(s, 1, len));
    for (int v = 0; v < s->bucket->views; v++) {
        thin *t = &s->thin[v];
        if (!t->rank) {
            weir_vec_best()->add(acc + s->bucket->view[v].at, t->p, t->rows * t->cols);
            continue;
        }
        memcpy(t->next, from, t->rank * t->cols * sizeof *from);
        add_product(t, t->next, 1, acc + s->bucket->view[v].at);
        from += t->rank * t->cols;
    }
    return WEIR_OK;
}

static void take_sent(void *self, float *x)
{
    powersgd *s = self;

    for (int v = 0; v < s->bucket->views; v++) {
        const thin *t = &s->thin[v];
        float *part = x + s->bucket->view[v].at;
        if (t->rank)
            add_product(t, t->mine, -1, part);
        else
            memset(part, 0, t->rows * t->cols * sizeof *part);
    }
}

/* A column that found nothing stays: from 0 it would never find anything again. */
static void keep(void *self)
{
    powersgd *s = self;

    for (int v = 0; v < s->bucket->views; v++)
        for (size_t k = 0, cols = s->thin[v].cols; k < s->thin[v].rank; k++)
            if (weir_vec_best()->sumsq(s->thin[v].next + k * cols, cols) > 0)
                memcpy(s->thin[v].q + k * cols, s->thin[v].next + k * cols, cols * sizeof(float));
}

static weir_err state(void *self, weir_io *io)
{
    powersgd *s = self;

    for (int v = 0; v < s->bucket->views; v++) {
        size_t mark = weir_io_in(io, s->bucket->view[v].tensor->name);
        weir_err err = weir_io_floats(io, "basis", s->thin[v].q, s->thin[v].rank * s->thin[v].cols,
                                      WEIR_KEEP_SAME);
        weir_io_out(io, mark);
        WEIR_TRY(err);
    }
    return WEIR_OK;
}

const weir_codec weir_codec_powersgd = {
    .plug = {"powersgd", "each matrix as a product of thin ones; the rest waits", sizeof(powersgd),
             options},
    .combine = WEIR_COMBINE_ADD,
    .rounds = 2,
    .whole = true,
    .drop = 0.6,
    .sum = &weir_sum_f32,
    .init = init,
    .bound = bound,
    .usual = usual,
    .encode = encode,
    .absorb = absorb,
    .decode = decode,
    .take_sent = take_sent,
    .keep = keep,
    .state = state,
};
