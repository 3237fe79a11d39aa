/* test_shm_faults.c - the collective in shared memory when a rank dies, stops, fails or leaves in
 * the middle, or does another thing than the others: who is blamed, and that nothing stays behind.
 *
 *   test_shm_faults rank RANK SIZE DIR TIMEOUT   is one rank of those tests that need processes */
#include "help_shm.h"
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
/* after those it needs */
#include <cmocka.h>

/* As in test_net_loss.c: libzmq forgets half a message for each link that was cut. */
const char *__lsan_default_suppressions(void) __attribute__((visibility("default")));
const char *__lsan_default_suppressions(void) { return "leak:libzmq.so\n"; }

/* ---- ranks that do not do the same ---- */

static weir_err unlike_rank(weir_net *net, void *arg)
{
    weir_arena *a = weir_arena_new();
    room r;
    int how = *(int *)arg;
    bool odd = weir_net_rank(net) == 1;
    weir_err err = room_open(net, "shm", 1 << 20, a, &r);

    if (!err && how == 0)
        err = weir_allreduce(&r.use, &r.g, r.in, odd ? 20 : 21, &weir_sum_f32);
    else if (!err && how == 1)
        err = weir_allreduce(&r.use, &r.g, r.in, odd ? 20 : 200000, &weir_sum_f32);
    else if (!err && how == 2)
        err = odd ? weir_broadcast(&r.use, &r.g, 0, r.in, 80000)
                  : weir_allreduce(&r.use, &r.g, r.in, 20000, &weir_sum_f32);
    else if (!err && how == 3) {
        void *more;
        err = weir_coll_memory(&r.use, &r.g, odd ? 1000000 : 2000000, a, &more);
    }
    weir_arena_free(a);
    return err;
}

static void unlike_collectives_are_refused(void **state)
{
    (void)state;
    for (int how = 0; how < 4; how++) {
        ranks r = {.size = 3, .fn = unlike_rank, .arg = &how};
        ranks_run(&r);
        for (int i = 0; i < 3; i++)
            if (r.err[i] != WEIR_MISFIT &&
                r.err[i] != WEIR_LOST) /* lost: another one said why, and left first */
                fail_msg("way %d, rank %d: %s (%s)", how, i, r.why[i], weir_err_name(r.err[i]));
        assert_true(r.err[0] == WEIR_MISFIT || r.err[1] == WEIR_MISFIT || r.err[2] == WEIR_MISFIT);
        assert_says(r.why[1], how == 3 ? "bytes are wanted here" : "collective");
        assert_int_equal(shm_held("memfd:weir"), 0);
    }
}

/* ---- failure among threads: one fails, one leaves, one's compute gives up, one is only slow
 * ---- */

enum { FAILS, LEAVES, ABORTS, STALLS };

static weir_err give_up(void *net)
{
    WEIR_TRY(weir_net_spend(net, 0.05));
    weir_net_abort(net, WEIR_NAN);
    return WEIR_OK;
}

static weir_err ends_rank(weir_net *n, void *arg)
{
    int how = *(int *)arg;
    weir_arena *a = weir_arena_new();
    weir_task *t = NULL;
    room r;
    weir_err err = room_open(n, "shm", 1 << 20, a, &r);

    for (int i = 0; i < 5 && !err; i++)
        err = weir_allreduce(&r.use, &r.g, r.in, 100000, &weir_sum_f32);
    if (!err && r.g.me == 1 && how == FAILS)
        err = weir_fail(WEIR_INVALID, "the file is bad");
    else if (!err && r.g.me == 1 && how == ABORTS)
        err = weir_task_start(weir_net_rt(n), "gives up", give_up, n, &t);
    else if (!err && r.g.me == 1 && how == STALLS)
        err = weir_net_spend(n, 1.5);
    if (!err && r.g.me != 1 && how == ABORTS) /* nobody else comes to the sum */
        err = weir_net_recv_wait(n, 1, weir_tag(WEIR_CHANNEL_TEST, 0, 0), NULL, 0, NULL);
    else if (!err && (r.g.me != 1 || how == ABORTS))
        err = weir_allreduce(&r.use, &r.g, r.in, 100000, &weir_sum_f32);
    if (t)
        weir_task_join(t);
    weir_arena_free(a);
    return err;
}

