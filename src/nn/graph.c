/* graph.c - from lines of a model file to layers with shapes, and tensors in the order of the flat vector. */
#include "nn/graph.h"
#include "nn/netfile.h"
#include <stdio.h>
#include <string.h>

/* Bounds: an activation of one sample, and all parameters together, in floats. */
#define MAX_ACT ((int64_t)1 << 36)
#define MAX_PARAMS ((int64_t)1 << 38)
enum { SMALL_TENSOR = 256 }; /* what has fewer elements is not worth compressing */

/* ---- one layer ---- */

static const weir_opt *find_option(const weir_plug *p, const char *key)
{
    for (const weir_opt *o = p->options; o && o->name; o++)
        if (!strcmp(o->name, key))
            return o;
    return NULL;
}

static weir_err set_options(const weir_netfile *f, const weir_net_line *l, weir_node *n, weir_arena *arena)
{
    const weir_plug *p = &n->layer->plug;
    char value[256];

    for (int i = 0; i < l->options; i++) {
        const weir_net_option *w = &l->option[i];
        const weir_opt *o = find_option(p, w->key);
        WEIR_TRY(weir_netfile_value(f, l, w, o && o->kind == WEIR_OPT_INT, value, sizeof value));
        if (weir_opt_set(p->options, p->name, w->key, value, arena, n->self))
            return weir_netfile_at(f, WEIR_INVALID, l->line, o ? w->value_col : w->col);
    }
    return WEIR_OK;
}

/* An option without a default must be given, unless it is a text. */
static weir_err check_given(const weir_netfile *f, const weir_net_line *l, const weir_plug *p)
{
    for (const weir_opt *o = p->options; o && o->name; o++) {
        int i = 0;
        while (i < l->options && strcmp(l->option[i].key, o->name))
            i++;
        if (!o->standard && o->kind != WEIR_OPT_TEXT && i == l->options)
            return weir_fail(WEIR_INVALID, "%s:%d:%d: %s needs %s=: %s", f->path, l->line, l->col, p->name, o->name, o->help);
    }
    return WEIR_OK;
}

static weir_err make_self(const weir_netfile *f, const weir_net_line *l, weir_node *n, weir_arena *arena)
{
    const weir_plug *plug;

    if (weir_plug_find(weir_layers, "layer", l->kind, &plug))
        return weir_netfile_at(f, WEIR_INVALID, l->line, l->col);
    n->layer = (const weir_layer *)plug;
    n->name = l->name;
    n->line = l->line;
    n->col = l->col;
    n->ready = -1;
    if (!(n->self = weir_alloc(arena, plug->size)))
        return weir_fail_nomem(plug->size);
    WEIR_TRY(weir_opt_defaults(plug->options, plug->name, arena, n->self));
    WEIR_TRY(set_options(f, l, n, arena));
    return check_given(f, l, plug);
}

/* ---- shapes ---- */

static bool shape_fits(const weir_shape *s, int64_t limit)
{
    for (int i = 0; i < s->dims; i++)
        if (s->dim[i] < 1 || s->dim[i] > INT32_MAX)
            return false;
    return s->dims >= 1 && s->dims <= WEIR_DIMS && weir_shape_count(s, limit) > 0;
}

static weir_err check_shapes(const weir_node *n)
{
    if (!shape_fits(&n->out, MAX_ACT))
        return weir_fail(WEIR_INVALID, "the output of %s is empty, or too large", n->name);
    for (int i = 0; i < n->weights; i++)
        if (!shape_fits(&n->weight[i].shape, MAX_PARAMS))
            return weir_fail(WEIR_INVALID, "%s.%s is empty, or too large", n->name, n->weight[i].name);
    return WEIR_OK;
}

static weir_err shape_node(const weir_graph *g, weir_node *n)
{
    bool first = n == g->node;

    if (!first && n[-1].layer->loss)
        return weir_fail(WEIR_INVALID, "no layer can follow %s, which is a loss", n[-1].name);
    if (g->input.tokens && first && !n->layer->tokens)
        return weir_fail(WEIR_MISFIT, "the data gives tokens, and %s reads numbers", n->layer->plug.name);
    if (n->layer->tokens && !(first && g->input.tokens))
        return weir_fail(WEIR_MISFIT, "%s reads tokens: only the first layer can, where the data gives them",
                         n->layer->plug.name);
    if (first) {
        n->in = (weir_shape){.dims = g->input.dims + 1, .dim = {1}};
        memcpy(n->in.dim + 1, g->input.dim, (size_t)g->input.dims * sizeof *g->input.dim);
    } else {
        n->in = n[-1].out;
    }
    WEIR_TRY(n->layer->shape(n->self, &g->input, &n->in, &n->out, n->weight, &n->weights));
    return check_shapes(n);
}

