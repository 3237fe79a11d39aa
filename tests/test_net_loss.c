/* test_net_loss.c - real peers of ZeroMQ that die, stop, misfit or talk nonsense: who is blamed,
 * and that nobody hangs. What holds in every world is in help_laws.h. */
#include "help_laws.h"
#include "net/frame.h"
#include "net/launch.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>
/* after those it needs */
#include <cmocka.h>

/* libzmq forgets the first part of a message whose second never came, one read buffer for each link
 * that was cut. Our own messages are counted by test_net.c, which runs without this. */
const char *__lsan_default_suppressions(void) __attribute__((visibility("default")));
const char *__lsan_default_suppressions(void) { return "leak:libzmq.so\n"; }

static uint64_t tag(uint32_t sequence, uint32_t part)
{
    return weir_tag(WEIR_CHANNEL_TEST, sequence, part);
}

/* A board that all share knows better than the last word. */
static weir_err by_the_board(weir_net *n, void *arg)
{
    (void)arg;
    if (weir_net_rank(n) == 0)
        return weir_net_recv_wait(n, 1, tag(0, 0), NULL, 0, NULL);
    weir_net_phase(n, WEIR_PHASE_SAVE, 77);
    return weir_net_spend(n, 1.5);
}

static void test_by_the_board(void **state)
{
    _Alignas(64) char memory[sizeof(weir_board) + 2 * sizeof(weir_board_slot)] = {0};
    weir_board *board = (weir_board *)memory;
    ranks r = {.size = 2, .fn = by_the_board, .timeout = 30, .stall = 0.2, .board = board};

    (void)state;
    board->ranks = 2;
    ranks_run(&r);
    assert_says(r.why[0], "busy in phase save of step 77");
    assert_int_equal(atomic_load(&board->slot[1].doing), 77 << 8 | WEIR_PHASE_SAVE);
}

/* ---- who does not belong ---- */

static weir_err nothing(weir_net *n, void *arg)
{
    (void)n, (void)arg;
    return WEIR_OK;
}

typedef struct rank_thread {
    weir_rank_info rank_info;
    weir_err err;
    char why[512];
} rank_thread;

static weir_err run_rank(void *arg)
{
    rank_thread *s = arg;

    s->err = weir_net_run("zmq", &s->rank_info, nothing, NULL);
    snprintf(s->why, sizeof s->why, "%s", s->err ? weir_why_text() : "");
    return WEIR_OK;
}

