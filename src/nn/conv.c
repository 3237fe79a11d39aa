/* conv.c - 2-D convolution over pictures [channels, height, width]. Weights are plain [out, in,
 * kernel, kernel] in the flat vector; the kernels work on a blocked copy, and leave blocked
 * gradients, which the plan puts into plain order. In exact mode they are made for one sample, and
 * run on each. */
#include "nn/layer.h"
#include "nn/parallel.h"
#include <math.h>

typedef struct conv {
    int64_t out, kernel, stride, pad, groups;
    bool bias;
} conv;

static const weir_opt options[] = {{"out", WEIR_OPT_INT, offsetof(conv, out), NULL,
                                    "how many output channels", 1, INT32_MAX, NULL, false, false},
                                   {"kernel", WEIR_OPT_INT, offsetof(conv, kernel), NULL,
                                    "the window's side", 1, 32767, NULL, false, false},
                                   {"stride", WEIR_OPT_INT, offsetof(conv, stride), "1",
                                    "how far the window moves", 1, 32767, NULL, false, false},
                                   {"pad", WEIR_OPT_INT, offsetof(conv, pad), "0",
                                    "zeros around the picture", 0, 32767, NULL, false, false},
                                   {"groups", WEIR_OPT_INT, offsetof(conv, groups), "1",
                                    "parts that the channels are cut into, each convolved alone", 1,
                                    INT32_MAX, NULL, false, false},
                                   {"bias", WEIR_OPT_BOOL, offsetof(conv, bias), "yes",
                                    "adds a bias to each channel", 0, 0, NULL, false, false},
                                   {0}};

static weir_err shape(void *self, const weir_model_input *input, const weir_shape *in,
                      weir_shape *out, weir_weights *w, int *weights)
{
    const conv *c = self;
    int64_t deep = in->dim[1] / c->groups;
    float bound = (float)(1 / sqrt((double)deep * (double)(c->kernel * c->kernel)));

    (void)input;
    if (in->dims != 4)
        return weir_fail(
            WEIR_INVALID,
            "conv needs pictures of three dimensions (channels, height, width), not %d",
            in->dims - 1);
    if (c->kernel > in->dim[2] + 2 * c->pad || c->kernel > in->dim[3] + 2 * c->pad)
        return weir_fail(
            WEIR_INVALID,
            "a kernel of %lld does not fit into a picture of %lld x %lld with pad=%lld",
            (long long)c->kernel, (long long)in->dim[2], (long long)in->dim[3], (long long)c->pad);
    if (in->dim[1] % c->groups || c->out % c->groups)
        return weir_fail(WEIR_INVALID, "groups=%lld does not divide %lld channels in and %lld out",
                         (long long)c->groups, (long long)in->dim[1], (long long)c->out);
    *out = (weir_shape){4, {in->dim[0], c->out}};
    for (int i = 2; i < 4; i++)
        out->dim[i] = (in->dim[i] + 2 * c->pad - c->kernel) / c->stride + 1;
    w[0] = (weir_weights){"weight",
                          {4, {c->out, deep, c->kernel, c->kernel}},
                          .decays = true,
                          .bound = bound};
    w[1] = (weir_weights){"bias", {1, {c->out}}, .bound = bound};
    *weights = 1 + c->bias;
    return WEIR_OK;
}

/* The library wants the groups as a dimension of their own; in plain order that is the same
 * memory. */
static weir_shape weight_shape(const conv *c, const weir_act *in)
{
    int64_t deep = in->shape.dim[1] / c->groups;

    if (c->groups > 1)
        return (weir_shape){5, {c->groups, c->out / c->groups, deep, c->kernel, c->kernel}};
    return (weir_shape){4, {c->out, deep, c->kernel, c->kernel}};
}

static weir_err make_op(const weir_bind *b, weir_dnn_do which, const weir_conv_desc *s,
                        const weir_dnn_op *forward, weir_dnn_op **op)
{
    int threads = b->exact ? weir_parallel_alone() : 0;
    weir_err err = weir_dnn_conv(b->dnn, which, s, forward, op);

    if (b->exact)
        weir_parallel_threads(threads);
    return err;
}

