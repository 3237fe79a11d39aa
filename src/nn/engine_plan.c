/* engine_plan.c - the engine, and binding its layers for one batch size. */
#include "nn/engine_plan.h"
#include <string.h>

/* ---- the engine ---- */

static weir_err make_param(weir_engine *e, const weir_tensor *t, weir_param *p, bool slow)
{
    weir_shape shape = {.dims = t->dims};

    memcpy(shape.dim, t->dim, sizeof shape.dim);
    WEIR_TRY(weir_layout_plain(e->dnn, &shape, &p->plain));
    WEIR_TRY(weir_mem_new(e->dnn, t->n * sizeof(float), &p->data));
    WEIR_TRY(weir_mem_new(e->dnn, t->n * sizeof(float), &p->grad));
    p->data->slow = slow;
    return WEIR_OK;
}

weir_err weir_engine_open(const weir_graph *g, weir_arena *arena, weir_engine *e)
{
    weir_err err = WEIR_OK;

    *e = (weir_engine){.graph = g, .arena = arena};
    e->param = WEIR_NEW(arena, weir_param, g->tensors);
    e->still = WEIR_NEW(arena, weir_param, g->stills);
    e->tied = WEIR_NEW(arena, weir_param, g->nodes);
    if (!e->param || !e->still || !e->tied)
        return weir_fail_nomem((size_t)(g->tensors + g->stills) * sizeof *e->param);
    WEIR_TRY(weir_dnn_open(arena, &e->dnn));
    for (int i = 0; i < g->tensors && !err; i++)
        err = make_param(e, &g->tensor[i], &e->param[i], true);
    for (int i = 0; i < g->stills && !err; i++)
        err = make_param(e, &g->still[i], &e->still[i], false);
    for (int i = 0; i < g->nodes && !err; i++)
        if (g->node[i].owner >= 0) {
            e->tied[i] = e->param[g->node[i].tensor[0]];
            err = weir_mem_new(e->dnn, e->tied[i].data->bytes, &e->tied[i].grad);
        }
    if (err)
        weir_engine_close(e);
    return err;
}

const weir_param *weir_engine_param(const weir_engine *e, const weir_node *n, int k)
{
    if (!k && n->owner >= 0)
        return &e->tied[n - e->graph->node];
    return k < n->weights ? &e->param[n->tensor[k]] : &e->still[n->tensor[k]];
}

void weir_engine_params(const weir_engine *e, const weir_node *n,
                        weir_param param[WEIR_LAYER_WEIGHTS])
{
    memset(param, 0, WEIR_LAYER_WEIGHTS * sizeof *param);
    for (int k = 0; k < n->weights + n->stills; k++)
        param[k] = *weir_engine_param(e, n, k);
}

weir_err weir_layer_run_sum(const weir_layer_run *r, double *x, size_t n)
{
    return r->sum ? r->sum(r->sum_arg, x, n) : WEIR_OK;
}

void weir_engine_close(weir_engine *e)
{
    weir_dnn_close(e->dnn);
    e->dnn = NULL;
}

weir_err weir_engine_exact(weir_engine *e)
{
    const weir_graph *g = e->graph;

    for (int i = 0; i < g->tensors; i++)
        WEIR_TRY(weir_mem_new(e->dnn, g->tensor[i].n * sizeof(double), &e->param[i].exact));
    for (int i = 0; i < g->nodes; i++)
        if (g->node[i].owner >= 0)
            e->tied[i].exact = e->param[g->node[i].tensor[0]].exact;
    e->exact = true;
    return WEIR_OK;
}

void weir_engine_refresh(weir_engine *e)
{
    for (int i = 0; i < e->graph->tensors; i++) {
        e->param[i].data->version++;
        for (weir_mem_copy *c = e->param[i].data->copies; c; c = c->next)
            c->stale = true;
    }
}

/* ---- the plan ---- */

#define MAX_ACT ((int64_t)1 << 40) /* floats of one activation */

static weir_err make_input(weir_engine_plan *p, bool grad)
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
    const weir_node *n = &g->node[i];

    return i != WEIR_GRAPH_INPUT && n->layer->does_relu && n->readers == 1 &&
           g->node[n->last].layer->relu;
}

/* An input as the layer is to see it: in the layout that it wants (NULL: any), and with a gradient
 * of its own where that of a later reader is there already. */
static weir_err open_view(const weir_bind *b, const weir_act *in, bool last,
                          const weir_layout *wanted, weir_act *view)
{
    bool moves = wanted && !weir_layout_same(wanted, in->layout);

    *view = *in;
    if (moves) {
        *view = (weir_act){.shape = in->shape, .layout = wanted, .yields = true};
        WEIR_TRY(weir_bind_mem(b, weir_layout_bytes(wanted), &view->data));
        WEIR_TRY(weir_bind_reorder(b, WEIR_LAYER_FORWARD, &(weir_bind_use){0, in->data, in->layout},
                                   &(weir_bind_use){0, view->data, wanted}));
    }
    if (!in->grad || (last && !moves))
        return WEIR_OK;
    view->shared = false;
    return weir_bind_mem(b, weir_layout_bytes(view->layout), &view->grad);
}

