/* The laws of the exchange `peers`: lock step is synchronous SGD, nobody is further away than the
 * bound, nothing that was sent is lost or comes twice, and replicas that were drained agree. */
#include "help_peers.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* ---- lock step ---- */

/* A step rounds an element some 9 times: a sum of four, decay, momentum, rate and move; as likely
 * up as down, each by u / sqrt(3) of it in the root mean square; in 12 steps, in two runs. The
 * largest of 8,100 elements is within 4 deviations. */
static const double LOCK_STEP_ROUNDING = 4 * 8.485 * 0x1p-24; /* sqrt(2 * 12 * 9 / 3) = 8.485 */

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
        if (distance(peers->param[m], sync->param[m], N) > LOCK_STEP_ROUNDING)
            fail_msg("%s over %s: rank %d is %g away from synchronous SGD", optim, net, m,
                     distance(peers->param[m], sync->param[m], N));
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
    const char *codecs[] = {"strom:warmup=0", "strom:warmup=0,quanta=4,density=0.1",
                            "topk:warmup=0,density=0.05", "redsync:warmup=0,density=0.01",
                            "terngrad"};

    (void)state;
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
        plan *sync = new_plan("allreduce", 0, codecs[i]),
             *peers = new_plan("peers:bound=0", 0, codecs[i]);
        /* where the optimiser keeps momentum, it comes after the codec */
        if (strcmp(codecs[i], "terngrad"))
            sync->optim = peers->optim = "sgd:momentum=0.9";
        all_well(sync, "sim", 3);
        all_well(peers, "sim", 3);
        for (int k = 0; k < N - 100; k++) /* the tail is summed in another order */
            if (sync->param[1][k] != peers->param[1][k])
                fail_msg("%s: element %d is %.9g, not %.9g", codecs[i], k,
                         (double)peers->param[1][k], (double)sync->param[1][k]);
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
        fail_msg("%s, bound %d: %d steps apart, and %d in its own words; %d were expected", net,
                 bound, most, said, reached);
    free(p);
}

