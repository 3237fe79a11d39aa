/* maxpool.c - the largest value of each window of a picture. */
#include "nn/pool.h"

static weir_err shape(void *self, const weir_model_input *input, const weir_shape *in,
                      weir_shape *out, weir_weights *w, int *weights)
{
    (void)input, (void)w;
    *weights = 0;
    return weir_pool_shape(self, "maxpool", in, out);
}

static weir_err bind_maxpool(void *self, const weir_bind *b)
{
    const weir_pool *p = self;

    return weir_pool_bind(b, (weir_pool_desc){.height = p->kernel,
                                              .width = p->kernel,
                                              .stride = p->stride,
                                              .pad = p->pad,
                                              .average = false});
}

const weir_layer weir_layer_maxpool = {
    .plug = {"maxpool", "the largest value of each window", sizeof(weir_pool), weir_pool_options},
    .shape = shape,
    .bind = bind_maxpool,
};
