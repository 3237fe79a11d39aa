/* model.c - a network, its flat vectors, and plans for the batch sizes that come. */
#include "nn/model.h"
#include "core/hash.h"
#include "core/rng.h"
#include "core/vec.h"
#include "nn/model_inside.h"
#include "nn/parallel.h"
#include "nn/zoo.h"
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 16 /* floats */ };

/* ---- opening ---- */

/* The largest sum of one layer's tensors, each padded to a line of the cache. */
static size_t spare_floats(const weir_graph *g)
{
    size_t most = 0;

    for (int i = 0; i < g->nodes; i++) {
        size_t n = 0;
        for (int k = 0; k < g->node[i].weights; k++)
            n += (g->tensor[g->node[i].tensor[k]].n + ALIGN - 1) / ALIGN * ALIGN;
        most = n > most ? n : most;
    }
    return most;
}

static weir_err make_stills(weir_model *m, weir_arena *arena)
{
    const weir_graph *g = m->graph;

    m->still = WEIR_NEW(arena, float, g->still_floats);
    m->next = WEIR_NEW(arena, float, g->still_floats);
    if (!m->still || !m->next)
        return weir_fail_nomem(2 * g->still_floats * sizeof(float));
    for (int i = 0; i < g->stills; i++) {
        weir_mem_point(m->engine.still[i].data, m->still + g->still[i].at);
        weir_mem_point(m->engine.still[i].grad, m->next + g->still[i].at);
    }
    return WEIR_OK;
}

static weir_err read_graph(const weir_zoo_spec *s, const weir_model_input *in, weir_arena *arena,
                           weir_graph **out)
{
    weir_netfile_source source = {.path = s->path, .sizes = s->sizes};
    char *text = NULL;
    weir_err err;

    if (in->file) {
        source.text = in->file->text;
        source.n = in->file->n;
    } else {
        WEIR_TRY(weir_zoo_read(s, &text, &source.n));
        source.text = text;
    }
    err = weir_graph_read(&source, in, true, arena, out);
    free(text);
    return err;
}

weir_err weir_model_open(const char *spec, const weir_model_input *in, int room, weir_arena *arena,
                         weir_model **out)
{
    weir_model *m = WEIR_NEW(arena, weir_model, 1);
    weir_zoo_spec s;

    if (!m)
        return weir_fail_nomem(sizeof *m);
    WEIR_TRY(weir_zoo_find(spec, in->file ? in->file->path : NULL, arena, &s));
    WEIR_TRY(read_graph(&s, in, arena, &m->graph));
    m->name = s.name;
    m->room = room;
    /* large blocks cost nothing until they are written: only runs that add gradients do */
    if (!(m->spare = WEIR_NEW(arena, float, spare_floats(m->graph))))
        return weir_fail_nomem(spare_floats(m->graph) * sizeof(float));
    WEIR_TRY(weir_engine_open(m->graph, arena, &m->engine));
    weir_err err = make_stills(m, arena);
    if (err)
        return weir_engine_close(&m->engine), err;
    *out = m;
    return WEIR_OK;
}

void weir_model_close(weir_model *m)
{
    if (!m)
        return;
    weir_engine_close(&m->engine);
    weir_arena_free(m->pool);
}

const char *weir_model_name(const weir_model *m) { return m->name; }
size_t weir_model_params(const weir_model *m) { return m->graph->params; }

const weir_tensor *weir_model_tensors(const weir_model *m, int *count)
{
    *count = m->graph->tensors;
    return m->graph->tensor;
}

/* ---- the flat vectors ---- */

/* Whether a layer's gradient is added to one that is there: of an earlier micro-batch, or of a
 * layer with the same tensor. */
static bool is_added(const weir_node *node, int k, bool adds)
{
    return adds || (!k && node->later);
}

static void point_gradients(weir_model *m, bool adds)
{
    m->adds = adds;
    for (int i = 0; i < m->graph->nodes; i++) {
        const weir_node *node = &m->graph->node[i];
        float *spare = m->spare;
        for (int k = 0; k < node->weights; k++) {
            const weir_tensor *t = &m->graph->tensor[node->tensor[k]];
            bool beside = is_added(node, k, adds);
            weir_mem_point(weir_engine_param(&m->engine, node, k)->grad,
                           beside ? spare : m->grad + t->at);
            spare += beside ? (t->n + ALIGN - 1) / ALIGN * ALIGN : 0;
        }
    }
}

