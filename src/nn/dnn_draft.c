/* dnn_draft.c - what every primitive is described by. */
#include <oneapi/dnnl/dnnl.h>
#include <string.h>

#include "nn/dnn_inside.h"

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

dnnl_status_t weir_dnn_draft_attr(weir_dnn_draft *p, bool relu)
{
    dnnl_status_t status = dnnl_primitive_attr_create(&p->attr);

    if (!status)
        status = dnnl_primitive_attr_set_scratchpad_mode(p->attr, dnnl_scratchpad_mode_user);
    return !status && relu ? set_relu(p->attr) : status;
}

dnnl_status_t weir_dnn_draft_tensor(dnnl_memory_desc_t *md, int dims, const int64_t *dim,
                                    dnnl_format_tag_t tag)
{
    dnnl_dims_t full = {0};

    memcpy(full, dim, (size_t)dims * sizeof *dim);
    return dnnl_memory_desc_create_with_tag(md, dims, full, dnnl_f32, tag);
}

void weir_dnn_draft_drop(weir_dnn_draft *p)
{
    dnnl_memory_desc_t md[] = {p->x, p->w, p->b, p->y};

    for (size_t i = 0; i < sizeof md / sizeof *md; i++)
        if (md[i])
            dnnl_memory_desc_destroy(md[i]);
    if (p->attr)
        dnnl_primitive_attr_destroy(p->attr);
}

weir_err weir_dnn_draft_finish(weir_dnn *d, const char *what, weir_dnn_draft *p,
                               dnnl_status_t status, unsigned writes, weir_dnn_op **op)
{
    weir_dnn_draft_drop(p);
    return status ? weir_dnn_fail(what, status) : weir_dnn_compile(d, what, p->pd, writes, op);
}
