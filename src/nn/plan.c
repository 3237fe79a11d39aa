/* plan.c - binding the layers for one batch size. */
#include "nn/plan.h"
#include <string.h>

/* A parameter in another layout, remade when it is stale. */
typedef struct weir_copy {
    weir_mem *mem;
    const weir_layout *layout;
    weir_op *reorder;
    bool stale;
    struct weir_copy *next;
} weir_copy;

/* ---- time: forward 0, 1, 2 ..., then backward from the last layer, two phases each ---- */

static int when(const weir_bind *b, weir_when phase)
{
    int nodes = b->plan->engine->graph->nodes, back = nodes + 2 * (nodes - 1 - b->stage->index);

    return phase == WEIR_FORWARD ? b->stage->index : phase == WEIR_BACK_WEIGHTS ? back : back + 1;
}

static void touch(const weir_bind *b, weir_when phase, weir_mem *m)
{
    int t = when(b, phase);

    m->first = m->first < 0 || t < m->first ? t : m->first;
    m->last = t > m->last ? t : m->last;
}

/* ---- what layers call ---- */

static weir_err add_step(const weir_bind *b, weir_when phase, weir_err (*run)(void *), void *arg)
{
    weir_step *s = WEIR_NEW(b->arena, weir_step, 1);

    if (!s)
        return weir_fail_nomem(sizeof *s);
    s->run = run;
    s->arg = arg;
    *b->stage->end[phase] = s;
    b->stage->end[phase] = &s->next;
    return WEIR_OK;
}

