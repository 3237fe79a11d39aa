/* dnn.c - engine, memory that moves, and ops. */
#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>

#include "nn/dnn_inside.h"

static const int arg_number[WEIR_DNN_ARGS] = {
    [WEIR_DNN_ARG_SRC] = DNNL_ARG_SRC,
    [WEIR_DNN_ARG_OTHER] = DNNL_ARG_SRC_1,
    [WEIR_DNN_ARG_WEIGHTS] = DNNL_ARG_WEIGHTS,
    [WEIR_DNN_ARG_BIAS] = DNNL_ARG_BIAS,
    [WEIR_DNN_ARG_DST] = DNNL_ARG_DST,
    [WEIR_DNN_ARG_DIFF_SRC] = DNNL_ARG_DIFF_SRC,
    [WEIR_DNN_ARG_DIFF_WEIGHTS] = DNNL_ARG_DIFF_WEIGHTS,
    [WEIR_DNN_ARG_DIFF_BIAS] = DNNL_ARG_DIFF_BIAS,
    [WEIR_DNN_ARG_DIFF_DST] = DNNL_ARG_DIFF_DST,
    [WEIR_DNN_ARG_MEAN] = DNNL_ARG_MEAN,
    [WEIR_DNN_ARG_VARIANCE] = DNNL_ARG_VARIANCE,
    [WEIR_DNN_ARG_SCALE] = DNNL_ARG_SCALE,
    [WEIR_DNN_ARG_SHIFT] = DNNL_ARG_SHIFT,
    [WEIR_DNN_ARG_DIFF_SCALE] = DNNL_ARG_DIFF_SCALE,
    [WEIR_DNN_ARG_DIFF_SHIFT] = DNNL_ARG_DIFF_SHIFT,
    [WEIR_DNN_ARG_WORKSPACE] = DNNL_ARG_WORKSPACE,
    [WEIR_DNN_ARG_SCRATCH] = DNNL_ARG_SCRATCHPAD,
};

static const char *const arg_name[WEIR_DNN_ARGS] = {
    [WEIR_DNN_ARG_SRC] = "input",
    [WEIR_DNN_ARG_OTHER] = "second input",
    [WEIR_DNN_ARG_WEIGHTS] = "weights",
    [WEIR_DNN_ARG_BIAS] = "bias",
    [WEIR_DNN_ARG_DST] = "output",
    [WEIR_DNN_ARG_DIFF_SRC] = "input gradient",
    [WEIR_DNN_ARG_DIFF_WEIGHTS] = "weight gradient",
    [WEIR_DNN_ARG_DIFF_BIAS] = "bias gradient",
    [WEIR_DNN_ARG_DIFF_DST] = "output gradient",
    [WEIR_DNN_ARG_MEAN] = "mean",
    [WEIR_DNN_ARG_VARIANCE] = "variance",
    [WEIR_DNN_ARG_SCALE] = "scale",
    [WEIR_DNN_ARG_SHIFT] = "shift",
    [WEIR_DNN_ARG_DIFF_SCALE] = "scale gradient",
    [WEIR_DNN_ARG_DIFF_SHIFT] = "shift gradient",
    [WEIR_DNN_ARG_WORKSPACE] = "workspace",
    [WEIR_DNN_ARG_SCRATCH] = "scratch memory",
};

weir_err weir_dnn_fail(const char *what, dnnl_status_t status)
{
    return weir_fail(WEIR_FAILED, "oneDNN: %s: %s", what, dnnl_status2str(status));
}

int64_t weir_shape_count(const weir_shape *s, int64_t limit)
{
    int64_t n = 1;

    for (int i = 0; i < s->dims; i++)
        if (s->dim[i] < 0 || __builtin_mul_overflow(n, s->dim[i], &n) || n > limit)
            return -1;
    return n;
}

int weir_dnn_arg_number(weir_dnn_arg a) { return arg_number[a]; }

/* ---- the engine ---- */

weir_err weir_dnn_open(weir_arena *arena, weir_dnn **out)
{
    weir_dnn *d = WEIR_NEW(arena, weir_dnn, 1);
    dnnl_status_t status;

    if (!d)
        return weir_fail_nomem(sizeof *d);
    d->arena = arena;
    if ((status = dnnl_engine_create(&d->engine, dnnl_cpu, 0)))
        return weir_dnn_fail("engine", status);
    if ((status = dnnl_stream_create(&d->stream, d->engine, dnnl_stream_in_order))) {
        dnnl_engine_destroy(d->engine);
        return weir_dnn_fail("stream", status);
    }
    *out = d;
    return WEIR_OK;
}

