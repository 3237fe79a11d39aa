/* allreduce.c - everybody sums the gradient, everybody steps: synchronous SGD. */
#include "core/vec.h"
#include "exchange/choose.h"
#include "exchange/parts.h"
#include <math.h>

typedef struct allreduce {
    weir_exchange_env env;
    weir_parts *parts;
    weir_ways *ways;
    weir_choose *choose; /* NULL: there is nothing to choose */
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
    WEIR_TRY(weir_choose_make(env, &x->choose));
    return x->parts ? WEIR_OK : weir_parts_make(env->lane, env->lanes, env->arena, &x->parts);
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

static weir_err sum(allreduce *x, weir_lane *lane, weir_turn turn, float scale)
{
    return x->choose ? weir_choose_sum(x->choose, lane, x->ways, turn, scale) : weir_lane_sum(lane, x->ways, x->env.coll, x->env.same, turn, scale);
}

static weir_err bucket(void *self, weir_lane *lane, weir_turn turn)
{
    allreduce *x = self;

    return x->early ? WEIR_OK : sum(x, lane, turn, 1);
}

/* What p workers add is clipped at 1/sqrt(p) of the bound on each of them: their sum is, if they point anywhere, within it. */
static weir_err sum_clipped(allreduce *x, const weir_commit *commit)
{
    double norm = weir_net_dry(x->env.all->net) ? 0 : sqrt(weir_parts_sumsq(x->parts, &x->env)), most = commit->clip / sqrt(x->env.same->size);

    if (!isfinite(norm))
        return blame(&x->env, commit->turn.step);
    for (int i = 0; i < x->env.lanes; i++)
        WEIR_TRY(sum(x, &x->env.lane[i], commit->turn, norm > most ? (float)(most / norm) : 1));
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
        return blame(&x->env, commit->turn.step);
    if (commit->clip > 0 && norm > commit->clip && !x->early)
        scale = (float)(commit->clip / norm);
    if (commit->keep) {
        if (x->choose)
            WEIR_TRY(weir_choose_agree(x->choose)); /* the last that can fail */
        weir_parts_step(x->parts, &x->env, commit, scale);
        for (int i = 0; i < x->env.lanes; i++)
            weir_lane_commit(&x->env.lane[i]);
        if (x->choose)
            weir_choose_turn(x->choose, commit->turn);
    }
    commit->norm = norm;
    return WEIR_OK;
}

/* The parameters are ready after every step; but what is done with them now takes time that is no step's. */
static weir_err settle(void *self, weir_turn turn)
{
    const allreduce *x = self;

    (void)turn;
    if (x->choose)
        weir_choose_pause(x->choose);
    return WEIR_OK;
}

static const weir_choice *choice(void *self, bool *trying)
{
    allreduce *x = self;

    *trying = false;
    return x->choose ? weir_choose_news(x->choose, trying) : NULL;
}

static weir_err regroup(void *self, const weir_exchange_env *env) { return init(self, env); }

const weir_exchange weir_exchange_allreduce = {
    .plug = {"allreduce", "gradients are summed over all workers, who step alike: synchronous SGD", sizeof(allreduce), NULL},
    .chooses = true,
    .init = init,
    .bucket = bucket,
    .finish = finish,
    .settle = settle,
    .regroup = regroup,
    .choice = choice,
};
