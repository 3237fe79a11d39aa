/* Groups that change again and again: every exchange lets go of a generation's memory, which is
 * freed, before it enters the next; what is for life does not grow; and what its workers hold back
 * is theirs before and after. All in the simulated world. */
#include "exchange/buckets.h"
#include "exchange/exchange.h"
#include "help_ranks.h"
#include "net/mesh.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* The last rank leaves in every second generation, and comes back in the next. */
enum { RANKS = 4, N = 3100, GENERATIONS = 40, STEPS = 2 };

typedef struct job {
    const char *exchange, *codec;
    bool hands;                                     /* the one who leaves hands over */
    double before[GENERATIONS], after[GENERATIONS]; /* held back, over all ranks that count */
    double most;                                    /* of it, at any time */
} job;

typedef struct rank {
    const job *j;
    weir_mesh mesh;
    weir_coll_use coll;
    weir_arena *life;
    weir_tensor t[3];
    float param[N], grad[N + WEIR_EXCHANGE_NOTES];
    weir_lane *lane;
    int lanes;
    const weir_exchange *x;
    void *self;
    size_t life_bytes, group_bytes[2]; /* group: of generations with and without the last rank */
} rank;

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

static weir_err make_lanes(rank *r)
{
    const weir_plug *plug;
    weir_bucket *b;

    r->t[0] = (weir_tensor){"u", 0, 2000, 2, {20, 100}, true, 0};
    r->t[1] = (weir_tensor){"w", 2000, 1000, 2, {10, 100}, true, 1};
    r->t[2] = (weir_tensor){"b", 3000, 100, 1, {100}, false, 1};
    WEIR_TRY(weir_buckets_cut(&(weir_flat){r->t, 3, r->param, r->grad},
                              &(weir_cut_rules){.bytes = 4096, .small = WEIR_SMALL}, r->life, &b,
                              &r->lanes));
    WEIR_TRY(weir_lanes_make(b, r->lanes, r->j->codec, "sgd:momentum=0.5", r->life, &r->lane));
    r->lane[r->lanes - 1].notes = WEIR_EXCHANGE_NOTES;
    WEIR_TRY(weir_plug_find(weir_exchanges, "exchange", r->j->exchange, &plug));
    r->x = (const weir_exchange *)plug;
    return weir_plug_make(plug, "exchange", r->j->exchange, r->life, &r->self);
}

static weir_err one_step(rank *r, uint64_t step)
{
    weir_commit c = {.when = {.step = step, .epochs = 10, .rate = 0.125},
                     .rate = 0.125,
                     .keep = true};

    for (int i = 0; i < N + WEIR_EXCHANGE_NOTES; i++)
        r->grad[i] = (float)((i * 7 + r->mesh.all.me * 5 + (int)step * 3 + i * i % 11) % 15 - 7);
    for (int i = 0; i < r->lanes; i++)
        WEIR_TRY(r->x->bucket(r->self, &r->lane[i], c.when));
    return r->x->finish(r->self, &c);
}

static weir_err steps(rank *r, uint64_t from)
{
    if (r->x->settle)
        WEIR_TRY(r->x->settle(r->self, (weir_when){.step = from, .rate = 0.125}));
    for (uint64_t s = from; s < from + STEPS; s++)
        WEIR_TRY(one_step(r, s));
    if (r->x->settle)
        WEIR_TRY(r->x->settle(r->self, (weir_when){.step = from + STEPS, .rate = 0.125}));
    return WEIR_OK;
}

/* What this rank holds back, elements with a weight each: one that moves to another is noticed. */
static double held(const rank *r)
{
    double sum = 0;

    for (const weir_lane *l = r->lane; l < r->lane + r->lanes; l++) {
        const weir_stripes *own = &l->codec->stripes;
        const weir_stripe *mine = weir_stripes_own(own);
        double unit = l->unit > 0 ? (double)l->unit : 1;
        for (size_t i = 0; i < l->bucket->n; i++) {
            double weight = (double)(1 + (l->bucket->at + i) % 7) / unit;
            sum += l->held.now ? weight * (double)l->held.now[i] : 0;
            sum += l->speed.now ? 2 * weight * (double)l->speed.now[i] : 0;
        }
        for (size_t i = 0; own->owned.now && i < mine->bucket.n; i++)
            sum +=
                (double)(1 + (l->bucket->at + mine->at + i) % 7) / unit * (double)own->owned.now[i];
    }
    return sum;
}

