/* position.c - adds a learned row of numbers to every place of a window, the same in every sample.
 * The gradient passes as it
 * is. */
#include "core/vec.h"
#include "nn/exact.h"
#include "nn/parallel.h"
#include <string.h>

typedef struct bound {
    weir_mem *x, *y, *dy, *table, *grad;
    int64_t samples, floats; /* of a sample */
} bound;

static weir_err shape(void *self, const weir_model_input *input, const weir_shape *in,
                      weir_shape *out, weir_weights *w, int *weights)
{
    (void)self, (void)input;
    if (in->dims != 3)
        return weir_fail(
            WEIR_INVALID,
            "position needs rows of numbers, place by place, and not %d dimensions a sample",
            in->dims - 1);
    *out = *in;
    w[0] = (weir_weights){.name = "weight", .shape = {2, {in->dim[1], in->dim[2]}}, .decays = true};
    *weights = 1;
    return WEIR_OK;
}

static void add_table(void *arg, int64_t from, int64_t to)
{
    const bound *b = arg;
    const float *table = b->table->at;

    for (int64_t i = from; i < to; i++) {
        const float *x = (const float *)b->x->at + i * b->floats;
        float *y = (float *)b->y->at + i * b->floats;
        if (x != y)
            memcpy(y, x, (size_t)b->floats * sizeof *y);
        weir_vec_best()->add(y, table, (size_t)b->floats);
    }
}

static weir_err forward(void *arg)
{
    weir_parallel_for(((bound *)arg)->samples, 1, add_table, arg);
    return WEIR_OK;
}

/* Of some places the sum over samples, in their order. */
static void sum_samples(void *arg, int64_t from, int64_t to)
{
    const bound *b = arg;
    const float *dy = b->dy->at;
    float *grad = b->grad->at;

    memcpy(grad + from, dy + from, (size_t)(to - from) * sizeof *grad);
    for (int64_t i = 1; i < b->samples; i++)
        weir_vec_best()->add(grad + from, dy + i * b->floats + from, (size_t)(to - from));
}

static weir_err back(void *arg)
{
    weir_parallel_for(((bound *)arg)->floats, 1024, sum_samples, arg);
    return WEIR_OK;
}

static weir_err bind_position(void *self, const weir_bind *b)
{
    bound *s = WEIR_NEW(b->arena, bound, 1);
    weir_act *in = b->in, *out = b->out;

    (void)self;
    if (!s)
        return weir_fail_nomem(sizeof *s);
    out->layout = in->layout;
    out->data = in->data;
    if (!in->yields)
        WEIR_TRY(weir_bind_mem(b, weir_layout_bytes(in->layout), &out->data));
    WEIR_TRY(weir_bind_mem(b, weir_layout_bytes(in->layout), &out->grad));
    *s = (bound){in->data,         out->data,        out->grad, b->param[0].data,
                 b->param[0].grad, in->shape.dim[0], 0};
    s->floats = in->shape.dim[1] * in->shape.dim[2];
    WEIR_TRY(weir_bind_loop(b, WEIR_LAYER_FORWARD, forward, s, (weir_mem *[]){s->x, s->y, NULL}));
    WEIR_TRY(b->exact ? weir_exact_rows(b, b->param[0].exact, s->dy, s->samples, s->floats)
                      : weir_bind_loop(b, WEIR_LAYER_BACK_WEIGHTS, back, s,
                                       (weir_mem *[]){s->dy, NULL}));
    if (!in->grad)
        return WEIR_OK;
    if (weir_bind_same(b, out->grad, in->grad))
        return out->shared = true, WEIR_OK;
    return weir_bind_copy(b, WEIR_LAYER_BACK_DATA, in->grad, out->grad);
}

const weir_layer weir_layer_position = {
    .plug = {"position", "adds a learned row of numbers to every place of a window", 0, NULL},
    .plain = true,
    .exact = true,
    .shape = shape,
    .bind = bind_position,
};
