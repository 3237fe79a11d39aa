/* mark.c - its input under another name, at no cost: what from= refers to inside a repeat. */
#include "nn/layer.h"

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
    .shape = weir_shape_kept,
    .bind = bind_mark,
};