static void a_rank_that_ends_is_named(void **state)
{
    (void)state;
    for (int how = FAILS; how <= STALLS; how++) {
        ranks r = {.size = 3, .fn = ends_rank, .arg = &how, .stall = how == STALLS ? 0.4 : 0};
        ranks_run(&r);
        assert_int_equal(r.err[1], how == FAILS    ? WEIR_INVALID
                                   : how == ABORTS ? WEIR_NAN
                                   : how == LEAVES ? WEIR_OK
                                                   : r.err[1]);
        for (int i = 0; i < 3; i += 2) {
            assert_int_equal(r.err[i], how == STALLS ? WEIR_SILENT : WEIR_LOST);
            assert_says(r.why[i], "rank 1");
        }
        if (how == FAILS)
            assert_says(r.why[0], "the file is bad");
        if (how == STALLS)
            assert_says(r.why[0], "alive but busy");
        assert_int_equal(shm_held("memfd:weir"), 0);
    }
}

/* ---- the survivors go on ---- */

static weir_err survivors(weir_net *n, room *r, weir_arena *a)
{
    const shm_kind *k = &shm_kinds[SHM_F32];
    weir_group g;
    void *in;

    weir_net_renew(n, 1, (int[]){0, 1}, 2);
    WEIR_TRY(weir_group_make(n, 0, (int[]){0, 1}, 2, a, &g));
    shm_fill(k, r->in, 50000, g.me); /* memory of the old room is as good as any other */
    WEIR_TRY(weir_allreduce(&r->use, &g, r->in, 50000, k->sum));
    WEIR_TRY(shm_check(k, r->in, 0, 50000, 2, "all-reduce", "of old"));
    WEIR_TRY(weir_coll_memory(&r->use, &g, 200000, a, &in));
    shm_fill(k, in, 50000, g.me);
    WEIR_TRY(weir_allreduce(&r->use, &g, in, 50000, k->sum));
    return shm_check(k, in, 0, 50000, 2, "all-reduce", "renewed");
}

static weir_err renew_rank(weir_net *n, void *arg)
{
    weir_arena *a = weir_arena_new();
    room r;
    weir_err err = room_open(n, "shm", 1 << 20, a, &r);

    (void)arg;
    for (int i = 0; i < 3 && !err; i++)
        err = weir_allreduce(&r.use, &r.g, r.in, 100000, &weir_sum_f32);
    if (!err && r.g.me == 2)
        err = weir_fail(WEIR_INVALID, "gone");
    else if (!err)
        err = weir_allreduce(&r.use, &r.g, r.in, 100000, &weir_sum_f32) == WEIR_LOST
                  ? survivors(n, &r, a)
                  : weir_fail(WEIR_FAILED, "nobody was lost");
    weir_arena_free(a);
    return err;
}

static void survivors_go_on(void **state)
{
    ranks r = {.size = 3, .fn = renew_rank};

    (void)state;
    ranks_run(&r);
    for (int i = 0; i < 2; i++)
        if (r.err[i])
            fail_msg("rank %d: %s (%s)", i, r.why[i], weir_err_name(r.err[i]));
}

/* ---- processes: killed, stopped, shut out ---- */

/* Sums for ever; says so now and then. */
static weir_err endless_rank(weir_net *n, void *arg)
{
    weir_arena *a = weir_arena_new();
    room r;
    weir_err err = room_open(n, "shm", 4 << 20, a, &r);

    (void)arg;
    for (int i = 0; !err; i++) {
        size_t n_floats = i % 3 ? 1000000 : 100;
        weir_net_phase(n, WEIR_PHASE_EXCHANGE, (uint64_t)i);
        err = weir_allreduce(&r.use, &r.g, i % 5 ? r.in : r.out, n_floats, &weir_sum_f32);
        if (i == 20) {
            printf("going\n");
            fflush(stdout);
        }
    }
    weir_arena_free(a);
    return err;
}