void weir_dnn_close(weir_dnn *d)
{
    if (!d)
        return;
    for (weir_dnn_op *op = d->ops; op; op = op->next) {
        for (int i = 0; i < op->args; i++)
            dnnl_memory_destroy(op->arg[i].memory);
        dnnl_primitive_destroy(op->primitive);
        dnnl_primitive_desc_destroy(op->pd);
    }
    for (weir_each *e = d->eaches; e; e = e->next)
        weir_each_drop(e);
    for (weir_layout *l = d->layouts; l; l = l->next)
        dnnl_memory_desc_destroy(l->own);
    for (int i = 0; i < d->part_streams; i++)
        dnnl_stream_destroy(d->part_stream[i]);
    dnnl_stream_destroy(d->stream);
    dnnl_engine_destroy(d->engine);
}

/* ---- memory ---- */

weir_err weir_mem_new(weir_dnn *d, size_t bytes, weir_mem **out)
{
    weir_mem *m = WEIR_NEW(d->arena, weir_mem, 1);

    if (!m)
        return weir_fail_nomem(sizeof *m);
    m->bytes = bytes;
    m->first = m->last = -1;
    *out = m;
    return WEIR_OK;
}

weir_mem *weir_mem_root(weir_mem *m)
{
    while (m->same)
        m = m->same;
    return m;
}

void weir_mem_point(weir_mem *m, void *at)
{
    if (m->at == at)
        return;
    m->at = at;
    /* fails only for a memory of NULL, and none is kept */
    for (weir_dnn_tie *t = m->ties; t; t = t->next)
        dnnl_memory_set_data_handle(t->memory, at);
}

/* ---- ops ---- */

const weir_layout *weir_dnn_op_layout(const weir_dnn_op *op, weir_dnn_arg a)
{
    return op->layout[a].md ? &op->layout[a] : NULL;
}

bool weir_dnn_op_writes(const weir_dnn_op *op, weir_dnn_arg a) { return op->writes >> a & 1; }

weir_err weir_dnn_op_tie(weir_dnn_op *op, weir_dnn_arg a, weir_mem *m)
{
    weir_dnn_tie *t = WEIR_NEW(op->dnn->arena, weir_dnn_tie, 1);
    dnnl_status_t status;

    if (!t)
        return weir_fail_nomem(sizeof *t);
    if (!op->layout[a].md)
        return weir_fail(WEIR_FAILED, "%s takes no %s", op->what, arg_name[a]);
    if (weir_layout_bytes(&op->layout[a]) > (m->room > m->bytes ? m->room : m->bytes))
        return weir_fail(WEIR_FAILED, "%s: its %s needs %zu bytes and was given %zu", op->what,
                         arg_name[a], weir_layout_bytes(&op->layout[a]), m->bytes);
    for (int i = 0; i < op->args; i++)
        if (op->arg[i].arg == arg_number[a])
            return weir_fail(WEIR_FAILED, "%s: its %s is tied twice", op->what, arg_name[a]);
    if ((status = dnnl_memory_create(&t->memory, op->layout[a].md, op->dnn->engine,
                                     m->at ? m->at : DNNL_MEMORY_NONE)))
        return weir_dnn_fail(op->what, status);
    op->arg[op->args++] = (dnnl_exec_arg_t){arg_number[a], t->memory};
    t->next = m->ties;
    m->ties = t;
    return WEIR_OK;
}

weir_err weir_dnn_op_whole(const weir_dnn_op *op)
{
    for (int a = 0; a < WEIR_DNN_ARGS; a++) {
        int i = 0;
        while (i < op->args && op->arg[i].arg != arg_number[a])
            i++;
        if (op->layout[a].md && i == op->args)
            return weir_fail(WEIR_FAILED, "%s: nothing is tied to its %s", op->what, arg_name[a]);
    }
    return WEIR_OK;
}

weir_err weir_dnn_op_run(void *op)
{
    const weir_dnn_op *o = op;
    dnnl_status_t status = dnnl_primitive_execute(o->primitive, o->dnn->stream, o->args, o->arg);

    return status ? weir_dnn_fail(o->what, status) : WEIR_OK;
}

weir_err weir_dnn_compile(weir_dnn *d, const char *what, dnnl_primitive_desc_t pd, unsigned writes,
                          weir_dnn_op **out)
{
    weir_dnn_op *op = WEIR_NEW(d->arena, weir_dnn_op, 1);
    dnnl_status_t status;

    if (!op || (status = dnnl_primitive_create(&op->primitive, pd))) {
        dnnl_primitive_desc_destroy(pd);
        return op ? weir_dnn_fail(what, status) : weir_fail_nomem(sizeof *op);
    }
    op->dnn = d;
    op->what = what;
    op->pd = pd;
    op->writes = writes | 1u << WEIR_DNN_ARG_SCRATCH;
    for (int a = 0; a < WEIR_DNN_ARGS; a++) {
        const_dnnl_memory_desc_t md =
            dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, arg_number[a]);
        if (md && dnnl_memory_desc_get_size(md))
            op->layout[a].md = md;
    }
    op->next = d->ops;
    d->ops = op;
    *out = op;
    return WEIR_OK;
}
