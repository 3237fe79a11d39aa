/* The laws of the exchange `peers`: lock step is synchronous SGD, nobody is further away than the bound, nothing that was sent is lost or comes
 * twice, and replicas that were drained agree; who is missing or disagrees is named. */
#include "help_ranks.h"
#include "exchange/letter.h"
#include "exchange/exchange.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { ROWS = 60, COLS = 100, N = ROWS * COLS + 2000 + 100, RANKS = 6 };

struct rank;

/* What all ranks of a test are given, and leave. */
typedef struct plan {
    weir_err (*run)(struct rank *, struct plan *);
    const weir_exchange *exchange;
    const char *spec, *codec, *optim;
    int steps, bound;
    bool pulls;   /* gradients depend on the parameters */
    double fall;  /* the rate falls by this factor a step */
    double spend; /* seconds of work a step */
    int leaves, spoils; /* rank: leaves in the middle; changes a weight before the end. -1: nobody */
    atomic_int sent[RANKS]; /* steps whose last lane it is sending, or has sent */
    int apart[RANKS];       /* at most, as others saw it, and as the exchange said */
    int said[RANKS];
    float param[RANKS][N], held[RANKS][N], last[RANKS];
    double input[RANKS][N]; /* all gradients times their rates */
} plan;

typedef struct rank {
    weir_arena *arena;
    weir_tensor t[3];
    float param[N], grad[N + WEIR_NOTES];
    weir_group g;
    weir_coll_use coll;
    weir_lane *lane;
    int lanes;
    void *self;
} rank;

static weir_err rank_open(rank *r, weir_net *net, const plan *p)
{
    weir_bucket *b;
    bool dry = weir_net_dry(net);

    r->t[0] = (weir_tensor){"w", 0, ROWS * COLS, 2, {ROWS, COLS}, true, 0};
    r->t[1] = (weir_tensor){"v", ROWS * COLS, 2000, 2, {20, 100}, true, 1};
    r->t[2] = (weir_tensor){"b", N - 100, 100, 1, {100}, false, 1};
    for (int i = 0; i < N; i++)
        r->param[i] = (float)(i % 31) / 31 - 0.5f;
    WEIR_TRY(weir_group_all(net, r->arena, &r->g));
    WEIR_TRY(weir_coll_open("ring:segment=4096", &r->g, r->arena, &r->coll));
    WEIR_TRY(weir_buckets_cut(r->t, 3, &(weir_cut_rules){.bytes = 8192, .small = WEIR_SMALL}, dry ? NULL : r->param, dry ? NULL : r->grad, r->arena, &b, &r->lanes));
    CHECK(r->lanes >= 4);
    WEIR_TRY(weir_lanes_make(b, r->lanes, p->codec, p->optim, r->arena, &r->lane));
    r->lane[r->lanes - 1].notes = WEIR_NOTES;
    WEIR_TRY(weir_plug_make(&p->exchange->plug, "exchange", p->spec, r->arena, &r->self));
    return p->exchange->init(r->self, &(weir_exchange_env){&r->g, &r->g, &r->coll, r->lane, r->lanes, r->arena, NULL, NULL, 7, 0});
}

static void make_gradient(rank *r, plan *p, uint64_t step, double rate)
{
    int me = r->g.me;

    for (int i = 0; i < N; i++) {
        r->grad[i] = (float)((i * 3 + me * 5 + (int)step * 7) % 17) / 17 - 0.45f + (i == (int)step * 11 % N ? 3.0f : 0);
        if (p->pulls)
            r->grad[i] += 0.3f * r->param[i];
        p->input[me][i] += rate * (double)r->grad[i];
    }
    for (int i = 0; i < WEIR_NOTES; i++)
        r->grad[N + i] = (float)(1000 * (int)step + 10 * i + me);
}