static void never_further_apart(void **state)
{
    int bounds[] = {0, 1, 2, 4, 7};

    (void)state;
    for (int i = 0; i < 5; i++) {
        check_bound("sim:slow=2x5", bounds[i], bounds[i]);
        check_bound("sim:slow=0x3/3x2,draw=gamma,cv=0.8,jitter=1,latency=2ms,rate=20M,seed=5",
                    bounds[i], bounds[i] ? 1 : 0);
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

/* How far sums may be off where a codec, or a falling rate, makes something that is rounded: on its
 * way into the parameters an element is scaled, meets what waited and leaves something behind on
 * each of at most 5 workers, and is added to what came and to the parameters for each of them: 5 *
 * 5 roundings a step. Nothing is larger than what has gone in so far, times the rate; of those that
 * send a mean or a norm for all of a row (onebit, sign), than the largest element of it. */
static double room(const plan *p, bool exact)
{
    double most = 0;

    for (int i = 0; i < N && !exact; i++) {
        double in = 0.5;
        for (int m = 0; m < RANKS; m++)
            in += p->size[m][i];
        most = fmax(most, in);
    }
    return p->steps * 25 * 0x1p-24 * most;
}

/* All that went in has been applied or is held back. */
static void check_all_there(const plan *p, int ranks, bool exact)
{
    double most = room(p, exact);

    for (int i = 0; i < N; i++) {
        double moved = (double)first_param(i) - (double)p->param[0][i], in = 0;
        for (int m = 0; m < ranks; m++)
            in += p->input[m][i] - FIRST_RATE * (double)p->held[m][i];
        if (!(fabs(moved - in) <= most))
            fail_msg("%s: element %d moved by %.9g, not by %.9g", p->codec, i, moved, in);
    }
}

/* After draining everybody has applied the same. */
static void check_conserved(const char *net, const char *codec, double fall, bool exact)
{
    plan *p = new_plan("peers:3", 3, codec);

    p->spend = 1e-3;
    p->fall = fall;
    all_well(p, net, 4);
    for (int m = 1; m < 4; m++)
        assert_memory_equal(p->param[m], p->param[0], sizeof p->param[0]);
    check_all_there(p, 4, exact);
    /* settled: the sums are the last step's */
    assert_true(p->last[1] == 4 * 1000 * (p->steps - 1) + 6);
    free(p);
}

static void conserved(void **state)
{
    static const struct {
        const char *codec;
        bool exact; /* sends numbers as they are */
    } trial[] = {{"none", true},
                 {"topk:density=0.02", true},
                 {"dgc:warmup=0", true},
                 {"strom", false},
                 {"strom:tau=0.5", true},
                 {"redsync:warmup=3", false},
                 {"redsync:quantise=no,warmup=0", true},
                 {"onebit", false},
                 {"int8:residual=yes", false},
                 {"sign", false}};

    (void)state;
    for (size_t i = 0; i < sizeof trial / sizeof *trial; i++)
        check_conserved("sim:slow=1x4,draw=gamma,cv=0.5", trial[i].codec, 1, trial[i].exact);
    /* what is held back is so in moves, whatever the rate does */
    check_conserved("sim:slow=1x4", "strom", 0.9, false);
    check_conserved("zmq", "topk:density=0.02", 1, true);
}

/* Rank 3 goes: the others take over what it held back, and go on. */
static weir_err shrink(rank *r, plan *p)
{
    static const int stay[] = {0, 1, 2};
    const weir_exchange *x = p->exchange;
    uint64_t half = (uint64_t)p->steps / 2;

    for (uint64_t step = 0; step < half; step++)
        WEIR_TRY(one_step(r, p, step));
    WEIR_TRY(x->settle(r->self, (weir_when){.step = half}));
    WEIR_TRY(x->hand_over(r->self, stay, 3));
    if (r->g.me < 3) {
        WEIR_TRY(weir_group_make(r->g.net, 1, stay, 3, r->arena, &r->g));
        WEIR_TRY(x->regroup(r->self, rank_env(r)));
        for (uint64_t step = half; step < (uint64_t)p->steps; step++)
            WEIR_TRY(one_step(r, p, step));
        WEIR_TRY(x->settle(r->self, (weir_when){.step = (uint64_t)p->steps}));
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
    for (int i = 0; i < N; i++)
        assert_true(p->held[3][i] == 0);
    check_all_there(p, 4, true);
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
    uint64_t tag = weir_tag(WEIR_CHANNEL_MEMBERS, 1, 0);

    for (int to = 4; to < 6 && phase == 2 && me == 1; to++)
        WEIR_TRY(weir_net_send_wait(net, to, tag, r->param, sizeof r->param));
    if (me > 3)
        WEIR_TRY(weir_net_recv_wait(net, 1, tag, r->param, sizeof r->param, NULL));
    WEIR_TRY(weir_group_make(net, (unsigned)phase + 1, phase_of[phase], count_of[phase], r->arena,
                             &r->g));
    WEIR_TRY(weir_coll_open("ring", &r->g, r->arena, &r->coll));
    return p->exchange->regroup(r->self, rank_env(r));
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
        WEIR_TRY(x->settle(r->self, (weir_when){.step = last}));
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
    static const char *const codecs[] = {"topk:density=0.02,warmup=0", "strom:warmup=0",
                                         "onebit:warmup=0", "int8:residual=yes"};

    (void)state;
    for (size_t c = 0; c < sizeof codecs / sizeof *codecs; c++) {
        plan *p = new_plan("peers:2", 2, codecs[c]);
        double waits = 0;
        p->spend = 1e-3;
        p->run = change;
        all_well(p, "sim:slow=1x4,draw=gamma,cv=0.5", 6);
        for (int m = 1; m < 5; m++)
            assert_memory_equal(p->param[m], p->param[0], sizeof p->param[0]);
        for (int m = 0; m < 5; m++)
            for (int i = 0; i < N; i++)
                waits += fabs((double)p->held[m][i]);
        check_all_there(p, 5, !strncmp(codecs[c], "topk", 4));
        assert_true(waits > 0);
        free(p);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lock_step_is_synchronous),
        cmocka_unit_test(lock_step_has_the_bits_of_a_gather),
        cmocka_unit_test(never_further_apart),
        cmocka_unit_test(repeats_in_sim),
        cmocka_unit_test(conserved),
        cmocka_unit_test(a_leaver_hands_over),
        cmocka_unit_test(groups_change),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
