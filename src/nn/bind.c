/* bind.c - what layers call to put their steps into a plan. */
#include "core/vec.h"
#include "nn/engine_plan.h"
#include "nn/parallel.h"
#include <string.h>

/* ---- time: forward 0, 1, 2 ..., then backward from the last layer, two phases each ---- */

static int when(const weir_bind *b, weir_layer_phase phase)
{
    int nodes = b->plan->engine->graph->nodes, back = nodes + 2 * (nodes - 1 - b->stage->index);

    return phase == WEIR_LAYER_FORWARD        ? b->stage->index
           : phase == WEIR_LAYER_BACK_WEIGHTS ? back
                                              : back + 1;
}

static void touch(const weir_bind *b, weir_layer_phase phase, weir_mem *m)
{
    int t = when(b, phase);

    m = weir_mem_root(m);
    m->first = m->first < 0 || t < m->first ? t : m->first;
    m->last = t > m->last ? t : m->last;
}

/* ---- what layers call ---- */

static weir_err add_step(const weir_bind *b, weir_layer_phase phase, weir_err (*run)(void *),
                         void *arg)
{
    weir_engine_step *s = WEIR_NEW(b->arena, weir_engine_step, 1);

    if (!s)
        return weir_fail_nomem(sizeof *s);
    s->run = run;
    s->arg = arg;
    s->only = b->only;
    *b->stage->end[phase] = s;
    b->stage->end[phase] = &s->next;
    return WEIR_OK;
}

weir_err weir_bind_mem(const weir_bind *b, size_t bytes, weir_mem **out)
{
    WEIR_TRY(weir_mem_new(b->dnn, bytes, out));
    (*out)->placed = true;
    (*out)->next = b->plan->mems;
    b->plan->mems = *out;
    return WEIR_OK;
}

weir_err weir_bind_out(const weir_bind *b, const weir_layout *layout)
{
    b->out->layout = layout;
    WEIR_TRY(weir_bind_mem(b, weir_layout_bytes(layout), &b->out->data));
    return b->wants ? weir_bind_mem(b, weir_layout_bytes(layout), &b->out->grad) : WEIR_OK;
}

weir_err weir_bind_loop(const weir_bind *b, weir_layer_phase phase, weir_err (*run)(void *),
                        void *arg, weir_mem *const *used)
{
    for (; *used; used++)
        touch(b, phase, *used);
    return add_step(b, phase, run, arg);
}

bool weir_bind_same(const weir_bind *b, weir_mem *one, weir_mem *two)
{
    weir_mem *keep = weir_mem_root(one), *gone = weir_mem_root(two);

    (void)b;
    if (keep == gone)
        return true;
    if (!keep->placed || !gone->placed)
        return false;
    gone->same = keep;
    keep->bytes = gone->bytes > keep->bytes ? gone->bytes : keep->bytes;
    keep->room = gone->room > keep->room ? gone->room : keep->room;
    keep->first = gone->first >= 0 && (keep->first < 0 || gone->first < keep->first) ? gone->first
                                                                                     : keep->first;
    keep->last = gone->last > keep->last ? gone->last : keep->last;
    return true;
}

bool weir_bind_room(weir_mem *m, size_t bytes)
{
    weir_mem *root = weir_mem_root(m);

    if (bytes > m->bytes && !root->placed)
        return false;
    m->room = bytes > m->room ? bytes : m->room;
    root->room = bytes > root->room ? bytes : root->room;
    return true;
}

/* ---- loops over two mems ---- */

enum { GRAIN = 16384 };

typedef struct two {
    weir_mem *to, *from;
} two;

static void add_part(void *arg, int64_t from, int64_t to)
{
    const two *t = arg;

    weir_vec_best()->add((float *)t->to->at + from, (const float *)t->from->at + from,
                         (size_t)(to - from));
}

static void copy_part(void *arg, int64_t from, int64_t to)
{
    const two *t = arg;

    memcpy((float *)t->to->at + from, (const float *)t->from->at + from,
           (size_t)(to - from) * sizeof(float));
}

static int64_t floats(const two *t)
{
    return (int64_t)((t->from->bytes < t->to->bytes ? t->from->bytes : t->to->bytes) /
                     sizeof(float));
}

static weir_err run_add(void *arg)
{
    weir_parallel_for(floats(arg), GRAIN, add_part, arg);
    return WEIR_OK;
}

static weir_err run_copy_all(void *arg)
{
    weir_parallel_for(floats(arg), GRAIN, copy_part, arg);
    return WEIR_OK;
}

static weir_err bind_two(const weir_bind *b, weir_layer_phase phase, weir_mem *to, weir_mem *from,
                         weir_err (*run)(void *))
{
    two *t = WEIR_NEW(b->arena, two, 1);

    if (!t)
        return weir_fail_nomem(sizeof *t);
    *t = (two){to, from};
    return weir_bind_loop(b, phase, run, t, (weir_mem *[]){to, from, NULL});
}

weir_err weir_bind_copy(const weir_bind *b, weir_layer_phase phase, weir_mem *to, weir_mem *from)
{
    return bind_two(b, phase, to, from, run_copy_all);
}

weir_err weir_bind_add(const weir_bind *b, weir_layer_phase phase, weir_mem *to, weir_mem *from)
{
    return bind_two(b, phase, to, from, run_add);
}

/* ---- ops ---- */