/* How far the last of the others is behind in what it has sent. */
static int behind(plan *p, int me, int steps, int ranks)
{
    int most = 0;

    for (int m = 0; m < ranks; m++)
        if (m != me && steps - atomic_load(&p->sent[m]) > most)
            most = steps - atomic_load(&p->sent[m]);
    return most;
}

static weir_err one_step(rank *r, plan *p, uint64_t step)
{
    double rate = 0.05 * pow(p->fall, (double)step);
    weir_commit c = {.turn = {.step = step, .epochs = (double)step, .rate = rate}, .rate = rate, .keep = true};
    int me = r->g.me, apart;

    if (p->spend > 0)
        WEIR_TRY(weir_net_spend(r->g.net, weir_net_cost(r->g.net, p->spend)));
    if (!weir_net_dry(r->g.net))
        make_gradient(r, p, step, rate);
    for (int i = 0; i < r->lanes; i++) {
        if (me == p->leaves && step == 3 && i == 2)
            return weir_fail(WEIR_FAILED, "left");
        if (i == r->lanes - 1)
            atomic_fetch_add(&p->sent[me], 1); /* before: another thread may have it before this one goes on */
        WEIR_TRY(p->exchange->bucket(r->self, &r->lane[i], c.turn));
    }
    WEIR_TRY(p->exchange->finish(r->self, &c));
    apart = behind(p, me, (int)step + 1, r->g.size);
    p->apart[me] = apart > p->apart[me] ? apart : p->apart[me];
    p->said[me] = c.apart > p->said[me] ? c.apart : p->said[me];
    return WEIR_OK;
}

/* Sums behind the last lane: of step t - bound, the first one's to begin with, on everybody. */
static weir_err check_notes(const rank *r, const plan *p, int step)
{
    int of = step > p->bound ? step - p->bound : 0;

    for (int i = 0; i < WEIR_NOTES; i++) {
        float sum = 0;
        for (int m = 0; m < r->g.size; m++)
            sum += (float)(1000 * of + 10 * i + m);
        CHECK(r->grad[N + i] == sum);
    }
    return WEIR_OK;
}

static void leave_results(const rank *r, plan *p)
{
    int me = r->g.me;

    memcpy(p->param[me], r->param, sizeof r->param);
    for (int i = 0; i < r->lanes; i++)
        if (r->lane[i].held.now)
            memcpy(p->held[me] + r->lane[i].bucket->at, r->lane[i].held.now, r->lane[i].bucket->n * sizeof(float));
    p->last[me] = r->grad[N];
}

static weir_err all_steps(rank *r, plan *p)
{
    const weir_exchange *x = p->exchange;

    for (int step = 0; step < p->steps; step++) {
        WEIR_TRY(one_step(r, p, (uint64_t)step));
        if (!weir_net_dry(r->g.net))
            WEIR_TRY(check_notes(r, p, step));
    }
    if (p->spoils == r->g.me)
        r->param[ROWS * COLS + 5] += 0.01f;
    for (int twice = 0; twice < 2 && x->settle; twice++)
        WEIR_TRY(x->settle(r->self, (weir_turn){.step = (uint64_t)p->steps}));
    leave_results(r, p);
    return WEIR_OK;
}

static weir_err run_rank(weir_net *net, void *arg)
{
    plan *p = arg;
    rank *r = calloc(1, sizeof *r);
    weir_err err;
    char why[WEIR_WHY_MAX];

    if (!r || !(r->arena = weir_arena_new()))
        return weir_fail_nomem(0);
    err = rank_open(r, net, p);
    if (!err)
        err = p->run(r, p);
    snprintf(why, sizeof why, "%s", weir_why_text());
    if (r->self && p->exchange->close)
        p->exchange->close(r->self);
    weir_arena_free(r->arena);
    free(r);
    return err ? weir_fail(err, "%s", why) : WEIR_OK;
}

