/* A step that one rank gives up by itself, while the others wait for it in a collective: they end
 * the generation when they hear of it, in a new one of the same members the step is repeated, and
 * all is as if it had never failed. In the simulated world and among real peers.
 *
 * The others have begun one collective more than the one that failed, so that from there on their
 * numbers differ: it is the new generation, whose numbers begin anew, that makes messages match.
 * (For certain in the simulated world, where they know by the clock that they wait for it; a real
 * peer may hear of it before it has got there.) */
#include "core/hash.h"
#include "help_member.h"
#include "help_ranks.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { RANKS = 3, STEPS = 6, FATAL = 3, ILL = 1 };

typedef struct job {
    const char *net, *coll, *exchange, *codec;
    bool fails;
    uint64_t hash[RANKS]; /* of all parameters and of all that is held back */
} job;

typedef struct rank {
    const job *j;
    weir_net *net;
    member m;
    float grad[MEMBER_N + WEIR_EXCHANGE_NOTES];
    uint64_t step;
} rank;

/* ---- a step ---- */

static const int all[] = {0, 1, 2};

static weir_commit commit(const rank *r)
{
    return (weir_commit){.when = {.step = r->step, .epochs = 10, .rate = 0.125},
                         .rate = 0.125,
                         .keep = true};
}

/* The gradient is made anew; so many of its buckets leave. */
static weir_err send_buckets(rank *r, int count)
{
    int me = weir_net_rank(r->net);

    for (int i = 0; i < MEMBER_N + WEIR_EXCHANGE_NOTES; i++)
        r->grad[i] = (float)((i * 7 + me * 5 + (int)r->step * 3 + i * i % 11) % 15 - 7);
    for (int i = 0; i < count; i++)
        WEIR_TRY(r->m.x->bucket(r->m.self, &r->m.lane[i], commit(r).when));
    return WEIR_OK;
}

static weir_err whole_step(void *rank_)
{
    rank *r = rank_;
    weir_commit c = commit(r);

    WEIR_TRY(send_buckets(r, r->m.lanes));
    return r->m.x->finish(r->m.self, &c);
}

/* ---- a step that fails ---- */

/* Word of it, as a line for membership would bring it. */
static const uint64_t WORD = (uint64_t)WEIR_CHANNEL_MEMBERS << 56;

static weir_err fall_ill(rank *r)
{
    CHECK(r->m.lanes > 1);
    WEIR_TRY(send_buckets(r, 1));
    for (int i = 0; i < RANKS; i++)
        if (i != ILL)
            WEIR_TRY(weir_net_send_wait(r->net, i, WORD, "ill", 4));
    return WEIR_OK;
}

/* Its second bucket finds nobody there; what waits for it ends with the generation. */
static weir_err wait_in_vain(rank *r)
{
    weir_net_task *step;
    char word[4];

    WEIR_TRY(weir_net_fibre(r->net, "step", whole_step, r, &step));
    WEIR_TRY(weir_net_recv_wait(r->net, ILL, WORD, word, sizeof word, NULL));
    if (ranks_simulated(r->j->net))
        WEIR_TRY(weir_net_spend(r->net, 1)); /* it has got as far as it can */
    weir_net_end(r->net, 0);
    CHECK(weir_net_fibre_join(r->net, step) == WEIR_STALE);
    return WEIR_OK;
}

/* ---- generations ---- */

static weir_err enter(rank *r, bool first)
{
    weir_exchange_env e;

    WEIR_TRY(weir_coll_open(r->j->coll, &r->m.mesh.all, r->m.mesh.arena, &r->m.coll));
    e = member_env(&r->m);
    return (first ? r->m.x->init : r->m.x->regroup)(r->m.self, &e);
}

static weir_err begin_anew(rank *r)
{
    r->m.x->close(r->m.self);
    WEIR_TRY(weir_mesh_renew(&r->m.mesh, 1, all, RANKS));
    return enter(r, false);
}

static uint64_t hash_all(const rank *r)
{
    uint64_t h = weir_hash(r->m.param, sizeof r->m.param, 0);

    for (const weir_lane *l = r->m.lane; l < r->m.lane + r->m.lanes; l++) {
        if (l->held.now)
            h = weir_hash(l->held.now, l->bucket->n * sizeof(float), h);
        if (l->speed.now)
            h = weir_hash(l->speed.now, l->bucket->n * sizeof(float), h);
    }
    return h;
}

static weir_err work(rank *r, job *j)
{
    for (r->step = 0; r->step < STEPS; r->step++) {
        if (r->step == FATAL && j->fails)
            WEIR_TRY(weir_net_rank(r->net) == ILL ? fall_ill(r) : wait_in_vain(r));
        if (r->step == FATAL)
            WEIR_TRY(begin_anew(r));
        WEIR_TRY(whole_step(r));
    }
    r->m.x->close(r->m.self);
    j->hash[weir_net_rank(r->net)] = hash_all(r);
    return WEIR_OK;
}

static weir_err run_rank(weir_net *net, void *arg)
{
    weir_arena *life = weir_arena_new();
    rank *r = WEIR_NEW(life, rank, 1);
    job *j = arg;
    weir_err err;

    *r = (rank){.j = arg, .net = net, .m.life = life};
    r->m.grad = r->grad;
    if (!(err = weir_mesh_open(&r->m.mesh, net)) &&
        !(err = member_make(&r->m, (member_specs){j->exchange, j->codec, "sgd:momentum=0.5"})) &&
        !(err = enter(r, true)))
        err = work(r, j);
    weir_mesh_close(&r->m.mesh);
    weir_arena_free(life);
    return err;
}

static void check(job whole)
{
    job broken = whole;

    broken.fails = true;
    ranks_all_ok(&(ranks){.net = whole.net, .size = RANKS, .fn = run_rank, .arg = &whole});
    ranks_all_ok(&(ranks){.net = whole.net, .size = RANKS, .fn = run_rank, .arg = &broken});
    for (int i = 0; i < RANKS; i++)
        if (whole.hash[i] != broken.hash[i])
            fail_msg("%s, %s, %s, %s: rank %d is not as if nothing had failed", whole.net,
                     whole.coll, whole.exchange, whole.codec, i);
}

/* Where replicas drift, what was sent is sent, and a step cannot be repeated. */
static void check_all(const char *net, const char *coll)
{
    static const char *const codec[] = {"none",          "half:residual=yes", "strom:warmup=0",
                                        "dgc:warmup=0",  "onebit:warmup=0",   "int8:warmup=0",
                                        "topk:warmup=0", "powersgd:warmup=0"};

    for (weir_plugs p = weir_exchanges; *p; p++) {
        const weir_exchange *x = (const weir_exchange *)*p;
        for (size_t i = 0; x->regroup && !x->drifts && i < sizeof codec / sizeof *codec; i++)
            check((job){.net = net, .coll = coll, .exchange = (*p)->name, .codec = codec[i]});
    }
    check((job){.net = net,
                .coll = coll,
                .exchange = "allreduce:hier=yes,each=2",
                .codec = "topk:warmup=0"});
}

static void simulated(void **state)
{
    (void)state;
    check_all("sim", "ring");
}

static void among_peers(void **state)
{
    (void)state;
    check_all("zmq", "ring");
    check_all("zmq", "shm");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(simulated), cmocka_unit_test(among_peers)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
