/* The exchange `peers` where something goes wrong: who is missing or disagrees is named. And
 * settings that it does otherwise than `allreduce`. */
#include "exchange/delta.h"
#include "help_peers.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

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

/* A delta with any bit changed, or of another length, is told from a whole one, and changes
 * nothing. */
static weir_err damage(rank *r, weir_lane *l, const weir_delta_writer *pen, unsigned char *copy,
                       size_t len)
{
    weir_delta x = {.from = 1, .lane = 0, .step = 5, .data = copy, .len = len};
    float notes[WEIR_EXCHANGE_NOTES];
    uint64_t sum;

    memset(r->grad, 0, sizeof r->grad);
    CHECK(weir_delta_read(l, pen, &x, notes, &sum) == WEIR_OK);
    memset(r->grad, 0, sizeof r->grad);
    for (size_t bit = 0; bit < 8 * len; bit += bit < 8 * 200 ? 1 : 97) {
        copy[bit / 8] ^= (unsigned char)(1 << bit % 8);
        CHECK(weir_delta_read(l, pen, &x, notes, &sum) == WEIR_INVALID &&
              strstr(weir_why_text(), "rank 1"));
        copy[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    for (x.len = 0; x.len < len; x.len += x.len < 200 ? 1 : 51)
        CHECK(weir_delta_read(l, pen, &x, notes, &sum) == WEIR_INVALID);
    x.len = weir_delta_most(l) + 1;
    CHECK(weir_delta_read(l, pen, &x, notes, &sum) == WEIR_INVALID);
    x.len = len;
    x.step = 6;
    CHECK(weir_delta_read(l, pen, &x, notes, &sum) == WEIR_INVALID);
    for (int i = 0; i < N; i++)
        CHECK(r->grad[i] == 0);
    return WEIR_OK;
}

static weir_err letter_rank(weir_net *net, void *arg)
{
    plan *p = arg;
    rank *r = calloc(1, sizeof *r);
    float *tile = calloc(WEIR_FEED_TILE, sizeof *tile);
    unsigned char *copy = calloc(1, 1 << 20);
    size_t len;
    weir_err err;

    if (!r || !tile || !copy || !(r->arena = weir_arena_new()))
        return weir_fail_nomem(0);
    err = peer_open(r, net, p);
    if (!err && !r->g.me) {
        weir_delta_writer pen = {.group = &r->g, .base = 0.05, .seed = 1, .tile = tile};
        make_gradient(r, p, 5, 0.05);
        err = weir_delta_write(&r->lane[0], &pen, (weir_when){.step = 5, .rate = 0.05}, 1, copy,
                               &len);
        if (!err)
            err = damage(r, &r->lane[0], &pen, copy, len);
        pen.base = 0.1;
        if (!err && weir_delta_read(&r->lane[0], &pen,
                                    &(weir_delta){.from = 1, .step = 5, .data = copy, .len = len},
                                    r->grad, &(uint64_t){0}) != WEIR_DIVERGED)
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
    const char *codecs[] = {"none", "strom:warmup=0,ramp=0", "topk:warmup=0,ramp=0", "half"};

    (void)state;
    for (int i = 0; i < 4; i++) {
        plan *p = new_plan("peers", 4, codecs[i]);
        ranks_all_ok(&(ranks){.net = "sim", .size = 2, .fn = letter_rank, .arg = p});
        free(p);
    }
}

/* What a delta of a falling rate left behind is as much as before when it is seen as gradients; of
 * a rate that is nearly gone, no more than 16 times as much. */
static void held_in_units(void **state)
{
    const float units[] = {2, 1, 0.25f, 1.f / 16, 1e-3f, 1e-9f};

    (void)state;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        float held[] = {1, -2, 0.5f}, speed[] = {1, 1, 1},
              grown = units[i] > 1.f / 16 ? 1 / units[i] : 16;
        weir_bucket b = {.n = 3};
        weir_lane lane = {.bucket = &b, .unit = units[i], .held.now = held, .speed.now = speed};
        weir_lane_in_unit(&lane, 1);
        assert_true(held[0] == grown && held[1] == -2 * grown && held[2] == 0.5f * grown);
        assert_true(fabsf(speed[0] * units[i] - 1) < 1e-6f && lane.unit == 1);
        weir_lane_in_unit(&lane, 1); /* once is enough */
        assert_true(held[0] == grown);
    }
}

/* A fixed threshold is one for gradients, whatever the rate is: none of these reaches it, so
 * nothing moves. */
static void tau_is_of_gradients(void **state)
{
    plan *p = new_plan("peers:bound=0", 0, "strom:tau=10,warmup=0,ramp=0");

    (void)state;
    p->fall = 2;
    all_well(p, "sim", 2);
    for (int i = 0; i < N - 100; i++)
        assert_true(p->param[0][i] == first_param(i));
    free(p);
}

/* Sizes alone take the same way; one worker alone is a group too. */
static void dry_and_alone(void **state)
{
    plan *p = new_plan("peers", 4, "strom");
    ranks r = {.net = "sim:dry=yes,rate=1M", .size = 4, .fn = run_rank, .arg = p};

    (void)state;
    ranks_all_ok(&r);
    /* the dense tail and its notes alone take longer than that */
    assert_true(r.seconds > 12 * 3 * 500 * 8 / 1e6);
    free(p);
    p = new_plan("peers", 4, "topk:density=0.1");
    all_well(p, "sim", 1);
    free(p);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_peer_is_named), cmocka_unit_test(a_replica_that_differs_is_named),
        cmocka_unit_test(damaged_letters),      cmocka_unit_test(held_in_units),
        cmocka_unit_test(tau_is_of_gradients),  cmocka_unit_test(dry_and_alone),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