static plan *new_plan(const char *spec, int bound, const char *codec)
{
    plan *p = calloc(1, sizeof *p);

    assert_non_null(p);
    *p = (plan){.run = all_steps, .exchange = strncmp(spec, "peers", 5) ? &weir_exchange_allreduce : &weir_exchange_peers, .spec = spec, .codec = codec, .optim = "sgd", .steps = 12, .bound = bound,
                .fall = 1, .leaves = -1, .spoils = -1};
    return p;
}

static void all_well(plan *p, const char *net, int size) { ranks_all_ok(&(ranks){.net = net, .size = size, .timeout = 10, .stall = 60, .fn = run_rank, .arg = p}); }

static double distance(const float *a, const float *b, size_t n)
{
    double far = 0, most = 0;

    for (size_t i = 0; i < n; i++) {
        far = fmax(far, fabs((double)a[i] - (double)b[i]));
        most = fmax(most, fabs((double)b[i]));
    }
    return far / most;
}

/* ---- lock step ---- */

static void check_lock_step(const char *net, const char *optim, double fall)
{
    plan *sync = new_plan("allreduce", 0, "none"), *peers = new_plan("peers:bound=0", 0, "none");

    sync->optim = peers->optim = optim;
    sync->fall = peers->fall = fall;
    sync->pulls = peers->pulls = true;
    all_well(sync, net, 4);
    all_well(peers, net, 4);
    for (int m = 0; m < 4; m++) {
        assert_memory_equal(peers->param[m], peers->param[0], sizeof peers->param[0]);
        if (distance(peers->param[m], sync->param[m], N) > 2e-6)
            fail_msg("%s over %s: rank %d is %g away from synchronous SGD", optim, net, m, distance(peers->param[m], sync->param[m], N));
    }
    free(sync);
    free(peers);
}

static void lock_step_is_synchronous(void **state)
{
    (void)state;
    check_lock_step("sim:slow=2x3,jitter=0.5", "sgd", 1);
    check_lock_step("sim:slow=2x3", "sgd:momentum=0.9,decay=0.05", 0.9);
    check_lock_step("sim", "sgd:momentum=0.9,nesterov=yes,decay=0.05", 1.05);
    check_lock_step("zmq", "sgd:momentum=0.9,decay=0.05", 0.8);
}

/* While the rate stays, what is encoded is what allreduce encodes: the same bits come out. */
static void lock_step_has_the_bits_of_a_gather(void **state)
{
    const char *codecs[] = {"strom:warmup=0", "strom:warmup=0,quanta=4,density=0.1", "topk:warmup=0,density=0.05", "redsync:warmup=0,density=0.01", "terngrad"};

    (void)state;
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
        plan *sync = new_plan("allreduce", 0, codecs[i]), *peers = new_plan("peers:bound=0", 0, codecs[i]);
        if (strcmp(codecs[i], "terngrad")) /* where the optimiser keeps momentum, it comes after the codec */
            sync->optim = peers->optim = "sgd:momentum=0.9";
        all_well(sync, "sim", 3);
        all_well(peers, "sim", 3);
        for (int k = 0; k < N - 100; k++) /* the tail is summed in another order */
            if (sync->param[1][k] != peers->param[1][k])
                fail_msg("%s: element %d is %.9g, not %.9g", codecs[i], k, (double)peers->param[1][k], (double)sync->param[1][k]);
        assert_memory_equal(peers->held[2], sync->held[2], sizeof sync->held[2]);
        free(sync);
        free(peers);
    }
}

/* ---- apart, but not too far ---- */

static void check_bound(const char *net, int bound, int reached)
{
    char spec[32];
    int most = 0, said = 0;

    snprintf(spec, sizeof spec, "peers:bound=%d", bound);
    plan *p = new_plan(spec, bound, "strom:density=0.05");
    p->steps = 40;
    p->spend = 1e-3;
    all_well(p, net, 4);
    for (int m = 0; m < 4; m++) {
        most = p->apart[m] > most ? p->apart[m] : most;
        said = p->said[m] > said ? p->said[m] : said;
        assert_memory_equal(p->param[m], p->param[0], sizeof p->param[0]);
    }
    if (most > bound || said > bound || said < reached)
        fail_msg("%s, bound %d: %d steps apart, and %d in its own words; %d were expected", net, bound, most, said, reached);
    free(p);
}

