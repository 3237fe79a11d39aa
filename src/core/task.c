/* task.c - real threads, CLOCK_MONOTONIC, and queues that threads wait on. */
#include "core/task.h"
#include "core/fifo.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { BRISK_NS = 100000, KEEP_POLICY = 8 };

static double now(weir_rt *rt)
{
    struct timespec t;

    (void)rt;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- threads ---- */

typedef struct thread {
    weir_task task; /* first */
    pthread_t id;
    weir_err (*fn)(void *);
    void *arg;
    char name[16];
    weir_err result;
    weir_why why; /* the thread's slot: its last sentence outlives it */
} thread;

/* As the kernel's sched_setattr takes it: `runtime` of an ordinary thread is how long its turn is;
 * 0: the usual. Threads of other kinds stay as they are. */
typedef struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
} attributes;

void weir_thread_brisk(bool yes)
{
    attributes a = {.size = sizeof a,
                    .flags = KEEP_POLICY,
                    .nice = getpriority(PRIO_PROCESS, 0),
                    .runtime = yes ? BRISK_NS : 0};

    syscall(SYS_sched_setattr, 0, &a, 0);
}

static void *body(void *arg)
{
    thread *t = arg;

    weir_thread_brisk(false);
    pthread_setname_np(pthread_self(), t->name);
    weir_why_use(&t->why);
    t->result = t->fn(t->arg);
    weir_why_use(NULL);
    return NULL;
}

/* A new thread inherits its maker's mask, so the maker blocks all signals while it makes it: none
 * can slip in between. */
static int create(thread *t)
{
    sigset_t all, before;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&t->id, NULL, body, t);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

static weir_err start(weir_rt *rt, const char *name, weir_err (*fn)(void *), void *arg,
                      weir_task **out)
{
    thread *t = calloc(1, sizeof *t);
    int rc;

    if (!t)
        return weir_fail_nomem(sizeof *t);
    t->task.rt = rt;
    t->fn = fn;
    t->arg = arg;
    snprintf(t->name, sizeof t->name, "%s", name);
    rc = create(t);
    if (rc) {
        free(t);
        return weir_fail(WEIR_FAILED, "the thread '%s' cannot be started: %s", name, strerror(rc));
    }
    *out = &t->task;
    return WEIR_OK;
}

static weir_err join(weir_task *task)
{
    thread *t = (thread *)task;
    weir_err result;

    pthread_join(t->id, NULL);
    result = t->result;
    if (result)
        weir_fail(result, "%s", t->why.text);
    free(t);
    return result;
}

/* ---- queues ---- */

typedef struct queue {
    weir_queue queue; /* first */
    weir_fifo fifo;
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
    *out = &q->queue;
    return WEIR_OK;
}

static weir_err put(weir_queue *base, void *item)
{
    weir_fifo *f = &((queue *)base)->fifo;
    weir_err err;

    pthread_mutex_lock(&f->lock);
    if (!(err = weir_fifo_put(f, item)))
        pthread_cond_signal(&f->filled);
    pthread_mutex_unlock(&f->lock);
    return err;
}

static weir_err get(weir_queue *base, void **item, double deadline)
{
    weir_fifo *f = &((queue *)base)->fifo;
    weir_err err = WEIR_OK;

    pthread_mutex_lock(&f->lock);
    while (weir_fifo_waits(f) && !err)
        err = weir_fifo_wait(f, deadline);
    err = weir_fifo_take(f, item, err);
    pthread_mutex_unlock(&f->lock);
    return err;
}

static void shut(weir_queue *base)
{
    weir_fifo *f = &((queue *)base)->fifo;

    pthread_mutex_lock(&f->lock);
    f->shut = true;
    pthread_cond_broadcast(&f->filled);
    pthread_mutex_unlock(&f->lock);
}

static void drop(weir_queue *base)
{
    queue *q = (queue *)base;

    weir_fifo_close(&q->fifo);
    free(q);
}

weir_rt *weir_rt_threads(void)
{
    /* never written: not const because handles are not */
    static weir_rt rt = {now, start, join, make, put, get, shut, drop};

    return &rt;
}
