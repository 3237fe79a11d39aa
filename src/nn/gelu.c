/* gelu.c - x times the normal distribution up to x, by the error function; backward looks at the
 * input. */
#include "nn/layer.h"

static weir_err bind_gelu(void *self, const weir_bind *b)
{
    (void)self;
    return weir_bind_elementwise(b, WEIR_ELEMENTWISE_GELU);
}

const weir_layer weir_layer_gelu = {
    .plug = {"gelu", "x times the normal distribution up to x (by the error function)", 0, NULL},
    .shape = weir_shape_kept,
    .bind = bind_gelu,
};
