/* flatten.c - a sample as one row: the plain input under another name. */
#include "nn/layer.h"

static weir_err shape(void *self, const weir_model_input *input, const weir_shape *in,
                      weir_shape *out, weir_weights *w, int *weights)
{
    int64_t n = weir_shape_count(in, INT32_MAX);

    (void)self, (void)input, (void)w;
    if (n < 0)
        return weir_fail(WEIR_INVALID, "a sample is too large for one row");
    *out = (weir_shape){2, {1, n}};
    *weights = 0;
    return WEIR_OK;
}

static weir_err bind_flatten(void *self, const weir_bind *b)
{
    weir_act *in = b->in, *out = b->out;

    (void)self;
    out->data = in->data;
    out->grad = in->grad;
    out->yields = out->yields && in->yields;
    out->shared = true;
    return weir_layout_plain(b->dnn, &out->shape, &out->layout);
}

const weir_layer weir_layer_flatten = {
    .plug = {"flatten", "a sample as one row", 0, NULL},
    .plain = true,
    .shape = shape,
    .bind = bind_flatten,
};
