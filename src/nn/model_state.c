/* model_state.c - what a model has besides parameters: exact sums, carried state, running
 * statistics; and who is to blame for a NaN. */
#include "core/vec.h"
#include "nn/model_inside.h"
#include <math.h>
#include <string.h>

void weir_model_on_sum(weir_model *m, weir_model_sum *sum, void *arg)
{
    m->sum = sum;
    m->sum_arg = arg;
}

weir_model_facts weir_model_look(const weir_model *m)
{
    weir_model_facts f = {0};

    for (int i = 0; i < m->graph->nodes; i++) {
        const weir_node *n = &m->graph->node[i];
        if (n->weights && !n->layer->exact && !f.inexact) {
            f.inexact = n->name;
            f.inexact_kind = n->layer->plug.name;
        }
        if (n->layer->mixes && n->layer->mixes(n->self) && !f.mixes)
            f.mixes = n->name;
    }
    return f;
}

weir_err weir_model_exact(weir_model *m, double *grad)
{
    if (!m->exact)
        WEIR_TRY(weir_engine_exact(&m->engine));
    for (int i = 0; i < m->graph->tensors; i++)
        weir_mem_point(m->engine.param[i].exact, grad + m->graph->tensor[i].at);
    m->exact = grad;
    return WEIR_OK;
}

float *weir_model_still(const weir_model *m, size_t *n)
{
    *n = m->graph->still_floats;
    return m->still;
}

weir_err weir_model_streams(weir_model *m, uint64_t first, uint64_t count, uint64_t total)
{
    if (first > total || count > total - first)
        return weir_fail(WEIR_FAILED, "streams %llu and %llu more of %llu",
                         (unsigned long long)first, (unsigned long long)count,
                         (unsigned long long)total);
    for (int i = 0; i < m->graph->nodes; i++)
        if (m->graph->node[i].layer->streams)
            WEIR_TRY(m->graph->node[i].layer->streams(m->graph->node[i].self, m->engine.arena,
                                                      first, count, total));
    return WEIR_OK;
}

void weir_model_commit(weir_model *m)
{
    if (m->changed)
        memcpy(m->still, m->next, m->graph->still_floats * sizeof *m->still);
    m->changed = false;
    for (int i = 0; i < m->graph->nodes; i++)
        if (m->graph->node[i].layer->commit)
            m->graph->node[i].layer->commit(m->graph->node[i].self);
}

weir_err weir_model_state(weir_model *m, weir_io *io)
{
    for (int i = 0; i < m->graph->stills; i++)
        WEIR_TRY(weir_io_floats(io, m->graph->still[i].name, m->still + m->graph->still[i].at,
                                m->graph->still[i].n, WEIR_KEEP_SAME));
    for (int i = 0; i < m->graph->nodes; i++) {
        const weir_node *node = &m->graph->node[i];
        size_t mark;
        weir_err err;
        if (!node->layer->state)
            continue;
        mark = weir_io_in(io, node->name);
        err = node->layer->state(node->self, io);
        weir_io_out(io, mark);
        WEIR_TRY(err);
    }
    return WEIR_OK;
}

static bool all_finite(const weir_mem *m)
{
    return weir_vec_best()->finite(m->at, m->bytes / sizeof(float));
}

/* A relu makes 0 of a NaN (oneDNN's way), so a layer with one on its way out is known by its
 * weights. */
static bool stage_is_finite(const weir_model *m, const weir_layer_steps *s)
{
    for (int k = 0; k < s->node->weights; k++)
        if (!all_finite(m->engine.param[s->node->tensor[k]].data))
            return false;
    if (weir_layer_steps_run(s, WEIR_LAYER_FORWARD))
        return false;
    return s->out.data ? all_finite(s->out.data) : isfinite(m->engine.run.score.loss);
}

/* Memory is shared by lifetime, so an output is there only just after its layer has run: the
 * forward pass runs once more. */
const char *weir_model_blame(weir_model *m)
{
    weir_engine_plan *p = m->empty ? NULL : weir_model_plan(m, m->engine.run.batch.n);

    if (!p)
        return NULL;
    m->last = NULL;
    m->engine.run.score = (weir_score){0};
    m->engine.run.sum = NULL; /* nobody else is there */
    if (!m->graph->input.tokens && !all_finite(p->input.data))
        return "input";
    for (int i = 0; i < m->graph->nodes; i++)
        if (!stage_is_finite(m, &p->stage[i]))
            return m->graph->node[i].name;
    return NULL;
}
