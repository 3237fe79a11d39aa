/* maxpool.c - the largest value of each window, in whatever layout the pictures come. */
#include "nn/layer.h"

typedef struct maxpool {
    int64_t kernel, stride, pad;
} maxpool;

static const weir_opt options[] = {
    {"kernel", WEIR_OPT_INT, offsetof(maxpool, kernel), NULL, "the window's side", 1, 32767, NULL, false, false},
    {"stride", WEIR_OPT_INT, offsetof(maxpool, stride), "0", "how far the window moves; 0: as far as it is wide", 0, 32767, NULL,
     false, false},
    {"pad", WEIR_OPT_INT, offsetof(maxpool, pad), "0", "how far windows reach over the edge, at most half a window", 0, 16383,
     NULL, false, false},
    {0}};

static weir_err shape(void *self, const weir_model_input *input, const weir_shape *in, weir_shape *out, weir_weights *w,
                      int *weights)
{
    maxpool *m = self;

    (void)input, (void)w;
    m->stride = m->stride ? m->stride : m->kernel;
    if (in->dims != 4)
        return weir_fail(WEIR_INVALID, "maxpool needs pictures of three dimensions (channels, height, width), not %d",
                         in->dims - 1);
    if (m->pad > m->kernel / 2)
        return weir_fail(WEIR_INVALID, "pad=%lld is more than half a window of %lld", (long long)m->pad, (long long)m->kernel);
    if (m->kernel > in->dim[2] + 2 * m->pad || m->kernel > in->dim[3] + 2 * m->pad)
        return weir_fail(WEIR_INVALID, "a window of %lld does not fit into a picture of %lld x %lld with pad=%lld",
                         (long long)m->kernel, (long long)in->dim[2], (long long)in->dim[3], (long long)m->pad);
    *out = *in;
    for (int i = 2; i < 4; i++)
        out->dim[i] = (in->dim[i] + 2 * m->pad - m->kernel) / m->stride + 1;
    *weights = 0;
    return WEIR_OK;
}

static weir_err bind_maxpool(void *self, const weir_bind *b)
{
    const maxpool *m = self;
    weir_act *in = b->in, *out = b->out;
    weir_pool_desc s = {out->shape, in->layout, m->kernel, m->stride, m->pad};
    const weir_layout *work;
    weir_mem *won;
    weir_op *forward, *back;

    WEIR_TRY(weir_dnn_pool(b->dnn, WEIR_DO_FORWARD, &s, NULL, &forward));
    WEIR_TRY(weir_bind_out(b, weir_op_layout(forward, WEIR_ARG_DST)));
    work = weir_op_layout(forward, WEIR_ARG_WORKSPACE);
    WEIR_TRY(weir_bind_mem(b, work ? weir_layout_bytes(work) : 0, &won));
    weir_use use[] = {
        {WEIR_ARG_SRC, in->data, in->layout}, {WEIR_ARG_DST, out->data, out->layout}, {WEIR_ARG_WORKSPACE, won, work}};
    WEIR_TRY(weir_bind_op(b, WEIR_FORWARD, forward, use, work ? 3 : 2));
    if (!in->grad)
        return WEIR_OK;
    weir_use to_data[] = {
        {WEIR_ARG_DIFF_DST, out->grad, out->layout}, {WEIR_ARG_DIFF_SRC, in->grad, in->layout}, {WEIR_ARG_WORKSPACE, won, work}};
    WEIR_TRY(weir_dnn_pool(b->dnn, WEIR_DO_BACK_DATA, &s, forward, &back));
    return weir_bind_op(b, WEIR_BACK_DATA, back, to_data, work ? 3 : 2);
}

const weir_layer weir_layer_maxpool = {
    .plug = {"maxpool", "the largest value of each window", sizeof(maxpool), options},
    .shape = shape,
    .bind = bind_maxpool,
};
