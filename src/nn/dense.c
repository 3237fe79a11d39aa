/* dense.c - y = x w' + b over the last dimension; the weights are used where they are, as PyTorch
 * has them: [out, in]. */
#include "core/vec.h"
#include "nn/exact.h"
#include "nn/parallel.h"
#include <math.h>
#include <string.h>

typedef struct dense {
    int64_t out;
    bool bias;
    const char *weight; /* read by the graph */
} dense;

static const weir_opt options[] = {{"out", WEIR_OPT_INT, offsetof(dense, out), NULL,
                                    "how many outputs", 1, INT32_MAX, NULL, false, false},
                                   {"bias", WEIR_OPT_BOOL, offsetof(dense, bias), "yes",
                                    "adds a bias", 0, 0, NULL, false, false},
                                   {"weight", WEIR_OPT_TEXT, offsetof(dense, weight), NULL,
                                    "the layer above whose weight is used here too", 0, 0, NULL,
                                    false, false},
                                   {0}};

static weir_err shape(void *self, const weir_model_input *input, const weir_shape *in,
                      weir_shape *out, weir_weights *w, int *weights)
{
    const dense *d = self;
    int64_t width = in->dim[in->dims - 1];
    float bound = (float)(1 / sqrt((double)width));

    (void)input;
    if (in->dims < 2)
        return weir_fail(WEIR_INVALID, "dense needs an input of at least one dimension a sample");
    *out = *in;
    out->dim[in->dims - 1] = d->out;
    w[0] = (weir_weights){"weight", {2, {d->out, width}}, true, bound, 0};
    w[1] = (weir_weights){"bias", {1, {d->out}}, false, bound, 0};
    *weights = 1 + d->bias;
    return WEIR_OK;
}

/* Everything but the last dimension is rows. */
static weir_err as_rows(const weir_bind *b, const weir_act *a, weir_shape *rows,
                        const weir_layout **layout)
{
    int64_t width = a->shape.dim[a->shape.dims - 1];

    *rows = (weir_shape){2, {weir_shape_count(&a->shape, INT64_MAX) / width, width}};
    return weir_layout_plain(b->dnn, rows, layout);
}

/* ---- weight gradients of many rows ---- */

typedef struct bias_sum {
    weir_mem *dy, *grad;
    int64_t rows, out;
} bias_sum;

static void sum_rows(void *arg, int64_t from, int64_t to)
{
    const bias_sum *s = arg;
    const float *dy = (const float *)s->dy->at + from;
    float *grad = (float *)s->grad->at + from;

    memcpy(grad, dy, (size_t)(to - from) * sizeof *grad);
    for (int64_t i = 1; i < s->rows; i++)
        weir_vec_best()->add(grad, dy + i * s->out, (size_t)(to - from));
}

static weir_err sum_bias(void *arg)
{
    weir_parallel_for(((bias_sum *)arg)->out, 128, sum_rows, arg);
    return WEIR_OK;
}

/* oneDNN's inner product is slow at this when the rows outnumber the outputs; a product of matrices
 * is not. */
static bool has_many_rows(const weir_dense_desc *s) { return s->rows >= s->out && s->out >= s->in; }

static weir_err bind_outer(const weir_bind *b, const weir_dense_desc *s)
{
    const weir_param *w = b->param;
    bias_sum *sum = WEIR_NEW(b->arena, bias_sum, 1);
    weir_dnn_op *op;

    if (!sum)
        return weir_fail_nomem(sizeof *sum);
    WEIR_TRY(weir_dnn_outer(b->dnn, s, &op));
    weir_bind_use use[] = {{WEIR_DNN_ARG_SRC, b->out->grad,
                            weir_dnn_op_layout(op, WEIR_DNN_ARG_SRC)},
                           {WEIR_DNN_ARG_WEIGHTS, b->in->data,
                            weir_dnn_op_layout(op, WEIR_DNN_ARG_WEIGHTS)},
                           {WEIR_DNN_ARG_DST, w[0].grad, weir_dnn_op_layout(op, WEIR_DNN_ARG_DST)}};
    WEIR_TRY(weir_bind_op(b, WEIR_LAYER_BACK_WEIGHTS, op, use, 3));
    *sum = (bias_sum){b->out->grad, w[1].grad, s->rows, s->out};
    return s->bias ? weir_bind_loop(b, WEIR_LAYER_BACK_WEIGHTS, sum_bias, sum,
                                    (weir_mem *[]){sum->dy, NULL})
                   : WEIR_OK;
}

