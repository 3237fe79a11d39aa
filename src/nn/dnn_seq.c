/* dnn_seq.c - primitives for long sequences. */
#include <oneapi/dnnl/dnnl.h>

#include "nn/dnn_inside.h"

weir_err weir_dnn_outer(weir_dnn *d, const weir_dense_desc *s, weir_dnn_op **op)
{
    weir_dnn_draft p = {0};
    dnnl_status_t status = weir_dnn_draft_attr(&p, false);

    if (!status)
        status = weir_dnn_draft_tensor(&p.y, 2, (int64_t[]){s->out, s->rows}, dnnl_ba);
    if (!status)
        status = weir_dnn_draft_tensor(&p.x, 2, (int64_t[]){s->rows, s->in}, dnnl_ab);
    if (!status)
        status = weir_dnn_draft_tensor(&p.w, 2, (int64_t[]){s->out, s->in}, dnnl_ab);
    if (!status)
        status = dnnl_matmul_primitive_desc_create(&p.pd, d->engine, p.y, p.x, NULL, p.w, p.attr);
    return weir_dnn_draft_finish(d, "dense, backward by weights of many rows", &p, status,
                                 WEIR_DNN_BIT_DST, op);
}
