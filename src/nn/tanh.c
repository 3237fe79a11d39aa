/* tanh.c - the hyperbolic tangent; backward looks at the output. */
#include "nn/layer.h"

static weir_err bind_tanh(void *self, const weir_bind *b)
{
    (void)self;
    return weir_bind_elementwise(b, WEIR_ELEMENTWISE_TANH);
}

const weir_layer weir_layer_tanh = {
    .plug = {"tanh", "the hyperbolic tangent", 0, NULL},
    .keeps = true,
    .shape = weir_shape_kept,
    .bind = bind_tanh,
};
