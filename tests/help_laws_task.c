/* help_laws_task.c - fibres, threads and queues of a rank. */
#include "help_laws.h"
#include <string.h>

/* ---- fibres, threads, queues ---- */

enum { REQUESTS = 50 };

static weir_err serve(void *arg)
{
    weir_net *n = arg;
    int x, which;

    for (int k = 0; k < REQUESTS * weir_net_size(n); k++) {
        weir_net_op o, *p = &o;
        weir_net_recv_masked(n,
                             &(weir_net_want){WEIR_ANY, weir_tag(WEIR_CHANNEL_SERVE, 0, 0),
                                              WEIR_TAG_CHANNEL, &x, sizeof x},
                             &o);
        WEIR_TRY(weir_net_wait(n, &p, 1, 0, &which));
        WEIR_TRY(weir_net_why(n, &o));
        x *= 2;
        WEIR_TRY(weir_net_send_wait(n, o.peer, law_tag(1, 0), &x, sizeof x));
    }
    return WEIR_OK;
}

/* Every rank asks every other and waits; it can only go on because another fibre of each serves
 * meanwhile. */
static weir_err ask_and_serve(weir_net *n, void *arg)
{
    weir_net_task *server;
    int x;

    (void)arg;
    WEIR_TRY(weir_net_fibre(n, "serve", serve, n, &server));
    for (int i = 0; i < REQUESTS; i++)
        for (int p = 0; p < weir_net_size(n); p++) {
            WEIR_TRY(weir_net_send_wait(n, p, weir_tag(WEIR_CHANNEL_SERVE, 0, 0), &i, sizeof i));
            WEIR_TRY(weir_net_recv_wait(n, p, law_tag(1, 0), &x, sizeof x, NULL));
            CHECK(x == 2 * i);
        }
    return weir_net_fibre_join(n, server);
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
    weir_net_task *fibre;
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
    CHECK(weir_task_join(thread) == WEIR_NAN &&
          !strcmp(weir_why_text(), "worked until it was shut"));
    CHECK(weir_queue_get(w.in, &item, WEIR_NEVER) == WEIR_SHUT);
    weir_queue_free(w.in);
    weir_queue_free(w.out);
    return weir_net_size(n) > 1 ? law_barrier(n, 0) : WEIR_OK;
}

static weir_err fails(void *arg)
{
    return weir_fail(WEIR_DISK, "fibre %d has failed", *(int *)arg);
}

/* Sentences of fibres do not mix, and are handed over by join. */
static weir_err sentences(weir_net *n, void *arg)
{
    weir_net_task *a, *b;
    int one = 1, two = 2;

    (void)arg;
    WEIR_TRY(weir_net_fibre(n, "a", fails, &one, &a));
    WEIR_TRY(weir_net_fibre(n, "b", fails, &two, &b));
    weir_fail(WEIR_NAN, "mine");
    weir_net_yield(n);
    CHECK(!strcmp(weir_why_text(), "mine"));
    CHECK(weir_net_fibre_join(n, a) == WEIR_DISK && !strcmp(weir_why_text(), "fibre 1 has failed"));
    CHECK(weir_net_fibre_join(n, b) == WEIR_DISK && !strcmp(weir_why_text(), "fibre 2 has failed"));
    /* what the run gives, though others were said before: see `leaves` */
    return weir_fail(WEIR_NAN, "the last word");
}

/* A fibre that was never joined ends when the first one does. */
static weir_err lingers(void *arg)
{
    weir_net_op o, *p = &o;
    int which;

    weir_net_recv_masked(arg, &(weir_net_want){WEIR_ANY, 0, 0, NULL, 0}, &o);
    WEIR_TRY(weir_net_wait(arg, &p, 1, 0, &which));
    return o.err;
}

static weir_err leaves_one_behind(weir_net *n, void *arg)
{
    weir_net_task *t;

    (void)arg;
    return weir_net_fibre(n, "lingers", lingers, n, &t);
}

const law laws_task[] = {
    {"fibres_serve", 3, ask_and_serve},
    {"fibres_serve_alone", 1, ask_and_serve},
    {"queues", 3, queues},
    {"queues_alone", 1, queues},
    {"sentences", 1, sentences, .leaves = 1},
    {"left_behind", 2, leaves_one_behind},
    {0},
};
