/* help_lost.c - see help_lost.h. */
#include "help_lost.h"
#include "exchange/buckets.h"
#include "net/membership.h"
#include "net/mesh.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const float RATE = 1.0f / 128;
static const double WORK = 0.25e-3; /* seconds that a lane's gradient takes */

typedef struct rank {
    lost_job *j;
    int me;
    weir_net *net;
    weir_membership *members;
    weir_mesh mesh;
    weir_coll_use coll;
    weir_arena *life;
    weir_tensor t[LOST_LANES];
    float param[LOST_LANES * LOST_N], grad[LOST_LANES * LOST_N + WEIR_EXCHANGE_NOTES];
    weir_bucket *bucket;
    weir_lane *lane;
    int lanes;
    const weir_exchange *x;
    void *self;
    uint64_t step, settled, repeated, gone_back;
    int generation; /* whose state it has */
    int kept;       /* times that it was a settled one, and stayed */
    int lists, again;
    bool out; /* the others have gone on without it, or are too few */
    int times[LOST_STEPS];
} rank;

/* ---- making ---- */

static weir_exchange_env env(rank *r)
{
    return (weir_exchange_env){.same = r->mesh.same,
                               .all = &r->mesh.all,
                               .coll = &r->coll,
                               .lane = r->lane,
                               .lanes = r->lanes,
                               .arena = r->life,
                               .group_arena = r->mesh.arena,
                               .seed = 7};
}

static weir_err make(rank *r)
{
    static const char *const name[] = {"t", "u", "v", "b"};
    const weir_plug *plug;
    weir_cut_rules rules = {.bytes = 64, .whole = true, .small = WEIR_SMALL};

    for (int i = 0; i < LOST_LANES; i++)
        r->t[i] = (weir_tensor){name[i], (size_t)i * LOST_N, LOST_N, 2, {20, LOST_N / 20}, true, i};
    r->t[LOST_LANES - 1].dims = 1; /* the tail, which no codec touches */
    r->t[LOST_LANES - 1].dim[0] = LOST_N;
    WEIR_TRY(weir_buckets_cut(&(weir_flat){r->t, LOST_LANES, r->param, r->grad}, &rules, r->life,
                              &r->bucket, &r->lanes));
    CHECK(r->lanes == LOST_LANES);
    WEIR_TRY(weir_lanes_make(r->bucket, r->lanes, r->j->codec, "sgd", r->life, &r->lane));
    r->lane[r->lanes - 1].notes = WEIR_EXCHANGE_NOTES;
    WEIR_TRY(weir_plug_find(weir_exchanges, "exchange", r->j->exchange, &plug));
    r->x = (const weir_exchange *)plug;
    return weir_plug_make(plug, "exchange", r->j->exchange, r->life, &r->self);
}

static weir_err enter(rank *r, bool first)
{
    weir_exchange_env e;

    WEIR_TRY(weir_coll_open("ring", &r->mesh.all, r->mesh.arena, &r->coll));
    /* where gradients lie in common memory, members meet here */
    if (!first)
        WEIR_TRY(weir_barrier(&r->coll, &r->mesh.all));
    e = env(r);
    WEIR_TRY((first ? r->x->init : r->x->regroup)(r->self, &e));
    return weir_barrier(&r->coll, &r->mesh.all);
}

static weir_err settle(rank *r)
{
    if (r->x->settle)
        WEIR_TRY(r->x->settle(r->self, (weir_when){.step = r->step}));
    r->settled = r->step;
    return WEIR_OK;
}

/* ---- steps ---- */

static size_t element(int rank, uint64_t step, int time)
{
    return ((size_t)rank * LOST_STEPS + (size_t)step) * LOST_TIMES + (size_t)time;
}

/* What is put in there: no two times of a rank put in the same, so that the messages of any codec
 * can be told from each other. */
static float value_of(size_t element)
{
    return (float)(LOST_VALUE + element % (LOST_STEPS * LOST_TIMES));
}

/* Which time this is, and its samples. */
static weir_err begin_time(rank *r, lost_time **now)
{
    int n = r->mesh.all.size, m = r->mesh.all.me, k = r->times[r->step]++;
    size_t e = element(r->me, r->step, k);

    CHECK(k < LOST_TIMES);
    *now = &r->j->time[r->me][r->step][k];
    **now = (lost_time){.from = LOST_BATCH * m / n,
                        .to = LOST_BATCH * (m + 1) / n,
                        .generation = weir_net_generation(r->net),
                        .begun = true};
    memset(r->grad, 0, sizeof r->grad);
    for (int i = 0; i < LOST_LANES; i++)
        r->grad[(size_t)i * LOST_N + e] = value_of(e);
    return WEIR_OK;
}

