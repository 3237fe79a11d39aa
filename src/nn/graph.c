/* graph.c - from lines of a model file to layers with shapes, and tensors in the order of the flat
 * vector. */
#include "nn/graph.h"
#include "nn/netfile.h"
#include <stdio.h>
#include <string.h>

/* Bounds: an activation of one sample, and all parameters together, in floats. */
#define MAX_ACT ((int64_t)1 << 36)
#define MAX_PARAMS ((int64_t)1 << 38)

/* ---- one layer ---- */

static const weir_opt *find_option(const weir_plug *p, const char *key)
{
    for (const weir_opt *o = p->options; o && o->name; o++)
        if (!strcmp(o->name, key))
            return o;
    return NULL;
}

/* Whole numbers are expressions; so are yes and no, that a size can switch them: 1 and 0. */
static weir_err find_value(const weir_netfile *f, const weir_netfile_line *l,
                           const weir_netfile_option *w, const weir_opt *o, char *value,
                           size_t room)
{
    if (o && o->kind == WEIR_OPT_BOOL && !weir_netfile_value(f, l, w, true, value, room)) {
        if (strcmp(value, "0") && strcmp(value, "1"))
            return weir_fail(WEIR_INVALID, "%s:%d:%d: %s=%s: yes or no, or 1 or 0, was expected",
                             f->path, l->line, w->value_col, w->key, value);
        snprintf(value, room, "%s", strcmp(value, "0") ? "yes" : "no");
        return WEIR_OK;
    }
    return weir_netfile_value(f, l, w, o && o->kind == WEIR_OPT_INT, value, room);
}

static weir_err set_options(const weir_netfile *f, const weir_netfile_line *l, weir_node *n,
                            weir_arena *arena)
{
    const weir_plug *p = &n->layer->plug;
    char value[256];

    for (int i = 0; i < l->options; i++) {
        const weir_netfile_option *w = &l->option[i];
        const weir_opt *o = find_option(p, w->key);
        if (!strcmp(w->key, "from"))
            continue;
        WEIR_TRY(find_value(f, l, w, o, value, sizeof value));
        if (weir_opt_set(p->options, p->name, w->key, value, arena, n->self))
            return weir_netfile_at(f, WEIR_INVALID, l->line, o ? w->value_col : w->col);
    }
    return WEIR_OK;
}

/* An option without a default must be given, unless it is a text. */
static weir_err check_given(const weir_netfile *f, const weir_netfile_line *l, const weir_plug *p)
{
    for (const weir_opt *o = p->options; o && o->name; o++) {
        int i = 0;
        while (i < l->options && strcmp(l->option[i].key, o->name))
            i++;
        if (!o->standard && o->kind != WEIR_OPT_TEXT && i == l->options)
            return weir_fail(WEIR_INVALID, "%s:%d:%d: %s needs %s=: %s", f->path, l->line, l->col,
                             p->name, o->name, o->help);
    }
    return WEIR_OK;
}

static weir_err make_self(const weir_netfile *f, const weir_netfile_line *l, weir_node *n,
                          weir_arena *arena)
{
    const weir_plug *plug;

    if (weir_plug_find(weir_layers, "layer", l->kind, &plug))
        return weir_netfile_at(f, WEIR_INVALID, l->line, l->col);
    n->layer = (const weir_layer *)plug;
    n->name = l->name;
    n->line = l->line;
    n->col = l->col;
    n->ready = n->owner = -1;
    if (!strcmp(n->name, "input"))
        return weir_fail(WEIR_INVALID, "%s:%d:%d: the name input is that of the data", f->path,
                         l->line, l->col);
    if (!(n->self = weir_alloc(arena, plug->size)))
        return weir_fail_nomem(plug->size);
    WEIR_TRY(weir_opt_defaults(plug->options, plug->name, arena, n->self));
    WEIR_TRY(set_options(f, l, n, arena));
    return check_given(f, l, plug);
}

/* ---- inputs ---- */

static weir_err find_named(const weir_graph *g, const weir_netfile *f, const weir_netfile_line *l,
                           const weir_netfile_option *o, int *out)
{
    char name[256];

    WEIR_TRY(weir_netfile_value(f, l, o, false, name, sizeof name));
    if (!strcmp(name, "input"))
        return *out = WEIR_GRAPH_INPUT, WEIR_OK;
    for (int i = 0; i < g->nodes; i++)
        if (!strcmp(g->node[i].name, name))
            return *out = i, WEIR_OK;
    return weir_fail(WEIR_INVALID, "%s:%d:%d: there is no layer %.96s above this line", f->path,
                     l->line, o->value_col, name);
}