/* ---- tensors ---- */

static bool is_tail(const weir_weights *w) { return w->shape.dims < 2 || weir_shape_count(&w->shape, MAX_PARAMS) < SMALL_TENSOR; }

static weir_err add_tensor(weir_graph *g, weir_node *n, int k, weir_arena *arena)
{
    const weir_weights *w = &n->weight[k];
    weir_tensor *t = &g->tensor[g->tensors];
    size_t room = strlen(n->name) + strlen(w->name) + 2;
    char *name = weir_alloc(arena, room);

    if (!name)
        return weir_fail_nomem(room);
    snprintf(name, room, "%s.%s", n->name, w->name);
    *t = (weir_tensor){.name = name, .at = g->params, .dims = w->shape.dims, .decays = w->decays, .ready = n->ready};
    memcpy(t->dim, w->shape.dim, sizeof t->dim);
    t->n = (size_t)weir_shape_count(&w->shape, MAX_PARAMS);
    if (t->n > (size_t)MAX_PARAMS - g->params)
        return weir_fail(WEIR_INVALID, "%s: the model has too many parameters", g->path);
    g->params += t->n;
    n->tensor[k] = g->tensors++;
    return WEIR_OK;
}

/* Those that can be compressed, last layer first, then the dense tail in the same order. */
static weir_err order_tensors(weir_graph *g, weir_arena *arena)
{
    int ready = 0;

    if (!(g->tensor = WEIR_NEW(arena, weir_tensor, (size_t)g->nodes * WEIR_LAYER_WEIGHTS)))
        return weir_fail_nomem((size_t)g->nodes * WEIR_LAYER_WEIGHTS * sizeof *g->tensor);
    for (int i = g->nodes - 1; i >= 0; i--)
        if (g->node[i].weights)
            g->node[i].ready = ready++;
    for (int tail = 0; tail < 2; tail++)
        for (int i = g->nodes - 1; i >= 0; i--)
            for (int k = 0; k < g->node[i].weights; k++)
                if (is_tail(&g->node[i].weight[k]) == tail)
                    WEIR_TRY(add_tensor(g, &g->node[i], k, arena));
    return WEIR_OK;
}

/* ---- the whole ---- */

static weir_err check_input(const char *path, const weir_model_input *in)
{
    weir_shape s = {.dims = in->dims};

    if (in->dims < 1 || in->dims > 4)
        return weir_fail(WEIR_MISFIT, "%s: the data's samples have %d dimensions; models take 1 to 4", path, in->dims);
    memcpy(s.dim, in->dim, sizeof in->dim);
    if (!shape_fits(&s, MAX_ACT) || in->classes < 1 || in->classes > INT32_MAX)
        return weir_fail(WEIR_MISFIT, "%s: the data's samples are empty or too large, or it has no classes", path);
    return WEIR_OK;
}

static weir_err make_nodes(weir_graph *g, const weir_netfile *f, weir_arena *arena)
{
    if (!(g->node = WEIR_NEW(arena, weir_node, f->lines)))
        return weir_fail_nomem((size_t)f->lines * sizeof *g->node);
    for (; g->nodes < f->lines; g->nodes++) {
        const weir_net_line *l = &f->line[g->nodes];
        weir_err err;
        WEIR_TRY(make_self(f, l, &g->node[g->nodes], arena));
        if ((err = shape_node(g, &g->node[g->nodes])))
            return weir_netfile_at(f, err, l->line, l->col);
    }
    return WEIR_OK;
}

weir_err weir_graph_read(const char *path, const char *text, size_t n, const char *sizes, const weir_model_input *in, bool whole,
                         weir_arena *arena, weir_graph **out)
{
    weir_graph *g = WEIR_NEW(arena, weir_graph, 1);
    weir_netfile *f;

    if (!g)
        return weir_fail_nomem(sizeof *g);
    WEIR_TRY(check_input(path, in));
    WEIR_TRY(weir_netfile_read(path, text, n, sizes, in->classes, arena, &f));
    g->path = f->path;
    g->input = *in;
    WEIR_TRY(make_nodes(g, f, arena));
    if (!g->nodes)
        return weir_fail(WEIR_INVALID, "%s: there is no layer in it", path);
    if (whole && !g->node[g->nodes - 1].layer->loss)
        return weir_fail(WEIR_INVALID, "%s: the last layer, %s, is no loss: softmax is one", path, g->node[g->nodes - 1].name);
    WEIR_TRY(order_tensors(g, arena));
    *out = g;
    return WEIR_OK;
}
