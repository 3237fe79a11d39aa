/* softmax.c - softmax and cross-entropy against one right class a sample, or a token at every
 * place: the loss of classifiers and language models. Forward reads each row once and keeps two
 * numbers of it; backward makes the gradient of it, in its place where it may. */
#include "nn/kernels.h"
#include "nn/layer.h"
#include "nn/parallel.h"
#include <math.h>

/* What forward keeps of a row: its largest value and the inverse of the sum of exponentials; and
 * what it scores. */
typedef struct row {
    float most, inverse;
    double loss;
    bool right;
} row;

/* For one batch size. */
typedef struct bound {
    weir_layer_run *run;
    weir_mem *x, *dx, *row; /* dx NULL: nobody wants it */
    int64_t n, classes;
} bound;

static weir_err check_rows(const weir_model_input *input, const weir_shape *in)
{
    if (input->kind == WEIR_SCORE_VALUES)
        return weir_fail(WEIR_MISFIT,
                         "softmax scores classes or tokens, and the data gives values");
    if (input->kind == WEIR_SCORE_CLASSES && in->dims != 2)
        return weir_fail(WEIR_INVALID,
                         "softmax needs one row a sample, not %d dimensions: flatten makes one",
                         in->dims - 1);
    if (input->kind == WEIR_SCORE_TOKENS && (in->dims != 3 || in->dim[1] != input->dim[0]))
        return weir_fail(WEIR_MISFIT,
                         "the data gives %lld tokens a sample, and softmax gets no row for each",
                         (long long)input->dim[0]);
    return WEIR_OK;
}

static weir_err shape(void *self, const weir_model_input *input, const weir_shape *in,
                      weir_shape *out, weir_weights *w, int *weights)
{
    int64_t classes = in->dim[in->dims - 1];

    (void)self, (void)w;
    WEIR_TRY(check_rows(input, in));
    if (classes != input->classes)
        return weir_fail(
            WEIR_INVALID,
            "the data has %lld classes, and %lld outputs reach softmax: out=classes fits any data",
            (long long)input->classes, (long long)classes);
    *out = *in;
    *weights = 0;
    return WEIR_OK;
}

/* -log p(label), and whether the label has the (first) largest value. */
static void score_rows(void *arg, int64_t from, int64_t to)
{
    const bound *b = arg;
    const weir_kernels *kernels = weir_kernels_best();

    for (int64_t i = from; i < to; i++) {
        const float *x = (const float *)b->x->at + i * b->classes;
        int32_t label = b->run->batch.label[i];
        row *r = (row *)b->row->at + i;
        r->most = kernels->most(x, b->classes);
        double sum = kernels->exp_sum(x, b->classes, 1, r->most);
        r->inverse = (float)(1 / sum);
        r->loss = log(sum) + r->most - x[label];
        r->right = x[label] == r->most && kernels->most(x, label) < r->most;
    }
}

static weir_err forward(void *arg)
{
    const bound *b = arg;
    const int32_t *label = b->run->batch.label;
    const row *r = b->row->at;

    for (int64_t i = 0; i < b->n; i++)
        if (label[i] < 0 || label[i] >= b->classes)
            return weir_fail(
                WEIR_INVALID,
                "row %lld of the batch has the label %d, and the model has %lld classes",
                (long long)i, label[i], (long long)b->classes);
    weir_parallel_for(b->n, 4, score_rows, arg);
    for (int64_t i = 0; i < b->n; i++) {
        b->run->score.loss += r[i].loss;
        b->run->score.right += r[i].right;
    }
    b->run->score.count += (double)b->n;
    return WEIR_OK;
}

static void back_rows(void *arg, int64_t from, int64_t to)
{
    const bound *b = arg;
    const weir_kernels *kernels = weir_kernels_best();
    float scale = b->run->scale;

    for (int64_t i = from; i < to; i++) {
        const float *x = (const float *)b->x->at + i * b->classes;
        float *dx = (float *)b->dx->at + i * b->classes;
        const row *r = (const row *)b->row->at + i;
        kernels->exp_to(dx, x, b->classes, 1, r->most, r->inverse * scale);
        dx[b->run->batch.label[i]] -= scale;
    }
}

static weir_err back(void *arg)
{
    weir_parallel_for(((bound *)arg)->n, 4, back_rows, arg);
    return WEIR_OK;
}

static weir_err bind_softmax(void *self, const weir_bind *b)
{
    bound *s = WEIR_NEW(b->arena, bound, 1);

    (void)self;
    if (!s)
        return weir_fail_nomem(sizeof *s);
    *s = (bound){.run = b->run,
                 .x = b->in->data,
                 .dx = b->in->grad,
                 .classes = b->in->shape.dim[b->in->shape.dims - 1]};
    s->n = weir_shape_count(&b->in->shape, INT64_MAX) / s->classes;
    WEIR_TRY(weir_bind_mem(b, (size_t)s->n * sizeof(row), &s->row));
    WEIR_TRY(weir_bind_loop(b, WEIR_LAYER_FORWARD, forward, s, (weir_mem *[]){s->x, s->row, NULL}));
    if (!s->dx)
        return WEIR_OK;
    if (b->in->yields)
        weir_bind_same(b, s->x, s->dx);
    return weir_bind_loop(b, WEIR_LAYER_BACK_DATA, back, s,
                          (weir_mem *[]){s->x, s->row, s->dx, NULL});
}

const weir_layer weir_layer_softmax = {
    .plug = {"softmax", "softmax and cross-entropy with the right class, or token: a loss", 0,
             NULL},
    .plain = true,
    .loss = true,
    .shape = shape,
    .bind = bind_softmax,
};