static void never_further_apart(void **state)
{
    int bounds[] = {0, 1, 2, 4, 7};

    (void)state;
    for (int i = 0; i < 5; i++) {
        check_bound("sim:slow=2x5", bounds[i], bounds[i]);
        check_bound("sim:slow=0x3/3x2,draw=gamma,cv=0.8,jitter=1,latency=2ms,rate=20M,seed=5", bounds[i], bounds[i] ? 1 : 0);
        check_bound("sim:draw=lognormal,cv=1,eager=64", bounds[i], 0);
    }
    check_bound("zmq", 2, 0);
}

/* The same seed, the same course. */
static void repeats_in_sim(void **state)
{
    plan *p[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        p[i] = new_plan("peers", 4, "strom:density=0.05");
        p[i]->spend = 1e-3;
        p[i]->pulls = true;
        all_well(p[i], "sim:draw=gamma,cv=0.8,jitter=1,rate=50M", 4);
    }
    assert_memory_equal(p[0]->param[3], p[1]->param[3], sizeof p[0]->param[0]);
    free(p[0]);
    free(p[1]);
}

/* ---- nothing is lost, nothing comes twice ---- */

/* All that went in has been applied or is held back; after draining everybody has applied the same. */
static void check_conserved(const char *net, const char *codec, double fall, double close)
{
    plan *p = new_plan("peers:3", 3, codec);
    const double base = 0.05; /* the first step's rate */

    p->spend = 1e-3;
    p->fall = fall;
    all_well(p, net, 4);
    for (int m = 1; m < 4; m++)
        assert_memory_equal(p->param[m], p->param[0], sizeof p->param[0]);
    for (int i = 0; i < N; i++) {
        double moved = (double)((float)(i % 31) / 31 - 0.5f) - (double)p->param[0][i], in = 0;
        for (int m = 0; m < 4; m++)
            in += p->input[m][i] - base * (double)p->held[m][i];
        if (fabs(moved - in) > close)
            fail_msg("%s over %s: element %d moved by %.9g, not by %.9g", codec, net, i, moved, in);
    }
    assert_true(p->last[1] == 4 * 1000 * (p->steps - 1) + 6); /* settled: the sums are the last step's */
    free(p);
}

static void conserved(void **state)
{
    const char *codecs[] = {"none", "topk:density=0.02", "strom", "strom:tau=0.5", "redsync:warmup=3", "onebit", "int8:residual=yes", "sign"};

    (void)state;
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++)
        check_conserved("sim:slow=1x4,draw=gamma,cv=0.5", codecs[i], 1, 4e-6);
    check_conserved("sim:slow=1x4", "strom", 0.9, 4e-6); /* what is held back is so in moves, whatever the rate does */
    check_conserved("zmq", "topk:density=0.02", 1, 4e-6);
}

/* Rank 3 goes: the others take over what it held back, and go on. */
static weir_err shrink(rank *r, plan *p)
{
    static const int stay[] = {0, 1, 2};
    const weir_exchange *x = p->exchange;
    uint64_t half = (uint64_t)p->steps / 2;

    for (uint64_t step = 0; step < half; step++)
        WEIR_TRY(one_step(r, p, step));
    WEIR_TRY(x->settle(r->self, (weir_turn){.step = half}));
    WEIR_TRY(x->hand_over(r->self, stay, 3));
    if (r->g.me < 3) {
        WEIR_TRY(weir_group_make(r->g.net, 1, stay, 3, r->arena, &r->g));
        WEIR_TRY(x->regroup(r->self, &(weir_exchange_env){&r->g, &r->g, &r->coll, r->lane, r->lanes, r->arena, NULL, NULL, 7, 0}));
        for (uint64_t step = half; step < (uint64_t)p->steps; step++)
            WEIR_TRY(one_step(r, p, step));
        WEIR_TRY(x->settle(r->self, (weir_turn){.step = (uint64_t)p->steps}));
    }
    leave_results(r, p);
    return WEIR_OK;
}

