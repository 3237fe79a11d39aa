/* dnn_ops.c - the primitives that layers are made of. Each: describe, compile; the scratch memory is always ours to place. */
#include <oneapi/dnnl/dnnl.h>
#include <string.h>

#include "nn/dnn_inside.h"

enum {
    BIT_DST = 1 << WEIR_ARG_DST,
    BIT_WORK = 1 << WEIR_ARG_WORKSPACE,
    BIT_DIFF_SRC = 1 << WEIR_ARG_DIFF_SRC,
    BIT_DIFF_W = 1 << WEIR_ARG_DIFF_WEIGHTS,
    BIT_DIFF_B = 1 << WEIR_ARG_DIFF_BIAS
};

/* ---- descriptions, freed by the caller ---- */

static dnnl_status_t set_relu(dnnl_primitive_attr_t attr)
{
    dnnl_post_ops_t post;
    dnnl_status_t status = dnnl_post_ops_create(&post);

    if (status)
        return status;
    if (!(status = dnnl_post_ops_append_eltwise(post, dnnl_eltwise_relu, 0, 0)))
        status = dnnl_primitive_attr_set_post_ops(attr, post);
    dnnl_post_ops_destroy(post);
    return status;
}

static dnnl_status_t make_attr(bool relu, dnnl_primitive_attr_t *attr)
{
    dnnl_status_t status = dnnl_primitive_attr_create(attr);

    if (status)
        return status;
    status = dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user);
    if (!status && relu)
        status = set_relu(*attr);
    if (status)
        dnnl_primitive_attr_destroy(*attr);
    return status;
}

/* What a primitive is described by: up to four tensors, and attributes. All NULL at first, so that `drop` fits any moment. */
typedef struct parts {
    dnnl_memory_desc_t x, w, b, y;
    dnnl_primitive_attr_t attr;
    dnnl_primitive_desc_t pd;
} parts;

static void drop(parts *p)
{
    dnnl_memory_desc_t md[] = {p->x, p->w, p->b, p->y};

    for (size_t i = 0; i < sizeof md / sizeof *md; i++)
        if (md[i])
            dnnl_memory_desc_destroy(md[i]);
    if (p->attr)
        dnnl_primitive_attr_destroy(p->attr);
}

static dnnl_status_t tensor(dnnl_memory_desc_t *md, int dims, const int64_t *dim, dnnl_format_tag_t tag)
{
    dnnl_dims_t full = {0};

    memcpy(full, dim, (size_t)dims * sizeof *dim);
    return dnnl_memory_desc_create_with_tag(md, dims, full, dnnl_f32, tag);
}

/* The end of every constructor: the description is complete, or `status` says why it is not. */
static weir_err finish(weir_dnn *d, const char *what, parts *p, dnnl_status_t status, unsigned writes, weir_op **op)
{
    drop(p);
    return status ? weir_dnn_fail(what, status) : weir_dnn_compile(d, what, p->pd, writes, op);
}

/* ---- dense ---- */

static dnnl_status_t dense_parts(const weir_dense_desc *s, bool relu, parts *p)
{
    dnnl_status_t status = make_attr(relu, &p->attr);

    if (!status)
        status = tensor(&p->x, 2, (int64_t[]){s->rows, s->in}, dnnl_ab);
    if (!status)
        status = tensor(&p->w, 2, (int64_t[]){s->out, s->in}, dnnl_ab);
    if (!status)
        status = tensor(&p->y, 2, (int64_t[]){s->rows, s->out}, dnnl_ab);
    if (!status && s->bias)
        status = tensor(&p->b, 1, &s->out, dnnl_a);
    return status;
}

weir_err weir_dnn_dense(weir_dnn *d, weir_do which, const weir_dense_desc *s, const weir_op *forward, weir_op **op)
{
    parts p = {0};
    dnnl_status_t status = dense_parts(s, s->relu && which == WEIR_DO_FORWARD, &p);

    switch (which) {
    case WEIR_DO_FORWARD:
        if (!status)
            status = dnnl_inner_product_forward_primitive_desc_create(&p.pd, d->engine, dnnl_forward_training, p.x, p.w, p.b, p.y,
                                                                      p.attr);
        return finish(d, "dense, forward", &p, status, BIT_DST, op);
    case WEIR_DO_BACK_DATA:
        if (!status)
            status = dnnl_inner_product_backward_data_primitive_desc_create(&p.pd, d->engine, p.x, p.w, p.y, forward->pd, p.attr);
        return finish(d, "dense, backward by data", &p, status, BIT_DIFF_SRC, op);
    case WEIR_DO_BACK_WEIGHTS:
        if (!status)
            status = dnnl_inner_product_backward_weights_primitive_desc_create(&p.pd, d->engine, p.x, p.w, p.b, p.y, forward->pd,
                                                                               p.attr);
        return finish(d, "dense, backward by weights", &p, status, BIT_DIFF_W | BIT_DIFF_B, op);
    }
    return weir_fail(WEIR_FAILED, "dense: no such computation");
}

/* ---- convolution ---- */

