/* dnn_point.c - what works on elements, windows and channels: pooling, activations, sums, norms,
 * moving. */
#include <oneapi/dnnl/dnnl.h>

#include "nn/dnn_inside.h"

/* ---- pooling ---- */

weir_err weir_dnn_pool(weir_dnn *d, weir_dnn_do which, const weir_pool_desc *s,
                       const weir_dnn_op *forward, weir_dnn_op **op)
{
    const dnnl_dims_t stride = {s->stride, s->stride}, pad = {s->pad, s->pad}, gap = {0, 0};
    const dnnl_dims_t kernel = {s->height, s->width};
    const dnnl_alg_kind_t how = s->average ? dnnl_pooling_avg_include_padding : dnnl_pooling_max;
    weir_dnn_draft p = {0};
    dnnl_status_t status = weir_dnn_draft_attr(&p, false);

    if (which == WEIR_DNN_DO_FORWARD) {
        if (!status)
            status = weir_dnn_draft_tensor(&p.y, 4, s->out.dim, dnnl_format_tag_any);
        if (!status)
            status =
                dnnl_pooling_forward_primitive_desc_create(&p.pd, d->engine, dnnl_forward_training,
                                                           how, s->layout->md, p.y, stride, kernel,
                                                           gap, pad, pad, p.attr);
        return weir_dnn_draft_finish(d, "pooling, forward", &p, status,
                                     WEIR_DNN_BIT_DST | WEIR_DNN_BIT_WORK, op);
    }
    if (!status)
        status = dnnl_pooling_backward_primitive_desc_create(&p.pd, d->engine, how, s->layout->md,
                                                             forward->layout[WEIR_DNN_ARG_DST].md,
                                                             stride, kernel, gap, pad, pad,
                                                             forward->pd, p.attr);
    return weir_dnn_draft_finish(d, "pooling, backward", &p, status, WEIR_DNN_BIT_DIFF_SRC, op);
}

/* ---- elements ---- */

static const struct {
    const char *forward, *back;
    dnnl_alg_kind_t how;
} curves[] = {[WEIR_ELEMENTWISE_RELU] = {"relu, forward", "relu, backward",
                                         dnnl_eltwise_relu_use_dst_for_bwd},
              [WEIR_ELEMENTWISE_TANH] = {"tanh, forward", "tanh, backward",
                                         dnnl_eltwise_tanh_use_dst_for_bwd},
              [WEIR_ELEMENTWISE_SIGMOID] = {"sigmoid, forward", "sigmoid, backward",
                                            dnnl_eltwise_logistic_use_dst_for_bwd},
              [WEIR_ELEMENTWISE_GELU] = {"gelu, forward", "gelu, backward", dnnl_eltwise_gelu_erf}};

weir_err weir_dnn_elementwise(weir_dnn *d, weir_dnn_do which, weir_elementwise curve,
                              const weir_layout *l, const weir_dnn_op *forward, weir_dnn_op **op)
{
    dnnl_alg_kind_t how = curves[curve].how;
    weir_dnn_draft p = {0};
    dnnl_status_t status = weir_dnn_draft_attr(&p, false);

    if (which == WEIR_DNN_DO_FORWARD) {
        if (!status)
            status =
                dnnl_eltwise_forward_primitive_desc_create(&p.pd, d->engine, dnnl_forward_training,
                                                           how, l->md, l->md, 0, 0, p.attr);
        return weir_dnn_draft_finish(d, curves[curve].forward, &p, status, WEIR_DNN_BIT_DST, op);
    }
    if (!status)
        status = dnnl_eltwise_backward_primitive_desc_create(&p.pd, d->engine, how, l->md, l->md,
                                                             l->md, 0, 0, forward->pd, p.attr);
    return weir_dnn_draft_finish(d, curves[curve].back, &p, status, WEIR_DNN_BIT_DIFF_SRC, op);
}

weir_err weir_dnn_add(weir_dnn *d, const weir_layout *l, bool relu, weir_dnn_op **op)
{
    weir_dnn_draft p = {0};
    dnnl_status_t status = weir_dnn_draft_attr(&p, relu);

    if (!status)
        status = dnnl_binary_primitive_desc_create(&p.pd, d->engine, dnnl_binary_add, l->md, l->md,
                                                   l->md, p.attr);
    return weir_dnn_draft_finish(d, "add", &p, status, WEIR_DNN_BIT_DST, op);
}

weir_err weir_dnn_reorder(weir_dnn *d, const weir_layout *from, const weir_layout *to,
                          weir_dnn_op **op)
{
    weir_dnn_draft p = {0};
    dnnl_status_t status = weir_dnn_draft_attr(&p, false);

    if (!status)
        status = dnnl_reorder_primitive_desc_create(&p.pd, from->md, d->engine, to->md, d->engine,
                                                    p.attr);
    return weir_dnn_draft_finish(d, "reorder", &p, status, WEIR_DNN_BIT_DST, op);
}

/* ---- norms ---- */

weir_err weir_dnn_layernorm(weir_dnn *d, weir_dnn_do which, const weir_norm_desc *s,
                            const weir_dnn_op *forward, weir_dnn_op **op)
{
    const unsigned flags = dnnl_use_scale | dnnl_use_shift;
    const_dnnl_memory_desc_t md = s->layout->md;
    weir_dnn_draft p = {0};
    dnnl_status_t status = weir_dnn_draft_attr(&p, false);

    if (which == WEIR_DNN_DO_FORWARD) {
        if (!status)
            status =
                dnnl_layer_normalization_forward_primitive_desc_create(&p.pd, d->engine,
                                                                       dnnl_forward_training, md,
                                                                       md, NULL, (float)s->eps,
                                                                       flags, p.attr);
        return weir_dnn_draft_finish(d, "layer norm, forward", &p, status,
                                     WEIR_DNN_BIT_DST | WEIR_DNN_BIT_STATS, op);
    }
    if (!status)
        status =
            dnnl_layer_normalization_backward_primitive_desc_create(&p.pd, d->engine, dnnl_backward,
                                                                    md, md, md, NULL, (float)s->eps,
                                                                    flags, forward->pd, p.attr);
    return weir_dnn_draft_finish(d, "layer norm, backward", &p, status,
                                 WEIR_DNN_BIT_DIFF_SRC | WEIR_DNN_BIT_DIFF_NORM, op);
}
