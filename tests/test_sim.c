/* test_sim.c - the simulated world's own laws: what a message costs, that a seed fixes everything,
 * faults by order, deadlocks. What it shares with all worlds is in test_net_laws.c. */
#include "coll/coll.h"
#include "core/hash.h"
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

static bool near(double a, double b) { return fabs(a - b) <= 1e-12 * (fabs(a) + fabs(b)); }

static void assert_near(double a, double b)
{
    if (!near(a, b))
        fail_msg("%.17g is not %.17g", a, b);
}

/* ---- what messages cost ---- */

typedef struct stream {
    int from, to;
    size_t len;
    double took; /* out: from the start of all to its arrival */
} stream;
typedef struct streams {
    int count;
    stream s[4];
} streams;

/* All streams start at time 0 and are received where they go. */
static weir_err flow(weir_net *n, void *arg)
{
    streams *all = arg;
    weir_net_op *ops = calloc(8, sizeof *ops), *p[8] = {0};
    int which, left = 0;

    for (int i = 0; i < all->count; i++) {
        stream *s = &all->s[i];
        if (s->to == weir_net_rank(n))
            weir_net_recv(n, s->from, tag(0, (uint32_t)i), NULL, 0, p[i] = &ops[i]), left++;
        if (s->from == weir_net_rank(n))
            weir_net_send(n, s->to, tag(0, (uint32_t)i), NULL, s->len, p[4 + i] = &ops[4 + i]),
                left++;
    }
    for (; left > 0; left--) {
        WEIR_TRY(weir_net_wait(n, p, 8, 0, &which));
        WEIR_TRY(weir_net_why(n, p[which]));
        if (which < 4)
            all->s[which].took = weir_net_now(n);
        weir_net_release(n, p[which]);
        p[which] = NULL;
    }
    free(ops);
    return WEIR_OK;
}

static streams run_streams(const char *spec, int size, streams all)
{
    ranks_all_ok(&(ranks){.net = spec, .size = size, .fn = flow, .arg = &all});
    return all;
}

static void test_one_message(void **state)
{
    static const size_t lengths[] = {0, 1, 1000, 65536, 65537, 1 << 20, 10000000};
    streams s;

    (void)state;
    for (int i = 0; i < 7; i++) {
        s = run_streams("sim:latency=50us,rate=1G", 2, (streams){1, {{0, 1, lengths[i]}}});
        assert_near(s.s[0].took, 50e-6 + (double)lengths[i] * 8e-9);
        s = run_streams("sim:latency=3ms,rate=100M,overhead=1ms,packet=1000,dry=yes", 2,
                        (streams){1, {{1, 0, lengths[i]}}});
        assert_near(s.s[0].took, 1e-3 + 3e-3 + (double)lengths[i] * 8e-8);
    }
}

/* Into one port and out of one port, two take as long as twice one; both ways at once, or past each
 * other, as long as one. */
static void test_sharing(void **state)
{
    const double n = 8e6, wire = n * 8e-9, late = 50e-6, packet = 65536 * 8e-9;
    streams s;

    (void)state;
    s = run_streams("sim", 3, (streams){2, {{0, 2, 8000000}, {1, 2, 8000000}}});
    assert_near(fmax(s.s[0].took, s.s[1].took), late + 2 * wire);
    assert_true(fmin(s.s[0].took, s.s[1].took) > late + 2 * wire - 2 * packet);
    s = run_streams("sim", 3, (streams){2, {{0, 1, 8000000}, {0, 2, 8000000}}});
    assert_near(fmax(s.s[0].took, s.s[1].took), late + 2 * wire);
    assert_true(fmin(s.s[0].took, s.s[1].took) > late + 2 * wire - 2 * packet);
    s = run_streams(
        "sim", 4,
        (streams){4, {{0, 1, 8000000}, {1, 0, 8000000}, {2, 3, 8000000}, {3, 2, 8000000}}});
    for (int i = 0; i < 4; i++)
        assert_near(s.s[i].took, late + wire);
    /* a short one to another peer does not wait for the long one before it */
    s = run_streams("sim", 3, (streams){2, {{0, 1, 8000000}, {0, 2, 100}}});
    assert_true(s.s[1].took < late + 3 * packet);
    /* but to the same peer it stays behind */
    s = run_streams("sim", 3, (streams){2, {{0, 1, 8000000}, {0, 1, 100}}});
    assert_true(s.s[1].took > s.s[0].took);
}

