/* relu.c - max(x, 0). In place where nobody needs the input any more; behind a layer that can do it on the way, only its backward
 * is left to do. Backward looks at the output, so it never needs the input. */
#include "nn/layer.h"

static weir_err shape(void *self, const weir_model_input *input, const weir_shape *in, weir_shape *out, weir_weights *w,
                      int *weights)
{
    (void)self, (void)input, (void)w;
    *out = *in;
    *weights = 0;
    return WEIR_OK;
}

/* The output takes the input's memory over, and its gradient: a gradient belongs to nobody else once it is complete. */
static weir_err choose_memory(const weir_bind *b)
{
    weir_act *in = b->in, *out = b->out;

    if (!in->yields)
        return weir_bind_out(b, in->layout);
    out->layout = in->layout;
    out->data = in->data;
    out->grad = in->grad;
    out->shared = true;
    return WEIR_OK;
}

static weir_err bind_relu(void *self, const weir_bind *b)
{
    weir_act *in = b->in, *out = b->out;
    weir_op *forward, *back;

    (void)self;
    WEIR_TRY(choose_memory(b));
    if (b->fused_back)
        return WEIR_OK;
    WEIR_TRY(weir_dnn_relu(b->dnn, WEIR_DO_FORWARD, in->layout, NULL, &forward));
    if (!b->fused) {
        weir_use use[] = {{WEIR_ARG_SRC, in->data, in->layout}, {WEIR_ARG_DST, out->data, out->layout}};
        WEIR_TRY(weir_bind_op(b, WEIR_FORWARD, forward, use, 2));
    }
    if (!in->grad)
        return WEIR_OK;
    weir_use use[] = {{WEIR_ARG_DST, out->data, out->layout},
                      {WEIR_ARG_DIFF_DST, out->grad, out->layout},
                      {WEIR_ARG_DIFF_SRC, in->grad, in->layout}};
    WEIR_TRY(weir_dnn_relu(b->dnn, WEIR_DO_BACK_DATA, in->layout, forward, &back));
    return weir_bind_op(b, WEIR_BACK_DATA, back, use, 3);
}

const weir_layer weir_layer_relu = {
    .plug = {"relu", "max(x, 0)", 0, NULL},
    .keeps = true,
    .relu = true,
    .shape = shape,
    .bind = bind_relu,
};