/* The line before, or what from= names; a layer that joins reads both. */
static weir_err find_inputs(const weir_graph *g, const weir_netfile *f, const weir_netfile_line *l,
                            weir_node *n)
{
    const weir_netfile_option *from = NULL;

    n->from[0] = g->nodes - 1;
    n->ins = 1 + n->layer->joins;
    for (int i = 0; i < l->options; i++)
        if (!strcmp(l->option[i].key, "from"))
            from = &l->option[i];
    if (!from && n->layer->joins)
        return weir_fail(WEIR_INVALID, "%s:%d:%d: %s needs from=: the name of a layer above",
                         f->path, l->line, l->col, l->kind);
    if (!from)
        return WEIR_OK;
    WEIR_TRY(find_named(g, f, l, from, &n->from[n->ins - 1]));
    if (n->ins == 2 && n->from[1] == n->from[0])
        return weir_fail(WEIR_INVALID, "%s:%d:%d: %s is the line before: %s joins it with another",
                         f->path, l->line, from->value_col, from->value, l->kind);
    return WEIR_OK;
}

/* The layer whose tensor weight= names, where the layer has that option. */
static weir_err find_owner(const weir_graph *g, const weir_netfile *f, const weir_netfile_line *l,
                           weir_node *n)
{
    const weir_netfile_option *o = NULL;

    for (int i = 0; i < l->options; i++)
        if (!strcmp(l->option[i].key, "weight"))
            o = &l->option[i];
    if (!o)
        return WEIR_OK;
    WEIR_TRY(find_named(g, f, l, o, &n->owner));
    if (n->owner >= 0 && g->node[n->owner].owner >= 0)
        n->owner = g->node[n->owner].owner;
    if (n->owner < 0 || !g->node[n->owner].weights ||
        strcmp(g->node[n->owner].weight[0].name, "weight"))
        return weir_fail(WEIR_INVALID, "%s:%d:%d: %.96s has no weight", f->path, l->line,
                         o->value_col, o->value);
    return WEIR_OK;
}

static void count_reader(weir_graph *g, int from, int reader)
{
    bool input = from == WEIR_GRAPH_INPUT;

    *(input ? &g->readers : &g->node[from].readers) += 1;
    *(input ? &g->last : &g->node[from].last) = reader;
}

/* Every output but the last must have a reader. */
static weir_err count_readers(weir_graph *g, const weir_netfile *f)
{
    for (int i = 0; i < g->nodes; i++)
        for (int k = 0; k < g->node[i].ins; k++)
            count_reader(g, g->node[i].from[k], i);
    for (int i = 0; i + 1 < g->nodes; i++)
        if (!g->node[i].readers)
            return weir_fail(WEIR_INVALID, "%s:%d:%d: nobody reads the output of %s", f->path,
                             g->node[i].line, g->node[i].col, g->node[i].name);
    return WEIR_OK;
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
        return weir_fail(WEIR_INVALID, "the output of %s is empty, or larger than %lld values",
                         n->name, (long long)MAX_ACT);
    for (int i = 0; i < n->weights + n->stills; i++)
        if (!shape_fits(&n->weight[i].shape, MAX_PARAMS))
            return weir_fail(WEIR_INVALID, "%s.%s is empty, or larger than %lld values", n->name,
                             n->weight[i].name, (long long)MAX_PARAMS);
    return WEIR_OK;
}

static weir_err check_tokens(const weir_graph *g, const weir_node *n)
{
    bool first = n == g->node,
         reads = n->from[0] == WEIR_GRAPH_INPUT || (n->ins > 1 && n->from[1] == WEIR_GRAPH_INPUT);

    if (g->input.tokens && reads && !n->layer->tokens)
        return weir_fail(WEIR_MISFIT, "the data gives tokens, and %s reads numbers",
                         n->layer->plug.name);
    if (n->layer->tokens && !(first && g->input.tokens))
        return weir_fail(WEIR_MISFIT,
                         "%s reads tokens: only the first layer can, where the data gives them",
                         n->layer->plug.name);
    return WEIR_OK;
}

static weir_shape shape_of(const weir_graph *g, int from)
{
    weir_shape s = {.dims = g->input.dims + 1, .dim = {1}};

    memcpy(s.dim + 1, g->input.dim, (size_t)g->input.dims * sizeof *g->input.dim);
    return from == WEIR_GRAPH_INPUT ? s : g->node[from].out;
}

static void show_shape(const weir_shape *s, char *text, size_t room)
{
    size_t n = 0;

    for (int i = 1; i < s->dims && n < room; i++)
        n += (size_t)snprintf(text + n, room - n, "%s%lld", i > 1 ? " x " : "",
                              (long long)s->dim[i]);
}

