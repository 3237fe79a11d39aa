/* batchnorm.c - every channel to mean 0 and variance 1 over the batch, then scaled and shifted; evaluation uses running
 * statistics. This worker's samples alone make the statistics, by the library's kernels, or those of all workers
 * (batchnorm_sync.c). A relu that follows is done on the way, forward and backward. */
#include "nn/batchnorm.h"

static const weir_opt options[] = {
    {"momentum", WEIR_OPT_REAL, offsetof(weir_batchnorm, momentum), "0.1", "how much a batch changes the running statistics", 0,
     1, NULL, false, false},
    {"eps", WEIR_OPT_REAL, offsetof(weir_batchnorm, eps), "1e-5", "added to the variance", 1e-12, 1, NULL, false, false},
    {"sync", WEIR_OPT_BOOL, offsetof(weir_batchnorm, sync), "no", "takes statistics over the samples of all workers", 0, 0, NULL,
     false, false},
    {0}};

static weir_err shape(void *self, const weir_model_input *input, const weir_shape *in, weir_shape *out, weir_weights *w,
                      int *weights)
{
    weir_batchnorm *n = self;
    weir_shape channels = {1, {in->dim[1]}};

    (void)input;
    if (in->dims != 2 && in->dims != 4)
        return weir_fail(WEIR_INVALID, "batchnorm needs rows, or pictures of three dimensions (channels, height, width), not %d",
                         in->dims - 1);
    *out = *in;
    n->channels = in->dim[1];
    w[WEIR_NORM_SCALE] = (weir_weights){"weight", channels, .fill = 1};
    w[WEIR_NORM_SHIFT] = (weir_weights){"bias", channels, .fill = 0};
    w[WEIR_NORM_MEAN] = (weir_weights){"running_mean", channels, .fill = 0, .still = true};
    w[WEIR_NORM_VARIANCE] = (weir_weights){"running_var", channels, .fill = 1, .still = true};
    *weights = 4;
    return WEIR_OK;
}

static weir_err open_norm(void *self, weir_arena *arena)
{
    weir_batchnorm *n = self;

    if (n->sync && !(n->sums = WEIR_NEW(arena, double, 2 * n->channels + 1)))
        return weir_fail_nomem((size_t)n->channels * 2 * sizeof(double));
    return WEIR_OK;
}

void weir_batchnorm_take(const weir_batchnorm *n, const weir_param *w, int64_t c, double mean, double variance, double count)
{
    float *m = (float *)w[WEIR_NORM_MEAN].grad->at + c, *v = (float *)w[WEIR_NORM_VARIANCE].grad->at + c;
    double unbiased = count > 1 ? variance * count / (count - 1) : variance;

    *m = (float)((1 - n->momentum) * *m + n->momentum * mean);
    *v = (float)((1 - n->momentum) * *v + n->momentum * unbiased);
}

/* ---- statistics of this worker ---- */

/* For one batch size. */
typedef struct local {
    const weir_batchnorm *norm;
    weir_param param[WEIR_LAYER_WEIGHTS];
    weir_mem *mean, *variance;
    double count; /* values a channel */
} local;

static weir_err take(void *arg)
{
    const local *l = arg;
    const float *mean = l->mean->at, *variance = l->variance->at;

    for (int64_t c = 0; c < l->norm->channels; c++)
        weir_batchnorm_take(l->norm, l->param, c, mean[c], variance[c], l->count);
    return WEIR_OK;
}

static weir_err bind_back(const weir_bind *b, const local *l, const weir_norm_desc *s, const weir_op *forward, weir_mem *work)
{
    const weir_layout *stats = l->param[0].plain;
    weir_mem *dx = b->in->grad;
    weir_op *op;

    if (!dx) /* the library works it out in any case */
        WEIR_TRY(weir_bind_mem(b, weir_layout_bytes(s->layout), &dx));
    WEIR_TRY(weir_dnn_batchnorm(b->dnn, WEIR_DO_BACK_DATA, s, forward, &op));
    weir_use use[] = {{WEIR_ARG_SRC, b->in->data, s->layout},
                      {WEIR_ARG_MEAN, l->mean, stats},
                      {WEIR_ARG_VARIANCE, l->variance, stats},
                      {WEIR_ARG_DIFF_DST, b->out->grad, s->layout},
                      {WEIR_ARG_SCALE, l->param[WEIR_NORM_SCALE].data, stats},
                      {WEIR_ARG_DIFF_SRC, dx, s->layout},
                      {WEIR_ARG_DIFF_SCALE, l->param[WEIR_NORM_SCALE].grad, stats},
                      {WEIR_ARG_DIFF_SHIFT, l->param[WEIR_NORM_SHIFT].grad, stats},
                      {WEIR_ARG_WORKSPACE, work, weir_op_layout(op, WEIR_ARG_WORKSPACE)}};
    return weir_bind_op(b, WEIR_BACK_WEIGHTS, op, use, s->relu ? 9 : 8);
}

