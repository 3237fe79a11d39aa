/* allreduce.c - everybody sums the gradient, everybody steps: synchronous SGD. */
#include "exchange/parts.h"
#include <math.h>

typedef struct allreduce {
    weir_exchange_env env;
    weir_parts *parts;
    weir_ways *ways;
    bool early; /* clipped before the exchange: no lane leaves before all of the gradient is there */
} allreduce;

static weir_err init(void *self, const weir_exchange_env *env)
{
    allreduce *x = self;

    x->env = *env;
    x->early = false;
    for (int i = 0; i < env->lanes; i++)
        x->early |= env->clip > 0 && env->lane[i].held.now;
    WEIR_TRY(weir_ways_make(env->lane, env->lanes, env->same, env->seed, env->arena, &x->ways));
    return x->parts ? WEIR_OK : weir_parts_make(env->lane, env->lanes, env->arena, &x->parts);
}

static weir_err bucket(void *self, weir_lane *lane, weir_turn turn)
{
    allreduce *x = self;

    return x->early ? WEIR_OK : weir_lane_sum(lane, x->ways, x->env.coll, x->env.same, turn, 1);
}

/* What p workers add is clipped at 1/sqrt(p) of the bound on each of them: their sum is, if they point anywhere, within it. */
static weir_err sum_clipped(allreduce *x, const weir_commit *commit)
{
    double norm = weir_net_dry(x->env.all->net) ? 0 : sqrt(weir_parts_sumsq(x->parts, &x->env)), most = commit->clip / sqrt(x->env.same->size);

    if (!isfinite(norm))
        return weir_parts_blame(&x->env, commit->turn.step);
    for (int i = 0; i < x->env.lanes; i++)
        WEIR_TRY(weir_lane_sum(&x->env.lane[i], x->ways, x->env.coll, x->env.same, commit->turn, norm > most ? (float)(most / norm) : 1));
    return WEIR_OK;
}

/* Every rank holds the same sums, so every rank comes to the same norm, scale and parameters by itself. */
static weir_err finish(void *self, weir_commit *commit)
{
    allreduce *x = self;
    double norm;
    float scale = 1;

    if (x->early)
        WEIR_TRY(sum_clipped(x, commit));
    if (weir_net_dry(x->env.all->net)) /* nothing is there to step */
        return WEIR_OK;
    norm = sqrt(weir_parts_sumsq(x->parts, &x->env));
    if (!isfinite(norm))
        return weir_parts_blame(&x->env, commit->turn.step);
    if (commit->clip > 0 && norm > commit->clip && !x->early)
        scale = (float)(commit->clip / norm);
    if (commit->keep) {
        weir_parts_step(x->parts, &x->env, commit, scale);
        for (int i = 0; i < x->env.lanes; i++)
            weir_lane_commit(&x->env.lane[i]);
    }
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