static void test_racks_and_machines(void **state)
{
    const double n = 1e6, wire = n * 8e-9, late = 50e-6, packet = 65536 * 8e-9;
    const char *tree = "sim:rack=2,uplink=100M,rack_latency=20us";
    streams s;

    (void)state;
    s = run_streams(tree, 4, (streams){1, {{0, 1, 1000000}}});
    assert_near(s.s[0].took, late + wire);
    /* ten times slower, as soon as the first packet is there */
    s = run_streams(tree, 4, (streams){1, {{1, 2, 1000000}}});
    assert_true(fabs(s.s[0].took - (late + 20e-6 + 10 * wire)) < packet * 1e-3);
    /* two share the rack's link */
    s = run_streams(tree, 4, (streams){2, {{0, 2, 1000000}, {1, 3, 1000000}}});
    assert_true(fabs(fmax(s.s[0].took, s.s[1].took) - (late + 20e-6 + 20 * wire)) < packet * 10);
    /* enough for both */
    s = run_streams("sim:rack=2,uplink=4G", 4, (streams){2, {{0, 2, 1000000}, {1, 3, 1000000}}});
    assert_true(fmax(s.s[0].took, s.s[1].took) < late + wire + packet);
    s = run_streams("sim:machine=2,local_latency=2us,local_rate=10G", 4,
                    (streams){2, {{0, 1, 1000000}, {0, 2, 1000000}}});
    assert_near(s.s[0].took, 2e-6 + wire / 10);
    assert_near(s.s[1].took, late + wire);
}

static weir_err machines(weir_net *n, void *arg)
{
    (void)arg;
    for (int r = 0; r < weir_net_size(n); r++)
        CHECK(weir_net_machine(n, r) == r / 3 * 3);
    CHECK(weir_net_size(n) == 8 && !strcmp(weir_net_name(n), "sim") && !weir_net_dry(n));
    return WEIR_OK;
}

static void test_machines(void **state)
{
    (void)state;
    ranks_all_ok(&(ranks){.net = "sim:machine=3,nodes=8", .size = 8, .fn = machines});
}

/* ---- the ring's formula ---- */

typedef struct reduction {
    size_t floats;
    double seconds;
    const char *coll;
    uint64_t messages, bytes;
    int rounds;
} reduction;

static weir_err reduce(weir_net *n, void *arg)
{
    reduction *r = arg;
    weir_arena *a = weir_arena_new();
    weir_group g;
    weir_coll_use use;
    float *x = weir_net_dry(n) ? NULL : WEIR_NEW(a, float, r->floats);
    weir_err err = weir_group_all(n, a, &g);

    if (!err)
        err = weir_coll_open(r->coll ? r->coll : "ring:segment=1073741824", &g, a, &use);
    for (int k = 0; k < (r->rounds ? r->rounds : 1) && !err; k++) {
        for (size_t i = 0; x && i < r->floats; i++)
            x[i] = (float)(i % 17);
        err = weir_allreduce(&use, &g, x, r->floats, &weir_sum_f32);
        for (size_t i = 0; x && !err && i < r->floats; i++)
            if (x[i] != (float)(i % 17) * (float)g.size)
                err = weir_fail(WEIR_FAILED, "the sum of element %zu is wrong", i);
    }
    r->seconds = fmax(r->seconds, weir_net_now(n));
    r->messages += weir_net_counted(n).messages;
    r->bytes += weir_net_counted(n).sent;
    weir_arena_free(a);
    return err;
}

static weir_err run_sim(const char *spec, weir_err (*fn)(weir_net *, void *), void *arg)
{
    weir_rank_info rank_info;

    ranks_info(&rank_info, 0, 1, "", 30);
    return weir_net_run(spec, &rank_info, fn, arg);
}

static void test_ring_formula(void **state)
{
    char spec[64];

    (void)state;
    for (int p = 2; p <= 16; p = p * 2 - (p == 8)) { /* 2 4 8 15 */
        double bytes = 4.0 * 65536 * p,
               formula = 2.0 * (p - 1) / p * bytes * 8e-9 + 2 * (p - 1) * 50e-6;
        for (int dry = 0; dry < 2; dry++) {
            reduction r = {.floats = (size_t)65536 * (size_t)p};
            snprintf(spec, sizeof spec, "sim:nodes=%d,dry=%s", p, dry ? "yes" : "no");
            assert_int_equal(run_sim(spec, reduce, &r), WEIR_OK);
            /* the last send is known to be taken a latency later */
            if (r.seconds < formula * (1 - 1e-9) || r.seconds > formula + 51e-6)
                fail_msg("%d ranks: %.9g s, the formula says %.9g", p, r.seconds, formula);
            assert_int_equal(r.messages, 2 * p * (p - 1));
            assert_int_equal(r.bytes, 2 * (p - 1) * 65536ull * 4 * (unsigned)p);
        }
    }
    /* in segments: no slower than a packet or two, no faster than the wire */
    reduction r = {.floats = 1000003, .coll = "ring"};
    assert_int_equal(run_sim("sim:nodes=4", reduce, &r), WEIR_OK);
    assert_true(r.seconds > 1.5 * 4e6 * 8e-9 && r.seconds < 1.02 * (1.5 * 4e6 * 8e-9 + 6 * 50e-6));
}

static void test_many_dry(void **state)
{
    reduction a = {.floats = 272474, .rounds = 2}, b = a;

    (void)state;
    assert_int_equal(run_sim("sim:nodes=300,dry=yes,jitter=0.5", reduce, &a), WEIR_OK);
    assert_int_equal(run_sim("sim:nodes=300,dry=yes,jitter=0.5", reduce, &b), WEIR_OK);
    assert_true(a.seconds == b.seconds && a.messages == 2u * 2 * 300 * 299);
}

