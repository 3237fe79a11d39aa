/* test_sim_faults.c - faults by order in the simulated world: who notices what, when; and
 * deadlocks, which it alone can see. */
#include "help_laws.h"
#include "net/sim.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* after those it needs */
#include <cmocka.h>

static uint64_t tag(uint32_t sequence, uint32_t part) { return law_tag(sequence, part); }

static void assert_about(double a, double b, double slack)
{
    if (fabs(a - b) > slack)
        fail_msg("%.9g is not about %.9g", a, b);
}

/* ---- steps that go on for ever, or for some rounds: every rank to every other, short and long
 * ---- */

typedef struct loop {
    int rounds;              /* 0: until something ends it */
    double ended[RANKS_MAX]; /* when each rank's did */
    weir_fault fault[RANKS_MAX];
    weir_sim_count count;
} loop;

enum { LONGEST = 100000 };

static weir_err round_of(weir_net *n, uint32_t sequence, unsigned char *memory)
{
    const size_t lengths[] = {16, 5000, LONGEST};
    weir_net_op *ops = calloc(2 * RANKS_MAX, sizeof *ops), *p[2 * RANKS_MAX];
    size_t len = lengths[sequence % 3];
    int count = 0;
    weir_err err;

    weir_net_phase(n, WEIR_PHASE_EXCHANGE, sequence + 1);
    law_fill(memory, len, sequence + (unsigned)weir_net_rank(n));
    for (int q = 0; q < weir_net_size(n); q++)
        if (q != weir_net_rank(n)) {
            weir_net_recv(n, q, tag(sequence, 0), memory + (size_t)(q + 1) * LONGEST, LONGEST,
                          &ops[count++]);
            weir_net_send(n, q, tag(sequence, 0), memory, len, &ops[count++]);
        }
    err = weir_net_wait_all(n, ops, count, 0);
    for (int q = 0; q < weir_net_size(n) && !err; q++)
        if (q != weir_net_rank(n) &&
            !law_filled(memory + (size_t)(q + 1) * LONGEST, len, sequence + (unsigned)q))
            err = weir_fail(WEIR_FAILED, "not so: what rank %d sent is what came", q);
    for (int i = 0; i < count; i++)
        p[i] = &ops[i];
    weir_net_cancel(n, p, count);
    free(ops);
    return err ? err : weir_net_spend(n, 1e-3);
}

static weir_err loops(weir_net *n, void *arg)
{
    loop *l = arg;
    int me = weir_net_rank(n);
    unsigned char *memory = malloc((size_t)(weir_net_size(n) + 1) * LONGEST);
    weir_err err = WEIR_OK;

    for (uint32_t sequence = 0; !err && (!l->rounds || (int)sequence < l->rounds); sequence++)
        err = round_of(n, sequence, memory);
    free(memory);
    weir_net_fault(n, &l->fault[me]);
    l->ended[me] = weir_net_now(n);
    l->count = weir_sim_counted(n);
    return err;
}

static ranks run_loop(const char *spec, int size, double timeout, loop *l)
{
    ranks r = {.net = spec, .size = size, .fn = loops, .arg = l, .timeout = timeout};

    ranks_run(&r);
    return r;
}

/* ---- dying ---- */

static void test_kill(void **state)
{
    loop l = {0};
    ranks r = run_loop("sim:kill=2@0.05,detect=3ms", 4, 30, &l);

    (void)state;
    assert_int_equal(r.all, WEIR_LOST);
    assert_says(r.all_why, "rank 2 (host here, pid ");
    for (int i = 0; i < 4; i++) {
        if (i == 2)
            continue;
        assert_int_equal(r.err[i], WEIR_LOST);
        assert_says(r.why[i], "rank 2 (host here, pid ");
        assert_says(r.why[i], ") ended in phase exchange of step ");
        assert_true(l.fault[i].rank == 2 && l.fault[i].code == WEIR_LOST && !l.fault[i].cause);
        assert_about(l.ended[i], 0.053, 1e-9);
    }
    assert_int_equal(r.err[2], WEIR_FAILED);
    assert_about(l.ended[2], 0.05, 1e-9);
}

