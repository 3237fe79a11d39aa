/* dnn_layout.c - layouts: how tensors lie in memory. */
#include <oneapi/dnnl/dnnl.h>

#include "nn/dnn_inside.h"

/* Room for a layout that is our own, and its end: the description is in l->own, or `status` says
 * why it is not. */
static weir_err keep(weir_dnn *d, weir_layout *l, dnnl_status_t status, const weir_layout **out)
{
    if (status)
        return weir_dnn_fail("layout", status);
    l->md = l->own;
    l->next = d->layouts;
    d->layouts = l;
    *out = l;
    return WEIR_OK;
}

weir_err weir_layout_plain(weir_dnn *d, const weir_shape *s, const weir_layout **out)
{
    weir_layout *l = WEIR_NEW(d->arena, weir_layout, 1);
    dnnl_dims_t dim, stride;
    int64_t step = 1;

    if (!l)
        return weir_fail_nomem(sizeof *l);
    for (int i = s->dims - 1; i >= 0; i--) {
        dim[i] = s->dim[i];
        stride[i] = step;
        step *= s->dim[i];
    }
    return keep(d, l, dnnl_memory_desc_create_with_strides(&l->own, s->dims, dim, dnnl_f32, stride),
                out);
}

size_t weir_layout_bytes(const weir_layout *l) { return dnnl_memory_desc_get_size(l->md); }

bool weir_layout_same(const weir_layout *a, const weir_layout *b)
{
    return a == b || dnnl_memory_desc_equal(a->md, b->md);
}

/* ---- looking inside ---- */

/* Outer strides, and inner blocks from the outermost to the innermost: how long, and of which
 * dimension. */
typedef struct inside {
    int dims, blocks;
    dnnl_dims_t *dim, *stride, *block, *which;
} inside;

static bool query(const weir_layout *l, dnnl_query_t what, void *out)
{
    return !dnnl_memory_desc_query(l->md, what, out);
}

static bool look(const weir_layout *l, inside *in)
{
    return query(l, dnnl_query_ndims_s32, &in->dims) && query(l, dnnl_query_dims, &in->dim) &&
           query(l, dnnl_query_strides, &in->stride) &&
           query(l, dnnl_query_inner_nblks_s32, &in->blocks) &&
           query(l, dnnl_query_inner_blks, &in->block) &&
           query(l, dnnl_query_inner_idxs, &in->which);
}

static weir_err unknown(void)
{
    return weir_fail(WEIR_FAILED, "a layout that our own loops do not know");
}

weir_err weir_layout_channels(const weir_layout *l, weir_layout_blocks *out)
{
    inside in;

    if (!look(l, &in) || in.dims != 4 || in.blocks > 1 || (in.blocks && (*in.which)[0] != 1) ||
        (*in.stride)[2] != (*in.stride)[3] * (*in.dim)[3])
        return unknown();
    out->padded = in.blocks > 0;
    out->lanes = in.blocks ? (*in.block)[0] : (*in.stride)[1] == 1 ? 16 : 1;
    out->units = ((*in.dim)[1] + out->lanes - 1) / out->lanes;
    out->sample = (*in.stride)[0];
    out->unit = in.blocks ? (*in.stride)[1] : (*in.stride)[1] * out->lanes;
    out->step = (*in.stride)[3];
    return WEIR_OK;
}

/* What can be said of blocks is only said by name. */
static dnnl_status_t batch_desc(const inside *in, int64_t n, dnnl_memory_desc_t *md)
{
    const int64_t block = in->blocks ? (*in->block)[0] : 0;
    const dnnl_format_tag_t tag = block == 4   ? dnnl_aBcd4b
                                  : block == 8 ? dnnl_aBcd8b
                                               : dnnl_aBcd16b;
    dnnl_dims_t dim;

    for (int i = 0; i < in->dims; i++)
        dim[i] = i ? (*in->dim)[i] : n;
    return block ? dnnl_memory_desc_create_with_tag(md, in->dims, dim, dnnl_f32, tag)
                 : dnnl_memory_desc_create_with_strides(md, in->dims, dim, dnnl_f32, *in->stride);
}

weir_err weir_layout_batch(weir_dnn *d, const weir_layout *from, int64_t n, const weir_layout **out)
{
    weir_layout *l = WEIR_NEW(d->arena, weir_layout, 1);
    inside in;

    if (!l)
        return weir_fail_nomem(sizeof *l);
    if (!look(from, &in) || in.blocks > 1 || (in.blocks && (in.dims != 4 || (*in.which)[0] != 1)))
        return unknown();
    WEIR_TRY(keep(d, l, batch_desc(&in, n, &l->own), out));
    /* samples that are not in a row */
    if (weir_layout_bytes(from) / (size_t)(*in.dim)[0] * (size_t)n != weir_layout_bytes(l))
        return unknown();
    return WEIR_OK;
}

static int64_t place_of(const inside *in, const int64_t *at)
{
    dnnl_dims_t outer;
    int64_t place = 0, step = 1;

    for (int i = 0; i < in->dims; i++)
        outer[i] = at[i];
    for (int k = in->blocks - 1; k >= 0; k--) {
        int64_t block = (*in->block)[k], *of = &outer[(*in->which)[k]];
        place += *of % block * step;
        *of /= block;
        step *= block;
    }
    for (int i = 0; i < in->dims; i++)
        place += outer[i] * (*in->stride)[i];
    return place;
}

weir_err weir_layout_offsets(const weir_layout *l, uint32_t *place)
{
    dnnl_dims_t at = {0};
    inside in;
    int64_t n = 1;

    if (!look(l, &in) || weir_layout_bytes(l) / sizeof(float) > UINT32_MAX)
        return unknown();
    for (int i = 0; i < in.dims; i++)
        n *= (*in.dim)[i];
    for (int64_t k = 0; k < n; k++) {
        place[k] = (uint32_t)place_of(&in, at);
        for (int i = in.dims - 1; i >= 0 && ++at[i] == (*in.dim)[i]; i--)
            at[i] = 0;
    }
    return WEIR_OK;
}
