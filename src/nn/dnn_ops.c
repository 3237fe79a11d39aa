/* dnn_ops.c - dense layers and convolutions. Each: describe, compile. */
#include <oneapi/dnnl/dnnl.h>

#include "nn/dnn_inside.h"

/* ---- dense ---- */

static dnnl_status_t dense_parts(const weir_dense_desc *s, bool relu, weir_parts *p)
{
    dnnl_status_t status = weir_parts_attr(p, relu);

    if (!status)
        status = weir_parts_tensor(&p->x, 2, (int64_t[]){s->rows, s->in}, dnnl_ab);
    if (!status)
        status = weir_parts_tensor(&p->w, 2, (int64_t[]){s->out, s->in}, dnnl_ab);
    if (!status)
        status = weir_parts_tensor(&p->y, 2, (int64_t[]){s->rows, s->out}, dnnl_ab);
    if (!status && s->bias)
        status = weir_parts_tensor(&p->b, 1, &s->out, dnnl_a);
    return status;
}

weir_err weir_dnn_dense(weir_dnn *d, weir_do which, const weir_dense_desc *s, const weir_op *forward, weir_op **op)
{
    weir_parts p = {0};
    dnnl_status_t status = dense_parts(s, s->relu && which == WEIR_DO_FORWARD, &p);

    switch (which) {
    case WEIR_DO_FORWARD:
        if (!status)
            status = dnnl_inner_product_forward_primitive_desc_create(&p.pd, d->engine, dnnl_forward_training, p.x, p.w, p.b, p.y,
                                                                      p.attr);
        return weir_parts_finish(d, "dense, forward", &p, status, WEIR_BIT_DST, op);
    case WEIR_DO_BACK_DATA:
        if (!status)
            status = dnnl_inner_product_backward_data_primitive_desc_create(&p.pd, d->engine, p.x, p.w, p.y, forward->pd, p.attr);
        return weir_parts_finish(d, "dense, backward by data", &p, status, WEIR_BIT_DIFF_SRC, op);
    case WEIR_DO_BACK_WEIGHTS:
        if (!status)
            status = dnnl_inner_product_backward_weights_primitive_desc_create(&p.pd, d->engine, p.x, p.w, p.b, p.y, forward->pd,
                                                                               p.attr);
        return weir_parts_finish(d, "dense, backward by weights", &p, status, WEIR_BIT_DIFF_W | WEIR_BIT_DIFF_B, op);
    }
    return weir_fail(WEIR_FAILED, "dense: no such computation");
}

/* ---- convolution ---- */

static dnnl_status_t conv_parts(const weir_conv_desc *s, bool relu, weir_parts *p)
{
    dnnl_status_t status = weir_parts_attr(p, relu);

    if (!status)
        status = weir_parts_tensor(&p->x, 4, s->in.dim, dnnl_format_tag_any);
    if (!status)
        status = weir_parts_tensor(&p->w, s->weights.dims, s->weights.dim, dnnl_format_tag_any);
    if (!status)
        status = weir_parts_tensor(&p->y, 4, s->out.dim, dnnl_format_tag_any);
    if (!status && s->bias)
        status = weir_parts_tensor(&p->b, 1, s->out.dim + 1, dnnl_a);
    return status;
}

weir_err weir_dnn_conv(weir_dnn *d, weir_do which, const weir_conv_desc *s, const weir_op *forward, weir_op **op)
{
    const dnnl_dims_t stride = {s->stride, s->stride}, pad = {s->pad, s->pad}, gap = {0, 0};
    const dnnl_alg_kind_t how = dnnl_convolution_direct;
    weir_parts p = {0};
    dnnl_status_t status = conv_parts(s, s->relu && which == WEIR_DO_FORWARD, &p);

    switch (which) {
    case WEIR_DO_FORWARD:
        if (!status)
            status = dnnl_convolution_forward_primitive_desc_create(&p.pd, d->engine, dnnl_forward_training, how, p.x, p.w, p.b,
                                                                    p.y, stride, gap, pad, pad, p.attr);
        return weir_parts_finish(d, "convolution, forward", &p, status, WEIR_BIT_DST, op);
    case WEIR_DO_BACK_DATA:
        if (!status)
            status = dnnl_convolution_backward_data_primitive_desc_create(&p.pd, d->engine, how, p.x, p.w, p.y, stride, gap, pad,
                                                                          pad, forward->pd, p.attr);
        return weir_parts_finish(d, "convolution, backward by data", &p, status, WEIR_BIT_DIFF_SRC, op);
    case WEIR_DO_BACK_WEIGHTS:
        if (!status)
            status = dnnl_convolution_backward_weights_primitive_desc_create(&p.pd, d->engine, how, p.x, p.w, p.b, p.y, stride,
                                                                             gap, pad, pad, forward->pd, p.attr);
        return weir_parts_finish(d, "convolution, backward by weights", &p, status, WEIR_BIT_DIFF_W | WEIR_BIT_DIFF_B, op);
    }
    return weir_fail(WEIR_FAILED, "convolution: no such computation");
}
