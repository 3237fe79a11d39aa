/* allreduce.c - everybody sums the gradient, everybody steps: synchronous SGD. */
#include "core/vec.h"
#include "exchange/parts.h"
#include <math.h>

typedef struct allreduce {
    weir_exchange_env env;
    weir_parts *parts;
} allreduce;

static weir_err init(void *self, const weir_exchange_env *env)
{
    allreduce *x = self;

    x->env = *env;
    return x->parts ? WEIR_OK : weir_parts_make(env->lane, env->lanes, env->arena, &x->parts);
}

static weir_err bucket(void *self, weir_lane *lane, weir_turn turn)
{
    allreduce *x = self;

    return weir_lane_sum(lane, x->env.coll, x->env.same, turn);
}

static weir_err blame(const weir_exchange_env *env, uint64_t step)
{
    const weir_vec *vec = weir_vec_best();

    for (int i = 0; i < env->lanes; i++) {
        const weir_bucket *b = env->lane[i].bucket;
        for (int v = 0; v < b->views; v++)
            if (!vec->finite(b->grad + b->view[v].at, b->view[v].rows * b->view[v].cols))
                return weir_fail(WEIR_NAN, "step %llu: the gradient of %s is not finite", (unsigned long long)step + 1,
                                 b->view[v].tensor->name);
    }
    return weir_fail(WEIR_NAN, "step %llu: the gradient's norm is beyond what a number holds", (unsigned long long)step + 1);
}

/* Every rank holds the same sums, so every rank comes to the same norm, scale and parameters by itself. */
static weir_err finish(void *self, weir_commit *commit)
{
    allreduce *x = self;
    double norm;
    float scale = 1;

    if (weir_net_dry(x->env.all->net)) /* nothing is there to step */
        return WEIR_OK;
    norm = sqrt(weir_parts_sumsq(x->parts, &x->env));
    if (!isfinite(norm))
        return blame(&x->env, commit->turn.step);
    if (commit->clip > 0 && norm > commit->clip)
        scale = (float)(commit->clip / norm);
    if (commit->keep)
        weir_parts_step(x->parts, &x->env, commit, scale);
    commit->norm = norm;
    return WEIR_OK;
}

static weir_err regroup(void *self, const weir_exchange_env *env) { return init(self, env); }

const weir_exchange weir_exchange_allreduce = {
    .plug = {"allreduce", "gradients are summed over all workers, who step alike: synchronous SGD", sizeof(allreduce), NULL},
    .init = init,
    .bucket = bucket,
    .finish = finish,
    .regroup = regroup,
};
