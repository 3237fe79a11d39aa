/* update.c - see update.h. */
#include "exchange/update.h"
#include "core/vec.h"

enum { PART = 1 << 16 };

typedef struct part {
    weir_lane *lane;
    weir_view view; /* of the lane's bucket: some rows, or (seen as one row) some elements */
    double sumsq;
} part;

struct weir_update {
    part *part;
    int64_t parts;
    const weir_commit *commit;
    float scale;
};

static size_t length(const weir_view *v) { return v->rows * v->cols; }

static int64_t count_parts(const weir_lane *lane, int lanes)
{
    int64_t n = 0;

    for (const weir_lane *l = lane; l < lane + lanes; l++)
        for (int v = 0; v < l->bucket->views; v++)
            n += l->optim->whole ? 1 : (int64_t)((length(&l->bucket->view[v]) + PART - 1) / PART);
    return n;
}

static void cut_view(weir_update *p, weir_lane *lane, const weir_view *whole)
{
    size_t n = length(whole);

    if (lane->optim->whole) {
        p->part[p->parts++] = (part){.lane = lane, .view = *whole};
        return;
    }
    for (size_t at = 0; at < n; at += PART)
        p->part[p->parts++] = (part){.lane = lane,
                                     .view = {.tensor = whole->tensor,
                                              .at = whole->at + at,
                                              .rows = 1,
                                              .cols = n - at < PART ? n - at : PART,
                                              .first = whole->first + at}};
}

weir_err weir_update_make(weir_lane *lane, int lanes, weir_arena *arena, weir_update **out)
{
    weir_update *p = WEIR_NEW(arena, weir_update, 1);
    int64_t n = count_parts(lane, lanes);

    if (!p || !(p->part = WEIR_NEW(arena, part, n)))
        return weir_fail_nomem((size_t)n * sizeof *p->part);
    for (weir_lane *l = lane; l < lane + lanes; l++)
        for (int v = 0; v < l->bucket->views; v++)
            cut_view(p, l, &l->bucket->view[v]);
    *out = p;
    return WEIR_OK;
}

static void for_parts(weir_update *p, const weir_exchange_env *env,
                      void (*loop)(void *, int64_t, int64_t))
{
    if (env->parallel_for)
        env->parallel_for(env->parallel_self, p->parts, loop, p);
    else
        loop(p, 0, p->parts);
}

static void sum_squares(void *update, int64_t from, int64_t to)
{
    weir_update *p = update;

    for (part *a = p->part + from; a < p->part + to; a++)
        a->sumsq = weir_vec_best()->sumsq(a->lane->bucket->grad + a->view.at, length(&a->view));
}

double weir_update_sumsq(weir_update *p, const weir_exchange_env *env)
{
    double sum = 0;

    for_parts(p, env, sum_squares);
    for (int64_t i = 0; i < p->parts; i++)
        sum += p->part[i].sumsq;
    return sum;
}

weir_err weir_update_blame(const weir_exchange_env *env, uint64_t step)
{
    const weir_vec *vec = weir_vec_best();

    for (int i = 0; i < env->lanes; i++) {
        const weir_bucket *b = env->lane[i].bucket;
        for (int v = 0; v < b->views; v++)
            if (!vec->finite(b->grad + b->view[v].at, b->view[v].rows * b->view[v].cols))
                return weir_fail(WEIR_NAN, "step %llu: the gradient of %s is not finite",
                                 (unsigned long long)step + 1, b->view[v].tensor->name);
    }
    return weir_fail(WEIR_NAN, "step %llu: the gradient's norm is beyond what a number holds",
                     (unsigned long long)step + 1);
}

static void step(void *update, int64_t from, int64_t to)
{
    const weir_update *p = update;

    for (const part *a = p->part + from; a < p->part + to; a++) {
        weir_bucket some = *a->lane->bucket;
        some.view = &a->view;
        some.views = 1;
        a->lane->optim->step(a->lane->stepper, &some, p->commit->when.step, p->commit->rate,
                             p->scale);
    }
}

void weir_update_step(weir_update *p, const weir_exchange_env *env, const weir_commit *commit,
                      float scale)
{
    p->commit = commit;
    p->scale = scale;
    for_parts(p, env, step);
}
