/* test_net.c - what every world must do: ranks as threads. Kills and stops, which need processes, are in test_net_kill.c. */
#include "help_ranks.h"
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

static uint64_t tag(uint32_t turn, uint32_t part) { return weir_tag(WEIR_CHANNEL_TEST, turn, part); }

/* Everybody has come here before anybody goes on. */
static weir_err barrier(weir_net *n, uint32_t turn)
{
    for (int p = 0; p < weir_net_size(n); p++)
        if (p != weir_net_rank(n))
            WEIR_TRY(weir_net_send_wait(n, p, weir_tag(WEIR_CHANNEL_COLL, turn, 0), NULL, 0));
    for (int p = 0; p < weir_net_size(n); p++)
        if (p != weir_net_rank(n))
            WEIR_TRY(weir_net_recv_wait(n, p, weir_tag(WEIR_CHANNEL_COLL, turn, 0), NULL, 0, NULL));
    return WEIR_OK;
}

/* ---- order ---- */

static weir_err order(weir_net *n, void *arg)
{
    int x;

    (void)arg;
    if (weir_net_rank(n) == 0)
        for (int i = 0; i < 200; i++)
            WEIR_TRY(weir_net_send_wait(n, 1, tag((uint32_t)i % 2, 0), &i, sizeof i));
    else
        for (uint32_t t = 2; t-- > 0;) /* the second tag first: the others wait */
            for (int i = (int)t; i < 200; i += 2) {
                WEIR_TRY(weir_net_recv_wait(n, 0, tag(t, 0), &x, sizeof x, NULL));
                CHECK(x == i);
            }
    return WEIR_OK;
}

static void test_order(void **state)
{
    (void)state;
    ranks_all_ok(&(ranks){.size = 2, .fn = order});
}

static weir_err any_source(weir_net *n, void *arg)
{
    int next[4] = {0}, x;

    (void)arg;
    if (weir_net_rank(n)) {
        for (int i = 0; i < 100; i++)
            WEIR_TRY(weir_net_send_wait(n, 0, weir_tag(WEIR_CHANNEL_SERVE, (uint32_t)i, 7), &i, sizeof i));
        return weir_net_recv_wait(n, 0, tag(0, 0), &x, sizeof x, NULL);
    }
    for (int k = 0; k < 300; k++) {
        weir_op o, *p = &o;
        int which;
        weir_net_recv(n, WEIR_ANY, weir_tag(WEIR_CHANNEL_SERVE, 0, 0), WEIR_WHOLE_CHANNEL, &x, sizeof x, &o);
        WEIR_TRY(weir_net_wait(n, &p, 1, 0, &which));
        CHECK(!o.err && o.len == sizeof x && o.peer > 0 && o.peer < 4);
        CHECK(x == next[o.peer]++ && o.tag == weir_tag(WEIR_CHANNEL_SERVE, (uint32_t)x, 7));
    }
    for (int p = 1; p < 4; p++)
        WEIR_TRY(weir_net_send_wait(n, p, tag(0, 0), &x, sizeof x));
    return WEIR_OK;
}

static void test_any_source(void **state)
{
    (void)state;
    ranks_all_ok(&(ranks){.size = 4, .fn = any_source});
}

/* A wildcard receive takes nothing from other channels, whichever was posted first. */
static weir_err own_channel(weir_net *n, void *arg)
{
    weir_op any, own, *ops[] = {&any, &own};
    int a = 1, b = 2, which;

    (void)arg;
    if (weir_net_rank(n)) {
        WEIR_TRY(weir_net_send_wait(n, 0, tag(3, 0), &b, sizeof b));
        WEIR_TRY(weir_net_recv_wait(n, 0, tag(4, 0), NULL, 0, NULL));
        return weir_net_send_wait(n, 0, weir_tag(WEIR_CHANNEL_SERVE, 0, 0), &a, sizeof a);
    }
    a = b = 0;
    weir_net_recv(n, WEIR_ANY, weir_tag(WEIR_CHANNEL_SERVE, 0, 0), WEIR_WHOLE_CHANNEL, &a, sizeof a, &any);
    weir_net_recv(n, 1, tag(3, 0), WEIR_EXACT, &b, sizeof b, &own);
    WEIR_TRY(weir_net_wait(n, ops, 2, 0, &which));
    CHECK(which == 1 && b == 2 && !any.done);
    WEIR_TRY(weir_net_send_wait(n, 1, tag(4, 0), NULL, 0));
    ops[1] = NULL;
    WEIR_TRY(weir_net_wait(n, ops, 2, 0, &which));
    CHECK(which == 0 && a == 1);
    return WEIR_OK;
}