/* What this lane would hold back if its message counted. */
static weir_err remember(rank *r, int i)
{
    const weir_pair *held = &r->lane[i].held;
    int *k = &r->j->calls[r->me][i];

    CHECK(*k < LOST_CALLS);
    if (held->now)
        memcpy(r->j->past[r->me][i][(*k)++], held->fresh ? held->next : held->now,
               LOST_N * sizeof(float));
    return WEIR_OK;
}

static weir_err one_step(rank *r)
{
    weir_commit c = {.when = {.step = r->step, .epochs = 10, .rate = (double)RATE},
                     .rate = (double)RATE,
                     .keep = true};
    lost_time *now = NULL;

    WEIR_TRY(begin_time(r, &now));
    for (int i = 0; i < r->lanes; i++) {
        WEIR_TRY(weir_net_spend(r->net, weir_net_cost(r->net, WORK)));
        weir_err err = r->x->bucket(r->self, &r->lane[i], c.when);
        WEIR_TRY(remember(r, i));
        WEIR_TRY(err);
    }
    WEIR_TRY(r->x->finish(r->self, &c));
    now->committed = true;
    r->step++;
    return WEIR_OK;
}

/* To the end of the run, or of the generation. */
static weir_err run_generation(rank *r)
{
    WEIR_TRY(settle(r));
    while (r->step < LOST_STEPS) {
        WEIR_TRY(one_step(r));
        if (r->step % LOST_SETTLE == 0)
            WEIR_TRY(settle(r));
    }
    WEIR_TRY(settle(r));
    return weir_barrier(&r->coll, &r->mesh.all);
}

/* ---- going on ---- */

/* What the source sends. */
typedef struct state {
    uint64_t step, repeated, gone_back;
    float param[LOST_LANES * LOST_N];
} state;

static uint64_t tag_of(const weir_members *l)
{
    return weir_tag(WEIR_CHANNEL_STATE, (uint32_t)l->generation, 0);
}

static bool takes(const weir_members *l, bool all, int i)
{
    return l->member[i] != l->source && (all || l->behind[i] || !(l->step & 1));
}

static weir_err give(rank *r, const weir_members *l, const weir_recovery *now)
{
    state *s = WEIR_NEW(r->life, state, 1);

    r->gone_back += r->step - now->step;
    r->repeated += (now->untouched - now->step) * LOST_BATCH;
    CHECK(now->step <= r->step && r->step - now->step <= r->j->back);
    r->step = now->step;
    r->generation = l->generation;
    r->settled = r->step;
    *s = (state){.step = r->step, .repeated = r->repeated, .gone_back = r->gone_back};
    memcpy(s->param, r->param, sizeof s->param);
    for (int i = 0; i < l->count; i++)
        if (takes(l, now->moved, i))
            weir_net_send_wait(r->net, l->member[i], tag_of(l), s, sizeof *s);
    return WEIR_OK;
}

static weir_err take(rank *r, const weir_members *l)
{
    state *s = WEIR_NEW(r->life, state, 1);
    bool made;

    WEIR_TRY(weir_net_recv_wait(r->net, l->source, tag_of(l), s, sizeof *s, NULL));
    made = s->step > r->step;
    r->step = s->step;
    r->repeated = s->repeated;
    r->gone_back = s->gone_back;
    memcpy(r->param, s->param, sizeof r->param);
    if (r->x->catch_up && (made || r->x->recover))
        r->x->catch_up(r->self);
    return WEIR_OK;
}

static weir_err come_to_one_state(rank *r, const weir_members *l)
{
    weir_recovery now = {.list = l, .step = r->step, .untouched = r->step};

    if (r->x->recover)
        WEIR_TRY(r->x->recover(r->self, &now));
    if (l->source == r->me)
        return give(r, l, &now);
    r->kept += !now.moved && l->step & 1 && r->x->drifts;
    for (int i = 0; i < l->count; i++)
        if (l->member[i] == r->me && takes(l, now.moved, i))
            WEIR_TRY(take(r, l));
    r->generation = l->generation;
    r->settled = r->step;
    return WEIR_OK;
}