static void a_leaver_hands_over(void **state)
{
    plan *p = new_plan("peers:2", 2, "topk:density=0.02");

    (void)state;
    p->spend = 1e-3;
    p->run = shrink;
    all_well(p, "sim:slow=1x4,draw=gamma,cv=0.5", 4);
    for (int m = 1; m < 3; m++)
        assert_memory_equal(p->param[m], p->param[0], sizeof p->param[0]);
    for (int i = 0; i < N; i++) {
        double moved = (double)((float)(i % 31) / 31 - 0.5f) - (double)p->param[0][i], in = 0;
        for (int m = 0; m < 4; m++)
            in += p->input[m][i] - 0.05 * (double)p->held[m][i];
        assert_true(p->held[3][i] == 0);
        if (fabs(moved - in) > 4e-6)
            fail_msg("element %d moved by %.9g, not by %.9g", i, moved, in);
    }
    free(p);
}

/* 4 -> 3 -> 5: rank 0 goes, then 4 and 5 come, one of them before all. */
static const int phase_of[][5] = {{0, 1, 2, 3}, {1, 2, 3}, {4, 1, 2, 3, 5}}, count_of[] = {4, 3, 5};

static bool among(int me, int phase)
{
    for (int i = 0; i < count_of[phase]; i++)
        if (phase_of[phase][i] == me)
            return true;
    return false;
}

/* Who comes takes the weights of rank 1. */
static weir_err enter(rank *r, plan *p, int phase, int me)
{
    weir_net *net = r->g.net;
    uint64_t tag = weir_tag(WEIR_CHANNEL_AGREE, 1, 0);

    for (int to = 4; to < 6 && phase == 2 && me == 1; to++)
        WEIR_TRY(weir_net_send_wait(net, to, tag, r->param, sizeof r->param));
    if (me > 3)
        WEIR_TRY(weir_net_recv_wait(net, 1, tag, r->param, sizeof r->param, NULL));
    WEIR_TRY(weir_group_make(net, (unsigned)phase + 1, phase_of[phase], count_of[phase], r->arena, &r->g));
    WEIR_TRY(weir_coll_open("ring", &r->g, r->arena, &r->coll));
    return p->exchange->regroup(r->self, &(weir_exchange_env){&r->g, &r->g, &r->coll, r->lane, r->lanes, r->arena, NULL, NULL, 7, 0});
}

static weir_err change(rank *r, plan *p)
{
    const weir_exchange *x = p->exchange;
    int me = weir_net_rank(r->g.net);
    uint64_t each = (uint64_t)p->steps / 3, last;

    for (int phase = 0; phase < 3; phase++) {
        if (!among(me, phase))
            continue;
        WEIR_TRY(enter(r, p, phase, me));
        last = each * ((uint64_t)phase + 1);
        for (uint64_t step = last - each; step < last; step++)
            WEIR_TRY(one_step(r, p, step));
        WEIR_TRY(x->settle(r->self, (weir_turn){.step = last}));
        if (phase == 2)
            leave_results(r, p);
        else
            WEIR_TRY(x->hand_over(r->self, phase_of[1], 3));
    }
    for (int i = 0; i < r->lanes && me == 0; i++)
        for (size_t k = 0; r->lane[i].held.now && k < r->lane[i].bucket->n; k++)
            CHECK(r->lane[i].held.now[k] == 0);
    return WEIR_OK;
}

