/* allreduce.c - everybody sums the gradient, everybody steps: synchronous SGD. */
#include "core/log.h"
#include "exchange/choose.h"
#include "exchange/hand_over.h"
#include "exchange/two_level.h"
#include "exchange/update.h"
#include <math.h>

typedef struct allreduce {
    bool hier;
    int64_t each;
    weir_exchange_env env;
    weir_update *update;
    weir_route *route;
    weir_choose *choose; /* NULL: there is nothing to choose */
    weir_two_level level;
    bool levels; /* machines first: `level` is open */
    /* clipped before the exchange: no lane leaves before all of the gradient is there */
    bool early;
} allreduce;

static const weir_opt options[] = {
    {"hier", WEIR_OPT_BOOL, offsetof(allreduce, hier), "no",
     "with a codec: workers of a machine sum as they are, one of each goes through the codec"},
    {"each", WEIR_OPT_INT, offsetof(allreduce, each), "0",
     "with hier: so many ranks in a row are taken for a machine (0: as they really lie)", .min = 0,
     .max = 1e9},
    {0},
};

static void facts(const void *self, weir_exchange_facts *out)
{
    const allreduce *x = self;

    out->levels = x->hier;
    if (x->each && !x->hier)
        out->odd = "each= says how large machines are to hier=yes, which is not there";
}

/* Who does not lead needs none, but says that it owns no stripe. */
static weir_err make_route(allreduce *x, const weir_exchange_env *env)
{
    if (!x->levels)
        return weir_route_make(env, env->coll, env->same, &x->route);
    if (x->level.leads)
        return weir_route_make(env, &x->level.out, x->level.outer, &x->route);
    x->route = NULL;
    for (weir_lane *l = env->lane; l < env->lane + env->lanes; l++)
        if (l->codec->feedback && l->codec->kind->combine == WEIR_COMBINE_STRIPE)
            WEIR_TRY(weir_stripes_make(l, l->codec, NULL, env->group_arena));
    return WEIR_OK;
}

static weir_err init(void *self, const weir_exchange_env *env)
{
    allreduce *x = self;

    x->env = *env;
    x->early = x->levels = false;
    for (weir_lane *l = env->lane; l < env->lane + env->lanes; l++) {
        x->early |= env->clip > 0 && l->held.now;
        x->levels |= x->hier && l->codec->feedback;
        /* of a step that met its end */
        l->held.fresh = l->speed.fresh = l->codec->stripes.owned.fresh = false;
        l->foreign = true;
    }
    if (x->levels)
        WEIR_TRY(weir_two_level_open(&x->level, env->same, env->coll, x->each, env->group_arena));
    if (x->levels && x->level.machines.count == 1 && weir_group_leads(env->same))
        weir_log(WEIR_LOG_WARN, "exchange",
                 "--exchange allreduce:hier=yes: all workers are on one machine, and nothing is "
                 "compressed");
    WEIR_TRY(make_route(x, env));
    WEIR_TRY(weir_choose_make(env, &x->choose));
    return x->update ? WEIR_OK : weir_update_make(env->lane, env->lanes, env->arena, &x->update);
}

/* What this worker has, or its machine, becomes the sum of all. */
static weir_err sum(allreduce *x, weir_lane *lane, weir_when when, float scale)
{
    if (x->choose)
        return weir_choose_sum(x->choose, lane, x->route, when, scale);
    return x->levels ? weir_two_level_out(&x->level, lane, x->route, when, scale)
                     : weir_route_sum(x->route, lane, when, scale);
}

static weir_err bucket(void *self, weir_lane *lane, weir_when when)
{
    allreduce *x = self;

    if (x->early)
        return WEIR_OK;
    if (x->levels)
        WEIR_TRY(weir_two_level_in(&x->level, lane));
    return sum(x, lane, when, 1);
}

/* What p workers (or machines, whose workers have summed) add is clipped at 1/sqrt(p) of the bound
 * on each of them: their sum is, if they point anywhere, within it. */
static weir_err sum_clipped(allreduce *x, const weir_commit *commit)
{
    bool adds = !weir_net_dry(x->env.all->net) && !(x->levels && !x->level.leads);
    double norm,
        most = commit->clip / sqrt(x->levels ? x->level.machines.count : x->env.same->size);

    for (int i = 0; i < x->env.lanes && x->levels; i++)
        WEIR_TRY(weir_two_level_in(&x->level, &x->env.lane[i]));
    norm = adds ? sqrt(weir_update_sumsq(x->update, &x->env)) : 0;
    if (!isfinite(norm))
        return weir_update_blame(&x->env, commit->when.step);
    for (int i = 0; i < x->env.lanes; i++)
        WEIR_TRY(sum(x, &x->env.lane[i], commit->when, norm > most ? (float)(most / norm) : 1));
    return WEIR_OK;
}

/* Every rank holds the same sums, so every rank comes to the same norm, scale and parameters by
 * itself. */
static weir_err finish(void *self, weir_commit *commit)
{
    allreduce *x = self;
    double norm;
    float scale = 1;

    if (x->early)
        WEIR_TRY(sum_clipped(x, commit));
    x->level.collected = true;
    if (weir_net_dry(x->env.all->net)) /* nothing is there to step */
        return WEIR_OK;
    norm = sqrt(weir_update_sumsq(x->update, &x->env));
    if (!isfinite(norm))
        return weir_update_blame(&x->env, commit->when.step);
    if (commit->clip > 0 && norm > commit->clip && !x->early)
        scale = (float)(commit->clip / norm);
    if (commit->keep) {
        if (x->choose)
            WEIR_TRY(weir_choose_agree(x->choose)); /* the last that can fail */
        weir_update_step(x->update, &x->env, commit, scale);
        for (int i = 0; i < x->env.lanes; i++)
            weir_lane_commit(&x->env.lane[i]);
        if (x->choose)
            weir_choose_committed(x->choose, commit->when);
    }
    commit->norm = norm;
    return WEIR_OK;
}

/* The parameters are ready after every step; but what is done with them now takes time that is no
 * step's. */
static weir_err settle(void *self, weir_when when)
{
    const allreduce *x = self;

    (void)when;
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

static weir_err hand_over(void *self, const int *stay, int count)
{
    return weir_hand_over(&((allreduce *)self)->env, stay, count);
}

static void catch_up(void *self)
{
    allreduce *x = self;

#ifdef WEIR_BUG_RESIDUAL /* tests/check_storm: what one holds back is not what it was */
    return;
#endif
    for (int i = 0; i < x->env.lanes; i++)
        weir_lane_commit(&x->env.lane[i]);
}

static void leave(void *self)
{
    allreduce *x = self;

    for (int i = 0; i < x->env.lanes; i++)
        weir_stripes_drop_all(&x->env.lane[i]);
    x->route = NULL;
    x->choose = NULL;
}

static weir_err regroup(void *self, const weir_exchange_env *env) { return init(self, env); }

const weir_exchange weir_exchange_allreduce = {
    .plug = {"allreduce", "gradients are summed over all workers, who step alike: synchronous SGD",
             sizeof(allreduce), options},
    .chooses = true,
    .facts = facts,
    .init = init,
    .bucket = bucket,
    .finish = finish,
    .settle = settle,
    .hand_over = hand_over,
    .catch_up = catch_up,
    .regroup = regroup,
    .choice = choice,
    .close = leave,
};
