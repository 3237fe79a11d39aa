/* softmax.c - softmax and cross-entropy against one right class a sample: the loss of classifiers. */
#include "nn/layer.h"
#include <math.h>

/* For one batch size. `prob` is the input's gradient: forward leaves probabilities there, backward makes gradients of them. */
typedef struct bound {
    weir_run *run;
    weir_mem *x, *prob; /* prob NULL: nobody wants the gradient */
    int64_t n, classes;
} bound;

static weir_err shape(void *self, const weir_model_input *input, const weir_shape *in, weir_shape *out, weir_weights *w,
                      int *weights)
{
    (void)self, (void)w;
    if (input->kind != WEIR_SCORE_CLASSES)
        return weir_fail(WEIR_MISFIT, "softmax scores one class a sample, and the data gives %s",
                         input->kind == WEIR_SCORE_TOKENS ? "tokens" : "values");
    if (in->dims != 2)
        return weir_fail(WEIR_INVALID, "softmax needs one row a sample, not %d dimensions: flatten makes one", in->dims - 1);
    if (in->dim[1] != input->classes)
        return weir_fail(WEIR_INVALID, "the data has %lld classes, and %lld outputs reach softmax: out=classes fits any data",
                         (long long)input->classes, (long long)in->dim[1]);
    *out = *in;
    *weights = 0;
    return WEIR_OK;
}

/* The row's -log p(label); its probabilities if `prob`; whether the label has the (first) largest value. */
static double score_row(const float *x, int64_t classes, int32_t label, float *prob, bool *right)
{
    int64_t best = 0;
    double sum = 0;

    for (int64_t k = 1; k < classes; k++)
        if (x[k] > x[best])
            best = k;
    for (int64_t k = 0; k < classes; k++) {
        float e = expf(x[k] - x[best]);
        sum += e;
        if (prob)
            prob[k] = e;
    }
    for (int64_t k = 0; prob && k < classes; k++)
        prob[k] = (float)(prob[k] / sum);
    *right = best == label;
    return log(sum) + x[best] - x[label];
}

static weir_err forward(void *arg)
{
    const bound *b = arg;
    const float *x = b->x->at;
    float *prob = b->prob && b->run->pass.training ? b->prob->at : NULL;
    double loss = 0, right = 0;

    for (int64_t i = 0; i < b->n; i++) {
        int32_t label = b->run->batch.label[i];
        bool hit;
        if (label < 0 || label >= b->classes)
            return weir_fail(WEIR_INVALID, "sample %lld of the batch has the label %d, and the model has %lld classes",
                             (long long)i, label, (long long)b->classes);
        loss += score_row(x + i * b->classes, b->classes, label, prob ? prob + i * b->classes : NULL, &hit);
        right += hit;
    }
    b->run->score.loss += loss;
    b->run->score.right += right;
    b->run->score.count += (double)b->n;
    return WEIR_OK;
}

static weir_err back(void *arg)
{
    const bound *b = arg;
    float *g = b->prob->at;

    for (int64_t i = 0; i < b->n; i++, g += b->classes) {
        g[b->run->batch.label[i]] -= 1;
        for (int64_t k = 0; k < b->classes; k++)
            g[k] *= b->run->scale;
    }
    return WEIR_OK;
}

static weir_err bind_softmax(void *self, const weir_bind *b)
{
    bound *s = WEIR_NEW(b->arena, bound, 1);

    (void)self;
    if (!s)
        return weir_fail_nomem(sizeof *s);
    *s = (bound){b->run, b->in->data, b->in->grad, b->in->shape.dim[0], b->in->shape.dim[1]};
    WEIR_TRY(weir_bind_loop(b, WEIR_FORWARD, forward, s, (weir_mem *[]){s->x, s->prob, NULL}));
    return s->prob ? weir_bind_loop(b, WEIR_BACK_DATA, back, s, (weir_mem *[]){s->prob, NULL}) : WEIR_OK;
}

const weir_layer weir_layer_softmax = {
    .plug = {"softmax", "softmax and cross-entropy with the right class: a loss", 0, NULL},
    .plain = true,
    .loss = true,
    .shape = shape,
    .bind = bind_softmax,
};