static weir_err follow(rank *r, const weir_members *l)
{
    WEIR_TRY(come_to_one_state(r, l));
    if (r->x->close)
        r->x->close(r->self);
    WEIR_TRY(weir_mesh_renew(&r->mesh, l->generation, l->member, l->count));
    return enter(r, false);
}

static bool can(const rank *r, weir_err err)
{
    return (err == WEIR_LOST || err == WEIR_SILENT || err == WEIR_STALE) && !r->out &&
           weir_net_over(r->net);
}

static weir_err go_on(rank *r)
{
    const weir_members *l;
    weir_err err;

    do {
        bool alike = !r->x->drifts || r->settled == r->step;
        weir_offer offer = {.step = (uint64_t)r->generation << 41 | r->step << 1 | alike};
        if ((err = weir_membership_agree(r->members, &offer, &l))) {
            r->out = true;
            return err;
        }
        err = follow(r, l);
        r->lists++;
        r->again += err != WEIR_OK;
    } while (err && can(r, err));
    return err;
}

/* ---- a rank ---- */

static void leave_results(const rank *r)
{
    lost_job *j = r->j;

    j->lives[r->me] = true;
    j->generations = r->lists;
    j->again += r->again;
    j->kept += r->kept;
    j->repeated = r->repeated;
    j->gone_back = r->gone_back;
    memcpy(j->param[r->me], r->param, sizeof r->param);
    for (int i = 0; i < r->lanes; i++)
        if (r->lane[i].held.now)
            memcpy(j->held[r->me] + (size_t)i * LOST_N, r->lane[i].held.now,
                   LOST_N * sizeof(float));
}

static weir_err work(rank *r)
{
    weir_err err;

    WEIR_TRY(weir_mesh_open(&r->mesh, r->net));
    WEIR_TRY(weir_membership_open(r->net, r->j->size, NULL, &r->members));
    WEIR_TRY(make(r));
    err = enter(r, true);
    if (!err)
        err = run_generation(r);
    while (err && can(r, err)) {
        err = go_on(r);
        if (!err)
            err = run_generation(r);
    }
    if (!err)
        leave_results(r);
    return err;
}

static weir_err run_rank(weir_net *net, void *arg)
{
    weir_arena *life = weir_arena_new();
    rank *r = WEIR_NEW(life, rank, 1);
    char why[WEIR_WHY_MAX];
    weir_err err;

    *r = (rank){.j = arg, .me = weir_net_rank(net), .net = net, .life = life};
    err = work(r);
    snprintf(why, sizeof why, "%s", weir_why_text());
    if (r->self && r->x->close)
        r->x->close(r->self);
    weir_membership_close(r->members);
    weir_mesh_close(&r->mesh);
    weir_arena_free(life);
    return err ? weir_fail(err, "%s", why) : WEIR_OK;
}

/* ---- the laws ---- */

static int first_alive(const lost_job *j)
{
    for (int r = 0; r < j->size; r++)
        if (j->lives[r])
            return r;
    return -1;
}

static bool is_whole(const lost_job *j, int lane, size_t element)
{
    /* at most 40 messages, and what was left after them, of numbers below 1,000: each is rounded by
     * half a unit in the 24th bit */
    double x = j->there[lane][element], room = j->rounds ? 80 * 1024 * 0x1p-24 : 0;

    return fabs(x - (double)value_of(element)) <= room || fabs(x) <= room;
}

/* Adds what lost ranks, this one and those after it, held back: after which of their messages is
 * what has to be found, so that all is whole. */
static bool fits(lost_job *j, int lane, int rank)
{
    double *sum = j->there[lane], before[LOST_N];
    bool fit = false;

    while (rank < j->size && j->lives[rank])
        rank++;
    if (rank == j->size) {
        for (size_t i = 0; i < LOST_N; i++)
            if (!is_whole(j, lane, i))
                return false;
        return true;
    }
    memcpy(before, sum, sizeof before);
    for (int k = j->calls[rank][lane]; k >= 0 && !fit; k--) {
        for (int i = 0; i < LOST_N; i++)
            sum[i] = before[i] + (k ? (double)j->past[rank][lane][k - 1][i] : 0);
        fit = fits(j, lane, rank + 1);
    }
    return fit;
}