static dnnl_status_t conv_parts(const weir_conv_desc *s, bool relu, parts *p)
{
    dnnl_status_t status = make_attr(relu, &p->attr);

    if (!status)
        status = tensor(&p->x, 4, s->in.dim, dnnl_format_tag_any);
    if (!status)
        status = tensor(&p->w, 4, s->weights.dim, dnnl_format_tag_any);
    if (!status)
        status = tensor(&p->y, 4, s->out.dim, dnnl_format_tag_any);
    if (!status && s->bias)
        status = tensor(&p->b, 1, s->weights.dim, dnnl_a);
    return status;
}

weir_err weir_dnn_conv(weir_dnn *d, weir_do which, const weir_conv_desc *s, const weir_op *forward, weir_op **op)
{
    const dnnl_dims_t stride = {s->stride, s->stride}, pad = {s->pad, s->pad}, gap = {0, 0};
    const dnnl_alg_kind_t how = dnnl_convolution_direct;
    parts p = {0};
    dnnl_status_t status = conv_parts(s, s->relu && which == WEIR_DO_FORWARD, &p);

    switch (which) {
    case WEIR_DO_FORWARD:
        if (!status)
            status = dnnl_convolution_forward_primitive_desc_create(&p.pd, d->engine, dnnl_forward_training, how, p.x, p.w, p.b,
                                                                    p.y, stride, gap, pad, pad, p.attr);
        return finish(d, "convolution, forward", &p, status, BIT_DST, op);
    case WEIR_DO_BACK_DATA:
        if (!status)
            status = dnnl_convolution_backward_data_primitive_desc_create(&p.pd, d->engine, how, p.x, p.w, p.y, stride, gap, pad,
                                                                          pad, forward->pd, p.attr);
        return finish(d, "convolution, backward by data", &p, status, BIT_DIFF_SRC, op);
    case WEIR_DO_BACK_WEIGHTS:
        if (!status)
            status = dnnl_convolution_backward_weights_primitive_desc_create(&p.pd, d->engine, how, p.x, p.w, p.b, p.y, stride,
                                                                             gap, pad, pad, forward->pd, p.attr);
        return finish(d, "convolution, backward by weights", &p, status, BIT_DIFF_W | BIT_DIFF_B, op);
    }
    return weir_fail(WEIR_FAILED, "convolution: no such computation");
}

/* ---- pooling ---- */

weir_err weir_dnn_pool(weir_dnn *d, weir_do which, const weir_pool_desc *s, const weir_op *forward, weir_op **op)
{
    const dnnl_dims_t stride = {s->stride, s->stride}, pad = {s->pad, s->pad}, kernel = {s->kernel, s->kernel}, gap = {0, 0};
    parts p = {0};
    dnnl_status_t status = make_attr(false, &p.attr);

    if (which == WEIR_DO_FORWARD) {
        if (!status)
            status = tensor(&p.y, 4, s->out.dim, dnnl_format_tag_any);
        if (!status)
            status = dnnl_pooling_forward_primitive_desc_create(&p.pd, d->engine, dnnl_forward_training, dnnl_pooling_max,
                                                                s->layout->md, p.y, stride, kernel, gap, pad, pad, p.attr);
        return finish(d, "max pooling, forward", &p, status, BIT_DST | BIT_WORK, op);
    }
    if (!status)
        status = dnnl_pooling_backward_primitive_desc_create(&p.pd, d->engine, dnnl_pooling_max, s->layout->md,
                                                             forward->layout[WEIR_ARG_DST].md, stride, kernel, gap, pad, pad,
                                                             forward->pd, p.attr);
    return finish(d, "max pooling, backward", &p, status, BIT_DIFF_SRC, op);
}

/* ---- elementwise, and moving ---- */

weir_err weir_dnn_relu(weir_dnn *d, weir_do which, const weir_layout *l, const weir_op *forward, weir_op **op)
{
    const dnnl_alg_kind_t how = dnnl_eltwise_relu_use_dst_for_bwd;
    parts p = {0};
    dnnl_status_t status = make_attr(false, &p.attr);

    if (which == WEIR_DO_FORWARD) {
        if (!status)
            status = dnnl_eltwise_forward_primitive_desc_create(&p.pd, d->engine, dnnl_forward_training, how, l->md, l->md, 0, 0,
                                                                p.attr);
        return finish(d, "relu, forward", &p, status, BIT_DST, op);
    }
    if (!status)
        status =
            dnnl_eltwise_backward_primitive_desc_create(&p.pd, d->engine, how, l->md, l->md, l->md, 0, 0, forward->pd, p.attr);
    return finish(d, "relu, backward", &p, status, BIT_DIFF_SRC, op);
}

weir_err weir_dnn_add(weir_dnn *d, const weir_layout *l, bool relu, weir_op **op)
{
    parts p = {0};
    dnnl_status_t status = make_attr(relu, &p.attr);

    if (!status)
        status = dnnl_binary_primitive_desc_create(&p.pd, d->engine, dnnl_binary_add, l->md, l->md, l->md, p.attr);
    return finish(d, "add", &p, status, BIT_DST, op);
}

weir_err weir_dnn_reorder(weir_dnn *d, const weir_layout *from, const weir_layout *to, weir_op **op)
{
    parts p = {0};
    dnnl_status_t status = make_attr(false, &p.attr);

    if (!status)
        status = dnnl_reorder_primitive_desc_create(&p.pd, from->md, d->engine, to->md, d->engine, p.attr);
    return finish(d, "reorder", &p, status, BIT_DST, op);
}