static void groups_change(void **state)
{
    static const char *const codecs[] = {"topk:density=0.02,warmup=0", "strom:warmup=0", "onebit:warmup=0", "int8:residual=yes"};

    (void)state;
    for (size_t c = 0; c < sizeof codecs / sizeof *codecs; c++) {
        plan *p = new_plan("peers:2", 2, codecs[c]);
        double waits = 0;
        p->spend = 1e-3;
        p->run = change;
        all_well(p, "sim:slow=1x4,draw=gamma,cv=0.5", 6);
        for (int m = 1; m < 5; m++)
            assert_memory_equal(p->param[m], p->param[0], sizeof p->param[0]);
        for (int i = 0; i < N; i++) {
            double moved = (double)((float)(i % 31) / 31 - 0.5f) - (double)p->param[0][i], in = 0;
            for (int m = 0; m < 5; m++) {
                in += p->input[m][i] - 0.05 * (double)p->held[m][i];
                waits += fabs((double)p->held[m][i]);
            }
            if (fabs(moved - in) > 4e-6)
                fail_msg("%s: element %d moved by %.9g, not by %.9g", codecs[c], i, moved, in);
        }
        assert_true(waits > 0);
        free(p);
    }
}

/* ---- what goes wrong ---- */

static void a_lost_peer_is_named(void **state)
{
    const char *nets[] = {"sim", "zmq", "sim:kill=2@0.0035"};

    (void)state;
    for (int i = 0; i < 3; i++) {
        plan *p = new_plan("peers", 4, "strom:density=0.05");
        ranks r = {.net = nets[i], .size = 4, .timeout = 10, .stall = 60, .fn = run_rank, .arg = p};
        p->leaves = i < 2 ? 2 : -1;
        p->spend = 1e-3;
        ranks_run(&r);
        for (int m = 0; m < 4; m++)
            if (m != 2) {
                assert_int_equal(r.err[m], WEIR_LOST);
                assert_says(r.why[m], "rank 2");
            }
        free(p);
    }
}

static void a_replica_that_differs_is_named(void **state)
{
    plan *p = new_plan("peers", 4, "strom");
    ranks r = {.net = "sim", .size = 4, .fn = run_rank, .arg = p};

    (void)state;
    p->spoils = 3;
    ranks_run(&r);
    for (int m = 0; m < 4; m++) {
        assert_int_equal(r.err[m], WEIR_DIVERGED);
        assert_says(r.why[m], "rank 3 holds values of v");
    }
    free(p);
}

