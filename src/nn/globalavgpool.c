/* globalavgpool.c - the mean of each channel of a picture, whatever its size. */
#include "nn/pool.h"

static weir_err shape(void *self, const weir_model_input *input, const weir_shape *in,
                      weir_shape *out, weir_weights *w, int *weights)
{
    (void)self, (void)input, (void)w;
    if (in->dims != 4)
        return weir_fail(
            WEIR_INVALID,
            "globalavgpool needs pictures of three dimensions (channels, height, width), not %d",
            in->dims - 1);
    *out = (weir_shape){4, {in->dim[0], in->dim[1], 1, 1}};
    *weights = 0;
    return WEIR_OK;
}

static weir_err bind_globalavgpool(void *self, const weir_bind *b)
{
    (void)self;
    return weir_pool_bind(b, (weir_pool_desc){.height = b->in->shape.dim[2],
                                              .width = b->in->shape.dim[3],
                                              .stride = 1,
                                              .average = true});
}

const weir_layer weir_layer_globalavgpool = {
    .plug = {"globalavgpool", "the mean of each channel", 0, NULL},
    .shape = shape,
    .bind = bind_globalavgpool,
};
