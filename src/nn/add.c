/* add.c - the sum of the line before and another layer: what residual networks are made of. Its
 * gradient is that of both inputs as it is, so all three are one piece of memory where that is
 * right: the gradient of a residual stream is never copied. */
#include "nn/layer.h"

typedef struct add {
    const char *from; /* read by the graph */
} add;

static const weir_opt options[] = {{"from", WEIR_OPT_TEXT, offsetof(add, from), NULL,
                                    "the layer above that is added to the line before", 0, 0, NULL,
                                    false, false},
                                   {0}};

/* The sum is written over the line before where that yields. */
static weir_err choose_memory(const weir_bind *b)
{
    weir_act *in = b->in, *out = b->out;

    if (!in->yields)
        return weir_bind_out(b, in->layout);
    out->layout = in->layout;
    out->data = in->data;
    return b->wants ? weir_bind_mem(b, weir_layout_bytes(in->layout), &out->grad) : WEIR_OK;
}

static weir_err pass_on(const weir_bind *b, weir_act *in, bool lend)
{
    if (!in->grad)
        return WEIR_OK;
    if (lend && weir_bind_same(b, b->out->grad, in->grad))
        return b->out->shared = true, WEIR_OK;
    return weir_bind_copy(b, WEIR_LAYER_BACK_DATA, in->grad, b->out->grad);
}

static weir_err bind_add(void *self, const weir_bind *b)
{
    weir_act *in = b->in, *with = b->with, *out = b->out;
    weir_dnn_op *op;

    (void)self;
    WEIR_TRY(choose_memory(b));
    WEIR_TRY(weir_dnn_add(b->dnn, in->layout, b->relu, &op));
    weir_bind_use use[] = {{WEIR_DNN_ARG_SRC, in->data, in->layout},
                           {WEIR_DNN_ARG_OTHER, with->data, with->layout},
                           {WEIR_DNN_ARG_DST, out->data, out->layout}};
    WEIR_TRY(weir_bind_op(b, WEIR_LAYER_FORWARD, op, use, 3));
    /* The line before is the first to use the gradient. Only if it uses it up, at once and without
     * changing it, can `with`, whose other readers still add to it, have the same memory. */
    WEIR_TRY(pass_on(b, with, !(in->grad && in->shared)));
    return pass_on(b, in, true);
}

const weir_layer weir_layer_add = {
    .plug = {"add", "the sum of the line before and the layer that from= names", sizeof(add),
             options},
    .joins = true,
    .does_relu = true,
    .shape = weir_shape_kept,
    .bind = bind_add,
};