static weir_err check_second(const weir_graph *g, const weir_node *n)
{
    weir_shape second = shape_of(g, n->from[1]);
    char a[100], b[100];

    if (n->in.dims == second.dims &&
        !memcmp(n->in.dim, second.dim, (size_t)second.dims * sizeof *second.dim))
        return WEIR_OK;
    show_shape(&n->in, a, sizeof a);
    show_shape(&second, b, sizeof b);
    return weir_fail(WEIR_INVALID, "%s joins two of a shape: the line before gives %s, %s gives %s",
                     n->layer->plug.name, a,
                     n->from[1] == WEIR_GRAPH_INPUT ? "the input" : g->node[n->from[1]].name, b);
}

/* Two layers with one tensor see it alike. */
static weir_err check_owner(const weir_graph *g, const weir_node *n)
{
    const weir_node *owner = &g->node[n->owner];
    const weir_shape *mine = &n->weight[0].shape, *theirs = &owner->weight[0].shape;

    if (mine->dims == theirs->dims &&
        !memcmp(mine->dim, theirs->dim, (size_t)mine->dims * sizeof *mine->dim))
        return WEIR_OK;
    return weir_fail(WEIR_INVALID, "%s needs a weight of %lld x %lld, that of %s is %lld x %lld",
                     n->name, (long long)mine->dim[0], (long long)mine->dim[1], owner->name,
                     (long long)theirs->dim[0], (long long)theirs->dim[1]);
}

static weir_err shape_node(const weir_graph *g, weir_node *n)
{
    int count = 0;

    if (n > g->node && n[-1].layer->loss)
        return weir_fail(WEIR_INVALID, "no layer can follow %s, which is a loss", n[-1].name);
    WEIR_TRY(check_tokens(g, n));
    n->in = shape_of(g, n->from[0]);
    if (n->ins > 1)
        WEIR_TRY(check_second(g, n));
    WEIR_TRY(n->layer->shape(n->self, &g->input, &n->in, &n->out, n->weight, &count));
    while (n->weights < count && !n->weight[n->weights].still)
        n->weights++;
    n->stills = count - n->weights;
    if (n->owner >= 0)
        WEIR_TRY(check_owner(g, n));
    return check_shapes(n);
}

/* ---- tensors ---- */

static bool is_tail(const weir_graph *g, const weir_weights *w)
{
    return w->shape.dims < 2 || weir_shape_count(&w->shape, MAX_PARAMS) <
                                    (g->input.small ? (int64_t)g->input.small : WEIR_SMALL);
}

static weir_err name_tensor(const weir_node *n, const weir_weights *w, size_t at, weir_arena *arena,
                            weir_tensor *t)
{
    size_t room = strlen(n->name) + strlen(w->name) + 2;
    char *name = weir_alloc(arena, room);

    if (!name)
        return weir_fail_nomem(room);
    snprintf(name, room, "%s.%s", n->name, w->name);
    *t = (weir_tensor){.name = name,
                       .at = at,
                       .dims = w->shape.dims,
                       .decays = w->decays,
                       .ready = n->ready,
                       .output = n->ready == 0};
    memcpy(t->dim, w->shape.dim, sizeof t->dim);
    t->n = (size_t)weir_shape_count(&w->shape, MAX_PARAMS);
    return WEIR_OK;
}

/* Behind those that are there, in the vector of parameters or in that of stills. */
static weir_err add_tensor(weir_graph *g, weir_node *n, int k, weir_arena *arena)
{
    bool still = k >= n->weights;
    size_t *floats = still ? &g->still_floats : &g->params;
    int *count = still ? &g->stills : &g->tensors;
    weir_tensor *t = (still ? g->still : g->tensor) + *count;

    WEIR_TRY(name_tensor(n, &n->weight[k], *floats, arena, t));
    if (t->n > (size_t)MAX_PARAMS - *floats)
        return weir_fail(WEIR_INVALID, "%s: the model has too many parameters: over %lld", g->path,
                         (long long)MAX_PARAMS);
    *floats += t->n;
    n->tensor[k] = (*count)++;
    return WEIR_OK;
}

/* An owner is above all who have its tensor: it is the last of them in backward, and its number is
 * right for the tensor. */
static void tie_tensors(weir_graph *g)
{
    for (int i = 0; i < g->nodes; i++) {
        int owner = g->node[i].owner;
        if (owner < 0)
            continue;
        g->node[i].tensor[0] = g->node[owner].tensor[0];
        for (int k = owner; k < i; k++)
            g->node[k].later |= k == owner || g->node[k].owner == owner;
    }
}

