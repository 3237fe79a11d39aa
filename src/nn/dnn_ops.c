/* dnn_ops.c - dense layers and convolutions. Each: describe, compile. */
#include <oneapi/dnnl/dnnl.h>
#include <string.h>

#include "nn/dnn_inside.h"

/* ---- dense ---- */

static dnnl_status_t dense_parts(const weir_dense_desc *s, bool relu, weir_dnn_draft *p)
{
    dnnl_status_t status = weir_dnn_draft_attr(p, relu);

    if (!status)
        status = weir_dnn_draft_tensor(&p->x, 2, (int64_t[]){s->rows, s->in}, dnnl_ab);
    if (!status)
        status = weir_dnn_draft_tensor(&p->w, 2, (int64_t[]){s->out, s->in}, dnnl_ab);
    if (!status)
        status = weir_dnn_draft_tensor(&p->y, 2, (int64_t[]){s->rows, s->out}, dnnl_ab);
    if (!status && s->bias)
        status = weir_dnn_draft_tensor(&p->b, 1, &s->out, dnnl_a);
    return status;
}

static dnnl_status_t forward_desc(weir_dnn *d, const weir_dnn_draft *p,
                                  const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *pd)
{
    return dnnl_inner_product_forward_primitive_desc_create(pd, d->engine, dnnl_forward_training,
                                                            p->x, p->w, p->b, p->y, attr);
}

/* Backward ones take a hint: the forward one, or what it would be. */
static dnnl_status_t backward_desc(weir_dnn *d, bool by_data, const weir_dnn_op *forward,
                                   weir_dnn_draft *p)
{
    dnnl_primitive_desc_t made = NULL;
    dnnl_status_t status = forward ? dnnl_success : forward_desc(d, p, NULL, &made);
    const_dnnl_primitive_desc_t hint = forward ? forward->pd : made;

    if (status)
        return status;
    status = by_data
                 ? dnnl_inner_product_backward_data_primitive_desc_create(&p->pd, d->engine, p->x,
                                                                          p->w, p->y, hint, p->attr)
                 : dnnl_inner_product_backward_weights_primitive_desc_create(&p->pd, d->engine,
                                                                             p->x, p->w, p->b, p->y,
                                                                             hint, p->attr);
    if (made)
        dnnl_primitive_desc_destroy(made);
    return status;
}

/* The same as a product of matrices, with weights [in, out] for forward; its kernels for AVX-512
 * are steady. */
static dnnl_status_t product_desc(weir_dnn *d, bool by_data, const weir_dense_desc *s,
                                  weir_dnn_draft *p)
{
    dnnl_memory_desc_t turned = NULL, bias = NULL;
    dnnl_status_t status;

    if (by_data)
        return dnnl_matmul_primitive_desc_create(&p->pd, d->engine, p->y, p->w, NULL, p->x,
                                                 p->attr);
    status = weir_dnn_draft_tensor(&turned, 2, (int64_t[]){s->in, s->out}, dnnl_ba);
    if (!status && s->bias)
        status = weir_dnn_draft_tensor(&bias, 2, (int64_t[]){1, s->out}, dnnl_ab);
    if (!status)
        status =
            dnnl_matmul_primitive_desc_create(&p->pd, d->engine, p->x, turned, bias, p->y, p->attr);
    if (turned)
        dnnl_memory_desc_destroy(turned);
    if (bias)
        dnnl_memory_desc_destroy(bias);
    return status;
}

/* Whether the library has a product for this that is steady by itself. Leaves it in p->pd. */
static bool find_product(weir_dnn *d, bool by_data, const weir_dense_desc *s, weir_dnn_draft *p)
{
    const char *name = "";

    if (!s->steady || product_desc(d, by_data, s, p))
        return false;
    dnnl_primitive_desc_query(p->pd, dnnl_query_impl_info_str, 0, &name);
    if (!strncmp(name, "brg", 3))
        return true;
    dnnl_primitive_desc_destroy(p->pd);
    p->pd = NULL;
    return false;
}

static weir_err has_product(weir_dnn *d, const weir_dense_desc *s, bool *found)
{
    weir_dnn_draft p = {0};
    weir_dense_desc steady = *s;
    dnnl_status_t status = dense_parts(s, false, &p);

    steady.steady = true;
    *found = !status && find_product(d, false, &steady, &p);
    if (*found)
        dnnl_primitive_desc_destroy(p.pd);
    weir_dnn_draft_drop(&p);
    return status ? weir_dnn_fail("dense", status) : WEIR_OK;
}

weir_err weir_dnn_steady(weir_dnn *d, const weir_dense_desc *s, int64_t *rows)
{
    /* what is left over of a tile of rows adds up as full ones do from here on */
    enum { TILE = 6, FULL = 4 };
    int64_t rest = s->rows % TILE;
    bool found;

    WEIR_TRY(has_product(d, s, &found));
    *rows = found || !rest || rest >= FULL ? s->rows : s->rows + FULL - rest;
    return WEIR_OK;
}

weir_err weir_dnn_block(weir_dnn *d, const weir_dense_desc *s, int64_t *rows)
{
    enum { BLOCK = 24 }; /* whole tiles of any kernel there is */
    bool found;

    WEIR_TRY(has_product(d, s, &found));
    *rows = found ? s->rows : BLOCK;
    return WEIR_OK;
}