void weir_model_attach(weir_model *m, float *param, float *grad)
{
    m->param = param;
    m->grad = grad;
    for (int i = 0; i < m->graph->tensors; i++)
        weir_mem_point(m->engine.param[i].data, param + m->graph->tensor[i].at);
    point_gradients(m, false);
    weir_engine_refresh(&m->engine);
}

static void init_tensor(float *x, const weir_tensor *t, const weir_weights *w, uint64_t seed)
{
    weir_rng rng = weir_rng_at(seed, WEIR_RNG_INIT, weir_hash(t->name, strlen(t->name), 0), 0);

    for (size_t i = 0; i < t->n; i++)
        if (w->deviation > 0)
            x[i] = weir_rng_normal(&rng) * w->deviation;
        else
            x[i] = w->bound > 0 ? (2 * weir_rng_unit(&rng) - 1) * w->bound : w->fill;
}

void weir_model_init(weir_model *m, uint64_t seed)
{
    for (int i = 0; i < m->graph->nodes; i++) {
        const weir_node *node = &m->graph->node[i];
        for (int k = node->owner >= 0; k < node->weights; k++) {
            const weir_tensor *t = &m->graph->tensor[node->tensor[k]];
            init_tensor(m->param + t->at, t, &node->weight[k], seed);
        }
        for (int k = node->weights; k < node->weights + node->stills; k++) {
            const weir_tensor *t = &m->graph->still[node->tensor[k]];
            init_tensor(m->still + t->at, t, &node->weight[k], seed);
        }
    }
    m->changed = false;
    weir_engine_refresh(&m->engine);
}

void weir_model_refresh(weir_model *m) { weir_engine_refresh(&m->engine); }

/* ---- plans ---- */

/* Makes the common block large enough; all plans move to it. What an unfinished pass left there is
 * lost. */
static weir_err grow_pool(weir_model *m, size_t bytes)
{
    if (bytes > m->block_bytes) {
        weir_arena_free(m->pool);
        m->block = NULL;
        m->block_bytes = 0;
        m->last = NULL;
        if (!(m->pool = weir_arena_new()) || !(m->block = weir_alloc(m->pool, bytes)))
            return weir_fail_nomem(bytes);
        m->block_bytes = bytes;
    }
    for (weir_engine_plan *p = m->plans; p; p = p->next)
        weir_engine_plan_attach(p, m->block);
    return WEIR_OK;
}

weir_engine_plan *weir_model_plan(const weir_model *m, int n)
{
    weir_engine_plan *p = m->plans;

    while (p && p->n != n)
        p = p->next;
    return p;
}

void weir_model_room(weir_model *m, int room) { m->room = room > m->room ? room : m->room; }

weir_err weir_model_prepare(weir_model *m, int n)
{
    weir_engine_plan *p;

    if (n < 0 || n > m->room)
        return weir_fail(WEIR_FAILED, "a batch of %d samples: the model was opened for up to %d", n,
                         m->room);
    if (!n || weir_model_plan(m, n))
        return WEIR_OK;
    WEIR_TRY(weir_engine_plan_make(&m->engine, n, false, &p));
    WEIR_TRY(grow_pool(m, p->bytes));
    weir_engine_plan_attach(p, m->block);
    p->next = m->plans;
    m->plans = p;
    return WEIR_OK;
}

/* ---- passes ---- */

/* A training pass begins: running statistics go on from the micro-batch before, or from what was
 * committed. */
static void begin_still(weir_model *m, const weir_pass *pass)
{
    if (!pass->micro || !m->changed)
        memcpy(m->next, m->still, m->graph->still_floats * sizeof *m->next);
    m->changed = true;
}

/* What layers do in a phase where there are no samples. */
static weir_err idle(weir_model *m, const weir_node *node, weir_layer_phase phase)
{
    weir_param param[WEIR_LAYER_WEIGHTS];

    if (!node->layer->idle || !m->engine.run.pass.training)
        return WEIR_OK;
    weir_engine_params(&m->engine, node, param);
    return node->layer->idle(node->self, &m->engine.run, phase, param);
}