static void test_own_channel(void **state)
{
    (void)state;
    ranks_all_ok(&(ranks){.size = 2, .fn = own_channel});
}

/* ---- receives, lent and landed ---- */

static void fill(unsigned char *at, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        at[i] = (unsigned char)(i * 131 + i / 251 + seed);
}

static bool filled(const unsigned char *at, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        if (at[i] != (unsigned char)(i * 131 + i / 251 + seed))
            return false;
    return true;
}

static const size_t lengths[] = {0, 1, 7, 8, 33, 100, 4095, 8191, 8192, 8193, 70000, 1 << 20};
enum { LENGTHS = sizeof lengths / sizeof lengths[0] };

static weir_err lent_and_landed(weir_net *n, void *arg)
{
    static const size_t most = 1 << 20;
    unsigned char *buf = malloc(most);
    int peer = *(int *)arg == 1 ? 0 : 1 - weir_net_rank(n), which; /* alone: to itself */
    weir_op in, out, *pin = &in, *pout = &out;

    for (uint32_t i = 0; i < 2 * LENGTHS; i++) {
        size_t len = lengths[i / 2];
        bool lent = i % 2;
        fill(buf, len, i);
        weir_net_send(n, peer, tag(i, 1), buf, len, &out);
        WEIR_TRY(weir_net_wait(n, &pout, 1, 0, &which));
        memset(buf, 0, len); /* done: ours again, whatever has become of it */
        weir_net_recv(n, peer, tag(i, 1), WEIR_EXACT, lent ? NULL : buf, lent ? 0 : most, &in);
        WEIR_TRY(weir_net_wait(n, &pin, 1, 0, &which));
        CHECK(!in.err && in.len == len && in.peer == peer && filled(in.data, len, i));
        CHECK(!lent || !((uintptr_t)in.data & 7));
        weir_net_release(n, &in);
        weir_net_release(n, &in); /* harmless */
    }
    free(buf);
    return WEIR_OK;
}

static void test_lent_and_landed(void **state)
{
    (void)state;
    ranks_all_ok(&(ranks){.size = 2, .fn = lent_and_landed, .arg = &(int){2}});
    ranks_all_ok(&(ranks){.size = 1, .fn = lent_and_landed, .arg = &(int){1}});
}

static weir_err too_big(weir_net *n, void *arg)
{
    char text[20] = "nineteen characters", small[8];
    size_t len = 0;

    (void)arg;
    if (weir_net_rank(n))
        return weir_net_send_wait(n, 0, tag(0, 0), text, 20), weir_net_send_wait(n, 0, tag(0, 0), text, 4);
    CHECK(weir_net_recv_wait(n, 1, tag(0, 0), small, sizeof small, &len) == WEIR_BIG);
    CHECK(strstr(weir_why_text(), "20 bytes from rank 1"));
    WEIR_TRY(weir_net_recv_wait(n, 1, tag(0, 0), small, sizeof small, &len)); /* the long one was consumed */
    CHECK(len == 4 && !memcmp(small, "nine", 4));
    CHECK(weir_net_send_wait(n, 2, tag(0, 0), text, 1) == WEIR_USAGE);
    return WEIR_OK;
}

static void test_too_big(void **state)
{
    (void)state;
    ranks_all_ok(&(ranks){.size = 2, .fn = too_big});
}

/* ---- deadlines and cancelling ---- */

static weir_err deadlines(weir_net *n, void *arg)
{
    weir_op o, *p = &o;
    int x = 5, which;
    double t = weir_net_now(n);

    (void)arg;
    if (weir_net_rank(n)) {
        WEIR_TRY(weir_net_recv_wait(n, 0, tag(1, 0), &x, sizeof x, NULL));
        return weir_net_send_wait(n, 0, tag(0, 0), &x, sizeof x);
    }
    weir_net_recv(n, 1, tag(0, 0), WEIR_EXACT, &x, sizeof x, &o);
    CHECK(weir_net_wait(n, &p, 1, t + 0.05, &which) == WEIR_LATE && !o.done);
    CHECK(weir_net_now(n) >= t + 0.05 && weir_net_now(n) < t + 5);
    CHECK(weir_net_wait(n, &p, 1, t, &which) == WEIR_LATE); /* has passed: a look, no more */
    WEIR_TRY(weir_net_send_wait(n, 1, tag(1, 0), &(int){9}, sizeof(int)));
    WEIR_TRY(weir_net_wait(n, &p, 1, t + 20, &which)); /* it stayed in flight */
    CHECK(!o.err && x == 9);
    return WEIR_OK;
}

