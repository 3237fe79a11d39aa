/* test_rendezvous.c - the rendezvous: who comes late, twice, not at all or from another run; and
 * peers that die or stop at the other end of a tcp link. Everything on loopback; between real
 * hosts: see docs/CLUSTER.md. Who may come is in test_key.c. */
#include "help_guest.h"
#include "net/frame.h"
#include "net/rank_info.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>
/* after those it needs */
#include <cmocka.h>

/* as in test_net_loss.c */
const char *__lsan_default_suppressions(void) __attribute__((visibility("default")));
const char *__lsan_default_suppressions(void) { return "leak:libzmq.so\n"; }

/* ---- in any order ---- */

static void test_any_order(void **state)
{
    static const char *const nets[] = {"zmq", "zmq:ipc=no"};
    static const int orders[][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 3, 1}};

    (void)state;
    for (int k = 0; k < 12; k++) {
        guest g[4];
        char at[32];
        ranks_port(at);
        for (int i = 0; i < 4; i++)
            guest_invite(&g[i], i, 4, at, k % 2 ? guest_key_a : NULL, 20);
        for (int i = 0; i < 4; i++) {
            guest *next = &g[orders[k / 4][i]];
            next->net = nets[k / 2 % 2];
            guest_come(next);
            usleep(20000); /* early ones wait for rank 0: the order is what is tried, not a race */
        }
        for (int i = 0; i < 4; i++)
            guest_leave(&g[i], WEIR_OK, "");
    }
}

static void test_missing(void **state)
{
    guest g[2];
    char at[32], says[100];

    (void)state;
    ranks_port(at);
    for (int i = 0; i < 2; i++) {
        guest_invite(&g[i], i, 3, at, NULL, 1);
        guest_come(&g[i]);
    }
    snprintf(says, sizeof says, "rank 2 of 3 has not come (waited 1 s at %s)", at);
    for (int i = 0; i < 2; i++) /* both say the same */
        guest_leave(&g[i], WEIR_SILENT, says);
    guest_invite(&g[1], 1, 3, at, NULL, 1); /* the run is over, or has never been */
    guest_come(&g[1]);
    snprintf(says, sizeof says, "rank 0 is not at %s (waited 1 s)", at);
    guest_leave(&g[1], WEIR_SILENT, says);
}

/* ---- who does not belong ---- */

static void test_refused(void **state)
{
    guest g[3], twice, other, job, zero;
    char at[32], says[160];

    (void)state;
    ranks_port(at);
    for (int i = 0; i < 3; i++)
        guest_invite(&g[i], i, 3, at, NULL, 20);
    guest_come(&g[0]);
    guest_door(at);
    guest_invite(&other, 1, 2, at, NULL, 5);
    guest_come(&other);
    snprintf(says, sizeof says, "is of another run, of 2 ranks: the one at %s has 3", at);
    guest_leave(&other, WEIR_MISFIT, says);
    guest_invite(&job, 1, 3, at, NULL, 5);
    strcpy(job.rank_info.job, "slurm 12 step 0");
    guest_come(&job);
    guest_leave(&job, WEIR_MISFIT, "is of another run, slurm 12 step 0");
    guest_invite(&zero, 0, 3, at, NULL, 5);
    guest_come(&zero);
    snprintf(says, sizeof says,
             "two processes say they are rank 0: host here, pid %d and host here, pid %d",
             (int)getpid(), (int)getpid());
    guest_leave(&zero, WEIR_MISFIT, says);
    guest_come(&g[1]);
    usleep(200000); /* which of the two came first is not what is tried */
    guest_invite(&twice, 1, 3, at, NULL, 5);
    guest_come(&twice);
    assert_int_equal(weir_task_join(twice.task), WEIR_OK);
    assert_int_equal(twice.err, WEIR_MISFIT);
    assert_says(twice.why, "two processes say they are rank 1: host here, pid ");
    guest_come(&g[2]);
    for (int i = 0; i < 3; i++) /* nothing of that has disturbed the run */
        guest_leave(&g[i], WEIR_OK, "");
}

