/* task.c - real threads, CLOCK_MONOTONIC, and queues of a mutex and a condition. */
#include "core/task.h"
#include <errno.h>
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
    pthread_mutex_t lock;
    pthread_cond_t filled;
    bool shut;
    int room, count, first;
    void *item[];
} queue;

static weir_err make(weir_rt *rt, int room, weir_queue **out)
{
    size_t bytes = sizeof(queue) + (size_t)room * sizeof(void *);
    queue *q = room > 0 ? calloc(1, bytes) : NULL;
    pthread_condattr_t attr;

    if (room <= 0)
        return weir_fail(WEIR_FAILED, "a queue has room for one item at least, not %d", room);
    if (!q)
        return weir_fail_nomem(bytes);
    q->queue.rt = rt;
    q->room = room;
    pthread_mutex_init(&q->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&q->filled, &attr);
    pthread_condattr_destroy(&attr);
    *out = &q->queue;
    return WEIR_OK;
}

static weir_err put(weir_queue *base, void *item)
{
    queue *q = (queue *)base;
    weir_err err = WEIR_OK;

    pthread_mutex_lock(&q->lock);
    if (q->shut)
        err = WEIR_SHUT;
    else if (q->count == q->room)
        err = WEIR_BIG;
    else
        q->item[(q->first + q->count++) % q->room] = item;
    if (!err)
        pthread_cond_signal(&q->filled);
    pthread_mutex_unlock(&q->lock);
    return err;
}

/* true: the deadline has passed */
static bool wait_filled(queue *q, double deadline)
{
    struct timespec t;

    if (deadline > 1e12) /* more than a timespec should hold, and longer than any machine runs */
        return pthread_cond_wait(&q->filled, &q->lock) == ETIMEDOUT;
    if (deadline < 0)
        deadline = 0;
    t.tv_sec = (time_t)deadline;
    t.tv_nsec = (long)((deadline - (double)t.tv_sec) * 1e9);
    return pthread_cond_timedwait(&q->filled, &q->lock, &t) == ETIMEDOUT;
}

static weir_err get(weir_queue *base, void **item, double deadline)
{
    queue *q = (queue *)base;
    weir_err err = WEIR_OK;

    pthread_mutex_lock(&q->lock);
    while (!q->count && !q->shut && !err)
        if (wait_filled(q, deadline))
            err = WEIR_LATE;
    if (q->count) {
        *item = q->item[q->first];
        q->first = (q->first + 1) % q->room;
        q->count--;
        err = WEIR_OK;
    } else if (q->shut) {
        err = WEIR_SHUT;
    }
    pthread_mutex_unlock(&q->lock);
    return err;
}

static void shut(weir_queue *base)
{
    queue *q = (queue *)base;

    pthread_mutex_lock(&q->lock);
    q->shut = true;
    pthread_cond_broadcast(&q->filled);
    pthread_mutex_unlock(&q->lock);
}

static void drop(weir_queue *base)
{
    queue *q = (queue *)base;

    pthread_cond_destroy(&q->filled);
    pthread_mutex_destroy(&q->lock);
    free(q);
}

weir_rt *weir_rt_threads(void)
{
    /* never written: not const because handles are not */
    static weir_rt rt = {now, start, join, make, put, get, shut, drop};

    return &rt;
}