/* At any instant, whoever it is: all others name it. */
static void test_kill_any(void **state)
{
    char spec[96];

    (void)state;
    for (int seed = 1; seed <= 40; seed++) {
        loop l = {0};
        int victim = -1;
        snprintf(spec, sizeof spec, "sim:seed=%d,kill=any@0~0.1,jitter=0.2,rendezvous=%s", seed,
                 seed % 2 ? "yes" : "no");
        ranks r = run_loop(spec, 5, 30, &l);
        assert_int_equal(r.all, WEIR_LOST);
        for (int i = 0; i < 5; i++)
            if (r.err[i] == WEIR_FAILED)
                victim = i;
        assert_true(victim >= 0);
        for (int i = 0; i < 5; i++)
            if (i != victim)
                assert_true(r.err[i] == WEIR_LOST && l.fault[i].rank == victim);
    }
}

/* In the middle of a step: the others go on and come to the undisturbed result. First a run to
 * learn when that is. */
static void test_kill_and_repeat(void **state)
{
    const law *l = law_find("kill_and_repeat");
    double when = LAW_TELLS_WHEN;
    char spec[64];

    (void)state;
    ranks_all_ok(&(ranks){.net = "sim", .size = 4, .fn = l->fn, .arg = &when});
    assert_true(when > 0);
    snprintf(spec, sizeof spec, "sim:kill=2@%.9g", when + 1e-6);
    /* rank 2 does nothing by itself */
    ranks r = {.net = spec, .size = 4, .fn = l->fn, .arg = &(double){1}};
    ranks_run(&r);
    for (int i = 0; i < 4; i++)
        if (i == 2 ? !r.err[i] : r.err[i])
            fail_msg("rank %d: %s", i, r.why[i]);
    assert_int_equal(r.all, WEIR_OK); /* of a killed rank the others are the judges */
}

/* ---- stopped ---- */

static void test_pause(void **state)
{
    loop l = {.rounds = 50}, plain = {.rounds = 50};
    ranks r;

    (void)state;
    r = run_loop("sim", 3, 1, &plain);
    assert_int_equal(r.all, WEIR_OK);
    /* shorter than the time-out: all wait, nothing else */
    r = run_loop("sim:pause=1@0.03+0.5", 3, 1, &l);
    assert_int_equal(r.all, WEIR_OK);
    for (int i = 0; i < 3; i++)
        assert_about(l.ended[i] - plain.ended[i], 0.5, 5e-3);
    l = (loop){0};
    r = run_loop("sim:pause=1@0.03+5", 3, 1.5, &l);
    for (int i = 0; i < 3; i += 2) {
        assert_int_equal(r.err[i], WEIR_SILENT);
        assert_says(r.why[i], "rank 1 (host here, pid ");
        assert_says(r.why[i], "was silent for 1.5 s, last seen in phase exchange of step ");
        assert_about(l.ended[i], 1.53, 1e-6);
    }
    assert_int_equal(r.err[1], WEIR_SILENT); /* it goes on, and learns that it was given up */
    assert_about(l.ended[1], 5.03, 1e-3);
    assert_true(l.fault[1].rank == 1);
    l = (loop){0};
    r = run_loop("sim:pause=1@0.03", 3, 1.5, &l); /* for ever: ended when the others are through */
    assert_true(r.err[0] == WEIR_SILENT && r.err[2] == WEIR_SILENT && r.all == WEIR_SILENT &&
                r.err[1] == WEIR_FAILED);
    l = (loop){.rounds = 50};
    /* all together, as by Ctrl-Z: nobody accuses anybody */
    r = run_loop("sim:pause=0@0.03+3/1@0.03+3/2@0.03+3", 3, 1, &l);
    assert_int_equal(r.all, WEIR_OK);
}

/* Two pieces of work of 10 s each; then a wait until 100 s, for a message that nobody sends. */
static weir_err works(weir_net *n, void *arg)
{
    double *at = (double *)arg + 3 * weir_net_rank(n);
    weir_net_op o, *p = &o;
    int which;

    for (int i = 0; i < 2; i++) {
        WEIR_TRY(weir_net_spend(n, 10));
        at[i] = weir_net_now(n);
    }
    weir_net_recv(n, weir_net_rank(n), tag(0, 0), NULL, 0, &o);
    CHECK(weir_net_wait(n, &p, 1, 100, &which) == WEIR_LATE);
    weir_net_cancel(n, &p, 1);
    at[2] = weir_net_now(n);
    return WEIR_OK;
}