static void test_misfit(void **state)
{
    rank_thread s[2] = {0};
    weir_task *t[2];
    char dir[64];

    (void)state;
    ranks_dir(dir);
    for (int i = 0; i < 2; i++) {
        ranks_info(&s[i].rank_info, i, 2 + i, dir, 2);
        assert_int_equal(weir_task_start(weir_rt_threads(), "rank", run_rank, &s[i], &t[i]),
                         WEIR_OK);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(weir_task_join(t[i]), WEIR_OK);
    /* whoever sees it first tells the other */
    assert_true(s[0].err == WEIR_MISFIT || s[1].err == WEIR_MISFIT);
    for (int i = 0; i < 2; i++) {
        assert_int_not_equal(s[i].err, WEIR_OK);
        assert_says(s[i].why, "was told that the run has");
    }
}

/* Sends `n` parts to rank 0's socket under a name. */
static void intrude(void *context, const char *dir, const void *name, size_t name_len,
                    const void *part, size_t len, int parts)
{
    char at[128];
    void *s = zmq_socket(context, ZMQ_DEALER);

    snprintf(at, sizeof at, "ipc://%s/r0", dir);
    zmq_setsockopt(s, ZMQ_LINGER, &(int){300}, sizeof(int));
    zmq_setsockopt(s, ZMQ_ROUTING_ID, name, name_len);
    zmq_connect(s, at);
    for (int i = 0; i < parts; i++)
        zmq_send(s, part, len, i + 1 < parts ? ZMQ_SNDMORE : 0);
    zmq_close(s);
}

/* Nonsense of all kinds reaches rank 0 while it waits for rank 1; the run does not mind. */
static void test_foreign(void **state)
{
    rank_thread s[2] = {0};
    weir_task *t[2];
    char dir[64], path[96];
    weir_frame head, bad;
    void *context = zmq_ctx_new();

    (void)state;
    ranks_dir(dir);
    snprintf(path, sizeof path, "%s/r0", dir);
    for (int i = 0; i < 2; i++)
        ranks_info(&s[i].rank_info, i, 2, dir, 10);
    assert_int_equal(weir_task_start(weir_rt_threads(), "rank", run_rank, &s[0], &t[0]), WEIR_OK);
    for (int i = 0; i < 5000 && access(path, F_OK); i++)
        usleep(1000);
    head = (weir_frame){.kind = WEIR_FRAME_HELLO, .from = 1, .len = 72};
    weir_frame_seal(&head);
    bad = head;
    bad.len = 1u << 30; /* its checksum no longer fits */
    intrude(context, dir, "x", 1, "hello", 5, 1);
    intrude(context, dir, "R\2\0\0\0", 5, &head, sizeof head, 1); /* another's name */
    intrude(context, dir, "R\3\0\0\0", 5, &bad, sizeof bad, 2);
    intrude(context, dir, "R\4\0\0\0", 5, &head, sizeof head, 9);
    intrude(context, dir, "Rabcd", 5, "", 0, 3);
    zmq_ctx_term(context);
    assert_int_equal(weir_task_start(weir_rt_threads(), "rank", run_rank, &s[1], &t[1]), WEIR_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(weir_task_join(t[i]), WEIR_OK);
        assert_string_equal(s[i].why, "");
    }
}

static void test_frames(void **state)
{
    weir_frame f, g;
    weir_fault fault = {.code = WEIR_SILENT,
                        .rank = 2,
                        .pid = 7,
                        .phase = WEIR_PHASE_SAVE,
                        .step = 9,
                        .silent = 1.5},
               back;
    weir_cause c;
    unsigned char *bytes = (unsigned char *)&f;

    (void)state;
    f = (weir_frame){.kind = WEIR_FRAME_DATA, .generation = 3, .from = 1, .tag = 42, .len = 100};
    weir_frame_seal(&f);
    assert_true(weir_frame_read(&f, sizeof f, 2, &g) && g.tag == 42 && g.len == 100 &&
                g.generation == 3);
    assert_false(weir_frame_read(&f, sizeof f, 1, &g)); /* no rank 1 in a run of one */
    assert_false(weir_frame_read(&f, sizeof f - 1, 2, &g));
    for (size_t i = 0; i < 8 * sizeof f; i++) { /* every flipped bit is seen */
        bytes[i / 8] ^= (unsigned char)(1 << i % 8);
        assert_false(weir_frame_read(&f, sizeof f, 2, &g));
        bytes[i / 8] ^= (unsigned char)(1 << i % 8);
    }
    memcpy(fault.host, "bad\x1b[2J", 8);
    memset(fault.what, 'x', sizeof fault.what); /* no end */
    weir_cause_make(&fault, &c);
    assert_true(weir_cause_read(&c, sizeof c, 3, &back));
    assert_string_equal(back.host, "bad?[2J");
    assert_int_equal(strlen(back.what), sizeof back.what - 1);
    assert_false(weir_cause_read(&c, sizeof c, 2, &back));
    c.phase = WEIR_PHASES;
    assert_false(weir_cause_read(&c, sizeof c, 3, &back));
}

/* ---- processes ---- */

/* Every rank sends to and receives from every other, small and large, until something ends it. */
static weir_err exchange(weir_net *n, void *arg)
{
    static char out[300000], in[RANKS_MAX][300000];
    static const size_t lengths[] = {16, 5000, 300000};
    weir_net_op ops[2 * RANKS_MAX], *p[2 * RANKS_MAX];
    weir_err err = WEIR_OK;

    (void)arg;
    for (uint32_t step = 0; !err; step++) {
        int count = 0;
        weir_net_phase(n, WEIR_PHASE_EXCHANGE, step + 1);
        for (int q = 0; q < weir_net_size(n); q++)
            if (q != weir_net_rank(n)) {
                weir_net_recv(n, q, tag(step, 0), in[q], sizeof in[q], &ops[count++]);
                weir_net_send(n, q, tag(step, 0), out, lengths[step % 3], &ops[count++]);
            }
        err = weir_net_wait_all(n, ops, count, 0);
        for (int i = 0; i < count; i++)
            p[i] = &ops[i];
        if (err)
            weir_net_cancel(n, p, count);
        if (step == 10)
            printf("ready\n");
    }
    return err;
}

static int be_rank(char **argv)
{
    weir_rank_info rank_info;
    weir_err err;

    setvbuf(stdout, NULL, _IOLBF, 0);
    ranks_info(&rank_info, atoi(argv[2]), atoi(argv[3]), argv[4], atof(argv[5]));
    if (argv[6])
        err = weir_net_run("zmq", &rank_info, law_find(argv[6])->fn, &(double){LAW_BY_SIGNAL});
    else
        err = weir_net_run("zmq", &rank_info, exchange, NULL);
    printf("end: %s\n", weir_why_text());
    fflush(stdout);
    _exit(weir_err_exit(err)); /* no search for leaks: it would take longer than leaving may */
}

static void start_ranks(child *c, int size, const char *dir, const char *timeout)
{
    char rank[16], count[16];

    snprintf(count, sizeof count, "%d", size);
    for (int i = 0; i < size; i++) {
        snprintf(rank, sizeof rank, "%d", i);
        child_start(&c[i], (char *[]){"rank", rank, count, (char *)dir, (char *)timeout, NULL});
    }
    for (int i = 0; i < size; i++)
        if (!child_says(&c[i], "ready", 60))
            fail_msg("rank %d: %s", i, c[i].text);
    assert_int_not_equal(access(dir, F_OK), 0);
}

static int repeats(int standard)
{
    const char *text = getenv("REPEATS");

    return text ? atoi(text) : standard;
}

/* kill -9 in the middle of everything: the others name it at once. */
static void test_killed(void **state)
{
    (void)state;
    for (int k = 0; k < repeats(5); k++) {
        child c[4];
        char dir[64], who[128];
        int victim = k % 4;
        double t;
        ranks_dir(dir);
        start_ranks(c, 4, dir, "20");
        usleep((useconds_t)(k * 700 % 5000));
        kill(c[victim].pid, SIGKILL);
        t = seconds_now();
        snprintf(who, sizeof who,
                 "end: rank %d (host here, pid %d) ended in phase exchange of step ", victim,
                 (int)c[victim].pid);
        for (int i = 0; i < 4; i++) {
            int status = child_end(&c[i], 10);
            if (i == victim) {
                assert_true(WIFSIGNALED(status));
                continue;
            }
            assert_says(c[i].text, who);
            assert_true(WIFEXITED(status));
            assert_int_equal(WEXITSTATUS(status), WEIR_LOST);
        }
        assert_true(seconds_now() - t < 5);
    }
}

/* kill -9 in the middle of a step: the others renew, repeat it, and come to the undisturbed
 * result. */
static void test_killed_and_repeated(void **state)
{
    child c[4];
    char dir[64], rank[16];
    int status;

    (void)state;
    ranks_dir(dir);
    for (int i = 0; i < 4; i++) {
        snprintf(rank, sizeof rank, "%d", i);
        child_start(&c[i], (char *[]){"rank", rank, "4", dir, "20", "kill_and_repeat", NULL});
    }
    for (int i = 0; i < 4; i++) {
        status = child_end(&c[i], 60);
        assert_true(i == 2 ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                           : WIFEXITED(status));
        if (i != 2 && WEXITSTATUS(status))
            fail_msg("rank %d: %s", i, c[i].text);
    }
}

/* A stopped rank gives no sign of life; when it goes on again it learns that it was given up. */
static void test_stopped(void **state)
{
    (void)state;
    for (int k = 0; k < repeats(1); k++) {
        child c[3];
        char dir[64], who[128];
        int victim = k % 3, other = (victim + 1) % 3, third = (victim + 2) % 3, status;
        double t;
        ranks_dir(dir);
        start_ranks(c, 3, dir, "1.5");
        t = seconds_now();
        kill(c[victim].pid, SIGSTOP);
        snprintf(who, sizeof who, "end: rank %d (host here, pid %d) was silent for 1.", victim,
                 (int)c[victim].pid);
        for (int i = 0; i < 2; i++) {
            child *s = &c[i ? third : other];
            status = child_end(s, 20);
            assert_says(s->text, who);
            assert_says(s->text, "last seen in phase exchange of step ");
            assert_int_equal(WEXITSTATUS(status), WEIR_SILENT);
        }
        t = seconds_now() - t;
        /* above: a busy machine, and leaving takes its time too */
        assert_true(t > 1.5 * 0.8 - 0.05 && t < 1.5 * 1.2 + 2);
        kill(c[victim].pid, SIGCONT);
        status = child_end(&c[victim], 20);
        assert_true(WIFEXITED(status));
        assert_true(WEXITSTATUS(status) == WEIR_SILENT || WEXITSTATUS(status) == WEIR_LOST);
    }
}

/* All stopped for longer than the timeout, as by Ctrl-Z: nobody accuses anybody afterwards. */
static void test_paused(void **state)
{
    child c[3];
    char dir[64];

    (void)state;
    ranks_dir(dir);
    start_ranks(c, 3, dir, "1");
    for (int i = 0; i < 3; i++)
        kill(c[i].pid, SIGSTOP);
    usleep(1500000);
    for (int i = 0; i < 3; i++)
        kill(c[i].pid, SIGCONT);
    usleep(1500000);
    for (int i = 0; i < 3; i++)
        assert_int_equal(waitpid(c[i].pid, NULL, WNOHANG), 0);
    kill(c[0].pid, SIGKILL);
    for (int i = 0; i < 3; i++)
        child_end(&c[i], 10);
    assert_says(c[1].text, "end: rank 0");
    assert_says(c[2].text, "end: rank 0");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames),  cmocka_unit_test(test_by_the_board),
        cmocka_unit_test(test_misfit),  cmocka_unit_test(test_foreign),
        cmocka_unit_test(test_killed),  cmocka_unit_test(test_killed_and_repeated),
        cmocka_unit_test(test_stopped), cmocka_unit_test(test_paused),
    };

    if (argc > 5 && !strcmp(argv[1], "rank"))
        return be_rank(argv);
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    /* libzmq's own set-up, which threads must not run at the same time, happens here once */
    void *keep = zmq_ctx_new();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    zmq_ctx_term(keep);
    return failed;
}