static void test_deadlines(void **state)
{
    (void)state;
    ranks_all_ok(&(ranks){.size = 2, .fn = deadlines});
}

static weir_err cancels(weir_net *n, void *arg)
{
    size_t len = 8 << 20;
    char *big = calloc(1, len);
    weir_op ops[3], *p[] = {&ops[0], NULL, &ops[1], &ops[2]};
    int x = 0, peer = 1 - weir_net_rank(n);

    (void)arg;
    weir_net_recv(n, peer, tag(0, 0), WEIR_EXACT, &x, sizeof x, &ops[0]);
    weir_net_recv(n, WEIR_ANY, tag(0, 1), WEIR_EXACT, NULL, 0, &ops[1]);
    weir_net_send(n, peer, tag(0, 2), big, len, &ops[2]);
    weir_net_cancel(n, p, 4);
    memset(big, 1, len); /* ours again */
    CHECK(ops[0].done && ops[0].err == WEIR_STALE && ops[1].done && ops[1].err == WEIR_STALE && ops[2].done);
    WEIR_TRY(weir_net_send_wait(n, peer, tag(0, 0), &(int){3}, sizeof(int)));
    WEIR_TRY(weir_net_recv_wait(n, peer, tag(0, 0), &x, sizeof x, NULL)); /* goes to the new receive */
    CHECK(x == 3);
    free(big);
    return barrier(n, 0);
}

static void test_cancels(void **state)
{
    (void)state;
    ranks_all_ok(&(ranks){.size = 2, .fn = cancels});
}

/* ---- much ---- */

enum { MANY = 10000 };

static weir_err many_small(weir_net *n, void *arg)
{
    int me = weir_net_rank(n), size = weir_net_size(n), x;
    weir_net_count c;

    (void)arg;
    for (int i = 0; i < MANY; i++)
        for (int p = 0; p < size; p++)
            WEIR_TRY(weir_net_send_wait(n, p, tag(0, (uint32_t)me), &i, sizeof i));
    for (int p = 0; p < size; p++)
        for (int i = 0; i < MANY; i++) {
            WEIR_TRY(weir_net_recv_wait(n, p, tag(0, (uint32_t)p), &x, sizeof x, NULL));
            CHECK(x == i);
        }
    c = weir_net_counted(n);
    CHECK(c.sent == (uint64_t)(size - 1) * MANY * sizeof x && c.received == c.sent);
    return WEIR_OK;
}

static void test_many_small(void **state)
{
    (void)state;
    ranks_all_ok(&(ranks){.size = 3, .fn = many_small});
}

static weir_err both_ways(weir_net *n, void *arg)
{
    size_t len = 16 << 20;
    unsigned char *out = malloc(len), *in = malloc(len);
    int peer = 1 - weir_net_rank(n);
    weir_op ops[2];

    (void)arg;
    for (uint32_t k = 0; k < 3; k++) {
        fill(out, len, k);
        weir_net_send(n, peer, tag(k, 0), out, len, &ops[0]);
        weir_net_recv(n, peer, tag(k, 0), WEIR_EXACT, in, len, &ops[1]);
        WEIR_TRY(weir_net_wait_all(n, ops, 2, 0));
        CHECK(ops[1].len == len && filled(in, len, k));
    }
    free(out);
    free(in);
    return WEIR_OK;
}

static void test_both_ways(void **state)
{
    (void)state;
    ranks_all_ok(&(ranks){.size = 2, .fn = both_ways});
}

/* ---- fibres, threads, queues ---- */

enum { REQUESTS = 50 };

static weir_err serve(void *arg)
{
    weir_net *n = arg;
    int x, which;

    for (int k = 0; k < REQUESTS * weir_net_size(n); k++) {
        weir_op o, *p = &o;
        weir_net_recv(n, WEIR_ANY, weir_tag(WEIR_CHANNEL_SERVE, 0, 0), WEIR_WHOLE_CHANNEL, &x, sizeof x, &o);
        WEIR_TRY(weir_net_wait(n, &p, 1, 0, &which));
        WEIR_TRY(weir_net_why(n, &o));
        x *= 2;
        WEIR_TRY(weir_net_send_wait(n, o.peer, tag(1, 0), &x, sizeof x));
    }
    return WEIR_OK;
}