static weir_err check_halt(const weir_model *m)
{
    const weir_pass *pass = &m->engine.run.pass;

    return pass->halt && pass->halt(pass->halt_arg)
               ? weir_fail(WEIR_LOST, "model %s: computing was stopped", m->name)
               : WEIR_OK;
}

static weir_err run_forward(weir_model *m, weir_engine_plan *p)
{
    for (int i = 0; i < m->graph->nodes; i++) {
        WEIR_TRY(check_halt(m));
        WEIR_TRY(p ? weir_layer_steps_run(&p->stage[i], WEIR_LAYER_FORWARD)
                   : idle(m, &m->graph->node[i], WEIR_LAYER_FORWARD));
    }
    return WEIR_OK;
}

/* What the data brings, as the input's and the loss's kinds have it. */
static const void *find_input(const weir_model *m, const weir_model_batch *b)
{
    bool scored = m->graph->input.kind == WEIR_SCORE_VALUES ? b->value != NULL : b->label != NULL;

    return !scored ? NULL : m->graph->input.tokens ? (const void *)b->token : b->x;
}

weir_err weir_model_forward(weir_model *m, const weir_model_batch *batch, const weir_pass *pass,
                            weir_score *score)
{
    const weir_score *got = &m->engine.run.score;
    weir_engine_plan *p = NULL;

    m->last = NULL;
    m->empty = batch->n == 0;
    if (!m->param || (!m->empty && !find_input(m, batch)))
        return weir_fail(WEIR_FAILED, "model %s: forward without parameters, inputs or labels",
                         m->name);
    WEIR_TRY(weir_model_prepare(m, batch->n));
    m->engine.run =
        (weir_layer_run){.batch = *batch, .pass = *pass, .sum = m->sum, .sum_arg = m->sum_arg};
    if ((p = weir_model_plan(m, batch->n)))
        weir_mem_point(p->input.data, (void *)(uintptr_t)find_input(m, batch));
    if (pass->training)
        begin_still(m, pass);
    WEIR_TRY(run_forward(m, p));
    score->loss += got->loss;
    score->count += got->count;
    score->right += got->right;
    score->squares += got->squares;
    m->last = p;
    return WEIR_OK;
}

static void add_gradients(weir_model *m, const weir_node *node, bool adds)
{
    for (int k = 0; k < node->weights; k++) {
        const weir_tensor *t = &m->graph->tensor[node->tensor[k]];
        if (is_added(node, k, adds))
            weir_vec_best()->add(m->grad + t->at, weir_engine_param(&m->engine, node, k)->grad->at,
                                 t->n);
    }
}

/* One layer's part of backward; p NULL: there are no samples. */
static weir_err back_node(weir_model *m, const weir_engine_plan *p, int i, bool add,
                          void (*ready)(void *, int), void *arg)
{
    const weir_node *node = &m->graph->node[i];

    WEIR_TRY(p ? weir_layer_steps_run(&p->stage[i], WEIR_LAYER_BACK_WEIGHTS)
               : idle(m, node, WEIR_LAYER_BACK_WEIGHTS));
    if (p && !m->exact)
        add_gradients(m, node, add);
    if (ready && node->ready >= 0)
        ready(arg, node->ready);
    return p ? weir_layer_steps_run(&p->stage[i], WEIR_LAYER_BACK_DATA)
             : idle(m, node, WEIR_LAYER_BACK_DATA);
}

weir_err weir_model_backward(weir_model *m, float scale, bool add, void (*ready)(void *arg, int k),
                             void *arg)
{
    weir_engine_plan *p = m->last;

    if (!m->grad || (!m->empty && !p) || !m->engine.run.pass.training)
        return weir_fail(WEIR_FAILED,
                         "model %s: backward without a training forward, or without a gradient",
                         m->name);
    if (m->exact && !add)
        memset(m->exact, 0, m->graph->params * sizeof *m->exact);
    else if (!p && !add)
        memset(m->grad, 0, m->graph->params * sizeof *m->grad);
    if (p && !m->exact && add != m->adds)
        point_gradients(m, add);
    m->engine.run.scale = scale;
    m->last = NULL; /* backward uses up what forward left */
    for (int i = m->graph->nodes - 1; i >= 0; i--) {
        WEIR_TRY(check_halt(m));
        WEIR_TRY(back_node(m, p, i, add, ready, arg));
    }
    return WEIR_OK;
}

void weir_model_threads(int threads) { weir_parallel_threads(threads); }