/* Behind the layer's own steps: its gradient becomes the input's, or is added to it. Backward runs
 * from the last reader to the first, so the last one's comes first. */
static weir_err close_view(const weir_bind *b, const weir_act *in, bool last, const weir_act *view)
{
    weir_bind_use from = {0, view->grad, view->layout}, to = {0, in->grad, in->layout};

    if (view->grad == in->grad)
        return WEIR_OK;
    if (last)
        return weir_bind_reorder(b, WEIR_LAYER_BACK_DATA, &from, &to);
    if (!weir_layout_same(from.layout, to.layout)) {
        WEIR_TRY(weir_bind_mem(b, weir_layout_bytes(in->layout), &to.mem));
        WEIR_TRY(weir_bind_reorder(b, WEIR_LAYER_BACK_DATA, &from, &to));
        from = to;
    }
    return weir_bind_add(b, WEIR_LAYER_BACK_DATA, in->grad, from.mem);
}

static weir_err bind_layer(weir_bind *b, weir_act *const in[2])
{
    const weir_graph *g = b->plan->engine->graph;
    weir_layer_steps *s = b->stage;
    const weir_node *n = s->node;
    const weir_layout *wanted = NULL;
    bool last[2];

    if (n->layer->plain)
        WEIR_TRY(weir_layout_plain(b->dnn, &in[0]->shape, &wanted));
    for (int k = 0; k < n->ins; k++) {
        last[k] = (n->from[k] == WEIR_GRAPH_INPUT ? g->last : g->node[n->from[k]].last) == s->index;
        WEIR_TRY(open_view(b, in[k], last[k], k ? s->view[0].layout : wanted, &s->view[k]));
    }
    b->in = &s->view[0];
    b->with = n->ins > 1 ? &s->view[1] : NULL;
    b->wants = b->in->grad || (b->with && b->with->grad) || n->weights > 0;
    WEIR_TRY(n->layer->bind(n->self, b));
    for (int k = n->ins - 1; k >= 0; k--)
        WEIR_TRY(close_view(b, in[k], last[k], &s->view[k]));
    return WEIR_OK;
}

static weir_err bind_node(weir_engine_plan *p, int i)
{
    weir_engine *e = p->engine;
    weir_layer_steps *s = &p->stage[i];
    const weir_node *n = &e->graph->node[i];
    weir_param param[WEIR_LAYER_WEIGHTS];
    weir_act *in[2] = {0};
    weir_bind b = {.plan = p,
                   .stage = s,
                   .dnn = e->dnn,
                   .arena = e->arena,
                   .run = &e->run,
                   .name = n->name,
                   .out = &s->out,
                   .exact = e->exact};

    s->index = i;
    s->node = n;
    s->run = &e->run;
    for (int k = 0; k < WEIR_LAYER_PHASES; k++)
        s->end[k] = &s->first[k];
    for (int k = 0; k < n->ins; k++)
        in[k] = n->from[k] == WEIR_GRAPH_INPUT ? &p->input : &p->stage[n->from[k]].out;
    weir_engine_params(e, n, param);
    b.param = param;
    s->out.shape = n->out;
    s->out.shape.dim[0] = p->n;
    s->out.yields = !n->layer->keeps && n->readers == 1;
    if (weir_shape_count(&s->out.shape, MAX_ACT) < 0)
        return weir_fail(WEIR_FAILED, "an activation for %d samples is too large", p->n);
    b.relu = takes_relu(e->graph, i);
    b.fused = n->layer->relu && takes_relu(e->graph, n->from[0]);
    b.fused_back = b.fused && e->graph->node[n->from[0]].layer->does_back;
    return bind_layer(&b, in);
}

weir_err weir_engine_plan_make(weir_engine *e, int n, bool input_grad, weir_engine_plan **out)
{
    weir_engine_plan *p = WEIR_NEW(e->arena, weir_engine_plan, 1);

    if (!p || !(p->stage = WEIR_NEW(e->arena, weir_layer_steps, e->graph->nodes)))
        return weir_fail_nomem((size_t)e->graph->nodes * sizeof *p->stage);
    p->engine = e;
    p->n = n;
    WEIR_TRY(make_input(p, input_grad));
    for (int i = 0; i < e->graph->nodes; i++) {
        weir_err err = bind_node(p, i);
        if (err)
            return weir_fail_in(err, "layer %s", e->graph->node[i].name);
    }
    WEIR_TRY(weir_mem_place_all(p->mems, &p->bytes));
    *out = p;
    return WEIR_OK;
}

void weir_engine_plan_attach(weir_engine_plan *p, void *base)
{
    for (weir_mem *m = p->mems; m; m = m->next)
        weir_mem_point(m, (char *)base + weir_mem_root(m)->offset);
}

weir_err weir_layer_steps_run(const weir_layer_steps *s, weir_layer_phase phase)
{
    weir_pass_only not = s->run->pass.training ? WEIR_PASS_EVALUATING : WEIR_PASS_TRAINING;

    for (const weir_engine_step *step = s->first[phase]; step; step = step->next)
        if (step->only != not )
            WEIR_TRY(step->run(step->arg));
    return WEIR_OK;
}