/* How much of what was put in at each time is there in this lane. */
static void find_what_is_there(lost_job *j, int lane)
{
    size_t at = (size_t)lane * LOST_N;

    for (size_t i = 0; i < LOST_N; i++) {
        j->there[lane][i] = -(double)j->param[first_alive(j)][at + i] / (double)RATE;
        for (int r = 0; r < j->size; r++)
            j->there[lane][i] += j->lives[r] ? (double)j->held[r][at + i] : 0;
    }
    if (!fits(j, lane, 0))
        fail_msg("%s, %s, %s: lane %d: what was put in is not what has moved the weights and is "
                 "held back, whatever the lost ones held",
                 j->net, j->exchange, j->codec, lane);
}

/* In how many of its first lanes a time counts. */
static int lanes_of(lost_job *j, int rank, uint64_t step, int k)
{
    const lost_time *t = &j->time[rank][step][k];
    size_t e = element(rank, step, k);
    int first = 0, all = 0;

    for (int i = 0; i < LOST_LANES; i++) {
        bool in = j->there[i][e] > 0.5; /* it is all there, or nothing */
        first += in && first == i;
        all += in;
    }
    if (all != first || (all && !t->begun) ||
        (t->committed && j->lives[rank] && all < LOST_LANES) ||
        (!j->back && all && all < LOST_LANES))
        fail_msg("%s, %s, %s: step %d of rank %d, time %d, %s, counts in %d lanes, the first %d of "
                 "%d",
                 j->net, j->exchange, j->codec, (int)step, rank, k,
                 t->committed ? "committed" : "broken off", all, first, LOST_LANES);
    j->partly += all && !t->committed && j->lives[rank];
    return all;
}

/* By sample of a step: how often it counts in all lanes, and in some. */
typedef struct tally {
    int whole[LOST_BATCH], some[LOST_BATCH];
} tally;

static tally add_up(lost_job *j, uint64_t step)
{
    tally y = {{0}, {0}};

    for (int r = 0; r < j->size; r++)
        for (int k = 0; k < LOST_TIMES; k++) {
            const lost_time *t = &j->time[r][step][k];
            int lanes = lanes_of(j, r, step, k);
            for (int i = t->from; i < t->to; i++) {
                y.whole[i] += lanes == LOST_LANES;
                y.some[i] += lanes > 0;
            }
        }
    return y;
}

/* In how many generations a step was begun. */
static uint64_t beginnings(const lost_job *j, uint64_t step)
{
    uint64_t n = 0;

    for (int g = 0; g <= j->generations; g++) {
        bool begun = false;
        for (int r = 0; r < j->size; r++)
            for (int k = 0; k < LOST_TIMES; k++)
                begun |= j->time[r][step][k].begun && j->time[r][step][k].generation == g;
        n += begun;
    }
    return n;
}

static void check_samples(lost_job *j)
{
    uint64_t again = 0, begun = 0;

    for (uint64_t s = 0; s < LOST_STEPS; s++) {
        tally y = add_up(j, s);
        begun += (beginnings(j, s) - 1) * LOST_BATCH;
        for (int i = 0; i < LOST_BATCH; i++) {
            if (!y.whole[i])
                fail_msg("%s, %s, %s: sample %d of step %d never counts", j->net, j->exchange,
                         j->codec, i, (int)s);
            again += (uint64_t)(y.some[i] > 1 ? y.some[i] - 1 : 0);
        }
    }
    if (again > j->repeated || j->repeated > begun)
        fail_msg("%s, %s, %s: %d samples count again, %d were said to, of %d that were begun again",
                 j->net, j->exchange, j->codec, (int)again, (int)j->repeated, (int)begun);
    if (!j->back && (again || j->repeated || j->gone_back))
        fail_msg("%s, %s, %s: all step together, and %d samples count again", j->net, j->exchange,
                 j->codec, (int)again);
}

static void check_replicas(const lost_job *j)
{
    int first = first_alive(j);

    for (int r = 0; r < j->size; r++)
        if (j->lives[r] && memcmp(j->param[r], j->param[first], sizeof j->param[r]))
            fail_msg("%s, %s, %s: rank %d holds other parameters than rank %d", j->net, j->exchange,
                     j->codec, r, first);
}

void lost_run(lost_job *j)
{
    ranks r = {.net = j->net,
               .size = j->size,
               .timeout = j->timeout > 0 ? j->timeout : 30,
               .fn = run_rank,
               .arg = j};

    ranks_run(&r);
    for (int i = 0; i < j->size; i++)
        snprintf(j->why[i], sizeof j->why[i], "%.299s", r.why[i]);
    if (first_alive(j) < 0)
        return;
    check_replicas(j);
    for (int i = 0; i < LOST_LANES; i++)
        find_what_is_there(j, i);
    check_samples(j);
}
