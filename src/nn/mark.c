/* mark.c - its input under another name, at no cost: what from= refers to inside a repeat. */
#include "nn/layer.h"

static weir_err shape(void *self, const weir_model_input *input, const weir_shape *in, weir_shape *out, weir_weights *w,
                      int *weights)
{
    (void)self, (void)input, (void)w;
    *out = *in;
    *weights = 0;
    return WEIR_OK;
}

static weir_err bind_mark(void *self, const weir_bind *b)
{
    weir_act *in = b->in, *out = b->out;

    (void)self;
    out->layout = in->layout;
    out->data = in->data;
    out->grad = in->grad;
    out->yields = out->yields && in->yields;
    out->shared = true;
    return WEIR_OK;
}

const weir_layer weir_layer_mark = {
    .plug = {"mark", "its input under its own name, for from= further down", 0, NULL},
    .shape = shape,
    .bind = bind_mark,
};
