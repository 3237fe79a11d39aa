/* elementwise.c - functions of single elements, and other things that layers have in common. In
 * place where nobody needs the input any more; the gradient always is: that of the output becomes
 * that of the input where it lies. */
#include "nn/layer.h"

weir_err weir_shape_kept(void *self, const weir_model_input *input, const weir_shape *in,
                         weir_shape *out, weir_weights *w, int *weights)
{
    (void)self, (void)input, (void)w;
    *out = *in;
    *weights = 0;
    return WEIR_OK;
}

static weir_err choose_memory(const weir_bind *b, bool in_place)
{
    weir_act *in = b->in, *out = b->out;

    out->layout = in->layout;
    out->grad = in->grad;
    out->shared = true;
    if (!in_place)
        return weir_bind_mem(b, weir_layout_bytes(in->layout), &out->data);
    out->data = in->data;
    return WEIR_OK;
}

weir_err weir_bind_elementwise(const weir_bind *b, weir_elementwise curve)
{
    weir_act *in = b->in, *out = b->out;
    bool by_input = curve == WEIR_ELEMENTWISE_GELU;
    weir_dnn_op *forward, *back;

    WEIR_TRY(choose_memory(b, in->yields && !by_input));
    if (b->fused_back)
        return WEIR_OK;
    WEIR_TRY(weir_dnn_elementwise(b->dnn, WEIR_DNN_DO_FORWARD, curve, in->layout, NULL, &forward));
    if (!b->fused) {
        weir_bind_use use[] = {{WEIR_DNN_ARG_SRC, in->data, in->layout},
                               {WEIR_DNN_ARG_DST, out->data, out->layout}};
        WEIR_TRY(weir_bind_op(b, WEIR_LAYER_FORWARD, forward, use, 2));
    }
    if (!in->grad)
        return WEIR_OK;
    weir_bind_use use[] = {{by_input ? WEIR_DNN_ARG_SRC : WEIR_DNN_ARG_DST,
                            by_input ? in->data : out->data, out->layout},
                           {WEIR_DNN_ARG_DIFF_DST, out->grad, out->layout},
                           {WEIR_DNN_ARG_DIFF_SRC, in->grad, in->layout}};
    WEIR_TRY(
        weir_dnn_elementwise(b->dnn, WEIR_DNN_DO_BACK_DATA, curve, in->layout, forward, &back));
    return weir_bind_op(b, WEIR_LAYER_BACK_DATA, back, use, 3);
}
