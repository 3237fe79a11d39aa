/* A profile comes back from its file as it was, and a file that is none is refused. */
#include "train/profile.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static const weir_workload lenet = {
    .model = "lenet", .input = "1x28x28", .params = 61706, .stages = 3, .threads = 2};

/* The same but for one of its facts, and how a file of the first ends there. */
static void other(const char *path, weir_arena *arena, weir_workload of, weir_err err)
{
    weir_profile *p;

    assert_int_equal(weir_profile_load(path, NULL, &of, arena, &p), err);
}

static void there_and_back(void **state)
{
    weir_workload of = lenet;
    weir_arena *arena = weir_arena_new();
    weir_profile *p, *q;
    char path[64];

    (void)state;
    snprintf(path, sizeof path, "/tmp/weir-profile-%d", (int)getpid());
    assert_int_equal(weir_profile_new(NULL, &lenet, arena, &p), WEIR_OK);
    p->steps = 4;
    p->samples = 4 * 32;
    for (int i = 0; i < weir_profile_pieces(p); i++)
        p->second[i] = 4 * 0.001 * (i + 1);
    assert_int_equal(weir_profile_save(p, path), WEIR_OK);
    assert_int_equal(weir_profile_load(path, NULL, &lenet, arena, &q), WEIR_OK);
    q->now = 32;
    for (int i = 0; i < weir_profile_pieces(q); i++)
        assert_true(fabs(weir_profile_cost(q, i) - 0.001 * (i + 1)) < 2e-9);
    q->now = 48; /* half as many samples more, and the same update */
    for (int i = 0; i < weir_profile_pieces(q); i++)
        assert_true(fabs(weir_profile_cost(q, i) -
                         (i == weir_cost_update(q) ? 1 : 1.5) * 0.001 * (i + 1)) < 3e-9);
    of.stages = 4;
    other(path, arena, of, WEIR_MISFIT);
    of = lenet, of.params = 1;
    other(path, arena, of, WEIR_MISFIT);
    of = lenet, of.threads = 1;
    other(path, arena, of, WEIR_MISFIT);
    of = lenet, of.input[0] = '3';
    other(path, arena, of, WEIR_MISFIT);
    of = lenet, of.threads = 0; /* whatever it was */
    other(path, arena, of, WEIR_OK);
    unlink(path);
    weir_arena_free(arena);
}

#define OF "\"model\":\"m\",\"input\":\"4\",\"params\":5,\"threads\":1,"

static void refused(void **state)
{
    static const char *const bad[] = {
        "",
        "{}",
        "[1]",
        "{\"forward_ns\":1,\"rest_ns\":1,\"update_ns\":1,\"backward_ns\":[1]}", /* of what? */
        "{" OF "\"samples\":32,\"rest_ns\":1,\"update_ns\":1,\"backward_ns\":[1]}",
        "{" OF "\"samples\":32,\"forward_ns\":1,\"rest_ns\":1,\"update_ns\":1,"
        "\"backward_ns\":[\"x\"]}",
        "{" OF "\"samples\":32,\"forward_ns\":-1,\"rest_ns\":1,\"update_ns\":1,"
        "\"backward_ns\":[1]}",
        "{" OF "\"samples\":0,\"forward_ns\":1,\"rest_ns\":1,\"update_ns\":1,"
        "\"backward_ns\":[1]}"};
    const weir_workload of = {.model = "m", .input = "4", .params = 5, .stages = 1};
    weir_arena *arena = weir_arena_new();
    weir_profile *p;
    char path[64];

    (void)state;
    snprintf(path, sizeof path, "/tmp/weir-profile-%d", (int)getpid());
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        FILE *f = fopen(path, "w");
        fputs(bad[i], f);
        fclose(f);
        assert_int_equal(weir_profile_load(path, NULL, &of, arena, &p), WEIR_INVALID);
    }
    unlink(path);
    weir_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(there_and_back), cmocka_unit_test(refused)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
