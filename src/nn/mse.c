/* mse.c - the mean of the squared errors of a sample's targets: the loss for values. */
#include "nn/layer.h"

/* For one batch size. */
typedef struct bound {
    weir_layer_run *run;
    weir_mem *y, *dy; /* dy NULL: nobody wants it */
    int64_t n, targets;
} bound;

static weir_err shape(void *self, const weir_model_input *input, const weir_shape *in,
                      weir_shape *out, weir_weights *w, int *weights)
{
    (void)self, (void)w;
    if (input->kind != WEIR_SCORE_VALUES)
        return weir_fail(WEIR_MISFIT, "mse scores values, and the data gives %s",
                         input->kind == WEIR_SCORE_TOKENS ? "tokens" : "classes");
    if (in->dims != 2)
        return weir_fail(WEIR_INVALID,
                         "mse needs one row a sample, not %d dimensions: flatten makes one",
                         in->dims - 1);
    if (in->dim[1] != input->classes)
        return weir_fail(
            WEIR_INVALID,
            "the data has %lld targets, and %lld outputs reach mse: out=classes fits any data",
            (long long)input->classes, (long long)in->dim[1]);
    *out = *in;
    *weights = 0;
    return WEIR_OK;
}

static weir_err forward(void *arg)
{
    const bound *b = arg;
    const float *y = b->y->at, *value = b->run->batch.value;
    double squares = 0;

    for (int64_t i = 0; i < b->n * b->targets; i++)
        squares += ((double)y[i] - value[i]) * ((double)y[i] - value[i]);
    b->run->score.loss += squares / (double)b->targets;
    b->run->score.squares += squares;
    b->run->score.count += (double)b->n;
    return WEIR_OK;
}

static weir_err back(void *arg)
{
    const bound *b = arg;
    const float *y = b->y->at, *value = b->run->batch.value,
                scale = 2 * b->run->scale / (float)b->targets;
    float *dy = b->dy->at;

    for (int64_t i = 0; i < b->n * b->targets; i++)
        dy[i] = (y[i] - value[i]) * scale;
    return WEIR_OK;
}

static weir_err bind_mse(void *self, const weir_bind *b)
{
    bound *s = WEIR_NEW(b->arena, bound, 1);

    (void)self;
    if (!s)
        return weir_fail_nomem(sizeof *s);
    *s = (bound){b->run, b->in->data, b->in->grad, b->in->shape.dim[0], b->in->shape.dim[1]};
    WEIR_TRY(weir_bind_loop(b, WEIR_LAYER_FORWARD, forward, s, (weir_mem *[]){s->y, NULL}));
    return s->dy
               ? weir_bind_loop(b, WEIR_LAYER_BACK_DATA, back, s, (weir_mem *[]){s->y, s->dy, NULL})
               : WEIR_OK;
}

const weir_layer weir_layer_mse = {
    .plug = {"mse", "the mean of the squared errors of a sample's values: a loss", 0, NULL},
    .plain = true,
    .loss = true,
    .shape = shape,
    .bind = bind_mse,
};