/* Work stands still in a pause, wherever in it that lies. The clock does not, and deadlines are by
 * the clock. */
static void test_pause_in_work(void **state)
{
    static const struct {
        const char *net;
        double at[3];
    } cases[] = {
        {"sim:pause=1@1+8", {18, 28, 100}},
        {"sim:pause=1@9+5", {15, 25, 100}},
        {"sim:pause=1@0+3", {13, 23, 100}},
        {"sim:pause=1@12+30", {10, 50, 100}},
        {"sim:pause=1@1+2/1@4+3", {15, 25, 100}},
        {"sim:pause=1@9+5/1@14.5+2",
         {17, 27, 100}}, /* the second in what the first has left over */
        {"sim:pause=1@2+3/1@12+1/1@15+2", {14, 26, 100}}, /* in both pieces: 2-5, 12-13; 15-17 */
        {"sim:pause=1@1+4/1@3+5", {17, 27, 100}},         /* one in the other: from 1 to 8 */
        /* in any order, and one right after: from 1 to 9 */
        {"sim:pause=1@3+5/1@1+4/1@2+1/1@8+1", {18, 28, 100}},
        {"sim:pause=1@30+40", {10, 20, 100}}, /* while it waits: over before the deadline */
        {"sim:pause=1@30+90", {10, 20, 120}}, /* after it: seen when it can look */
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double at[6] = {0};
        ranks_all_ok(
            &(ranks){.net = cases[i].net, .size = 2, .fn = works, .arg = at, .timeout = 1000});
        for (int k = 0; k < 3; k++) {
            assert_about(at[k], (const double[]){10, 20, 100}[k], 1e-5);
            if (fabs(at[3 + k] - cases[i].at[k]) > 1e-5)
                fail_msg("%s: %g s where %g s was expected", cases[i].net, at[3 + k],
                         cases[i].at[k]);
        }
    }
}

/* Its work never ends, also if the last of several pauses is the endless one; it is ended when the
 * others are through. */
static void test_pause_for_ever_in_work(void **state)
{
    static const char *const specs[] = {"sim:pause=1@3", "sim:pause=1@3+2/1@7",
                                        "sim:pause=1@3+2/1@4", "sim:pause=1@3/1@4+2"};

    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        double at[6] = {0};
        ranks r = {.net = specs[i], .size = 2, .fn = works, .arg = at, .timeout = 1000};
        ranks_run(&r);
        assert_int_equal(r.all, WEIR_OK);
        assert_true(!r.err[0] && r.err[1] == WEIR_FAILED && at[3] == 0);
        assert_says(r.why[1], "given up while it computed");
    }
}

/* Pauses that together outlast the time-out are as one. */
/* Rank 1 sends to rank 0, and ends; rank 2 waits for it. */
static weir_err ends_well(weir_net *n, void *arg)
{
    char word[8] = "";

    (void)arg;
    WEIR_TRY(weir_net_spend(n, 0.01));
    if (weir_net_rank(n) == 1)
        return weir_net_send_wait(n, 0, tag(0, 0), word, sizeof word);
    return weir_net_recv_wait(n, 1, tag(0, 1), word, sizeof word, NULL);
}

/* What never comes is not waited for: who has ended is gone, and others hear of it. */
static void test_who_sent_to_one_that_stands_still_leaves(void **state)
{
    static const char *const bad[] = {"sim:eager=64,pause=0@0", "sim:eager=64,pause=0@0.02",
                                      "sim:eager=64,latency=20ms,pause=0@0.02",
                                      "sim:eager=64,cut=0-1@0"};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ranks r = {.net = bad[i], .size = 3, .fn = ends_well, .timeout = 30};
        ranks_run(&r);
        assert_int_equal(r.err[1], WEIR_OK);
        assert_int_equal(r.err[2], WEIR_LOST);
        assert_says(r.why[2], "rank 1 has left the run");
    }
}

static void test_pauses_add_up(void **state)
{
    loop l = {.rounds = 200};
    ranks r = run_loop("sim:pause=1@0.03+1/1@1+1", 3, 1.5, &l);

    (void)state;
    for (int i = 0; i < 3; i += 2) {
        assert_int_equal(r.err[i], WEIR_SILENT);
        assert_about(l.ended[i], 1.53, 1e-6);
    }
}

/* ---- links ---- */