static weir_err until_told(weir_net *n, void *arg)
{
    (void)arg;
    guest_has_met();
    if (weir_net_rank(n))
        return weir_net_recv_wait(n, 0, guest_tag(1), NULL, 0, NULL);
    WEIR_TRY(weir_net_spend(n, 1.5));
    return weir_net_send_wait(n, 1, guest_tag(1), NULL, 0);
}

static void test_late(void **state)
{
    guest g[2], late;
    char at[32], says[100];

    (void)state;
    ranks_port(at);
    guests_meet_anew();
    for (int i = 0; i < 2; i++) {
        guest_invite(&g[i], i, 2, at, NULL, 20);
        g[i].fn = until_told;
        guest_come(&g[i]);
    }
    guests_have_met(2);
    guest_invite(&late, 1, 2, at, NULL, 5);
    guest_come(&late);
    snprintf(says, sizeof says, "comes too late: the run at %s has begun", at);
    guest_leave(&late, WEIR_MISFIT, says);
    for (int i = 0; i < 2; i++)
        guest_leave(&g[i], WEIR_OK, "");
}

/* ---- nonsense at the door ---- */

static void intrude(const char *at, const void *part, size_t len, int parts)
{
    void *context = zmq_ctx_new(), *s = zmq_socket(context, ZMQ_DEALER);
    char to[64];

    snprintf(to, sizeof to, "tcp://%s", at);
    zmq_setsockopt(s, ZMQ_LINGER, &(int){300}, sizeof(int));
    zmq_connect(s, to);
    for (int i = 0; i < parts; i++)
        zmq_send(s, part, len, i + 1 < parts ? ZMQ_SNDMORE : 0);
    zmq_close(s);
    zmq_ctx_term(context);
}

static void test_nonsense(void **state)
{
    guest g[2];
    weir_meet_join j = {.rank = 1, .size = 2};
    char at[32], *big = calloc(1, 100000);

    (void)state;
    ranks_port(at);
    for (int i = 0; i < 2; i++)
        guest_invite(&g[i], i, 2, at, NULL, 20);
    guest_come(&g[0]);
    weir_meet_seal(&j, WEIR_MEET_JOIN, sizeof j); /* without an address */
    intrude(at, &j, sizeof j, 1);
    snprintf(j.entry.at, sizeof j.entry.at, "ipc:///tmp/elsewhere");
    weir_meet_seal(&j, WEIR_MEET_JOIN, sizeof j);
    intrude(at, &j, sizeof j, 1);
    intrude(at, &j, sizeof j, 3);
    intrude(at, "", 0, 2);
    intrude(at, big, 100000, 1); /* longer than anything that belongs here */
    free(big);
    guest_come(&g[1]);
    for (int i = 0; i < 2; i++)
        guest_leave(&g[i], WEIR_OK, "");
}

/* ---- tcp links that end: ranks as processes ---- */

static weir_err exchange(weir_net *n, void *arg)
{
    static char out[100000], in[100000];
    int me = weir_net_rank(n), size = weir_net_size(n);
    double begun = weir_net_now(n);
    bool ready = false;

    (void)arg;
    for (uint32_t step = 0;; step++) {
        weir_net_op ops[2], *p[] = {&ops[0], &ops[1]};
        weir_net_phase(n, WEIR_PHASE_EXCHANGE, step);
        weir_net_recv(n, (me + size - 1) % size, guest_tag(step), in, sizeof in, &ops[0]);
        weir_net_send(n, (me + 1) % size, guest_tag(step), out, sizeof out, &ops[1]);
        weir_err err = weir_net_wait_all(n, ops, 2, 0);
        if (err)
            return weir_net_cancel(n, p, 2), err;
        if (!ready && weir_net_now(n) > begun + 1) /* all have told all what they do */
            ready = printf("ready\n");
    }
}

static int be_rank(char **argv)
{
    weir_rank_info rank_info;
    weir_err err;

    setvbuf(stdout, NULL, _IOLBF, 0);
    ranks_info(&rank_info, atoi(argv[2]), 3, "", atof(argv[5]));
    ranks_far(&rank_info, argv[3], argv[4]);
    err = weir_net_run("zmq:ipc=no", &rank_info, exchange, NULL);
    printf("end: %s\n", weir_why_text());
    fflush(stdout);
    _exit(weir_err_exit(err));
}