/* Those that can be compressed, last layer first, then the dense tail in the same order. */
static weir_err order_tensors(weir_graph *g, weir_arena *arena)
{
    int ready = 0;

    g->tensor = WEIR_NEW(arena, weir_tensor, (size_t)g->nodes * WEIR_LAYER_WEIGHTS);
    g->still = WEIR_NEW(arena, weir_tensor, (size_t)g->nodes * WEIR_LAYER_WEIGHTS);
    if (!g->tensor || !g->still)
        return weir_fail_nomem((size_t)g->nodes * WEIR_LAYER_WEIGHTS * sizeof *g->tensor);
    for (int i = g->nodes - 1; i >= 0; i--)
        if (g->node[i].weights > (g->node[i].owner >= 0))
            g->node[i].ready = ready++;
    for (int tail = 0; tail < 2; tail++)
        for (int i = g->nodes - 1; i >= 0; i--)
            for (int k = g->node[i].owner >= 0; k < g->node[i].weights; k++)
                if (is_tail(g, &g->node[i].weight[k]) == tail)
                    WEIR_TRY(add_tensor(g, &g->node[i], k, arena));
    for (int i = 0; i < g->nodes; i++)
        for (int k = 0; k < g->node[i].stills; k++)
            WEIR_TRY(add_tensor(g, &g->node[i], g->node[i].weights + k, arena));
    tie_tensors(g);
    return WEIR_OK;
}

/* ---- the whole ---- */

static weir_err check_input(const char *path, const weir_model_input *in)
{
    weir_shape s = {.dims = in->dims};

    if (in->dims < 1 || in->dims > 4)
        return weir_fail(WEIR_MISFIT,
                         "%s: the data's samples have %d dimensions; models take 1 to 4", path,
                         in->dims);
    memcpy(s.dim, in->dim, sizeof in->dim);
    if (!shape_fits(&s, MAX_ACT) || in->classes < 1 || in->classes > INT32_MAX)
        return weir_fail(WEIR_MISFIT,
                         "%s: the data's samples are empty or too large, or it has no classes",
                         path);
    return WEIR_OK;
}

static weir_err make_nodes(weir_graph *g, const weir_netfile *f, weir_arena *arena)
{
    if (!(g->node = WEIR_NEW(arena, weir_node, f->lines)))
        return weir_fail_nomem((size_t)f->lines * sizeof *g->node);
    for (; g->nodes < f->lines; g->nodes++) {
        const weir_netfile_line *l = &f->line[g->nodes];
        weir_err err;
        WEIR_TRY(make_self(f, l, &g->node[g->nodes], arena));
        WEIR_TRY(find_inputs(g, f, l, &g->node[g->nodes]));
        WEIR_TRY(find_owner(g, f, l, &g->node[g->nodes]));
        if ((err = shape_node(g, &g->node[g->nodes])))
            return weir_netfile_at(f, err, l->line, l->col);
        if (g->node[g->nodes].layer->open)
            WEIR_TRY(g->node[g->nodes].layer->open(g->node[g->nodes].self, arena));
    }
    return WEIR_OK;
}

static weir_err read_with(const weir_netfile_source *source, const weir_model_input *in, bool whole,
                          weir_arena *arena, weir_graph **out)
{
    weir_graph *g = WEIR_NEW(arena, weir_graph, 1);
    weir_netfile *f;

    if (!g)
        return weir_fail_nomem(sizeof *g);
    WEIR_TRY(check_input(source->path, in));
    WEIR_TRY(weir_netfile_read(source, in->classes, arena, &f));
    g->path = f->path;
    g->input = *in;
    WEIR_TRY(make_nodes(g, f, arena));
    if (!g->nodes)
        return weir_fail(WEIR_INVALID, "%s: there is no layer in it", g->path);
    if (whole && !g->node[g->nodes - 1].layer->loss)
        return weir_fail(WEIR_INVALID, "%s: the last layer, %s, is no loss: softmax is one",
                         g->path, g->node[g->nodes - 1].name);
    WEIR_TRY(count_readers(g, f));
    WEIR_TRY(order_tensors(g, arena));
    *out = g;
    return WEIR_OK;
}

/* A file that is right with its own sizes is not what is wrong: those that the user gave are. */
weir_err weir_graph_read(const weir_netfile_source *source, const weir_model_input *in, bool whole,
                         weir_arena *arena, weir_graph **out)
{
    weir_err err = read_with(source, in, whole, arena, out);
    weir_netfile_source own = *source;
    weir_graph *as_written;
    char why[WEIR_WHY_MAX];

    if (err != WEIR_INVALID || !source->sizes)
        return err;
    snprintf(why, sizeof why, "%s", weir_why_text());
    own.sizes = NULL;
    if (read_with(&own, in, whole, arena, &as_written))
        return weir_fail(err, "%s", why);
    return weir_fail(WEIR_USAGE, "the model with %.200s: %.700s", source->sizes, why);
}
