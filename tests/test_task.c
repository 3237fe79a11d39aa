/* test_task.c - threads and queues of core/task.h, and the fibres of core/fibre.h. */
#include "core/fibre.h"
#include "core/task.h"
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
/* after those it needs */
#include <cmocka.h>

static weir_rt *rt(void) { return weir_rt_threads(); }

/* ---- threads ---- */

static weir_err fails(void *arg) { return weir_fail(WEIR_DISK, "%s is full", (const char *)arg); }

static weir_err succeeds(void *arg)
{
    sigset_t mask;

    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    *(bool *)arg =
        sigismember(&mask, SIGINT) && sigismember(&mask, SIGTERM) && sigismember(&mask, SIGCHLD);
    return WEIR_OK;
}

static void test_threads(void **state)
{
    weir_task *a, *b;
    bool blocked = false;
    sigset_t before, after;

    (void)state;
    sigprocmask(SIG_SETMASK, NULL, &before);
    assert_int_equal(weir_task_start(rt(), "a", fails, "the disk", &a), WEIR_OK);
    assert_int_equal(weir_task_start(rt(), "a name that is longer than sixteen bytes", succeeds,
                                     &blocked, &b),
                     WEIR_OK);
    weir_fail(WEIR_NAN, "mine");
    assert_int_equal(weir_task_join(b), WEIR_OK);
    assert_string_equal(weir_why_text(), "mine");
    assert_true(blocked); /* signals are for whoever asks for them */
    assert_int_equal(weir_task_join(a), WEIR_DISK);
    assert_string_equal(weir_why_text(), "the disk is full");
    sigprocmask(SIG_SETMASK, NULL, &after);
    assert_int_equal(sigismember(&before, SIGINT), sigismember(&after, SIGINT));
}

/* ---- queues ---- */

enum { ITEMS = 20000 };

static weir_err feed(void *arg)
{
    static char item[ITEMS];

    for (int i = 0; i < ITEMS; i++)
        while (weir_queue_put(arg, &item[i]) == WEIR_BIG)
            usleep(10);
    weir_queue_shut(arg);
    return WEIR_OK;
}

static void test_queue(void **state)
{
    weir_queue *q;
    weir_task *t;
    void *item, *last = NULL;
    int n = 0;
    weir_err err;

    (void)state;
    assert_int_equal(weir_queue_new(rt(), 7, &q), WEIR_OK);
    assert_int_equal(weir_task_start(rt(), "feed", feed, q, &t), WEIR_OK);
    while (!(err = weir_queue_get(q, &item, WEIR_NEVER))) {
        assert_true(!last || item == (char *)last + 1); /* in order */
        last = item;
        n++;
    }
    assert_int_equal(err, WEIR_SHUT);
    assert_int_equal(n, ITEMS);
    assert_int_equal(weir_task_join(t), WEIR_OK);
    weir_queue_free(q);
    weir_queue_free(NULL);
}

static void test_queue_edges(void **state)
{
    weir_queue *q;
    void *item;
    double t = weir_now(rt());
    int x;

    (void)state;
    assert_int_equal(weir_queue_new(rt(), 0, &q), WEIR_FAILED);
    assert_int_equal(weir_queue_new(rt(), 2, &q), WEIR_OK);
    assert_int_equal(weir_queue_get(q, &item, t + 0.03), WEIR_LATE);
    assert_true(weir_now(rt()) >= t + 0.03);
    assert_int_equal(weir_queue_get(q, &item, -5), WEIR_LATE);
    assert_int_equal(weir_queue_put(q, &x), WEIR_OK);
    assert_int_equal(weir_queue_put(q, &x), WEIR_OK);
    assert_int_equal(weir_queue_put(q, &x), WEIR_BIG);
    weir_queue_shut(q);
    assert_int_equal(weir_queue_put(q, &x), WEIR_SHUT);
    /* what was put before can still be had */
    assert_int_equal(weir_queue_get(q, &item, 0), WEIR_OK);
    assert_int_equal(weir_queue_get(q, &item, 0), WEIR_OK);
    assert_int_equal(weir_queue_get(q, &item, WEIR_NEVER), WEIR_SHUT);
    weir_queue_free(q);
}

/* ---- fibres ---- */

typedef struct ring {
    weir_fibre *main, *fibre[3];
    int at, turns, trace[30];
    double sum;
} ring;

typedef struct seat {
    ring *r;
    int number;
} seat;

/* Each adds to a sum in a register that must survive the switches, and passes on. */
static void go_round(void *arg)
{
    seat *s = arg;
    ring *r = s->r;
    double own = s->number;

    for (int i = 0; i < 10; i++) {
        r->trace[r->turns++] = s->number;
        own = sqrt(own * own + 1);
        weir_fibre_switch(r->fibre[s->number], s->number < 2 ? r->fibre[s->number + 1] : r->main);
    }
    r->sum += own * own;
    weir_fibre_leave(r->fibre[s->number], s->number < 2 ? r->fibre[s->number + 1] : r->main);
}

static void test_fibres(void **state)
{
    ring r = {0};
    seat seats[3];

    (void)state;
    assert_int_equal(weir_fibre_thread(&r.main), WEIR_OK);
    for (int i = 0; i < 3; i++) {
        seats[i] = (seat){&r, i};
        assert_int_equal(weir_fibre_new(64 << 10, go_round, &seats[i], &r.fibre[i]), WEIR_OK);
    }
    for (int i = 0; i < 11; i++)
        weir_fibre_switch(r.main, r.fibre[0]);
    assert_int_equal(r.turns, 30);
    for (int i = 0; i < 30; i++)
        assert_int_equal(r.trace[i], i % 3);
    assert_true(fabs(r.sum - (0 + 1 + 4 + 30)) < 1e-9);
    for (int i = 0; i < 3; i++)
        weir_fibre_free(r.fibre[i]);
    weir_fibre_free(r.main);
}

static void test_never_ran(void **state)
{
    weir_fibre *f;

    (void)state;
    assert_int_equal(weir_fibre_new(1, go_round, NULL, &f), WEIR_OK);
    weir_fibre_free(f);
    weir_fibre_free(NULL);
}

static int deeper(int n)
{
    volatile char frame[1024];

    frame[n % 1024] = (char)n;
    return n <= 0 ? frame[0] : deeper(n - 1) + frame[n % 1024];
}

static void dig(void *arg)
{
    weir_fibre **f = arg;

    deeper(1000); /* a megabyte of frames on 64 KiB */
    weir_fibre_leave(f[1], f[0]);
}

/* A stack that is too small meets its guard page, and nothing of anybody else's. */
static void test_guard(void **state)
{
    int status;
    pid_t pid = fork();

    (void)state;
    if (!pid) {
        weir_fibre *f[2];
        setrlimit(RLIMIT_CORE, &(struct rlimit){0});
        signal(SIGSEGV, SIG_DFL); /* a sanitizer's own handler would print */
        signal(SIGBUS, SIG_DFL);
        if (weir_fibre_thread(&f[0]) || weir_fibre_new(64 << 10, dig, f, &f[1]))
            _exit(1);
        weir_fibre_switch(f[0], f[1]);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),     cmocka_unit_test(test_queue),
        cmocka_unit_test(test_queue_edges), cmocka_unit_test(test_fibres),
        cmocka_unit_test(test_never_ran),   cmocka_unit_test(test_guard),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