/* So are cuts of one link, named by either end. */
static void test_cuts_add_up(void **state)
{
    loop l = {.rounds = 200};
    ranks r = run_loop("sim:cut=0-2@0.03+1/2-0@1+1", 3, 1.5, &l);

    (void)state;
    assert_true(r.err[0] == WEIR_SILENT && r.err[2] == WEIR_SILENT);
    assert_about(l.ended[0], 1.53, 1e-6);
    l = (loop){.rounds = 200};
    r = run_loop("sim:cut=0-2@0.03+1/2-1@1+1", 3, 1.5, &l); /* two links, neither cut for long */
    assert_int_equal(r.all, WEIR_OK);
}

static void test_cut(void **state)
{
    loop l = {.rounds = 50};
    ranks r = run_loop("sim:cut=0-2@0.03+0.4", 3, 1, &l);

    (void)state;
    assert_int_equal(r.all, WEIR_OK);
    assert_true(l.ended[1] > 0.43);
    l = (loop){0};
    r = run_loop("sim:cut=0-2@0.03+9", 3, 1.5, &l);
    assert_int_equal(r.err[0], WEIR_SILENT);
    assert_int_equal(r.err[2], WEIR_SILENT);
    assert_true(l.fault[0].rank == 2 && l.fault[2].rank == 0);
    assert_says(r.why[0], "was silent for 1.5 s, last seen in phase exchange of step ");
    assert_about(l.ended[0], 1.53, 1e-6);
    /* told by one of them whom it blames */
    assert_true(r.err[1] == WEIR_SILENT && l.fault[1].rank != 1);
    l = (loop){0};
    r = run_loop("sim:cut=1-2@0.03", 3, 1.5, &l); /* for ever */
    assert_true(r.err[1] == WEIR_SILENT && r.err[2] == WEIR_SILENT);
}

/* What is lost, spoilt or doubled on the way costs time, and nothing else. */
static void test_unreliable(void **state)
{
    loop plain = {.rounds = 30}, drop = {.rounds = 30}, corrupt = {.rounds = 30},
         twice = {.rounds = 30};

    (void)state;
    assert_int_equal(run_loop("sim:packet=4096", 3, 30, &plain).all, WEIR_OK);
    assert_int_equal(run_loop("sim:packet=4096,drop=0.05,rto=10ms", 3, 30, &drop).all, WEIR_OK);
    assert_int_equal(run_loop("sim:packet=4096,corrupt=0.05,rto=10ms", 3, 30, &corrupt).all,
                     WEIR_OK);
    assert_int_equal(run_loop("sim:packet=4096,duplicate=0.2", 3, 30, &twice).all, WEIR_OK);
    assert_true(plain.count.mishaps.dropped + plain.count.mishaps.corrupted +
                    plain.count.mishaps.duplicated ==
                0);
    assert_true(drop.count.mishaps.dropped > 10 && !drop.count.mishaps.corrupted &&
                drop.ended[0] > plain.ended[0] + 0.05);
    assert_true(corrupt.count.mishaps.corrupted > 10 && !corrupt.count.mishaps.dropped &&
                corrupt.ended[0] > plain.ended[0] + 0.05);
    assert_true(twice.count.mishaps.duplicated > 10 && twice.ended[0] > plain.ended[0] &&
                twice.ended[0] < drop.ended[0]);
}

/* ---- deadlocks ---- */

static weir_err both_receive(weir_net *n, void *arg)
{
    (void)arg;
    weir_net_phase(n, WEIR_PHASE_EXCHANGE, 7);
    return weir_net_recv_wait(n, 1 - weir_net_rank(n), tag(3, 4), NULL, 0, NULL);
}

static weir_err both_send(weir_net *n, void *arg)
{
    char *big = calloc(1, 1 << 20);
    weir_err err = weir_net_send_wait(n, 1 - weir_net_rank(n), tag(3, 4), big, 1 << 20);

    (void)arg;
    if (!err)
        err = weir_net_recv_wait(n, 1 - weir_net_rank(n), tag(3, 4), big, 1 << 20, NULL);
    free(big);
    return err;
}

static weir_err waits_for_ever(void *arg)
{
    void *item;

    return weir_queue_get(arg, &item, WEIR_NEVER);
}

