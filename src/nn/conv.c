/* conv.c - 2-D convolution over pictures [channels, height, width]. Weights are plain [out, in, kernel, kernel] in the flat
 * vector; the kernels work on a blocked copy, and leave blocked gradients, which the plan puts into plain order. */
#include "nn/layer.h"
#include <math.h>

typedef struct conv {
    int64_t out, kernel, stride, pad;
    bool bias;
    weir_shape weights;
} conv;

static const weir_opt options[] = {
    {"out", WEIR_OPT_INT, offsetof(conv, out), NULL, "how many output channels", 1, INT32_MAX, NULL, false, false},
    {"kernel", WEIR_OPT_INT, offsetof(conv, kernel), NULL, "the window's side", 1, 32767, NULL, false, false},
    {"stride", WEIR_OPT_INT, offsetof(conv, stride), "1", "how far the window moves", 1, 32767, NULL, false, false},
    {"pad", WEIR_OPT_INT, offsetof(conv, pad), "0", "zeros around the picture", 0, 32767, NULL, false, false},
    {"bias", WEIR_OPT_BOOL, offsetof(conv, bias), "yes", "adds a bias to each channel", 0, 0, NULL, false, false},
    {0}};

static weir_err shape(void *self, const weir_model_input *input, const weir_shape *in, weir_shape *out, weir_weights *w,
                      int *weights)
{
    conv *c = self;
    float bound = (float)(1 / sqrt((double)(in->dim[1] * c->kernel * c->kernel)));

    (void)input;
    if (in->dims != 4)
        return weir_fail(WEIR_INVALID, "conv needs pictures of three dimensions (channels, height, width), not %d", in->dims - 1);
    if (c->kernel > in->dim[2] + 2 * c->pad || c->kernel > in->dim[3] + 2 * c->pad)
        return weir_fail(WEIR_INVALID, "a kernel of %lld does not fit into a picture of %lld x %lld with pad=%lld",
                         (long long)c->kernel, (long long)in->dim[2], (long long)in->dim[3], (long long)c->pad);
    *out = (weir_shape){4, {in->dim[0], c->out}};
    for (int i = 2; i < 4; i++)
        out->dim[i] = (in->dim[i] + 2 * c->pad - c->kernel) / c->stride + 1;
    c->weights = (weir_shape){4, {c->out, in->dim[1], c->kernel, c->kernel}};
    w[0] = (weir_weights){"weight", c->weights, true, bound, 0};
    w[1] = (weir_weights){"bias", {1, {c->out}}, false, bound, 0};
    *weights = 1 + c->bias;
    return WEIR_OK;
}

static weir_err bind_back(const weir_bind *b, const weir_conv_desc *s, const weir_op *forward)
{
    const weir_param *w = b->param;
    const weir_act *in = b->in, *out = b->out;
    weir_use to_weights[] = {{WEIR_ARG_SRC, in->data, in->layout},
                             {WEIR_ARG_DIFF_DST, out->grad, out->layout},
                             {WEIR_ARG_DIFF_WEIGHTS, w[0].grad, w[0].plain},
                             {WEIR_ARG_DIFF_BIAS, w[1].grad, w[1].plain}};
    weir_op *op;

    WEIR_TRY(weir_dnn_conv(b->dnn, WEIR_DO_BACK_WEIGHTS, s, forward, &op));
    WEIR_TRY(weir_bind_op(b, WEIR_BACK_WEIGHTS, op, to_weights, 3 + s->bias));
    if (!in->grad)
        return WEIR_OK;
    weir_use to_data[] = {{WEIR_ARG_DIFF_DST, out->grad, out->layout},
                          {WEIR_ARG_WEIGHTS, w[0].data, w[0].plain},
                          {WEIR_ARG_DIFF_SRC, in->grad, in->layout}};
    WEIR_TRY(weir_dnn_conv(b->dnn, WEIR_DO_BACK_DATA, s, forward, &op));
    return weir_bind_op(b, WEIR_BACK_DATA, op, to_data, 3);
}

static weir_err bind_conv(void *self, const weir_bind *b)
{
    const conv *c = self;
    const weir_param *w = b->param;
    weir_conv_desc s = {b->in->shape, b->out->shape, c->weights, c->kernel, c->stride, c->pad, c->bias, b->relu};
    weir_op *forward;

    WEIR_TRY(weir_dnn_conv(b->dnn, WEIR_DO_FORWARD, &s, NULL, &forward));
    WEIR_TRY(weir_bind_out(b, weir_op_layout(forward, WEIR_ARG_DST)));
    weir_use use[] = {{WEIR_ARG_SRC, b->in->data, b->in->layout},
                      {WEIR_ARG_WEIGHTS, w[0].data, w[0].plain},
                      {WEIR_ARG_DST, b->out->data, b->out->layout},
                      {WEIR_ARG_BIAS, w[1].data, w[1].plain}};
    WEIR_TRY(weir_bind_op(b, WEIR_FORWARD, forward, use, 3 + c->bias));
    return bind_back(b, &s, forward);
}

const weir_layer weir_layer_conv = {
    .plug = {"conv", "2-D convolution", sizeof(conv), options},
    .does_relu = true,
    .shape = shape,
    .bind = bind_conv,
};
