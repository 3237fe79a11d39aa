/* reconcile.c - see reconcile.h. */
#include "exchange/reconcile.h"
#include "core/hash.h"
#include "core/vec.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { HOVER = 1000 }; /* a tensor this much smaller than the model's largest value */

/* What a rank says of itself. */
typedef struct verdict {
    uint64_t applied, hash; /* hash: of its parameters */
    /* the largest distance from the first member's parameters, by the size of the tensor's */
    double apart;
    int64_t lane, view; /* where */
} verdict;

struct weir_reconcile {
    verdict *said; /* by member */
    size_t *off, *len;
};

weir_err weir_reconcile_make(const weir_exchange_env *env, weir_reconcile **out)
{
    size_t p = (size_t)env->same->size;
    weir_reconcile *q = WEIR_NEW(env->group_arena, weir_reconcile, 1);

    if (!q || !(q->said = WEIR_NEW(env->group_arena, verdict, p)) ||
        !(q->off = WEIR_NEW(env->group_arena, size_t, 2 * p)))
        return weir_fail_nomem(p * sizeof *q->said);
    q->len = q->off + p;
    for (size_t i = 0; i < p; i++) {
        q->off[i] = i * sizeof *q->said;
        q->len[i] = sizeof *q->said;
    }
    *out = q;
    return WEIR_OK;
}

static weir_err tell(weir_reconcile *q, const weir_exchange_env *env, bool dry)
{
    return weir_allgather(env->coll, env->same, dry ? NULL : (void *)q->said, q->off, q->len);
}

static uint64_t hash_of(const weir_exchange_env *env)
{
    uint64_t h = 0;

    for (int i = 0; i < env->lanes; i++)
        h = weir_hash(env->lane[i].bucket->param, env->lane[i].bucket->n * sizeof(float), h);
    return h;
}

static bool same_bits(const weir_reconcile *q, int p)
{
    for (int m = 1; m < p; m++)
        if (q->said[m].hash != q->said[0].hash || q->said[m].applied != q->said[0].applied)
            return false;
    return true;
}

/* The first member's parameters lie where gradients were. */
static float largest(const weir_bucket *b, const weir_view *v)
{
    return weir_vec_best()->most(b->grad + v->at, weir_view_length(v));
}

static float distance(const weir_bucket *b, const weir_view *v)
{
    float far = 0;

    for (size_t i = v->at; i < v->at + weir_view_length(v); i++) {
        float d = b->grad[i] == b->param[i] ? 0 : fabsf(b->grad[i] - b->param[i]);
        /* what is no number is far from everything */
        far = fmaxf(far, d <= FLT_MAX ? d : INFINITY);
    }
    return far;
}

/* A tensor's values are measured by the largest of them; but one that hovers about 0 while its
 * moves are not so small is measured by the model's. */
static verdict measure(const weir_exchange_env *env, uint64_t applied)
{
    verdict worst = {.applied = applied};
    float most = FLT_MIN;

    for (int i = 0; i < env->lanes; i++)
        for (int v = 0; v < env->lane[i].bucket->views; v++)
            most = fmaxf(most, largest(env->lane[i].bucket, &env->lane[i].bucket->view[v]));
    for (int i = 0; i < env->lanes; i++)
        for (int v = 0; v < env->lane[i].bucket->views; v++) {
            const weir_bucket *b = env->lane[i].bucket;
            double d = (double)distance(b, &b->view[v]) /
                       (double)fmaxf(largest(b, &b->view[v]), most / HOVER);
            if (d > worst.apart)
                worst = (verdict){applied, 0, d, i, v};
        }
    return worst;
}

/* An addition rounds by half a unit in the last place, of two replicas each its own way; what is
 * more is no rounding. */
static weir_err judge(const weir_reconcile *q, const weir_exchange_env *env, uint64_t added,
                      uint64_t steps)
{
    double explained = 1e-5 + 0x1p-23 * (double)added;
    int first = env->same->member[0];

    for (int m = 1; m < env->same->size; m++) {
        const verdict *v = &q->said[m];
        int rank = env->same->member[m];
        if (v->applied != q->said[0].applied)
            return weir_fail(WEIR_DIVERGED,
                             "after step %llu rank %d has not applied the same as rank %d",
                             (unsigned long long)steps, rank, first);
        if (!(v->apart <= explained))
            return weir_fail(WEIR_DIVERGED,
                             "after step %llu rank %d holds values of %s that are off rank %d's by "
                             "%.2g of the largest, where rounding explains %.2g",
                             (unsigned long long)steps, rank,
                             env->lane[v->lane].bucket->view[v->view].tensor->name, first, v->apart,
                             explained);
    }
    return WEIR_OK;
}

/* Whoever leaves first would be all that the others hear of: they go together, each with the whole
 * story. */
static weir_err leave(const weir_exchange_env *env, weir_err err)
{
    char why[WEIR_WHY_MAX];

    snprintf(why, sizeof why, "%s", weir_why_text());
    weir_barrier(env->coll, env->same);
    return weir_fail(err, "%s", why);
}

static weir_err fetch(const weir_exchange_env *env, bool dry)
{
    for (int i = 0; i < env->lanes; i++) {
        const weir_bucket *b = env->lane[i].bucket;
        if (!dry && !env->same->me)
            memcpy(b->grad, b->param, b->n * sizeof(float));
        WEIR_TRY(
            weir_broadcast(env->coll, env->same, 0, dry ? NULL : b->grad, b->n * sizeof(float)));
    }
    return WEIR_OK;
}

weir_err weir_reconcile_all(weir_reconcile *q, const weir_exchange_env *env, uint64_t applied,
                            uint64_t added, uint64_t steps)
{
    bool dry = weir_net_dry(env->same->net);

    if (!dry)
        q->said[env->same->me] = (verdict){.applied = applied, .hash = hash_of(env)};
    WEIR_TRY(tell(q, env, dry));
    if (!dry && same_bits(q, env->same->size))
        return WEIR_OK;
    WEIR_TRY(fetch(env, dry));
    if (!dry)
        q->said[env->same->me] = measure(env, applied);
    WEIR_TRY(tell(q, env, dry));
    if (dry)
        return WEIR_OK;
    weir_err err = judge(q, env, added, steps);
    if (err)
        return leave(env, err);
    for (int i = 0; i < env->lanes; i++)
        memcpy(env->lane[i].bucket->param, env->lane[i].bucket->grad,
               env->lane[i].bucket->n * sizeof(float));
    return WEIR_OK;
}