/* A letter with any bit changed, or of another length, is told from a whole one, and changes nothing. */
static weir_err damage(rank *r, weir_lane *l, const weir_pen *pen, unsigned char *copy, size_t len)
{
    weir_letter x = {.from = 1, .lane = 0, .step = 5, .data = copy, .len = len};
    float notes[WEIR_NOTES];
    uint64_t sum;

    memset(r->grad, 0, sizeof r->grad);
    CHECK(weir_letter_read(l, pen, &x, notes, &sum) == WEIR_OK);
    memset(r->grad, 0, sizeof r->grad);
    for (size_t bit = 0; bit < 8 * len; bit += bit < 8 * 200 ? 1 : 97) {
        copy[bit / 8] ^= (unsigned char)(1 << bit % 8);
        CHECK(weir_letter_read(l, pen, &x, notes, &sum) == WEIR_INVALID && strstr(weir_why_text(), "rank 1"));
        copy[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    for (x.len = 0; x.len < len; x.len += x.len < 200 ? 1 : 51)
        CHECK(weir_letter_read(l, pen, &x, notes, &sum) == WEIR_INVALID);
    x.len = weir_letter_most(l) + 1;
    CHECK(weir_letter_read(l, pen, &x, notes, &sum) == WEIR_INVALID);
    x.len = len;
    x.step = 6;
    CHECK(weir_letter_read(l, pen, &x, notes, &sum) == WEIR_INVALID);
    for (int i = 0; i < N; i++)
        CHECK(r->grad[i] == 0);
    return WEIR_OK;
}

static weir_err letter_rank(weir_net *net, void *arg)
{
    plan *p = arg;
    rank *r = calloc(1, sizeof *r);
    float *tile = calloc(WEIR_TILE, sizeof *tile);
    unsigned char *copy = calloc(1, 1 << 20);
    size_t len;
    weir_err err;

    if (!r || !tile || !copy || !(r->arena = weir_arena_new()))
        return weir_fail_nomem(0);
    err = rank_open(r, net, p);
    if (!err && !r->g.me) {
        weir_pen pen = {.group = &r->g, .base = 0.05, .seed = 1, .tile = tile};
        make_gradient(r, p, 5, 0.05);
        err = weir_letter_write(&r->lane[0], &pen, (weir_turn){.step = 5, .rate = 0.05}, 1, copy, &len);
        if (!err)
            err = damage(r, &r->lane[0], &pen, copy, len);
        pen.base = 0.1;
        if (!err && weir_letter_read(&r->lane[0], &pen, &(weir_letter){.from = 1, .step = 5, .data = copy, .len = len}, r->grad, &(uint64_t){0}) != WEIR_DIVERGED)
            err = weir_fail(WEIR_FAILED, "another base is not found out");
    }
    weir_arena_free(r->arena);
    free(r);
    free(tile);
    free(copy);
    return err;
}

static void damaged_letters(void **state)
{
    const char *codecs[] = {"none", "strom", "topk", "half"};

    (void)state;
    for (int i = 0; i < 4; i++) {
        plan *p = new_plan("peers", 4, codecs[i]);
        ranks_all_ok(&(ranks){.net = "sim", .size = 2, .fn = letter_rank, .arg = p});
        free(p);
    }
}

/* A gradient that is not finite is named by who has it; nobody waits for ever. */
static weir_err nan_rank(weir_net *net, void *arg)
{
    plan *p = arg;
    rank *r = calloc(1, sizeof *r);
    weir_turn turn = {.rate = 0.1};
    weir_err err;
    char why[WEIR_WHY_MAX];

    if (!r || !(r->arena = weir_arena_new()))
        return weir_fail_nomem(0);
    err = rank_open(r, net, p);
    make_gradient(r, p, 0, 0.1);
    if (r->g.me == 1)
        r->grad[ROWS * COLS + 700] = NAN;
    for (int i = 0; i < r->lanes && !err; i++)
        err = p->exchange->bucket(r->self, &r->lane[i], turn);
    if (!err)
        err = p->exchange->finish(r->self, &(weir_commit){.turn = turn, .rate = 0.1, .keep = true});
    snprintf(why, sizeof why, "%s", weir_why_text());
    p->exchange->close(r->self);
    weir_arena_free(r->arena);
    free(r);
    return err ? weir_fail(err, "%s", why) : WEIR_OK;
}

static void not_finite(void **state)
{
    const char *codecs[] = {"none", "strom", "onebit"};

    (void)state;
    for (int i = 0; i < 3; i++) {
        plan *p = new_plan("peers", 4, codecs[i]);
        ranks r = {.net = "sim", .size = 3, .fn = nan_rank, .arg = p};
        ranks_run(&r);
        assert_int_equal(r.err[1], WEIR_NAN);
        assert_says(r.why[1], "gradient of v");
        assert_int_equal(r.err[0], WEIR_LOST);
        assert_int_equal(r.err[2], WEIR_LOST);
        free(p);
    }
}

static void refusals(void **state)
{
    weir_net_facts facts = {0};

    (void)state;
    for (weir_plugs c = weir_codecs; *c; c++)
        for (weir_plugs o = weir_optims; *o; o++) {
            const weir_codec *codec = (const weir_codec *)*c;
            if (!strcmp((*c)->name, "auto")) /* a choice is refused for a reason of its own */
                continue;
            const char *why = weir_exchange_refuse(&weir_exchange_peers, codec, (const weir_optim *)*o, &facts, 4);
            bool fits = codec->rounds == 1 && !codec->chooses && !strcmp((*o)->name, "sgd");
            assert_null(weir_exchange_refuse(&weir_exchange_allreduce, codec, (const weir_optim *)*o, &facts, 4));
            if ((why == NULL) != fits)
                fail_msg("%s and %s: %s", (*c)->name, (*o)->name, why ? why : "not refused");
            if (strcmp((*o)->name, "sgd"))
                assert_says(why, "sgd");
        }
}

/* Momentum behind the codec there is none. */
static void correct_no(void **state)
{
    plan *p = new_plan("peers", 4, "strom:correct=no");
    ranks r = {.net = "sim", .size = 2, .fn = run_rank, .arg = p};

    (void)state;
    p->optim = "sgd:momentum=0.5";
    ranks_run(&r);
    for (int m = 0; m < 2; m++) {
        assert_int_equal(r.err[m], WEIR_MISFIT);
        assert_says(r.why[m], "correct=no");
    }
    free(p);
}

/* What a letter of a falling rate left behind is as much as before when it is seen as gradients; of a rate that is nearly gone, no more than 16 times as much. */
static void held_in_units(void **state)
{
    const float units[] = {2, 1, 0.25f, 1.f / 16, 1e-3f, 1e-9f};

    (void)state;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        float held[] = {1, -2, 0.5f}, speed[] = {1, 1, 1}, grown = units[i] > 1.f / 16 ? 1 / units[i] : 16;
        weir_bucket b = {.n = 3};
        weir_lane lane = {.bucket = &b, .unit = units[i], .held.now = held, .speed.now = speed};
        weir_lane_in_unit(&lane, 1);
        assert_true(held[0] == grown && held[1] == -2 * grown && held[2] == 0.5f * grown);
        assert_true(fabsf(speed[0] * units[i] - 1) < 1e-6f && lane.unit == 1);
        weir_lane_in_unit(&lane, 1); /* once is enough */
        assert_true(held[0] == grown);
    }
}

/* A fixed threshold is one for gradients, whatever the rate is: none of these reaches it, so nothing moves. */
static void tau_is_of_gradients(void **state)
{
    plan *p = new_plan("peers:bound=0", 0, "strom:tau=10,warmup=0,ramp=0");

    (void)state;
    p->fall = 2;
    all_well(p, "sim", 2);
    for (int i = 0; i < N - 100; i++)
        assert_true(p->param[0][i] == (float)(i % 31) / 31 - 0.5f);
    free(p);
}

/* Sizes alone take the same way; one worker alone is a group too. */
static void dry_and_alone(void **state)
{
    plan *p = new_plan("peers", 4, "strom");
    ranks r = {.net = "sim:dry=yes,rate=1M", .size = 4, .fn = run_rank, .arg = p};

    (void)state;
    ranks_all_ok(&r);
    assert_true(r.seconds > 12 * 3 * 500 * 8 / 1e6); /* the dense tail and its notes alone take longer than that */
    free(p);
    p = new_plan("peers", 4, "topk:density=0.1");
    all_well(p, "sim", 1);
    free(p);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lock_step_is_synchronous), cmocka_unit_test(lock_step_has_the_bits_of_a_gather), cmocka_unit_test(never_further_apart),
        cmocka_unit_test(repeats_in_sim), cmocka_unit_test(conserved), cmocka_unit_test(a_leaver_hands_over), cmocka_unit_test(groups_change), cmocka_unit_test(a_lost_peer_is_named), cmocka_unit_test(a_replica_that_differs_is_named),
        cmocka_unit_test(damaged_letters), cmocka_unit_test(not_finite), cmocka_unit_test(refusals), cmocka_unit_test(correct_no), cmocka_unit_test(held_in_units), cmocka_unit_test(tau_is_of_gradients), cmocka_unit_test(dry_and_alone)};

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
