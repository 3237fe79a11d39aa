/* layernorm.c - every row of the last dimension to mean 0 and variance 1, then scaled and
 * shifted. */
#include "nn/layer.h"
#include "nn/parallel.h"
#include <math.h>

typedef struct layernorm {
    double eps;
} layernorm;

static const weir_opt options[] = {{"eps", WEIR_OPT_REAL, offsetof(layernorm, eps), "1e-5",
                                    "added to the variance", 1e-12, 1, NULL, false, false},
                                   {0}};

static weir_err shape(void *self, const weir_model_input *input, const weir_shape *in,
                      weir_shape *out, weir_weights *w, int *weights)
{
    int64_t width = in->dim[in->dims - 1];

    (void)self, (void)input;
    if (in->dims < 2)
        return weir_fail(WEIR_INVALID,
                         "layernorm needs an input of at least one dimension a sample");
    *out = *in;
    w[0] = (weir_weights){"weight", {1, {width}}, .fill = 1};
    w[1] = (weir_weights){"bias", {1, {width}}, .fill = 0};
    *weights = 2;
    return WEIR_OK;
}

/* ---- exact sums ---- */

typedef struct sums {
    const weir_mem *x, *dy, *mean, *variance, *scale, *shift;
    int64_t rows, width;
    double eps;
} sums;

static void add_columns(void *arg, int64_t from, int64_t to)
{
    const sums *s = arg;
    double *scale = s->scale->at, *shift = s->shift->at;

    for (int64_t r = 0; r < s->rows; r++) {
        const float *x = (const float *)s->x->at + r * s->width,
                    *dy = (const float *)s->dy->at + r * s->width;
        double mean = (double)((const float *)s->mean->at)[r];
        double spread = 1 / sqrt((double)((const float *)s->variance->at)[r] + s->eps);
        for (int64_t i = from; i < to; i++) {
            shift[i] += (double)dy[i];
            scale[i] += (double)dy[i] * ((double)x[i] - mean) * spread;
        }
    }
}

static weir_err run_sums(void *arg)
{
    weir_parallel_for(((sums *)arg)->width, 64, add_columns, arg);
    return WEIR_OK;
}

static weir_err bind_exact(const weir_bind *b, const weir_norm_desc *d, const weir_mem *mean,
                           const weir_mem *variance)
{
    sums *s = WEIR_NEW(b->arena, sums, 1);

    if (!s)
        return weir_fail_nomem(sizeof *s);
    *s = (sums){b->in->data,       b->out->grad,      mean,         variance,
                b->param[0].exact, b->param[1].exact, .eps = d->eps};
    s->width = b->in->shape.dim[b->in->shape.dims - 1];
    s->rows = weir_shape_count(&b->in->shape, INT64_MAX) / s->width;
    return weir_bind_loop(b, WEIR_LAYER_BACK_WEIGHTS, run_sums, s,
                          (weir_mem *[]){b->in->data, b->out->grad, NULL});
}

/* Where the library leaves gradients of the weights: in exact mode nobody looks. */
static weir_err find_gradients(const weir_bind *b, weir_mem *grad[2])
{
    for (int k = 0; k < 2; k++) {
        grad[k] = b->param[k].grad;
        if (b->exact)
            WEIR_TRY(weir_bind_mem(b, grad[k]->bytes, &grad[k]));
    }
    return WEIR_OK;
}

/* ---- the plan ---- */

static weir_err bind_back(const weir_bind *b, const weir_norm_desc *s, const weir_dnn_op *forward,
                          weir_mem *mean, weir_mem *variance, const weir_layout *stats)
{
    const weir_act *in = b->in, *out = b->out;
    const weir_param *w = b->param;
    weir_mem *dx = in->grad, *grad[2];
    weir_dnn_op *op;

    if (!dx) /* the library works it out in any case */
        WEIR_TRY(weir_bind_mem(b, weir_layout_bytes(in->layout), &dx));
    WEIR_TRY(find_gradients(b, grad));
    if (b->exact) /* first: the op may write over what it reads */
        WEIR_TRY(bind_exact(b, s, mean, variance));
    WEIR_TRY(weir_dnn_layernorm(b->dnn, WEIR_DNN_DO_BACK_DATA, s, forward, &op));
    weir_bind_use use[] = {{WEIR_DNN_ARG_SRC, in->data, in->layout},
                           {WEIR_DNN_ARG_MEAN, mean, stats},
                           {WEIR_DNN_ARG_VARIANCE, variance, stats},
                           {WEIR_DNN_ARG_DIFF_DST, out->grad, out->layout},
                           {WEIR_DNN_ARG_SCALE, w[0].data, w[0].plain},
                           {WEIR_DNN_ARG_SHIFT, w[1].data, w[1].plain},
                           {WEIR_DNN_ARG_DIFF_SRC, dx, in->layout},
                           {WEIR_DNN_ARG_DIFF_SCALE, grad[0], w[0].plain},
                           {WEIR_DNN_ARG_DIFF_SHIFT, grad[1], w[1].plain}};
    return weir_bind_op(b, WEIR_LAYER_BACK_WEIGHTS, op, use, 9);
}

static weir_err bind_layernorm(void *self, const weir_bind *b)
{
    weir_norm_desc s = {.layout = b->in->layout, .eps = ((layernorm *)self)->eps};
    const weir_param *w = b->param;
    const weir_layout *stats;
    weir_mem *mean, *variance;
    weir_dnn_op *op;

    WEIR_TRY(weir_bind_out(b, b->in->layout));
    WEIR_TRY(weir_dnn_layernorm(b->dnn, WEIR_DNN_DO_FORWARD, &s, NULL, &op));
    stats = weir_dnn_op_layout(op, WEIR_DNN_ARG_MEAN);
    WEIR_TRY(weir_bind_mem(b, weir_layout_bytes(stats), &mean));
    WEIR_TRY(weir_bind_mem(b, weir_layout_bytes(stats), &variance));
    weir_bind_use use[] = {{WEIR_DNN_ARG_SRC, b->in->data, b->in->layout},
                           {WEIR_DNN_ARG_DST, b->out->data, b->out->layout},
                           {WEIR_DNN_ARG_MEAN, mean, stats},
                           {WEIR_DNN_ARG_VARIANCE, variance, stats},
                           {WEIR_DNN_ARG_SCALE, w[0].data, w[0].plain},
                           {WEIR_DNN_ARG_SHIFT, w[1].data, w[1].plain}};
    WEIR_TRY(weir_bind_op(b, WEIR_LAYER_FORWARD, op, use, 6));
    return bind_back(b, &s, op, mean, variance, stats);
}

const weir_layer weir_layer_layernorm = {
    .plug = {"layernorm", "rows of the last dimension to mean 0 and variance 1, scaled and shifted",
             sizeof(layernorm), options},
    .plain = true,
    .exact = true,
    .shape = shape,
    .bind = bind_layernorm,
};