static int rank_main(char **argv)
{
    weir_rank_info rank_info;
    weir_err err;

    ranks_info(&rank_info, atoi(argv[0]), atoi(argv[1]), argv[2], atof(argv[3]));
    err = weir_net_run("zmq", &rank_info, endless_rank, NULL);
    printf("%s\n", weir_why_text());
    fflush(stdout); /* a forked one leaves without */
    return weir_err_exit(err);
}

/* `sig` hits rank 1 of three in the middle of things: the others leave with `code`, all naming
 * it. */
static void hit(int sig, double timeout, double patience, weir_err code)
{
    char dir[64], rank[3][16], limit[32];
    child c[3];

    ranks_dir(dir);
    snprintf(limit, sizeof limit, "%g", timeout);
    for (int i = 0; i < 3; i++) {
        snprintf(rank[i], sizeof rank[i], "%d", i);
        child_start(&c[i], (char *[]){"rank", rank[i], "3", dir, limit, NULL});
    }
    for (int i = 0; i < 3; i++)
        assert_true(child_says(&c[i], "going", 60));
    kill(c[1].pid, sig);
    for (int i = 0; i < 3; i += 2) {
        int status = child_end(&c[i], patience);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) != weir_err_exit(code))
            fail_msg("rank %d left with %d: %s", i, WEXITSTATUS(status), c[i].text);
        assert_says(c[i].text, "rank 1 (host here");
    }
    kill(c[1].pid, SIGKILL);
    child_end(&c[1], 10);
    assert_int_equal(shm_entries("/dev/shm", "weir"), 0);
    assert_true(access(dir, F_OK));
}

static void a_killed_rank_is_lost_at_once(void **state)
{
    (void)state;
    for (int k = 0; k < 5; k++)
        hit(SIGKILL, 30, 2, WEIR_LOST);
}

static void a_stopped_rank_is_given_up(void **state)
{
    (void)state;
    hit(SIGSTOP, 2, 6, WEIR_SILENT);
}

static int shut_out_main(char **argv)
{
    pid_t pid;
    int status;

    if (unshare(CLONE_NEWPID))
        return 77;
    pid = fork();
    if (!pid)
        _exit(rank_main(argv));
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* The first member calls itself process 1: the other finds somebody else under that number. */
static void another_container_is_refused(void **state)
{
    char dir[64];
    child c[2];
    int first;

    (void)state;
    ranks_dir(dir);
    child_start(&c[0], (char *[]){"shut-out", "0", "2", dir, "30", NULL});
    child_start(&c[1], (char *[]){"rank", "1", "2", dir, "30", NULL});
    first = child_end(&c[0], 30);
    if (WIFEXITED(first) && WEXITSTATUS(first) == 77) { /* not allowed here */
        kill(c[1].pid, SIGKILL);
        child_end(&c[1], 10);
        rmdir(dir);
        skip();
    }
    assert_int_not_equal(first, 0); /* its code, or that of LSan, which cannot work there */
    assert_says(c[0].text, "rank 1 cannot use the memory of rank 0");
    assert_int_not_equal(child_end(&c[1], 30), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unlike_collectives_are_refused),
        cmocka_unit_test(a_rank_that_ends_is_named),
        cmocka_unit_test(survivors_go_on),
        cmocka_unit_test(a_killed_rank_is_lost_at_once),
        cmocka_unit_test(a_stopped_rank_is_given_up),
        cmocka_unit_test(another_container_is_refused),
    };

    if (argc == 6 && !strcmp(argv[1], "rank"))
        return rank_main(argv + 2);
    if (argc == 6 && !strcmp(argv[1], "shut-out"))
        return shut_out_main(argv + 2);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