static weir_err bind_exact(const weir_bind *b, const weir_dense_desc *s)
{
    WEIR_TRY(weir_exact_outer(b, b->param[0].exact, b->out->grad, b->in->data, s));
    return s->bias ? weir_exact_rows(b, b->param[1].exact, b->out->grad, s->rows, s->out) : WEIR_OK;
}

/* ---- the plan ---- */

static weir_err bind_weights(const weir_bind *b, const weir_dense_desc *s,
                             const weir_dnn_op *forward, const weir_bind_use *x,
                             const weir_bind_use *y)
{
    const weir_param *w = b->param;
    weir_bind_use use[] = {*x,
                           {WEIR_DNN_ARG_DIFF_DST, b->out->grad, y->layout},
                           {WEIR_DNN_ARG_DIFF_WEIGHTS, w[0].grad, w[0].plain},
                           {WEIR_DNN_ARG_DIFF_BIAS, w[1].grad, w[1].plain}};
    weir_dnn_op *op;

    if (b->exact)
        return bind_exact(b, s);
    if (has_many_rows(s))
        return bind_outer(b, s);
    WEIR_TRY(weir_dnn_dense(b->dnn, WEIR_DNN_DO_BACK_WEIGHTS, s, forward, &op));
    return weir_bind_op(b, WEIR_LAYER_BACK_WEIGHTS, op, use, 3 + s->bias);
}

/* Where an op that takes `bytes` finds or leaves what lies in m: there, if there is room behind
 * it. */
static weir_err find_room(const weir_bind *b, weir_mem *m, size_t bytes, weir_mem **out)
{
    *out = m;
    return weir_bind_room(m, bytes) ? WEIR_OK : weir_bind_mem(b, bytes, out);
}

/* An op whose first two arguments, what it reads and what it writes, are of the rows there are; it
 * may take a few more. In exact mode it is for one of some pieces. */
static weir_err bind_rows(const weir_bind *b, weir_layer_phase phase, weir_dnn_op *op,
                          int64_t pieces, weir_bind_use *use, int count)
{
    weir_mem *mine[2] = {use[0].mem, use[1].mem};

    for (int i = 0; i < count; i++) {
        use[i].layout = weir_dnn_op_layout(op, use[i].arg);
        if (i < 2)
            WEIR_TRY(find_room(b, mine[i], (size_t)pieces * weir_layout_bytes(use[i].layout),
                               &use[i].mem));
        if (i < 2 && b->exact)
            use[i].layout = NULL;
    }
    if (use[0].mem != mine[0])
        WEIR_TRY(weir_bind_copy(b, phase, use[0].mem, mine[0]));
    WEIR_TRY(b->exact ? weir_bind_each(b, phase, op, pieces, use, count)
                      : weir_bind_op(b, phase, op, use, count));
    return use[1].mem != mine[1] ? weir_bind_copy(b, phase, mine[1], use[1].mem) : WEIR_OK;
}

static weir_err make_op(const weir_bind *b, weir_dnn_do which, const weir_dense_desc *s,
                        const weir_dnn_op *forward, weir_dnn_op **op)
{
    int threads = b->exact ? weir_parallel_alone() : 0;
    weir_err err = weir_dnn_dense(b->dnn, which, s, forward, op);

    if (b->exact)
        weir_parallel_threads(threads);
    return err;
}