static weir_err put_op(const weir_bind *b, weir_layer_phase phase, weir_dnn_op *op,
                       const weir_bind_use *use, int uses)
{
    return b->exact ? weir_bind_each(b, phase, op, b->in->shape.dim[0], use, uses)
                    : weir_bind_op(b, phase, op, use, uses);
}

static weir_err bind_back(const weir_bind *b, const weir_conv_desc *s, const weir_dnn_op *forward,
                          const weir_layout *plain)
{
    const weir_param *w = b->param;
    const weir_act *in = b->in, *out = b->out;
    weir_bind_use to_weights[] = {{WEIR_DNN_ARG_SRC, in->data, in->layout},
                                  {WEIR_DNN_ARG_DIFF_DST, out->grad, out->layout},
                                  {WEIR_DNN_ARG_DIFF_WEIGHTS, b->exact ? w[0].exact : w[0].grad,
                                   plain},
                                  {WEIR_DNN_ARG_DIFF_BIAS, b->exact ? w[1].exact : w[1].grad,
                                   w[1].plain}};
    weir_dnn_op *op;

    WEIR_TRY(make_op(b, WEIR_DNN_DO_BACK_WEIGHTS, s, forward, &op));
    WEIR_TRY(put_op(b, WEIR_LAYER_BACK_WEIGHTS, op, to_weights, 3 + s->bias));
    if (!in->grad)
        return WEIR_OK;
    weir_bind_use to_data[] = {{WEIR_DNN_ARG_DIFF_DST, out->grad, out->layout},
                               {WEIR_DNN_ARG_WEIGHTS, w[0].data, plain},
                               {WEIR_DNN_ARG_DIFF_SRC, in->grad, in->layout}};
    WEIR_TRY(make_op(b, WEIR_DNN_DO_BACK_DATA, s, forward, &op));
    return put_op(b, WEIR_LAYER_BACK_DATA, op, to_data, 3);
}

/* Layouts for the op's number of samples and for ours. */
static weir_err as_batch(const weir_bind *b, const weir_layout *l, int64_t n,
                         const weir_layout **out)
{
    *out = l;
    return b->exact ? weir_layout_batch(b->dnn, l, n, out) : WEIR_OK;
}

static weir_err bind_conv(void *self, const weir_bind *b)
{
    const conv *c = self;
    const weir_param *w = b->param;
    weir_shape shape = weight_shape(c, b->in);
    weir_conv_desc s = {b->in->shape, b->out->shape, shape,   c->kernel,
                        c->stride,    c->pad,        c->bias, b->relu};
    const weir_layout *plain, *out;
    weir_dnn_op *forward;

    if (b->exact)
        s.in.dim[0] = s.out.dim[0] = 1;
    WEIR_TRY(weir_layout_plain(b->dnn, &shape, &plain));
    WEIR_TRY(make_op(b, WEIR_DNN_DO_FORWARD, &s, NULL, &forward));
    WEIR_TRY(
        as_batch(b, weir_dnn_op_layout(forward, WEIR_DNN_ARG_DST), b->out->shape.dim[0], &out));
    WEIR_TRY(weir_bind_out(b, out));
    WEIR_TRY(as_batch(b, b->in->layout, 1, &s.in_layout));
    WEIR_TRY(as_batch(b, b->out->layout, 1, &s.out_layout));
    weir_bind_use use[] = {{WEIR_DNN_ARG_SRC, b->in->data, b->in->layout},
                           {WEIR_DNN_ARG_WEIGHTS, w[0].data, plain},
                           {WEIR_DNN_ARG_DST, b->out->data, b->out->layout},
                           {WEIR_DNN_ARG_BIAS, w[1].data, w[1].plain}};
    WEIR_TRY(put_op(b, WEIR_LAYER_FORWARD, forward, use, 3 + c->bias));
    return bind_back(b, &s, forward, plain);
}

const weir_layer weir_layer_conv = {
    .plug = {"conv", "2-D convolution", sizeof(conv), options},
    .does_relu = true,
    .exact = true,
    .shape = shape,
    .bind = bind_conv,
};
