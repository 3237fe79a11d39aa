/* relu.c - max(x, 0). Behind a layer that can do it on the way, only its backward is left to do, or
 * nothing. */
#include "nn/layer.h"

static weir_err bind_relu(void *self, const weir_bind *b)
{
    (void)self;
    return weir_bind_elementwise(b, WEIR_ELEMENTWISE_RELU);
}

const weir_layer weir_layer_relu = {
    .plug = {"relu", "max(x, 0)", 0, NULL},
    .keeps = true,
    .relu = true,
    .shape = weir_shape_kept,
    .bind = bind_relu,
};