/* Every rank asks every other and waits; it can only go on because another fibre of each serves meanwhile. */
static weir_err ask_and_serve(weir_net *n, void *arg)
{
    weir_fibre_task *server;
    int x;

    (void)arg;
    WEIR_TRY(weir_net_fibre(n, "serve", serve, n, &server));
    for (int i = 0; i < REQUESTS; i++)
        for (int p = 0; p < weir_net_size(n); p++) {
            WEIR_TRY(weir_net_send_wait(n, p, weir_tag(WEIR_CHANNEL_SERVE, 0, 0), &i, sizeof i));
            WEIR_TRY(weir_net_recv_wait(n, p, tag(1, 0), &x, sizeof x, NULL));
            CHECK(x == 2 * i);
        }
    return weir_net_fibre_join(n, server);
}

static void test_fibres_serve(void **state)
{
    (void)state;
    ranks_all_ok(&(ranks){.size = 3, .fn = ask_and_serve});
    ranks_all_ok(&(ranks){.size = 1, .fn = ask_and_serve});
}

typedef struct worker {
    weir_queue *in, *out;
    weir_net *net;
} worker;

static weir_err work(void *arg)
{
    worker *w = arg;
    void *item;
    weir_err err;

    while (!(err = weir_queue_get(w->in, &item, WEIR_NEVER)))
        while (weir_queue_put(w->out, (char *)item + 1) == WEIR_BIG)
            weir_net_spend(w->net, 1e-4);
    return err == WEIR_SHUT ? weir_fail(WEIR_NAN, "worked until it was shut") : err;
}

static weir_err drain(void *arg)
{
    worker *w = arg;
    char *base = (char *)w;
    void *item;

    for (int i = 0; i < 1000; i++) {
        WEIR_TRY(weir_queue_get(w->out, &item, WEIR_NEVER));
        CHECK((char *)item == base + i + 1);
    }
    return WEIR_OK;
}

static weir_err queues(weir_net *n, void *arg)
{
    worker w = {.net = n};
    weir_rt *rt = weir_net_rt(n);
    weir_task *thread;
    weir_fibre_task *fibre;
    void *item;
    double t = weir_now(rt);

    (void)arg;
    WEIR_TRY(weir_queue_new(rt, 16, &w.in));
    WEIR_TRY(weir_queue_new(rt, 8, &w.out));
    CHECK(weir_queue_get(w.in, &item, t + 0.02) == WEIR_LATE && weir_now(rt) >= t + 0.02);
    WEIR_TRY(weir_task_start(rt, "work", work, &w, &thread));
    WEIR_TRY(weir_net_fibre(n, "drain", drain, &w, &fibre));
    for (int i = 0; i < 1000; i++)
        while (weir_queue_put(w.in, (char *)&w + i) == WEIR_BIG)
            weir_net_yield(n);
    WEIR_TRY(weir_net_fibre_join(n, fibre));
    weir_queue_shut(w.in);
    CHECK(weir_queue_put(w.in, NULL) == WEIR_SHUT);
    CHECK(weir_task_join(thread) == WEIR_NAN && !strcmp(weir_why_text(), "worked until it was shut"));
    CHECK(weir_queue_get(w.in, &item, WEIR_NEVER) == WEIR_SHUT);
    weir_queue_free(w.in);
    weir_queue_free(w.out);
    return weir_net_size(n) > 1 ? barrier(n, 0) : WEIR_OK;
}

static void test_queues(void **state)
{
    (void)state;
    ranks_all_ok(&(ranks){.size = 1, .fn = queues});
    ranks_all_ok(&(ranks){.size = 3, .fn = queues});
}

static weir_err fails(void *arg) { return weir_fail(WEIR_DISK, "fibre %d has failed", *(int *)arg); }

