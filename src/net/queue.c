/* queue.c - the weir_rt of a rank: queues between its fibres and threads, and threads that a fibre
 * can join without stopping the others. */
#include "core/fifo.h"
#include "net/world.h"
#include <stdlib.h>

static weir_net *net_of(weir_rt *rt) { return ((struct weir_net_rt *)rt)->net; }

static double now(weir_rt *rt) { return weir_net_now(net_of(rt)); }

/* ---- threads ---- */

/* Two hold it: who joins, and the wake that tells the comm thread of its end. The last one frees
 * it. */
typedef struct thread {
    weir_task task; /* first */
    weir_task *real;
    weir_wake wake;
    weir_net *net;
    weir_err (*fn)(void *);
    void *arg;
    bool ended; /* comm thread's */
    weir_net_task *joiner;
    atomic_int holders;
} thread;

static void let_go(thread *t)
{
    if (atomic_fetch_sub(&t->holders, 1) == 1)
        free(t);
}

static void on_end(weir_wake *w)
{
    thread *t = (thread *)((char *)w - offsetof(thread, wake));

    t->ended = true;
    if (t->joiner)
        weir_sched_ready(t->joiner);
    let_go(t);
}

static weir_err body(void *arg)
{
    thread *t = arg;
    weir_err err = t->fn(t->arg);

    weir_sched_remote(t->net->sched, &t->wake);
    return err;
}

static weir_err start(weir_rt *rt, const char *name, weir_err (*fn)(void *), void *arg,
                      weir_task **out)
{
    thread *t = calloc(1, sizeof *t);
    weir_err err;

    if (!t)
        return weir_fail_nomem(sizeof *t);
    t->task.rt = rt;
    t->net = net_of(rt);
    t->fn = fn;
    t->arg = arg;
    t->wake.fn = on_end;
    atomic_init(&t->holders, 2);
    err = weir_task_start(weir_rt_threads(), name, body, t, &t->real);
    if (err) {
        free(t);
        return err;
    }
    *out = &t->task;
    return WEIR_OK;
}

static weir_err join(weir_task *task)
{
    thread *t = (thread *)task;
    weir_err err;

    /* else a thread joins: `joiner` is the comm thread's alone */
    if (weir_sched_here(t->net->sched) && t->net->sched->current) {
        while (!t->ended) {
            t->joiner = t->net->sched->current;
            weir_sched_block(t->net, WEIR_NEVER);
        }
        t->joiner = NULL;
    }
    err = weir_task_join(t->real); /* has ended, or is waited for by a thread */
    let_go(t);
    return err;
}

/* ---- queues ---- */

typedef struct queue {
    weir_queue queue; /* first */
    weir_net *net;
    weir_fifo fifo;        /* a thread waits on its condition */
    weir_net_task *waiter; /* or a fibre here */
} queue;

static weir_err make(weir_rt *rt, int room, weir_queue **out)
{
    queue *q = calloc(1, sizeof *q);
    weir_err err;

    if (!q)
        return weir_fail_nomem(sizeof *q);
    if ((err = weir_fifo_open(&q->fifo, room)))
        return free(q), err;
    q->queue.rt = rt;
    q->net = net_of(rt);
    *out = &q->queue;
    return WEIR_OK;
}

/* With the lock held, so that a waiter is never woken after it has gone. */
static void poke(queue *q)
{
    if (q->waiter)
        weir_sched_wake(q->waiter);
    q->waiter = NULL;
    pthread_cond_signal(&q->fifo.filled);
}

static weir_err put(weir_queue *base, void *item)
{
    queue *q = (queue *)base;
    weir_err err;

    pthread_mutex_lock(&q->fifo.lock);
    if (!(err = weir_fifo_put(&q->fifo, item)))
        poke(q);
    pthread_mutex_unlock(&q->fifo.lock);
    return err;
}

static weir_err wait_as_fibre(queue *q, double deadline)
{
    q->waiter = q->net->sched->current;
    pthread_mutex_unlock(&q->fifo.lock);
    weir_sched_block(q->net, deadline);
    pthread_mutex_lock(&q->fifo.lock);
    q->waiter = NULL;
    if (q->net->closing)
        return WEIR_SHUT;
    return weir_net_now(q->net) >= deadline ? WEIR_LATE : WEIR_OK;
}

static weir_err get(weir_queue *base, void **item, double deadline)
{
    queue *q = (queue *)base;
    bool fibre = weir_sched_here(q->net->sched) && q->net->sched->current;
    weir_err err = WEIR_OK;

    pthread_mutex_lock(&q->fifo.lock);
    while (weir_fifo_waits(&q->fifo) && !err)
        err = fibre ? wait_as_fibre(q, deadline) : weir_fifo_wait(&q->fifo, deadline);
    err = weir_fifo_take(&q->fifo, item, err);
    pthread_mutex_unlock(&q->fifo.lock);
    return err;
}

static void shut(weir_queue *base)
{
    queue *q = (queue *)base;

    pthread_mutex_lock(&q->fifo.lock);
    q->fifo.shut = true;
    poke(q);
    pthread_mutex_unlock(&q->fifo.lock);
}

static void drop(weir_queue *base)
{
    queue *q = (queue *)base;

    weir_fifo_close(&q->fifo);
    free(q);
}

void weir_net_rt_fill(weir_net *n)
{
    n->rt.net = n;
    n->rt.rt = (weir_rt){now, start, join, make, put, get, shut, drop};
}

weir_rt *weir_net_rt(weir_net *n) { return &n->rt.rt; }