static weir_err queue_and_join(weir_net *n, void *arg)
{
    weir_queue *q;
    weir_task *t;
    weir_err err;

    (void)arg;
    WEIR_TRY(weir_queue_new(weir_net_rt(n), 1, &q));
    WEIR_TRY(weir_task_start(weir_net_rt(n), "waits", waits_for_ever, q, &t));
    err = weir_task_join(t);
    weir_queue_free(q);
    return err;
}

static void test_deadlock(void **state)
{
    ranks r = {.net = "sim", .size = 2, .fn = both_receive};

    (void)state;
    ranks_run(&r);
    assert_int_equal(r.all, WEIR_FAILED);
    assert_says(r.all_why, "deadlock at 0 s of virtual time");
    assert_says(r.all_why, "rank 0 in phase exchange of step 7: comm waits for a message of rank 1 "
                           "(channel test, sequence 3, part 4)");
    assert_says(r.all_why,
                "rank 1 in phase exchange of step 7: comm waits for a message of rank 0");
    r = (ranks){.net = "sim", .size = 2, .fn = both_send};
    ranks_run(&r);
    assert_says(r.all_why, "rank 0: comm waits for rank 1 to take a message of 1048576 bytes "
                           "(channel test, sequence 3, part 4)");
    ranks_all_ok(&(ranks){.net = "sim:rendezvous=no", .size = 2, .fn = both_send});
    ranks_all_ok(&(ranks){.net = "sim:eager=2000000", .size = 2, .fn = both_send});
    r = (ranks){.net = "sim", .size = 2, .fn = queue_and_join};
    ranks_run(&r);
    assert_int_equal(r.all, WEIR_FAILED);
    assert_says(r.all_why, "waits waits for a queue or a task of its own");
}

/* ---- what is refused ---- */

static weir_err nothing(weir_net *n, void *arg)
{
    (void)n, (void)arg;
    return WEIR_OK;
}

static void test_refused(void **state)
{
    static const char *const bad[] = {
        "sim:nodes=-1",   "sim:latency=5parsec", "sim:rate=0",    "sim:rate=1Q",
        "sim:kill=4@1",   "sim:kill=1",          "sim:kill=1@x",  "sim:kill=1@1+2",
        "sim:pause=1@2+", "sim:cut=1@2",         "sim:cut=1-1@2", "sim:slow=1",
        "sim:slow=9x2",   "sim:slow=1x-2",       "sim:drop=1",    "sim:draw=uniform",
        "sim:kill=1@1/",  "sim:slow=1x2,oops=3", "sim:join=x",    "sim:join=1@2",
        "sim:join=1/",    "sim:join=1+2",        "sim:leave=1",   "sim:leave=4@1",
        "sim:leave=1@1+1"};
    weir_rank_info rank_info;
    weir_net_facts facts;

    (void)state;
    ranks_info(&rank_info, 0, 4, "", 30);
    rank_info.guests = true;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (weir_net_run(bad[i], &rank_info, nothing, NULL) != WEIR_USAGE)
            fail_msg("%s: %s", bad[i], weir_why_text());
    assert_int_equal(weir_net_run("sim:nodes=5", &rank_info, nothing, NULL), WEIR_MISFIT);
    assert_says(weir_why_text(), "nodes=5, but the run was told to have 4 ranks");
    assert_int_equal(weir_net_run("sim:nodes=4,latency=80ns,rate=2.5G,uplink=1T,kill=any@0~1/2@1ms",
                                  &rank_info, nothing, NULL),
                     WEIR_OK);
    rank_info.rank = 1;
    assert_int_equal(weir_net_run("sim:nodes=4", &rank_info, nothing, NULL), WEIR_MISFIT);
    assert_int_equal(weir_net_check("sim:nodes=4", &facts), WEIR_OK);
    assert_true(facts.simulated && facts.loses);
    assert_int_equal(weir_plug_check(weir_nets, "net"), WEIR_OK);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kill),
        cmocka_unit_test(test_kill_any),
        cmocka_unit_test(test_kill_and_repeat),
        cmocka_unit_test(test_pause),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_unreliable),
        cmocka_unit_test(test_deadlock),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_pause_in_work),
        cmocka_unit_test(test_pause_for_ever_in_work),
        cmocka_unit_test(test_who_sent_to_one_that_stands_still_leaves),
        cmocka_unit_test(test_pauses_add_up),
        cmocka_unit_test(test_cuts_add_up),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
