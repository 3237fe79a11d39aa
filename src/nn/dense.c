/* dense.c - y = x w' + b over the last dimension; the weights are used where they are, as PyTorch has them: [out, in]. */
#include "core/vec.h"
#include "nn/layer.h"
#include "nn/share.h"
#include <math.h>
#include <string.h>

typedef struct dense {
    int64_t out;
    bool bias;
    const char *weight; /* read by the graph */
} dense;

static const weir_opt options[] = {
    {"out", WEIR_OPT_INT, offsetof(dense, out), NULL, "how many outputs", 1, INT32_MAX, NULL, false, false},
    {"bias", WEIR_OPT_BOOL, offsetof(dense, bias), "yes", "adds a bias", 0, 0, NULL, false, false},
    {"weight", WEIR_OPT_TEXT, offsetof(dense, weight), NULL, "the layer above whose weight is used here too", 0, 0, NULL, false,
     false},
    {0}};

static weir_err shape(void *self, const weir_model_input *input, const weir_shape *in, weir_shape *out, weir_weights *w,
                      int *weights)
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
static weir_err as_rows(const weir_bind *b, const weir_act *a, weir_shape *rows, const weir_layout **layout)
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
    weir_share(((bias_sum *)arg)->out, 128, sum_rows, arg);
    return WEIR_OK;
}

/* oneDNN's inner product is slow at this when the rows outnumber the outputs; a product of matrices is not. */
static bool has_many_rows(const weir_dense_desc *s) { return s->rows >= s->out && s->out >= s->in; }

static weir_err bind_outer(const weir_bind *b, const weir_dense_desc *s)
{
    const weir_param *w = b->param;
    bias_sum *sum = WEIR_NEW(b->arena, bias_sum, 1);
    weir_op *op;

    if (!sum)
        return weir_fail_nomem(sizeof *sum);
    WEIR_TRY(weir_dnn_outer(b->dnn, s, &op));
    weir_use use[] = {{WEIR_ARG_SRC, b->out->grad, weir_op_layout(op, WEIR_ARG_SRC)},
                      {WEIR_ARG_WEIGHTS, b->in->data, weir_op_layout(op, WEIR_ARG_WEIGHTS)},
                      {WEIR_ARG_DST, w[0].grad, weir_op_layout(op, WEIR_ARG_DST)}};
    WEIR_TRY(weir_bind_op(b, WEIR_BACK_WEIGHTS, op, use, 3));
    *sum = (bias_sum){b->out->grad, w[1].grad, s->rows, s->out};
    return s->bias ? weir_bind_loop(b, WEIR_BACK_WEIGHTS, sum_bias, sum, (weir_mem *[]){sum->dy, NULL}) : WEIR_OK;
}

/* ---- the plan ---- */

static weir_err bind_weights(const weir_bind *b, const weir_dense_desc *s, const weir_op *forward, const weir_use *x,
                             const weir_use *y)
{
    const weir_param *w = b->param;
    weir_use use[] = {*x,
                      {WEIR_ARG_DIFF_DST, b->out->grad, y->layout},
                      {WEIR_ARG_DIFF_WEIGHTS, w[0].grad, w[0].plain},
                      {WEIR_ARG_DIFF_BIAS, w[1].grad, w[1].plain}};
    weir_op *op;

    if (has_many_rows(s))
        return bind_outer(b, s);
    WEIR_TRY(weir_dnn_dense(b->dnn, WEIR_DO_BACK_WEIGHTS, s, forward, &op));
    return weir_bind_op(b, WEIR_BACK_WEIGHTS, op, use, 3 + s->bias);
}

static weir_err bind_back(const weir_bind *b, const weir_dense_desc *s, const weir_op *forward, const weir_use *x,
                          const weir_use *y)
{
    const weir_param *w = b->param;
    weir_op *op;

    WEIR_TRY(bind_weights(b, s, forward, x, y));
    if (!b->in->grad)
        return WEIR_OK;
    weir_use to_data[] = {{WEIR_ARG_DIFF_DST, b->out->grad, y->layout},
                          {WEIR_ARG_WEIGHTS, w[0].data, w[0].plain},
                          {WEIR_ARG_DIFF_SRC, b->in->grad, x->layout}};
    WEIR_TRY(weir_dnn_dense(b->dnn, WEIR_DO_BACK_DATA, s, forward, &op));
    return weir_bind_op(b, WEIR_BACK_DATA, op, to_data, 3);
}

static weir_err bind_dense(void *self, const weir_bind *b)
{
    const dense *d = self;
    const weir_param *w = b->param;
    const weir_layout *in, *out, *plain;
    weir_shape x, y;
    weir_op *forward;

    WEIR_TRY(weir_layout_plain(b->dnn, &b->out->shape, &plain));
    WEIR_TRY(weir_bind_out(b, plain));
    WEIR_TRY(as_rows(b, b->in, &x, &in));
    WEIR_TRY(as_rows(b, b->out, &y, &out));
    weir_dense_desc s = {x.dim[0], x.dim[1], y.dim[1], d->bias, b->relu};
    weir_use use[] = {{WEIR_ARG_SRC, b->in->data, in},
                      {WEIR_ARG_WEIGHTS, w[0].data, w[0].plain},
                      {WEIR_ARG_DST, b->out->data, out},
                      {WEIR_ARG_BIAS, w[1].data, w[1].plain}};
    WEIR_TRY(weir_dnn_dense(b->dnn, WEIR_DO_FORWARD, &s, NULL, &forward));
    WEIR_TRY(weir_bind_op(b, WEIR_FORWARD, forward, use, 3 + d->bias));
    return bind_back(b, &s, forward, &use[0], &use[2]);
}

const weir_layer weir_layer_dense = {
    .plug = {"dense", "every output a weighted sum of all inputs, over the last dimension", sizeof(dense), options},
    .plain = true,
    .does_relu = true,
    .shape = shape,
    .bind = bind_dense,
};
