/* sigmoid.c - 1 / (1 + exp(-x)); backward looks at the output. */
#include "nn/layer.h"

static weir_err bind_sigmoid(void *self, const weir_bind *b)
{
    (void)self;
    return weir_bind_elementwise(b, WEIR_ELEMENTWISE_SIGMOID);
}

const weir_layer weir_layer_sigmoid = {
    .plug = {"sigmoid", "1 / (1 + exp(-x))", 0, NULL},
    .keeps = true,
    .shape = weir_shape_kept,
    .bind = bind_sigmoid,
};