/* Sentences of fibres do not mix, and are handed over by join. */
static weir_err sentences(weir_net *n, void *arg)
{
    weir_fibre_task *a, *b;
    int one = 1, two = 2;

    (void)arg;
    WEIR_TRY(weir_net_fibre(n, "a", fails, &one, &a));
    WEIR_TRY(weir_net_fibre(n, "b", fails, &two, &b));
    weir_fail(WEIR_NAN, "mine");
    weir_net_yield(n);
    CHECK(!strcmp(weir_why_text(), "mine"));
    CHECK(weir_net_fibre_join(n, a) == WEIR_DISK && !strcmp(weir_why_text(), "fibre 1 has failed"));
    CHECK(weir_net_fibre_join(n, b) == WEIR_DISK && !strcmp(weir_why_text(), "fibre 2 has failed"));
    return weir_fail(WEIR_NAN, "the last word");
}

static void test_sentences(void **state)
{
    ranks r = {.size = 1, .fn = sentences};

    (void)state;
    ranks_run(&r);
    assert_string_equal(r.why[0], "the last word");
    assert_int_equal(r.err[0], WEIR_NAN);
}

/* A fibre that was never joined ends when the first one does. */
static weir_err lingers(void *arg)
{
    weir_op o, *p = &o;
    int which;

    weir_net_recv(arg, WEIR_ANY, 0, 0, NULL, 0, &o);
    WEIR_TRY(weir_net_wait(arg, &p, 1, 0, &which));
    return o.err;
}

static weir_err leaves_one_behind(weir_net *n, void *arg)
{
    weir_fibre_task *t;

    (void)arg;
    return weir_net_fibre(n, "lingers", lingers, n, &t);
}

static void test_left_behind(void **state)
{
    (void)state;
    ranks_all_ok(&(ranks){.size = 2, .fn = leaves_one_behind});
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
    WEIR_TRY(barrier(n, 0));
    CHECK(access(arg, F_OK)); /* everybody is in: gone, while we run */
    return barrier(n, 1);
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
    weir_place p;
    char dir[64];
    weir_net_facts facts;

    (void)state;
    ranks_place(&p, 0, 2, "", 1);
    assert_int_equal(weir_net_run("zmq", &p, order, NULL), WEIR_MISFIT);
    assert_non_null(strstr(weir_why_text(), "no place to meet"));
    ranks_place(&p, 2, 2, "/tmp/x", 1);
    assert_int_equal(weir_net_run("zmq", &p, order, NULL), WEIR_USAGE);
    assert_int_equal(weir_net_run("zmqq", &p, order, NULL), WEIR_USAGE);
    assert_int_equal(weir_net_run("zmq:hold=-1", &p, order, NULL), WEIR_USAGE);
    ranks_place(&p, 0, 2, "/tmp", 1); /* not ours alone */
    assert_int_equal(weir_net_run("zmq", &p, order, NULL), WEIR_DENIED);
    ranks_dir(dir);
    ranks_place(&p, 0, 2, "/tmp/a-directory/that-is-not/there", 1);
    assert_int_equal(weir_net_run("zmq", &p, order, NULL), WEIR_FAILED);
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
        cmocka_unit_test(test_order),           cmocka_unit_test(test_any_source), cmocka_unit_test(test_own_channel),
        cmocka_unit_test(test_lent_and_landed), cmocka_unit_test(test_too_big),    cmocka_unit_test(test_deadlines),
        cmocka_unit_test(test_cancels),         cmocka_unit_test(test_many_small), cmocka_unit_test(test_both_ways),
        cmocka_unit_test(test_fibres_serve),    cmocka_unit_test(test_queues),     cmocka_unit_test(test_sentences),
        cmocka_unit_test(test_left_behind),     cmocka_unit_test(test_alone),      cmocka_unit_test(test_no_directory),
        cmocka_unit_test(test_places),          cmocka_unit_test(test_groups),
    };

    void *keep = zmq_ctx_new(); /* libzmq's own set-up, which threads must not run at the same time, happens here once */
    int failed = 0;
    char key[64];

    for (weir_plugs world = weir_nets; *world; world++) {
        ranks_world = (*world)->name;
        failed += cmocka_run_group_tests_name(ranks_world, tests, NULL, NULL);
    }
    ranks_world = "zmq:ipc=no"; /* the same over tcp, and with a key */
    ranks_key = "";
    failed += cmocka_run_group_tests_name("zmq over tcp", tests, NULL, NULL);
    snprintf(key, sizeof key, "/tmp/weir-test-key-%d", (int)getpid());
    ranks_key = key;
    if (weir_key_make(key))
        return 1;
    failed += cmocka_run_group_tests_name("zmq over tcp with a key", tests, NULL, NULL);
    unlink(key);
    zmq_ctx_term(keep);
    return failed;
}
