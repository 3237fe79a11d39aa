/* A profile comes back from its file as it was, and a file that is none is refused. */
#include "train/profile.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static void there_and_back(void **state)
{
    weir_arena *arena = weir_arena_new();
    weir_profile *p, *q;
    char path[64];

    (void)state;
    snprintf(path, sizeof path, "/tmp/weir-profile-%d", (int)getpid());
    assert_int_equal(weir_profile_new(3, arena, &p), WEIR_OK);
    for (int step = 0; step < 4; step++) {
        p->mark = 10 * step;
        for (int i = 0; i < weir_profile_pieces(p); i++)
            weir_profile_mark(p, i, p->mark + 0.001 * (i + 1));
        p->steps++;
    }
    assert_int_equal(weir_profile_save(p, path), WEIR_OK);
    assert_int_equal(weir_profile_load(path, 3, arena, &q), WEIR_OK);
    for (int i = 0; i < weir_profile_pieces(q); i++)
        assert_true(fabs(weir_profile_cost(q, i) - 0.001 * (i + 1)) < 2e-9);
    assert_int_equal(weir_profile_load(path, 4, arena, &q), WEIR_MISFIT);
    unlink(path);
    weir_arena_free(arena);
}

static void refused(void **state)
{
    static const char *const bad[] = {
        "", "{}", "[1]", "{\"forward_ns\":1,\"rest_ns\":1,\"update_ns\":1,\"backward_ns\":[\"x\"]}",
        "{\"forward_ns\":-1,\"rest_ns\":1,\"update_ns\":1,\"backward_ns\":[1]}"};
    weir_arena *arena = weir_arena_new();
    weir_profile *p;
    char path[64];

    (void)state;
    snprintf(path, sizeof path, "/tmp/weir-profile-%d", (int)getpid());
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        FILE *f = fopen(path, "w");
        fputs(bad[i], f);
        fclose(f);
        assert_int_equal(weir_profile_load(path, 1, arena, &p), WEIR_INVALID);
    }
    unlink(path);
    weir_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(there_and_back), cmocka_unit_test(refused)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
