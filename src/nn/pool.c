/* pool.c - windows over pictures, in whatever layout they come. */
#include "nn/pool.h"

const weir_opt weir_pool_options[] = {{"kernel", WEIR_OPT_INT, offsetof(weir_pool, kernel), NULL,
                                       "the window's side", 1, 32767, NULL, false, false},
                                      {"stride", WEIR_OPT_INT, offsetof(weir_pool, stride), "0",
                                       "how far the window moves; 0: as far as it is wide", 0,
                                       32767, NULL, false, false},
                                      {"pad", WEIR_OPT_INT, offsetof(weir_pool, pad), "0",
                                       "how far windows reach over the edge, at most half a window",
                                       0, 16383, NULL, false, false},
                                      {0}};

weir_err weir_pool_shape(weir_pool *m, const char *kind, const weir_shape *in, weir_shape *out)
{
    m->stride = m->stride ? m->stride : m->kernel;
    if (in->dims != 4)
        return weir_fail(WEIR_INVALID,
                         "%s needs pictures of three dimensions (channels, height, width), not %d",
                         kind, in->dims - 1);
    if (m->pad > m->kernel / 2)
        return weir_fail(WEIR_INVALID, "pad=%lld is more than half a window of %lld",
                         (long long)m->pad, (long long)m->kernel);
    if (m->kernel > in->dim[2] + 2 * m->pad || m->kernel > in->dim[3] + 2 * m->pad)
        return weir_fail(
            WEIR_INVALID,
            "a window of %lld does not fit into a picture of %lld x %lld with pad=%lld",
            (long long)m->kernel, (long long)in->dim[2], (long long)in->dim[3], (long long)m->pad);
    *out = *in;
    for (int i = 2; i < 4; i++)
        out->dim[i] = (in->dim[i] + 2 * m->pad - m->kernel) / m->stride + 1;
    return WEIR_OK;
}

weir_err weir_pool_bind(const weir_bind *b, weir_pool_desc s)
{
    weir_act *in = b->in, *out = b->out;
    const weir_layout *work;
    weir_mem *won;
    weir_dnn_op *forward, *back;

    s.out = out->shape;
    s.layout = in->layout;
    WEIR_TRY(weir_dnn_pool(b->dnn, WEIR_DNN_DO_FORWARD, &s, NULL, &forward));
    WEIR_TRY(weir_bind_out(b, weir_dnn_op_layout(forward, WEIR_DNN_ARG_DST)));
    work = weir_dnn_op_layout(forward, WEIR_DNN_ARG_WORKSPACE);
    WEIR_TRY(weir_bind_mem(b, work ? weir_layout_bytes(work) : 0, &won));
    weir_bind_use use[] = {{WEIR_DNN_ARG_SRC, in->data, in->layout},
                           {WEIR_DNN_ARG_DST, out->data, out->layout},
                           {WEIR_DNN_ARG_WORKSPACE, won, work}};
    WEIR_TRY(weir_bind_op(b, WEIR_LAYER_FORWARD, forward, use, work ? 3 : 2));
    if (!in->grad)
        return WEIR_OK;
    weir_bind_use to_data[] = {{WEIR_DNN_ARG_DIFF_DST, out->grad, out->layout},
                               {WEIR_DNN_ARG_DIFF_SRC, in->grad, in->layout},
                               {WEIR_DNN_ARG_WORKSPACE, won, work}};
    WEIR_TRY(weir_dnn_pool(b->dnn, WEIR_DNN_DO_BACK_DATA, &s, forward, &back));
    return weir_bind_op(b, WEIR_LAYER_BACK_DATA, back, to_data, work ? 3 : 2);
}
