/* bind_each.c - an op for one piece, put into a plan for all of them: how exact mode comes to
 * numbers of a sample that depend on nothing but the sample. A gradient of weights goes a long way
 * there: the floats of one piece, in the layout that the kernel likes; doubles of a part's pieces,
 * in the same; the parameter's doubles in plain order, to which all parts are added. */
#include "core/vec.h"
#include "nn/engine_plan.h"
#include "nn/parallel.h"
#include <string.h>

enum { TOTALS = 2, GRAIN = 4096 };

typedef struct total {
    weir_mem *piece, *part, *to;
    size_t piece_step; /* bytes from part to part */
    int64_t floats, n; /* in the kernel's layout, in plain order */
    int parts;
    uint32_t *place;
} total;

/* One weir_bind_each. */
typedef struct making {
    const weir_bind *b;
    weir_layer_phase phase;
    weir_dnn_op *op;
    int64_t pieces;
    weir_each *each;
    total **of; /* NULL-ended */
    int totals;
    weir_mem *used[2 * WEIR_DNN_ARGS + 1];
    int count;
} making;

static weir_each_by how(weir_dnn_arg a)
{
    switch (a) {
    case WEIR_DNN_ARG_WEIGHTS:
    case WEIR_DNN_ARG_BIAS:
    case WEIR_DNN_ARG_SCALE:
    case WEIR_DNN_ARG_SHIFT:
        return WEIR_EACH_BY_ALL;
    case WEIR_DNN_ARG_DIFF_WEIGHTS:
    case WEIR_DNN_ARG_DIFF_BIAS:
    case WEIR_DNN_ARG_SCRATCH:
        return WEIR_EACH_BY_PART;
    default:
        return WEIR_EACH_BY_PIECE;
    }
}

/* ---- sums of weight gradients ---- */

static void add_piece(void *arg, int part, bool first)
{
    for (total **each = arg; *each; each++) {
        const total *t = *each;
        double *sum = (double *)t->part->at + part * t->floats;
        if (first)
            memset(sum, 0, (size_t)t->floats * sizeof *sum);
        weir_vec_best()->add_wide(sum,
                                  (const float *)((const char *)t->piece->at +
                                                  (size_t)part * t->piece_step),
                                  (size_t)t->floats);
    }
}

static void add_parts(void *arg, int64_t from, int64_t to)
{
    const total *t = arg;
    double *all = t->to->at;

    for (int p = 0; p < t->parts; p++) {
        const double *sum = (const double *)t->part->at + p * t->floats;
        for (int64_t i = from; i < to; i++)
            all[i] += sum[t->place[i]];
    }
}

static weir_err run_total(void *arg)
{
    weir_parallel_for(((total *)arg)->n, GRAIN, add_parts, arg);
    return WEIR_OK;
}

static weir_err make_total(making *m, const weir_bind_use *use)
{
    const weir_layout *l = weir_dnn_op_layout(m->op, use->arg);
    total *t = WEIR_NEW(m->b->arena, total, 1);

    if (!t || m->totals == TOTALS)
        return weir_fail_nomem(sizeof *t);
    *t = (total){.to = use->mem,
                 .piece_step = weir_each_step(m->each, use->arg),
                 .parts = weir_each_parts(m->each)};
    t->floats = (int64_t)(weir_layout_bytes(l) / sizeof(float));
    t->n = (int64_t)(use->mem->bytes / sizeof(double));
    if (!(t->place = WEIR_NEW(m->b->arena, uint32_t, t->n)))
        return weir_fail_nomem((size_t)t->n * sizeof *t->place);
    WEIR_TRY(weir_layout_offsets(l, t->place));
    WEIR_TRY(weir_bind_mem(m->b, t->piece_step * (size_t)t->parts, &t->piece));
    WEIR_TRY(weir_bind_mem(m->b, (size_t)(t->floats * t->parts) * sizeof(double), &t->part));
    m->used[m->count++] = t->piece;
    m->used[m->count++] = t->part;
    m->of[m->totals++] = t;
    return weir_each_tie(m->each, use->arg, t->piece, WEIR_EACH_BY_PART);
}

/* ---- arguments ---- */

static weir_err tie(making *m, const weir_bind_use *use, weir_bind_use *actual)
{
    const weir_layout *wanted = weir_dnn_op_layout(m->op, use->arg);
    weir_each_by by = how(use->arg);

    *actual = *use;
    if (by == WEIR_EACH_BY_PART)
        return make_total(m, use);
    if (by == WEIR_EACH_BY_PIECE && use->layout)
        WEIR_TRY(weir_layout_batch(m->b->dnn, wanted, m->pieces, &wanted));
    if (use->layout && !weir_layout_same(wanted, use->layout))
        WEIR_TRY(weir_bind_stand_in(m->b, m->phase, m->op, wanted, use, actual));
    m->used[m->count++] = actual->mem;
    return weir_each_tie(m->each, use->arg, actual->mem, by);
}

static weir_err tie_scratch(making *m)
{
    weir_mem *mem;

    if (!weir_dnn_op_layout(m->op, WEIR_DNN_ARG_SCRATCH))
        return WEIR_OK;
    WEIR_TRY(weir_bind_mem(m->b,
                           weir_each_step(m->each, WEIR_DNN_ARG_SCRATCH) *
                               (size_t)weir_each_parts(m->each),
                           &mem));
    m->used[m->count++] = mem;
    return weir_each_tie(m->each, WEIR_DNN_ARG_SCRATCH, mem, WEIR_EACH_BY_PART);
}

weir_err weir_bind_each(const weir_bind *b, weir_layer_phase phase, weir_dnn_op *op, int64_t pieces,
                        const weir_bind_use *use, int uses)
{
    making m = {.b = b,
                .phase = phase,
                .op = op,
                .pieces = pieces,
                .of = WEIR_NEW(b->arena, total *, TOTALS + 1)};
    weir_bind_use actual[WEIR_DNN_ARGS];

    if (!m.of)
        return weir_fail_nomem(TOTALS * sizeof *m.of);
    WEIR_TRY(weir_each_new(b->dnn, op, pieces, &m.each));
    for (int i = 0; i < uses; i++)
        WEIR_TRY(tie(&m, &use[i], &actual[i]));
    WEIR_TRY(tie_scratch(&m));
    WEIR_TRY(weir_each_whole(m.each));
    if (m.totals)
        weir_each_then(m.each, add_piece, m.of);
    WEIR_TRY(weir_bind_loop(b, phase, weir_each_run, m.each, m.used));
    for (int i = 0; i < m.totals; i++)
        WEIR_TRY(weir_bind_loop(b, phase, run_total, m.of[i], (weir_mem *[]){m.of[i]->part, NULL}));
    for (int i = 0; i < uses; i++)
        if (actual[i].mem != use[i].mem && weir_dnn_op_writes(op, use[i].arg))
            WEIR_TRY(weir_bind_reorder(b, phase, &actual[i], &use[i]));
    return WEIR_OK;
}