weir_err weir_dnn_dense(weir_dnn *d, weir_dnn_do which, const weir_dense_desc *s,
                        const weir_dnn_op *forward, weir_dnn_op **op)
{
    weir_dnn_draft p = {0};
    dnnl_status_t status = dense_parts(s, s->relu && which == WEIR_DNN_DO_FORWARD, &p);

    switch (which) {
    case WEIR_DNN_DO_FORWARD:
        if (!status && !find_product(d, false, s, &p))
            status = forward_desc(d, &p, p.attr, &p.pd);
        return weir_dnn_draft_finish(d, "dense, forward", &p, status, WEIR_DNN_BIT_DST, op);
    case WEIR_DNN_DO_BACK_DATA:
        if (!status && !find_product(d, true, s, &p))
            status = backward_desc(d, true, forward, &p);
        return weir_dnn_draft_finish(d, "dense, backward by data", &p, status,
                                     WEIR_DNN_BIT_DST | WEIR_DNN_BIT_DIFF_SRC, op);
    case WEIR_DNN_DO_BACK_WEIGHTS:
        if (!status)
            status = backward_desc(d, false, forward, &p);
        return weir_dnn_draft_finish(d, "dense, backward by weights", &p, status,
                                     WEIR_DNN_BIT_DIFF_W | WEIR_DNN_BIT_DIFF_B, op);
    }
    return weir_fail(WEIR_FAILED, "dense: no such computation");
}

/* ---- convolution ---- */

/* layout NULL: as the library likes it. */
static dnnl_status_t conv_tensor(dnnl_memory_desc_t *md, const weir_shape *shape,
                                 const weir_layout *layout)
{
    return layout ? dnnl_memory_desc_clone(md, layout->md)
                  : weir_dnn_draft_tensor(md, shape->dims, shape->dim, dnnl_format_tag_any);
}

static dnnl_status_t conv_parts(const weir_conv_desc *s, bool relu, bool keep, weir_dnn_draft *p)
{
    dnnl_status_t status = weir_dnn_draft_attr(p, relu);

    if (!status)
        status = conv_tensor(&p->x, &s->in, keep ? s->in_layout : NULL);
    if (!status)
        status = conv_tensor(&p->w, &s->weights, NULL);
    if (!status)
        status = conv_tensor(&p->y, &s->out, keep ? s->out_layout : NULL);
    if (!status && s->bias)
        status = weir_dnn_draft_tensor(&p->b, 1, s->out.dim + 1, dnnl_a);
    return status;
}

static dnnl_status_t conv_desc(weir_dnn *d, weir_dnn_do which, const weir_conv_desc *s,
                               const weir_dnn_op *forward, weir_dnn_draft *p)
{
    const dnnl_dims_t stride = {s->stride, s->stride}, pad = {s->pad, s->pad}, gap = {0, 0};
    const dnnl_alg_kind_t how = dnnl_convolution_direct;

    switch (which) {
    case WEIR_DNN_DO_FORWARD:
        return dnnl_convolution_forward_primitive_desc_create(&p->pd, d->engine,
                                                              dnnl_forward_training, how, p->x,
                                                              p->w, p->b, p->y, stride, gap, pad,
                                                              pad, p->attr);
    case WEIR_DNN_DO_BACK_DATA:
        return dnnl_convolution_backward_data_primitive_desc_create(&p->pd, d->engine, how, p->x,
                                                                    p->w, p->y, stride, gap, pad,
                                                                    pad, forward->pd, p->attr);
    case WEIR_DNN_DO_BACK_WEIGHTS:
        return dnnl_convolution_backward_weights_primitive_desc_create(&p->pd, d->engine, how, p->x,
                                                                       p->w, p->b, p->y, stride,
                                                                       gap, pad, pad, forward->pd,
                                                                       p->attr);
    }
    return dnnl_invalid_arguments;
}

/* With tensors as they lie, if there is a kernel worth the name for that. */
static bool keep_layouts(weir_dnn *d, weir_dnn_do which, const weir_conv_desc *s,
                         const weir_dnn_op *forward, weir_dnn_draft *p)
{
    const char *name = "ref";
    dnnl_status_t status = conv_parts(s, s->relu && which == WEIR_DNN_DO_FORWARD, true, p);

    if (!status)
        status = conv_desc(d, which, s, forward, p);
    if (!status)
        dnnl_primitive_desc_query(p->pd, dnnl_query_impl_info_str, 0, &name);
    if (!status && !strstr(name, "ref") && !strstr(name, "gemm"))
        return true;
    if (!status)
        dnnl_primitive_desc_destroy(p->pd);
    weir_dnn_draft_drop(p);
    *p = (weir_dnn_draft){0};
    return false;
}

weir_err weir_dnn_conv(weir_dnn *d, weir_dnn_do which, const weir_conv_desc *s,
                       const weir_dnn_op *forward, weir_dnn_op **op)
{
    static const char *const what[] = {[WEIR_DNN_DO_FORWARD] = "convolution, forward",
                                       [WEIR_DNN_DO_BACK_DATA] = "convolution, backward by data",
                                       [WEIR_DNN_DO_BACK_WEIGHTS] =
                                           "convolution, backward by weights"};
    static const unsigned writes[] = {[WEIR_DNN_DO_FORWARD] = WEIR_DNN_BIT_DST,
                                      [WEIR_DNN_DO_BACK_DATA] = WEIR_DNN_BIT_DIFF_SRC,
                                      [WEIR_DNN_DO_BACK_WEIGHTS] =
                                          WEIR_DNN_BIT_DIFF_W | WEIR_DNN_BIT_DIFF_B};
    dnnl_status_t status = dnnl_success;
    weir_dnn_draft p = {0};

    if (!keep_layouts(d, which, s, forward, &p)) {
        status = conv_parts(s, s->relu && which == WEIR_DNN_DO_FORWARD, false, &p);
        if (!status)
            status = conv_desc(d, which, s, forward, &p);
    }
    return weir_dnn_draft_finish(d, what[which], &p, status, writes[which], op);
}