/* The end of weir_bind_op: scratch memory, and the step itself. */
static weir_err put_op(const weir_bind *b, weir_layer_phase phase, weir_dnn_op *op)
{
    const weir_layout *scratch = weir_dnn_op_layout(op, WEIR_DNN_ARG_SCRATCH);
    weir_mem *mem;

    if (scratch) {
        WEIR_TRY(weir_bind_mem(b, weir_layout_bytes(scratch), &mem));
        WEIR_TRY(weir_dnn_op_tie(op, WEIR_DNN_ARG_SCRATCH, mem));
        touch(b, phase, mem);
    }
    WEIR_TRY(weir_dnn_op_whole(op));
    return add_step(b, phase, weir_dnn_op_run, op);
}

weir_err weir_bind_reorder(const weir_bind *b, weir_layer_phase phase, const weir_bind_use *from,
                           const weir_bind_use *to)
{
    weir_dnn_op *op;

    WEIR_TRY(weir_dnn_reorder(b->dnn, from->layout, to->layout, &op));
    WEIR_TRY(weir_dnn_op_tie(op, WEIR_DNN_ARG_SRC, from->mem));
    WEIR_TRY(weir_dnn_op_tie(op, WEIR_DNN_ARG_DST, to->mem));
    touch(b, phase, from->mem);
    touch(b, phase, to->mem);
    return put_op(b, phase, op);
}

static weir_err run_copy(void *arg)
{
    weir_mem_copy *c = arg;

    if (c->stale)
        WEIR_TRY(weir_dnn_op_run(c->reorder));
    c->stale = false;
    return WEIR_OK;
}

/* Memory that outlives the plan: other plans use it too. */
static weir_err keep_mem(const weir_bind *b, size_t bytes, weir_mem **out)
{
    void *at = weir_alloc(b->arena, bytes);

    if (!at)
        return weir_fail_nomem(bytes);
    WEIR_TRY(weir_mem_new(b->dnn, bytes, out));
    weir_mem_point(*out, at);
    return WEIR_OK;
}

static weir_err make_copy(const weir_bind *b, const weir_bind_use *from, const weir_layout *layout,
                          weir_mem_copy **out)
{
    weir_mem_copy *c = WEIR_NEW(b->arena, weir_mem_copy, 1);
    const weir_layout *scratch;
    weir_mem *room;

    if (!c)
        return weir_fail_nomem(sizeof *c);
    c->layout = layout;
    c->stale = true;
    WEIR_TRY(keep_mem(b, weir_layout_bytes(layout), &c->mem));
    WEIR_TRY(weir_dnn_reorder(b->dnn, from->layout, layout, &c->reorder));
    WEIR_TRY(weir_dnn_op_tie(c->reorder, WEIR_DNN_ARG_SRC, from->mem));
    WEIR_TRY(weir_dnn_op_tie(c->reorder, WEIR_DNN_ARG_DST, c->mem));
    if ((scratch = weir_dnn_op_layout(c->reorder, WEIR_DNN_ARG_SCRATCH))) {
        WEIR_TRY(keep_mem(b, weir_layout_bytes(scratch), &room));
        WEIR_TRY(weir_dnn_op_tie(c->reorder, WEIR_DNN_ARG_SCRATCH, room));
    }
    c->next = from->mem->copies;
    from->mem->copies = c;
    *out = c;
    return WEIR_OK;
}

/* The kept copy of a parameter, made at its first use: all plans share it. */
static weir_err find_copy(const weir_bind *b, const weir_bind_use *from, const weir_layout *layout,
                          weir_mem_copy **out)
{
    for (weir_mem_copy *c = from->mem->copies; c; c = c->next)
        if (weir_layout_same(c->layout, layout))
            return *out = c, WEIR_OK;
    return make_copy(b, from, layout, out);
}

weir_err weir_bind_stand_in(const weir_bind *b, weir_layer_phase phase, const weir_dnn_op *op,
                            const weir_layout *wanted, const weir_bind_use *use,
                            weir_bind_use *other)
{
    weir_mem_copy *copy = NULL;

    *other = (weir_bind_use){use->arg, NULL, wanted};
    if (use->mem->slow && !weir_dnn_op_writes(op, use->arg)) {
        WEIR_TRY(find_copy(b, use, other->layout, &copy));
        other->mem = copy->mem;
        return add_step(b, phase, run_copy, copy);
    }
    WEIR_TRY(weir_bind_mem(b, weir_layout_bytes(other->layout), &other->mem));
    return weir_dnn_op_writes(op, use->arg) ? WEIR_OK : weir_bind_reorder(b, phase, use, other);
}

weir_err weir_bind_op(const weir_bind *b, weir_layer_phase phase, weir_dnn_op *op,
                      const weir_bind_use *use, int uses)
{
    weir_bind_use actual[WEIR_DNN_ARGS];

    for (int i = 0; i < uses; i++) {
        const weir_layout *wanted = weir_dnn_op_layout(op, use[i].arg);
        actual[i] = use[i];
        if (wanted && !weir_layout_same(wanted, use[i].layout))
            WEIR_TRY(weir_bind_stand_in(b, phase, op, wanted, &use[i], &actual[i]));
        WEIR_TRY(weir_dnn_op_tie(op, use[i].arg, actual[i].mem));
        touch(b, phase, actual[i].mem);
    }
    WEIR_TRY(put_op(b, phase, op));
    for (int i = 0; i < uses; i++)
        if (actual[i].mem != use[i].mem && weir_dnn_op_writes(op, use[i].arg))
            WEIR_TRY(weir_bind_reorder(b, phase, &actual[i], &use[i]));
    return WEIR_OK;
}