static weir_err bind_local(const weir_bind *b, local *l, weir_norm_desc *s)
{
    const weir_layout *stats = l->param[0].plain, *bits;
    weir_mem *work = NULL;
    weir_op *op;

    WEIR_TRY(weir_dnn_batchnorm(b->dnn, WEIR_DO_FORWARD, s, NULL, &op));
    WEIR_TRY(weir_bind_mem(b, weir_layout_bytes(stats), &l->mean));
    WEIR_TRY(weir_bind_mem(b, weir_layout_bytes(stats), &l->variance));
    if ((bits = weir_op_layout(op, WEIR_ARG_WORKSPACE)))
        WEIR_TRY(weir_bind_mem(b, weir_layout_bytes(bits), &work));
    weir_use use[] = {{WEIR_ARG_SRC, b->in->data, s->layout},
                      {WEIR_ARG_DST, b->out->data, s->layout},
                      {WEIR_ARG_MEAN, l->mean, stats},
                      {WEIR_ARG_VARIANCE, l->variance, stats},
                      {WEIR_ARG_SCALE, l->param[WEIR_NORM_SCALE].data, stats},
                      {WEIR_ARG_SHIFT, l->param[WEIR_NORM_SHIFT].data, stats},
                      {WEIR_ARG_WORKSPACE, work, bits}};
    WEIR_TRY(weir_bind_op(b, WEIR_FORWARD, op, use, bits ? 7 : 6));
    WEIR_TRY(weir_bind_loop(b, WEIR_FORWARD, take, l, (weir_mem *[]){l->mean, l->variance, NULL}));
    return bind_back(b, l, s, op, work);
}

/* ---- both ---- */

static weir_err bind_evaluating(const weir_bind *b, weir_norm_desc s)
{
    const weir_param *w = b->param;
    weir_op *op;

    s.given = true;
    WEIR_TRY(weir_dnn_batchnorm(b->dnn, WEIR_DO_FORWARD, &s, NULL, &op));
    weir_use use[] = {{WEIR_ARG_SRC, b->in->data, s.layout},
                      {WEIR_ARG_DST, b->out->data, s.layout},
                      {WEIR_ARG_MEAN, w[WEIR_NORM_MEAN].data, w[WEIR_NORM_MEAN].plain},
                      {WEIR_ARG_VARIANCE, w[WEIR_NORM_VARIANCE].data, w[WEIR_NORM_VARIANCE].plain},
                      {WEIR_ARG_SCALE, w[WEIR_NORM_SCALE].data, w[WEIR_NORM_SCALE].plain},
                      {WEIR_ARG_SHIFT, w[WEIR_NORM_SHIFT].data, w[WEIR_NORM_SHIFT].plain}};
    return weir_bind_op(b, WEIR_FORWARD, op, use, 6);
}

/* Rows are pictures of one place. */
static weir_err picture_layout(const weir_bind *b, const weir_layout **layout)
{
    weir_shape s = {4, {b->in->shape.dim[0], b->in->shape.dim[1], 1, 1}};

    *layout = b->in->layout;
    return b->in->shape.dims == 2 ? weir_layout_plain(b->dnn, &s, layout) : WEIR_OK;
}

static weir_err bind_batchnorm(void *self, const weir_bind *b)
{
    const weir_batchnorm *n = self;
    weir_bind training = *b, evaluating = *b;
    weir_norm_desc s = {.eps = n->eps, .relu = b->relu};
    local *l = WEIR_NEW(b->arena, local, 1);

    if (!l)
        return weir_fail_nomem(sizeof *l);
    training.only = WEIR_TRAINING;
    evaluating.only = WEIR_EVALUATING;
    *l = (local){.norm = n, .count = (double)weir_shape_count(&b->in->shape, INT64_MAX) / (double)n->channels};
    for (int k = 0; k < 4; k++)
        l->param[k] = b->param[k];
    WEIR_TRY(picture_layout(b, &s.layout));
    WEIR_TRY(weir_bind_out(b, b->in->layout));
    WEIR_TRY(n->sync ? weir_batchnorm_sync(n, &training, s.layout) : bind_local(&training, l, &s));
    return bind_evaluating(&evaluating, s);
}

const weir_layer weir_layer_batchnorm = {
    .plug = {"batchnorm", "channels to mean 0 and variance 1 over the batch, scaled and shifted", sizeof(weir_batchnorm),
             options},
    .does_relu = true,
    .does_back = true,
    .shape = shape,
    .open = open_norm,
    .bind = bind_batchnorm,
    .idle = weir_batchnorm_idle,
};