weir_err weir_bind_mem(const weir_bind *b, size_t bytes, weir_mem **out)
{
    WEIR_TRY(weir_mem_new(b->dnn, bytes, out));
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

weir_err weir_bind_loop(const weir_bind *b, weir_when phase, weir_err (*run)(void *), void *arg, weir_mem *const *used)
{
    for (; *used; used++)
        touch(b, phase, *used);
    return add_step(b, phase, run, arg);
}

/* The end of weir_bind_op: scratch memory, and the step itself. */
static weir_err put_op(const weir_bind *b, weir_when phase, weir_op *op)
{
    const weir_layout *scratch = weir_op_layout(op, WEIR_ARG_SCRATCH);
    weir_mem *mem;

    if (scratch) {
        WEIR_TRY(weir_bind_mem(b, weir_layout_bytes(scratch), &mem));
        WEIR_TRY(weir_op_tie(op, WEIR_ARG_SCRATCH, mem));
        touch(b, phase, mem);
    }
    WEIR_TRY(weir_op_whole(op));
    return add_step(b, phase, weir_op_run, op);
}

static weir_err put_reorder(const weir_bind *b, weir_when phase, const weir_use *from, const weir_use *to)
{
    weir_op *op;

    WEIR_TRY(weir_dnn_reorder(b->dnn, from->layout, to->layout, &op));
    WEIR_TRY(weir_op_tie(op, WEIR_ARG_SRC, from->mem));
    WEIR_TRY(weir_op_tie(op, WEIR_ARG_DST, to->mem));
    touch(b, phase, from->mem);
    touch(b, phase, to->mem);
    return put_op(b, phase, op);
}

static weir_err run_copy(void *arg)
{
    weir_copy *c = arg;

    if (c->stale)
        WEIR_TRY(weir_op_run(c->reorder));
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

static weir_err make_copy(const weir_bind *b, const weir_use *from, const weir_layout *layout, weir_copy **out)
{
    weir_copy *c = WEIR_NEW(b->arena, weir_copy, 1);
    const weir_layout *scratch;
    weir_mem *room;

    if (!c)
        return weir_fail_nomem(sizeof *c);
    c->layout = layout;
    c->stale = true;
    WEIR_TRY(keep_mem(b, weir_layout_bytes(layout), &c->mem));
    WEIR_TRY(weir_dnn_reorder(b->dnn, from->layout, layout, &c->reorder));
    WEIR_TRY(weir_op_tie(c->reorder, WEIR_ARG_SRC, from->mem));
    WEIR_TRY(weir_op_tie(c->reorder, WEIR_ARG_DST, c->mem));
    if ((scratch = weir_op_layout(c->reorder, WEIR_ARG_SCRATCH))) {
        WEIR_TRY(keep_mem(b, weir_layout_bytes(scratch), &room));
        WEIR_TRY(weir_op_tie(c->reorder, WEIR_ARG_SCRATCH, room));
    }
    c->next = from->mem->copies;
    from->mem->copies = c;
    *out = c;
    return WEIR_OK;
}

/* The kept copy of a parameter, made at its first use: all plans share it. */
static weir_err find_copy(const weir_bind *b, const weir_use *from, const weir_layout *layout, weir_copy **out)
{
    for (weir_copy *c = from->mem->copies; c; c = c->next)
        if (weir_layout_same(c->layout, layout))
            return *out = c, WEIR_OK;
    return make_copy(b, from, layout, out);
}

/* Where an op finds or leaves an argument that lies in another layout than it wants. */
static weir_err stand_in(const weir_bind *b, weir_when phase, const weir_op *op, const weir_use *use, weir_use *other)
{
    weir_copy *copy = NULL;

    *other = (weir_use){use->arg, NULL, weir_op_layout(op, use->arg)};
    if (use->mem->slow && !weir_op_writes(op, use->arg)) {
        WEIR_TRY(find_copy(b, use, other->layout, &copy));
        other->mem = copy->mem;
        return add_step(b, phase, run_copy, copy);
    }
    WEIR_TRY(weir_bind_mem(b, weir_layout_bytes(other->layout), &other->mem));
    return weir_op_writes(op, use->arg) ? WEIR_OK : put_reorder(b, phase, use, other);
}

weir_err weir_bind_op(const weir_bind *b, weir_when phase, weir_op *op, const weir_use *use, int uses)
{
    weir_use actual[WEIR_ARGS];

    for (int i = 0; i < uses; i++) {
        const weir_layout *wanted = weir_op_layout(op, use[i].arg);
        actual[i] = use[i];
        if (wanted && !weir_layout_same(wanted, use[i].layout))
            WEIR_TRY(stand_in(b, phase, op, &use[i], &actual[i]));
        WEIR_TRY(weir_op_tie(op, use[i].arg, actual[i].mem));
        touch(b, phase, actual[i].mem);
    }
    WEIR_TRY(put_op(b, phase, op));
    for (int i = 0; i < uses; i++)
        if (actual[i].mem != use[i].mem && weir_op_writes(op, use[i].arg))
            WEIR_TRY(put_reorder(b, phase, &actual[i], &use[i]));
    return WEIR_OK;
}

/* ---- the engine ---- */

static weir_err make_param(weir_engine *e, const weir_tensor *t, weir_param *p)
{
    weir_shape shape = {.dims = t->dims};

    memcpy(shape.dim, t->dim, sizeof shape.dim);
    WEIR_TRY(weir_layout_plain(e->dnn, &shape, &p->plain));
    WEIR_TRY(weir_mem_new(e->dnn, t->n * sizeof(float), &p->data));
    WEIR_TRY(weir_mem_new(e->dnn, t->n * sizeof(float), &p->grad));
    p->data->slow = true;
    return WEIR_OK;
}

weir_err weir_engine_open(const weir_graph *g, weir_arena *arena, weir_engine *e)
{
    weir_err err = WEIR_OK;

    *e = (weir_engine){.graph = g, .arena = arena};
    if (!(e->param = WEIR_NEW(arena, weir_param, g->tensors)))
        return weir_fail_nomem((size_t)g->tensors * sizeof *e->param);
    WEIR_TRY(weir_dnn_open(arena, &e->dnn));
    for (int i = 0; i < g->tensors && !err; i++)
        err = make_param(e, &g->tensor[i], &e->param[i]);
    if (err)
        weir_engine_close(e);
    return err;
}

void weir_engine_close(weir_engine *e)
{
    weir_dnn_close(e->dnn);
    e->dnn = NULL;
}

void weir_engine_refresh(weir_engine *e)
{
    for (int i = 0; i < e->graph->tensors; i++)
        for (weir_copy *c = e->param[i].data->copies; c; c = c->next)
            c->stale = true;
}

/* ---- the plan ---- */

#define MAX_ACT ((int64_t)1 << 40) /* floats of one activation */

static weir_err make_input(weir_plan *p, bool grad)
{
    weir_act *in = &p->input;

    in->shape = p->engine->graph->node[0].in;
    in->shape.dim[0] = p->n;
    if (weir_shape_count(&in->shape, MAX_ACT) < 0)
        return weir_fail(WEIR_FAILED, "a batch of %d samples is too large", p->n);
    WEIR_TRY(weir_layout_plain(p->engine->dnn, &in->shape, &in->layout));
    WEIR_TRY(weir_mem_new(p->engine->dnn, weir_layout_bytes(in->layout), &in->data));
    return grad ? weir_mem_new(p->engine->dnn, weir_layout_bytes(in->layout), &in->grad) : WEIR_OK;
}

/* A relu that follows is done on the way when nobody else reads what it reads. */
static bool takes_relu(const weir_graph *g, int i)
{
    return g->node[i].layer->does_relu && i + 1 < g->nodes && g->node[i + 1].layer->relu;
}

/* A layer that reads plain order behind one that left another: a reorder before it, and one of the gradient behind. */
static weir_err bind_plain(weir_bind *b, const weir_layout *plain)
{
    weir_act *in = b->in, *own = &b->stage->plain;

    *own = (weir_act){.shape = in->shape, .layout = plain, .yields = true};
    WEIR_TRY(weir_bind_mem(b, weir_layout_bytes(plain), &own->data));
    if (in->grad)
        WEIR_TRY(weir_bind_mem(b, weir_layout_bytes(plain), &own->grad));
    WEIR_TRY(put_reorder(b, WEIR_FORWARD, &(weir_use){0, in->data, in->layout}, &(weir_use){0, own->data, plain}));
    b->in = own;
    WEIR_TRY(b->stage->node->layer->bind(b->stage->node->self, b));
    return in->grad ? put_reorder(b, WEIR_BACK_DATA, &(weir_use){0, own->grad, plain}, &(weir_use){0, in->grad, in->layout})
                    : WEIR_OK;
}

static weir_err bind_layer(weir_bind *b)
{
    const weir_node *n = b->stage->node;
    const weir_layout *plain;

    if (n->layer->plain) {
        WEIR_TRY(weir_layout_plain(b->dnn, &b->in->shape, &plain));
        if (!weir_layout_same(plain, b->in->layout))
            return bind_plain(b, plain);
    }
    return n->layer->bind(n->self, b);
}

static weir_err bind_node(weir_plan *p, int i)
{
    weir_engine *e = p->engine;
    weir_stage *s = &p->stage[i];
    const weir_node *n = &e->graph->node[i];
    weir_param param[WEIR_LAYER_WEIGHTS];
    weir_act *in = i ? &p->stage[i - 1].out : &p->input;
    weir_bind b = {
        .plan = p, .stage = s, .dnn = e->dnn, .arena = e->arena, .run = &e->run, .in = in, .out = &s->out, .param = param};

    s->index = i;
    s->node = n;
    for (int k = 0; k < WEIR_WHENS; k++)
        s->end[k] = &s->first[k];
    for (int k = 0; k < n->weights; k++)
        param[k] = e->param[n->tensor[k]];
    for (int k = n->weights; k < WEIR_LAYER_WEIGHTS; k++)
        param[k] = (weir_param){0};
    s->out.shape = n->out;
    s->out.shape.dim[0] = p->n;
    s->out.yields = !n->layer->keeps;
    if (weir_shape_count(&s->out.shape, MAX_ACT) < 0)
        return weir_fail(WEIR_FAILED, "an activation for %d samples is too large", p->n);
    b.wants = in->grad || n->weights > 0;
    b.relu = takes_relu(e->graph, i);
    b.fused = i && takes_relu(e->graph, i - 1);
    return bind_layer(&b);
}

weir_err weir_plan_make(weir_engine *e, int n, bool input_grad, weir_plan **out)
{
    weir_plan *p = WEIR_NEW(e->arena, weir_plan, 1);

    if (!p || !(p->stage = WEIR_NEW(e->arena, weir_stage, e->graph->nodes)))
        return weir_fail_nomem((size_t)e->graph->nodes * sizeof *p->stage);
    p->engine = e;
    p->n = n;
    WEIR_TRY(make_input(p, input_grad));
    for (int i = 0; i < e->graph->nodes; i++) {
        weir_err err = bind_node(p, i);
        if (err)
            return weir_fail_in(err, "layer %s", e->graph->node[i].name);
    }
    WEIR_TRY(weir_mems_place(p->mems, &p->bytes));
    *out = p;
    return WEIR_OK;
}

void weir_plan_settle(weir_plan *p, void *base)
{
    for (weir_mem *m = p->mems; m; m = m->next)
        weir_mem_point(m, (char *)base + m->offset);
}

weir_err weir_stage_run(const weir_stage *s, weir_when phase)
{
    for (const weir_step *step = s->first[phase]; step; step = step->next)
        WEIR_TRY(step->run(step->arg));
    return WEIR_OK;
}
