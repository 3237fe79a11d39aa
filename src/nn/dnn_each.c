/* dnn_each.c - one op for many pieces. Each part has memory objects and a stream of its own, so
 * that parts run at once. */
#include <oneapi/dnnl/dnnl.h>

#include "nn/dnn_inside.h"
#include "nn/parallel.h"

enum { LINE = 64 };

static weir_err need_streams(weir_dnn *d, int parts)
{
    dnnl_stream_t *all;
    dnnl_status_t status;

    if (parts <= d->part_streams)
        return WEIR_OK;
    if (!(all = WEIR_NEW(d->arena, dnnl_stream_t, parts)))
        return weir_fail_nomem((size_t)parts * sizeof *all);
    for (int i = 0; i < d->part_streams; i++)
        all[i] = d->part_stream[i];
    d->part_stream = all;
    for (; d->part_streams < parts; d->part_streams++)
        if ((status = dnnl_stream_create(&all[d->part_streams], d->engine, dnnl_stream_in_order)))
            return weir_dnn_fail("stream", status);
    return WEIR_OK;
}

weir_err weir_each_new(weir_dnn *d, const weir_dnn_op *op, int64_t pieces, weir_each **out)
{
    weir_each *e = WEIR_NEW(d->arena, weir_each, 1);
    int slots = weir_parallel_slots(), parts = slots < pieces ? slots : (int)pieces;

    if (!e || !(e->arg = WEIR_NEW(d->arena, dnnl_exec_arg_t, parts * WEIR_DNN_ARGS)) ||
        !(e->status = WEIR_NEW(d->arena, dnnl_status_t, parts)))
        return weir_fail_nomem((size_t)parts * WEIR_DNN_ARGS * sizeof *e->arg);
    WEIR_TRY(need_streams(d, parts));
    e->op = op;
    e->pieces = pieces;
    e->parts = parts;
    e->next = d->eaches;
    d->eaches = e;
    *out = e;
    return WEIR_OK;
}

void weir_each_drop(weir_each *e)
{
    for (int p = 0; p < e->parts; p++)
        for (int i = 0; i < e->args; i++)
            dnnl_memory_destroy(e->arg[p * WEIR_DNN_ARGS + i].memory);
}

int weir_each_parts(const weir_each *e) { return e->parts; }

void weir_each_then(weir_each *e, void (*then)(void *, int, bool), void *arg)
{
    e->then = then;
    e->then_arg = arg;
}

size_t weir_each_step(const weir_each *e, weir_dnn_arg a)
{
    return (weir_layout_bytes(&e->op->layout[a]) + LINE - 1) / LINE * LINE;
}

weir_err weir_each_tie(weir_each *e, weir_dnn_arg a, weir_mem *m, weir_each_by by)
{
    const weir_layout *l = weir_dnn_op_layout(e->op, a);
    size_t needed = !l                         ? 0
                    : by == WEIR_EACH_BY_PIECE ? weir_layout_bytes(l) * (size_t)e->pieces
                    : by == WEIR_EACH_BY_PART  ? weir_each_step(e, a) * (size_t)e->parts
                                               : weir_layout_bytes(l);
    dnnl_status_t status;

    if (!l || needed > (m->room > m->bytes ? m->room : m->bytes))
        return weir_fail(WEIR_FAILED, "%s, piece by piece: an argument of %zu bytes was given %zu",
                         e->op->what, needed, m->bytes);
    e->at[e->args] = (weir_each_arg){m, by == WEIR_EACH_BY_PIECE ? weir_layout_bytes(l) : 0,
                                     by == WEIR_EACH_BY_PART ? weir_each_step(e, a) : 0};
    e->args++;
    for (int p = 0; p < e->parts; p++) {
        dnnl_exec_arg_t *arg = &e->arg[p * WEIR_DNN_ARGS + e->args - 1];
        *arg = (dnnl_exec_arg_t){weir_dnn_arg_number(a), NULL};
        if ((status =
                 dnnl_memory_create(&arg->memory, l->md, e->op->dnn->engine, DNNL_MEMORY_NONE)))
            return weir_dnn_fail(e->op->what, status);
    }
    return WEIR_OK;
}

weir_err weir_each_whole(const weir_each *e)
{
    int wanted = 0;

    for (int a = 0; a < WEIR_DNN_ARGS; a++)
        wanted += weir_dnn_op_layout(e->op, a) != NULL;
    return e->args == wanted
               ? WEIR_OK
               : weir_fail(WEIR_FAILED, "%s, piece by piece: %d of its %d arguments are tied",
                           e->op->what, e->args, wanted);
}

static dnnl_status_t run_piece(const weir_each *e, int part, int64_t piece)
{
    const dnnl_exec_arg_t *arg = &e->arg[part * WEIR_DNN_ARGS];

    for (int i = 0; i < e->args; i++) {
        const weir_each_arg *at = &e->at[i];
        dnnl_memory_set_data_handle(arg[i].memory, (char *)at->mem->at +
                                                       (size_t)piece * at->by_piece +
                                                       (size_t)part * at->by_part);
    }
    return dnnl_primitive_execute(e->op->primitive, e->op->dnn->part_stream[part], e->args, arg);
}

static void run_parts(void *arg, int64_t from, int64_t to)
{
    weir_each *e = arg;

    for (int p = (int)from; p < to; p++) {
        int64_t first = e->pieces * p / e->parts, end = e->pieces * (p + 1) / e->parts;
        e->status[p] = dnnl_success;
        for (int64_t k = first; k < end && !e->status[p]; k++) {
            e->status[p] = run_piece(e, p, k);
            if (e->then && !e->status[p])
                e->then(e->then_arg, p, k == first);
        }
    }
}

/* Inside a loop that threads share, the library takes itself for alone; where nobody shares, it
 * must be told. */
weir_err weir_each_run(void *each)
{
    weir_each *e = each;

    if (e->parts > 1) {
        weir_parallel_for(e->parts, 1, run_parts, e);
    } else {
        int threads = weir_parallel_alone();
        run_parts(e, 0, 1);
        weir_parallel_threads(threads);
    }
    for (int p = 0; p < e->parts; p++)
        if (e->status[p])
            return weir_dnn_fail(e->op->what, e->status[p]);
    return WEIR_OK;
}
