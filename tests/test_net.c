/* test_net.c - the world of ZeroMQ: alone, its directory, places it refuses; and groups. What every
 * world must do is in help_laws.h. */
#include "help_laws.h"
#include "net/frame.h"
#include "net/key.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>
/* after those it needs */
#include <cmocka.h>

static weir_err nothing(weir_net *n, void *arg)
{
    (void)n, (void)arg;
    return WEIR_OK;
}

/* ---- alone ---- */

static weir_err alone(weir_net *n, void *arg)
{
    char path[64];
    int fds = 0;

    for (int fd = 0; fd < 64; fd++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        fds += !access(path, F_OK);
    }
    CHECK(weir_net_size(n) == 1 && fds == *(int *)arg + 1); /* one eventfd, no socket */
    CHECK(!strcmp(weir_net_name(n), "zmq") && weir_net_alive(n, 0) && !weir_net_dry(n));
    return WEIR_OK;
}

static void test_alone(void **state)
{
    int fds = 0;
    char path[64];

    (void)state;
    for (int fd = 0; fd < 64; fd++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        fds += !access(path, F_OK);
    }
    ranks_all_ok(&(ranks){.net = "auto", .size = 1, .fn = alone, .arg = &fds});
}

/* ---- the run's directory ---- */

static weir_err no_directory(weir_net *n, void *arg)
{
    WEIR_TRY(law_barrier(n, 0));
    CHECK(access(arg, F_OK)); /* everybody is in: gone, while we run */
    return law_barrier(n, 1);
}

static void test_no_directory(void **state)
{
    ranks r = {.size = 4, .fn = no_directory};

    (void)state;
    r.arg = r.dir;
    ranks_all_ok(&r);
}

static void test_places(void **state)
{
    weir_rank_info p;
    char dir[64];
    weir_net_facts facts;

    (void)state;
    ranks_info(&p, 0, 2, "", 1);
    assert_int_equal(weir_net_run("zmq", &p, nothing, NULL), WEIR_MISFIT);
    assert_non_null(strstr(weir_why_text(), "no place to meet"));
    ranks_info(&p, 2, 2, "/tmp/x", 1);
    assert_int_equal(weir_net_run("zmq", &p, nothing, NULL), WEIR_USAGE);
    assert_int_equal(weir_net_run("zmqq", &p, nothing, NULL), WEIR_USAGE);
    assert_int_equal(weir_net_run("zmq:hold=-1", &p, nothing, NULL), WEIR_USAGE);
    ranks_info(&p, 0, 2, "/tmp", 1); /* not ours alone */
    assert_int_equal(weir_net_run("zmq", &p, nothing, NULL), WEIR_DENIED);
    ranks_dir(dir);
    ranks_info(&p, 0, 2, "/tmp/a-directory/that-is-not/there", 1);
    assert_int_equal(weir_net_run("zmq", &p, nothing, NULL), WEIR_FAILED);
    assert_int_equal(weir_net_check("zmq", &facts), WEIR_OK);
    assert_true(facts.loses && facts.encrypts);
    assert_int_equal(weir_plug_check(weir_nets, "net"), WEIR_OK);
}

static weir_err groups(weir_net *n, void *arg)
{
    weir_arena *a = weir_arena_new();
    weir_group g;

    (void)arg;
    WEIR_TRY(weir_group_all(n, a, &g));
    CHECK(g.size == 1 && g.me == 0 && g.member[0] == 0);
    WEIR_TRY(weir_group_make(n, 4, (int[]){0}, 1, a, &g));
    CHECK(g.size == 1 && g.id == 4 && g.net == n);
    CHECK(weir_group_make(n, 4, (int[]){0, 0}, 2, a, &g) == WEIR_USAGE);
    CHECK(weir_group_make(n, 4, (int[]){0, 1}, 2, a, &g) == WEIR_USAGE);
    CHECK(weir_group_make(n, 4, NULL, 0, a, &g) == WEIR_USAGE);
    weir_arena_free(a);
    return WEIR_OK;
}

static void test_groups(void **state)
{
    (void)state;
    ranks_all_ok(&(ranks){.size = 1, .fn = groups});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_no_directory),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_groups),
    };

    /* libzmq's own set-up, which threads must not run at the same time, happens here once */
    void *keep = zmq_ctx_new();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    zmq_ctx_term(keep);
    return failed;
}