/* ---- a seed fixes everything ---- */

typedef struct outcome {
    uint64_t hash;
    double seconds;
} outcome;

/* Clients that compute for a drawn time and push to whom they like; servers that add what comes as
 * it comes. */
static weir_err push_and_serve(weir_net *n, void *arg)
{
    outcome *all = arg;
    float sum = 0, x;
    double at[3] = {0};

    for (int k = 0; k < 40; k++) {
        weir_net_op in, out, *p = &in;
        int which;
        WEIR_TRY(weir_net_spend(n, weir_net_cost(n, 1e-3)));
        x = 1.0f / (float)(1 + k * weir_net_rank(n));
        weir_net_send(n, (weir_net_rank(n) + 1 + k) % weir_net_size(n),
                      weir_tag(WEIR_CHANNEL_SERVE, 0, 0), &x, sizeof x, &out);
        weir_net_recv_masked(n,
                             &(weir_net_want){WEIR_ANY, weir_tag(WEIR_CHANNEL_SERVE, 0, 0),
                                              WEIR_TAG_CHANNEL, &x, sizeof x},
                             &in);
        WEIR_TRY(weir_net_wait(n, &p, 1, 0, &which));
        sum = sum * 0.75f + x * (float)(1 + in.peer);
        at[0] += weir_net_now(n);
    }
    at[1] = weir_net_now(n);
    at[2] = sum;
    all->hash = weir_hash(at, sizeof at, all->hash);
    all->seconds = fmax(all->seconds, at[1]);
    return WEIR_OK;
}

static outcome run_seed(int seed, const char *more)
{
    outcome all = {0};
    char spec[200];

    snprintf(spec, sizeof spec, "sim:nodes=6,seed=%d,%s", seed, more);
    if (run_sim(spec, push_and_serve, &all))
        fail_msg("%s", weir_why_text());
    return all;
}

static void test_seed(void **state)
{
    static const char *const specs[] = {"jitter=1",
                                        "draw=lognormal,cv=0.5",
                                        "draw=gamma,cv=1.5",
                                        "drop=0.05,rto=10ms",
                                        "jitter=0.3,duplicate=0.1,corrupt=0.02,rto=1ms,slow=2x3",
                                        "pause=any@0.005~0.02+3ms"};

    (void)state;
    for (int i = 0; i < 6; i++) {
        outcome a = run_seed(1, specs[i]), b = run_seed(1, specs[i]), c = run_seed(2, specs[i]);
        assert_true(a.hash == b.hash && a.seconds == b.seconds);
        assert_true(a.hash != c.hash && a.seconds != c.seconds);
    }
    /* nothing drawn, nothing differs */
    assert_true(run_seed(1, "packet=1000").hash == run_seed(2, "packet=1000").hash);
}

/* ---- what work costs ---- */

enum { DRAWS = 4000 };

static weir_err costs(weir_net *n, void *arg)
{
    double *moment = arg, x;

    moment += 2 * weir_net_rank(n);
    for (int i = 0; i < DRAWS; i++) {
        x = weir_net_cost(n, 2);
        CHECK(x > 0);
        moment[0] += x / DRAWS;
        moment[1] += x * x / DRAWS;
    }
    return WEIR_OK;
}

static void check_costs(const char *spec, const double mean[2], double cv)
{
    double moment[4] = {0};

    assert_int_equal(run_sim(spec, costs, moment), WEIR_OK);
    for (int r = 0; r < 2; r++) {
        double got =
            sqrt(fmax(0, moment[2 * r + 1] - moment[2 * r] * moment[2 * r])) / moment[2 * r];
        if (fabs(moment[2 * r] / mean[r] - 1) > 1e-9 + 0.06 * cv ||
            fabs(got - cv) > 1e-6 + 0.1 * cv)
            fail_msg("%s: rank %d has mean %g and cv %g", spec, r, moment[2 * r], got);
    }
}

static void test_costs(void **state)
{
    (void)state;
    check_costs("sim:nodes=2", (double[]){2, 2}, 0);
    check_costs("sim:nodes=2,slow=1x2.5", (double[]){2, 5}, 0);
    check_costs("sim:nodes=2,cost=10ms,slow=0x3/1x0.5", (double[]){0.03, 0.005}, 0);
    check_costs("sim:nodes=2,draw=lognormal,cv=0.3,slow=1x2", (double[]){2, 4}, 0.3);
    check_costs("sim:nodes=2,draw=gamma,cv=0.4", (double[]){2, 2}, 0.4);
    check_costs("sim:nodes=2,draw=gamma,cv=1.5", (double[]){2, 2}, 1.5);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_message),
        cmocka_unit_test(test_sharing),
        cmocka_unit_test(test_racks_and_machines),
        cmocka_unit_test(test_machines),
        cmocka_unit_test(test_many_dry),
        cmocka_unit_test(test_ring_formula),
        cmocka_unit_test(test_seed),
        cmocka_unit_test(test_costs),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
