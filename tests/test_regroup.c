/* Groups that change again and again: every exchange lets go of a generation's memory, which is
 * freed, before it enters the next; what is for life does not grow; and what its workers hold back
 * is theirs before and after. All in the simulated world. */
#include "help_member.h"
#include "help_ranks.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* The last rank leaves in every second generation, and comes back in the next. */
enum { RANKS = 4, N = MEMBER_N, GENERATIONS = 40, STEPS = 2 };

typedef struct job {
    const char *exchange, *codec;
    bool hands;                                     /* the one who leaves hands over */
    double before[GENERATIONS], after[GENERATIONS]; /* held back, over all ranks that count */
    double most;                                    /* of it, at any time */
} job;

typedef struct rank {
    const job *j;
    member m;
    float grad[N + WEIR_EXCHANGE_NOTES];
    size_t life_bytes, group_bytes[2]; /* group: of generations with and without the last rank */
} rank;

static weir_err one_step(rank *r, uint64_t step)
{
    weir_commit c = {.when = {.step = step, .epochs = 10, .rate = 0.125},
                     .rate = 0.125,
                     .keep = true};

    for (int i = 0; i < N + WEIR_EXCHANGE_NOTES; i++)
        r->m.grad[i] =
            (float)((i * 7 + r->m.mesh.all.me * 5 + (int)step * 3 + i * i % 11) % 15 - 7);
    for (int i = 0; i < r->m.lanes; i++)
        WEIR_TRY(r->m.x->bucket(r->m.self, &r->m.lane[i], c.when));
    return r->m.x->finish(r->m.self, &c);
}

static weir_err steps(rank *r, uint64_t from)
{
    if (r->m.x->settle)
        WEIR_TRY(r->m.x->settle(r->m.self, (weir_when){.step = from, .rate = 0.125}));
    for (uint64_t s = from; s < from + STEPS; s++)
        WEIR_TRY(one_step(r, s));
    if (r->m.x->settle)
        WEIR_TRY(r->m.x->settle(r->m.self, (weir_when){.step = from + STEPS, .rate = 0.125}));
    return WEIR_OK;
}

/* What this rank holds back, elements with a weight each: one that moves to another is noticed. */
static double held(const rank *r)
{
    double sum = 0;

    for (const weir_lane *l = r->m.lane; l < r->m.lane + r->m.lanes; l++) {
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

    WEIR_TRY(weir_coll_open("ring", &r->m.mesh.all, r->m.mesh.arena, &r->m.coll));
    e = member_env(&r->m);
    WEIR_TRY((first ? r->m.x->init : r->m.x->regroup)(r->m.self, &e));
    /* one that comes back has old ones */
    WEIR_TRY(weir_broadcast(&r->m.coll, &r->m.mesh.all, 0, r->m.param, sizeof r->m.param));
    return WEIR_OK;
}

static weir_err leave(rank *r)
{
    static const int stay[] = {0, 1, 2};

    if (r->j->hands && r->m.x->hand_over)
        WEIR_TRY(r->m.x->hand_over(r->m.self, stay, 3));
    if (r->m.x->close)
        r->m.x->close(r->m.self);
    return WEIR_OK;
}

/* Bytes of this generation and for life: the same as last time. */
static weir_err check_bytes(rank *r, int generation)
{
    size_t *group = &r->group_bytes[generation % 2];

    if (generation < 4) {
        *group = weir_arena_bytes(r->m.mesh.arena);
        r->life_bytes = weir_arena_bytes(r->m.life);
    }
    CHECK(weir_arena_bytes(r->m.mesh.arena) == *group);
    CHECK(weir_arena_bytes(r->m.life) == r->life_bytes);
    return WEIR_OK;
}

static weir_err change(rank *r, job *j)
{
    static const int all[] = {0, 1, 2, 3};
    bool goes = weir_net_rank(r->m.mesh.net) == RANKS - 1, counts = j->hands || !goes;

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
            weir_mesh_close(&r->m.mesh);
            continue;
        }
        WEIR_TRY(weir_mesh_renew(&r->m.mesh, g + 1, all, g % 2 ? RANKS : RANKS - 1));
        WEIR_TRY(enter(r, false));
        j->after[g] += counts ? held(r) : 0;
    }
    if (r->m.x->close)
        r->m.x->close(r->m.self);
    return WEIR_OK;
}

static weir_err run_rank(weir_net *net, void *arg)
{
    weir_arena *life = weir_arena_new();
    rank *r = WEIR_NEW(life, rank, 1);
    weir_err err;

    *r = (rank){.j = arg, .m.life = life};
    r->m.grad = r->grad;
    if (!(err = weir_mesh_open(&r->m.mesh, net)) &&
        !(err = member_make(&r->m,
                            (member_specs){r->j->exchange, r->j->codec, "sgd:momentum=0.5"})) &&
        !(err = enter(r, true)))
        err = change(r, arg);
    weir_mesh_close(&r->m.mesh);
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