static void start_ranks(child *c, const char *key, const char *timeout)
{
    char at[32], rank[16];

    ranks_port(at);
    for (int i = 0; i < 3; i++) {
        snprintf(rank, sizeof rank, "%d", i);
        child_start(&c[i], (char *[]){"rank", rank, at, (char *)key, (char *)timeout, NULL});
    }
    for (int i = 0; i < 3; i++)
        if (!child_says(&c[i], "ready", 60))
            fail_msg("rank %d: %s", i, c[i].text);
}

static void end_rank(child *c, int code, const char *says)
{
    int status = child_end(c, 20);

    assert_says(c->text, says);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), code);
}

static void test_killed(void **state)
{
    const char *repeats = getenv("REPEATS");

    (void)state;
    for (int k = 0; k < (repeats ? atoi(repeats) : 3); k++) {
        child c[3];
        char who[128];
        double t;
        start_ranks(c, k % 2 ? guest_key_a : "", "20");
        usleep((useconds_t)(k * 700 % 5000));
        kill(c[k % 3].pid, SIGKILL);
        t = seconds_now();
        snprintf(who, sizeof who,
                 "end: rank %d (host here, pid %d) ended in phase exchange of step ", k % 3,
                 (int)c[k % 3].pid);
        end_rank(&c[(k + 1) % 3], WEIR_LOST, who);
        end_rank(&c[(k + 2) % 3], WEIR_LOST, who);
        assert_true(seconds_now() - t < 5);
        child_end(&c[k % 3], 5);
    }
}

/* One that had come and died before the others did has a second chance. */
static void test_second_chance(void **state)
{
    guest g[3];
    child c;
    char at[32];

    (void)state;
    ranks_port(at);
    for (int i = 0; i < 3; i++)
        guest_invite(&g[i], i, 3, at, guest_key_a, 20);
    guest_come(&g[0]);
    guest_door(at);
    child_start(&c, (char *[]){"rank", "1", at, guest_key_a, "20", NULL});
    usleep(500000); /* it has come */
    kill(c.pid, SIGKILL);
    child_end(&c, 5);
    guest_come(&g[1]);
    guest_come(&g[2]);
    for (int i = 0; i < 3; i++)
        guest_leave(&g[i], WEIR_OK, "");
}

/* All leave at once if rank 0 ends before the last one has come. */
static void test_rank_0_ends_early(void **state)
{
    guest g;
    child c;
    char at[32];
    double t;

    (void)state;
    ranks_port(at);
    child_start(&c, (char *[]){"rank", "0", at, "", "20", NULL});
    guest_invite(&g, 1, 3, at, NULL, 20);
    guest_come(&g);
    guest_door(at);
    usleep(500000);
    kill(c.pid, SIGKILL);
    t = seconds_now();
    guest_leave(&g, WEIR_LOST, "ended before all ranks had come");
    assert_true(seconds_now() - t < 5);
    child_end(&c, 5);
}

static void test_stopped(void **state)
{
    child c[3];
    char who[128];

    (void)state;
    start_ranks(c, guest_key_a, "2.5");
    kill(c[1].pid, SIGSTOP);
    snprintf(who, sizeof who, "end: rank 1 (host here, pid %d) was silent for 2.", (int)c[1].pid);
    for (int i = 0; i < 3; i += 2) {
        end_rank(&c[i], WEIR_SILENT, who);
        assert_says(c[i].text,
                    "but its machine answers: it is stopped, last seen in phase exchange of step ");
    }
    kill(c[1].pid, SIGCONT);
    child_end(&c[1], 20);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_order),         cmocka_unit_test(test_missing),
        cmocka_unit_test(test_refused),           cmocka_unit_test(test_late),
        cmocka_unit_test(test_nonsense),          cmocka_unit_test(test_killed),
        cmocka_unit_test(test_stopped),           cmocka_unit_test(test_second_chance),
        cmocka_unit_test(test_rank_0_ends_early),
    };

    if (argc > 5 && !strcmp(argv[1], "rank"))
        return be_rank(argv);
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    /* libzmq's own set-up, which threads must not run at the same time, happens here once */
    void *keep = zmq_ctx_new();
    if (!guest_keys_make())
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    guest_keys_remove();
    zmq_ctx_term(keep);
    return failed;
}
