/* hand_over.c - see hand_over.h. */
#include "exchange/hand_over.h"
#include "core/vec.h"
#include <string.h>

/* ---- to the first of a group ---- */

static weir_err collect(weir_pair *p, size_t n, weir_coll_use *coll, weir_group *g)
{
    float others;

    if (!p->now) /* with one of them, with all */
        return WEIR_OK;
    others = g->me && weir_vec_best()->sumsq(p->now, n) > 0;
    WEIR_TRY(weir_allreduce(coll, g, &others, 1, &weir_sum_f32));
    if (!(others > 0))
        return WEIR_OK;
    memcpy(p->next, p->now, n * sizeof(float));
    WEIR_TRY(weir_allreduce(coll, g, p->next, n, &weir_sum_f32));
    if (g->me)
        memset(p->next, 0, n * sizeof(float));
    p->fresh = true;
    weir_pair_commit(p);
    return WEIR_OK;
}

weir_err weir_hand_collect(weir_lane *l, weir_coll_use *coll, weir_group *g)
{
    WEIR_TRY(collect(&l->held, l->bucket->n, coll, g));
    l->foreign = true;
    return collect(&l->speed, l->bucket->n, coll, g);
}

/* ---- from those who leave to those who stay ---- */

static bool among(int rank, const int *ranks, int count)
{
    for (int i = 0; i < count; i++)
        if (ranks[i] == rank)
            return true;
    return false;
}

/* Who leaves and who stays, as this member sees it: in each round everybody gives to one, or takes
 * from one, at most. */
typedef struct passing {
    const weir_exchange_env *env;
    const int *stay;
    int count, leavers;
    int number;                 /* this one is the so-many-th of those who leave; -1: it stays */
    int to, from;               /* places in the group, in this round; -1: nobody */
    size_t *nowhere, *out, *in; /* by member: 0; lengths */
} passing;

static int place_of(const weir_group *g, int rank)
{
    int i = 0;

    while (i < g->size && g->member[i] != rank)
        i++;
    return i < g->size ? i : -1;
}

/* The place of the so-many-th of those who leave; -1: there are fewer. */
static int leaver(const passing *p, int number)
{
    const weir_group *g = p->env->same;

    for (int i = 0; i < g->size; i++)
        if (!among(g->member[i], p->stay, p->count) && !number--)
            return i;
    return -1;
}

static void find_leavers(passing *p)
{
    const weir_group *g = p->env->same;

    p->number = -1;
    for (int i = 0; i < g->size; i++) {
        if (among(g->member[i], p->stay, p->count))
            continue;
        if (i == g->me)
            p->number = p->leavers;
        p->leavers++;
    }
}

/* Those who leave are dealt out in turn, each to the next of those who stay. */
static void find_partner(passing *p, int round)
{
    const weir_group *g = p->env->same;
    int first = round * p->count, mine = p->number - first;

    p->to = p->from = -1;
    if (p->number >= 0 && mine >= 0 && mine < p->count)
        p->to = place_of(g, p->stay[mine]);
    for (int i = 0; i < p->count && p->number < 0; i++)
        if (p->stay[i] == g->member[g->me])
            p->from = leaver(p, first + i);
}

static weir_err pass(passing *p, weir_pair *pair, size_t n)
{
    weir_group *g = p->env->same;

    if (!pair->now) /* with one of them, with all */
        return WEIR_OK;
    for (int i = 0; i < g->size; i++) {
        p->out[i] = i == p->to ? n * sizeof(float) : 0;
        p->in[i] = i == p->from ? n * sizeof(float) : 0;
    }
    WEIR_TRY(weir_alltoall(p->env->coll, g, &(weir_pieces){pair->now, p->nowhere, p->out},
                           &(weir_pieces){pair->next, p->nowhere, p->in}));
    if (p->to >= 0)
        memset(pair->now, 0, n * sizeof(float));
    if (p->from >= 0)
        weir_vec_best()->add(pair->now, pair->next, n);
    return WEIR_OK;
}

static weir_err pass_all(passing *p)
{
    const weir_exchange_env *env = p->env;

    for (weir_lane *l = env->lane; l < env->lane + env->lanes; l++) {
        if (p->to >= 0)
            weir_stripes_drop_all(l);
        WEIR_TRY(pass(p, &l->held, l->bucket->n));
        WEIR_TRY(pass(p, &l->speed, l->bucket->n));
        l->foreign |= p->from >= 0;
    }
    return WEIR_OK;
}

static weir_err pass_in_rounds(passing *p, weir_arena *arena)
{
    size_t members = (size_t)p->env->same->size;
    weir_err err = WEIR_OK;

    if (!(p->nowhere = WEIR_NEW(arena, size_t, 3 * members)))
        return weir_fail_nomem(3 * members * sizeof(size_t));
    p->out = p->nowhere + members;
    p->in = p->out + members;
    for (int round = 0; round * p->count < p->leavers && !err; round++) {
        find_partner(p, round);
        err = pass_all(p);
    }
    return err;
}

weir_err weir_hand_over(const weir_exchange_env *env, const int *stay, int count)
{
    passing p = {.env = env, .stay = stay, .count = count};
    weir_arena *arena;
    weir_err err;

    if (!count)
        return weir_fail(WEIR_USAGE, "nobody stays to take over what is held back");
    find_leavers(&p);
    if (!(arena = weir_arena_new()))
        return weir_fail_nomem(0);
    err = pass_in_rounds(&p, arena);
    weir_arena_free(arena);
    return err;
}