/* The first time it opens, later the generation before is gone already. */
static weir_err enter(rank *r, bool first)
{
    weir_exchange_env e;

    WEIR_TRY(weir_coll_open("ring", &r->mesh.all, r->mesh.arena, &r->coll));
    e = env(r);
    WEIR_TRY((first ? r->x->init : r->x->regroup)(r->self, &e));
    /* one that comes back has old ones */
    WEIR_TRY(weir_broadcast(&r->coll, &r->mesh.all, 0, r->param, sizeof r->param));
    return WEIR_OK;
}

static weir_err leave(rank *r)
{
    static const int stay[] = {0, 1, 2};

    if (r->j->hands && r->x->hand_over)
        WEIR_TRY(r->x->hand_over(r->self, stay, 3));
    if (r->x->close)
        r->x->close(r->self);
    return WEIR_OK;
}

/* Bytes of this generation and for life: the same as last time. */
static weir_err check_bytes(rank *r, int generation)
{
    size_t *group = &r->group_bytes[generation % 2];

    if (generation < 4) {
        *group = weir_arena_bytes(r->mesh.arena);
        r->life_bytes = weir_arena_bytes(r->life);
    }
    CHECK(weir_arena_bytes(r->mesh.arena) == *group);
    CHECK(weir_arena_bytes(r->life) == r->life_bytes);
    return WEIR_OK;
}

static weir_err change(rank *r, job *j)
{
    static const int all[] = {0, 1, 2, 3};
    bool goes = weir_net_rank(r->mesh.net) == RANKS - 1, counts = j->hands || !goes;

    for (int g = 0; g < GENERATIONS; g++) {
        if (!(goes && g % 2)) {
            WEIR_TRY(steps(r, (uint64_t)g * STEPS));
            WEIR_TRY(check_bytes(r, g));
            j->most = fmax(j->most, fabs(held(r)));
            j->before[g] += counts ? held(r) : 0;
            WEIR_TRY(leave(r));
        }
        if (goes && g % 2 == 0) {
            j->after[g] += counts ? held(r) : 0;
            weir_mesh_close(&r->mesh);
            continue;
        }
        WEIR_TRY(weir_mesh_renew(&r->mesh, g + 1, all, g % 2 ? RANKS : RANKS - 1));
        WEIR_TRY(enter(r, false));
        j->after[g] += counts ? held(r) : 0;
    }
    if (r->x->close)
        r->x->close(r->self);
    return WEIR_OK;
}

static weir_err run_rank(weir_net *net, void *arg)
{
    weir_arena *life = weir_arena_new();
    rank *r = WEIR_NEW(life, rank, 1);
    weir_err err;

    *r = (rank){.j = arg, .life = life};
    if (!(err = weir_mesh_open(&r->mesh, net)) && !(err = make_lanes(r)) && !(err = enter(r, true)))
        err = change(r, arg);
    weir_mesh_close(&r->mesh);
    weir_arena_free(life);
    return err;
}

static void check(const char *exchange, const char *codec, bool hands)
{
    job *j = calloc(1, sizeof *j);

    *j = (job){.exchange = exchange, .codec = codec, .hands = hands};
    ranks_all_ok(&(ranks){.net = "sim", .size = RANKS, .fn = run_rank, .arg = j});
    for (int g = 0; g < GENERATIONS; g++)
        /* a float's rounding of N sums, each by at most its last bit */
        if (fabs(j->before[g] - j->after[g]) > 0x1p-23 * N * (1 + j->most))
            fail_msg("%s, %s, generation %d: %g was held back, and is %g", exchange, codec, g,
                     j->before[g], j->after[g]);
    assert_true(!strcmp(codec, "none") || j->most > 0);
    free(j);
}

static void nothing_is_left_behind(void **state)
{
    static const char *const codec[] = {"none", "strom:warmup=0", "onebit:warmup=0"};

    (void)state;
    for (weir_plugs x = weir_exchanges; *x; x++) {
        if (!((const weir_exchange *)*x)->regroup)
            continue;
        for (size_t i = 0; i < sizeof codec / sizeof *codec; i++)
            for (int hands = 0; hands < 2; hands++)
                check((*x)->name, codec[i], hands);
    }
}

/* Ways of allreduce that keep more for a group. */
static void more_ways(void **state)
{
    (void)state;
    for (int hands = 0; hands < 2; hands++) {
        check("allreduce", "powersgd:warmup=0", hands);
        check("allreduce", "auto:among=[onebit+strom],try=1", hands);
        check("allreduce:hier=yes,each=2", "onebit:warmup=0", hands);
        check("allreduce:hier=yes,each=2", "topk:warmup=0", hands);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_is_left_behind),
                                       cmocka_unit_test(more_ways)};

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