static weir_err bind_data(const weir_bind *b, const weir_dense_desc *s, const weir_dnn_op *forward,
                          int64_t pieces)
{
    weir_dnn_op *op;

    WEIR_TRY(make_op(b, WEIR_DNN_DO_BACK_DATA, s, forward, &op));
    bool product = weir_dnn_op_layout(op, WEIR_DNN_ARG_SRC) != NULL;
    weir_bind_use use[] = {{product ? WEIR_DNN_ARG_SRC : WEIR_DNN_ARG_DIFF_DST, b->out->grad, NULL},
                           {product ? WEIR_DNN_ARG_DST : WEIR_DNN_ARG_DIFF_SRC, b->in->grad, NULL},
                           {WEIR_DNN_ARG_WEIGHTS, b->param[0].data, NULL}};
    return bind_rows(b, WEIR_LAYER_BACK_DATA, op, pieces, use, 3);
}

/* A sample is a row, or so few that kernels for few rows matter: the number of samples shall not be
 * seen in a row's bits, or a relu would let through on one worker what it stops on another. */
enum { FEW_ROWS = 16 };

/* In exact mode that is so for any number of rows, and of threads: each has a piece of the rows, or
 * some. */
static weir_err cut_exact(const weir_bind *b, weir_dense_desc *piece, int64_t *pieces)
{
    int64_t rows = piece->rows;
    int threads = weir_parallel_alone();
    weir_err err;

    piece->rows = (rows + threads - 1) / threads;
    err = weir_dnn_block(b->dnn, piece, &piece->rows);
    *pieces = (rows + piece->rows - 1) / piece->rows;
    weir_parallel_threads(threads);
    return err;
}

static weir_err cut_rows(const weir_bind *b, const weir_dense_desc *s, weir_dense_desc *piece,
                         int64_t *pieces)
{
    *piece = *s;
    *pieces = 1;
    if (b->exact)
        return cut_exact(b, piece, pieces);
    return s->steady ? weir_dnn_steady(b->dnn, s, &piece->rows) : WEIR_OK;
}

static weir_err bind_dense(void *self, const weir_bind *b)
{
    const dense *d = self;
    const weir_param *w = b->param;
    const weir_layout *in, *out, *plain;
    weir_shape x, y;
    weir_dnn_op *forward;

    WEIR_TRY(weir_layout_plain(b->dnn, &b->out->shape, &plain));
    WEIR_TRY(weir_bind_out(b, plain));
    WEIR_TRY(as_rows(b, b->in, &x, &in));
    WEIR_TRY(as_rows(b, b->out, &y, &out));
    weir_dense_desc s = {x.dim[0], x.dim[1], y.dim[1],
                         d->bias,  b->relu,  b->exact || x.dim[0] < FEW_ROWS * b->in->shape.dim[0]};
    weir_dense_desc piece;
    int64_t pieces;
    weir_bind_use from = {WEIR_DNN_ARG_SRC, b->in->data, in},
                  to = {WEIR_DNN_ARG_DST, b->out->data, out};
    weir_bind_use use[] = {from,
                           to,
                           {WEIR_DNN_ARG_WEIGHTS, w[0].data, NULL},
                           {WEIR_DNN_ARG_BIAS, w[1].data, NULL}};
    WEIR_TRY(cut_rows(b, &s, &piece, &pieces));
    WEIR_TRY(make_op(b, WEIR_DNN_DO_FORWARD, &piece, NULL, &forward));
    WEIR_TRY(bind_rows(b, WEIR_LAYER_FORWARD, forward, pieces, use, 3 + d->bias));
    WEIR_TRY(bind_weights(b, &s, s.steady ? NULL : forward, &from, &to));
    return b->in->grad ? bind_data(b, &piece, s.steady ? NULL : forward, pieces) : WEIR_OK;
}

const weir_layer weir_layer_dense = {
    .plug = {"dense", "every output a weighted sum of all inputs, over the last dimension",
             sizeof(dense), options},
    .plain = true,
    .does_relu = true,
    .exact = true,
    .shape = shape,
    .bind = bind_dense,
};
