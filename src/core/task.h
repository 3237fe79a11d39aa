/* task.h - threads, clocks and queues, through a handle: real ones here, others where a net
 * supplies them (fibres on its comm thread, a virtual clock). Whoever needs to wait for somebody
 * takes a weir_rt and never calls pthreads. */
#ifndef WEIR_CORE_TASK_H
#define WEIR_CORE_TASK_H
#include "core/err.h"
#include <stdbool.h>

typedef struct weir_rt weir_rt;
typedef struct weir_task weir_task;   /* begins with a weir_rt *, as does a queue */
typedef struct weir_queue weir_queue; /* of pointers, first in first out */

/* Deadlines are absolute times of weir_now. */
#define WEIR_NEVER 1e300

struct weir_rt {
    double (*now)(weir_rt *);
    weir_err (*start)(weir_rt *, const char *name, weir_err (*fn)(void *), void *arg, weir_task **);
    weir_err (*join)(weir_task *);
    weir_err (*queue)(weir_rt *, int room, weir_queue **);
    weir_err (*put)(weir_queue *, void *item);
    weir_err (*get)(weir_queue *, void **item, double deadline);
    void (*shut)(weir_queue *);
    void (*drop)(weir_queue *);
};
struct weir_task {
    weir_rt *rt;
};
struct weir_queue {
    weir_rt *rt;
};

/* Real threads, CLOCK_MONOTONIC. Threads start with all signals blocked, and with turns of the
 * usual length. */
weir_rt *weir_rt_threads(void);

/* The calling thread, and what a library starts from it, takes short turns on a core, and in return
 * soon gets one: for whoever passes messages on while others compute. It gets no more of the core
 * than before. Where the system knows no such thing (Linux before 6.12) nothing changes. */
void weir_thread_brisk(bool yes);

/* Seconds; only differences mean anything. */
static inline double weir_now(weir_rt *rt) { return rt->now(rt); }
/* Starts a thread (in a virtual world: a task) that runs fn. */
static inline weir_err weir_task_start(weir_rt *rt, const char *name, weir_err (*fn)(void *),
                                       void *arg, weir_task **t)
{
    return rt->start(rt, name, fn, arg, t);
}
/* Waits for its end and gives what fn returned, with its sentence; the task is gone then. */
static inline weir_err weir_task_join(weir_task *t) { return t->rt->join(t); }

static inline weir_err weir_queue_new(weir_rt *rt, int room, weir_queue **q)
{
    return rt->queue(rt, room, q);
}
/* Never blocks: WEIR_BIG when full, WEIR_SHUT when shut. From any thread. */
static inline weir_err weir_queue_put(weir_queue *q, void *item) { return q->rt->put(q, item); }
/* Blocks until an item is there; WEIR_LATE at the deadline, WEIR_SHUT when shut and empty. One
 * getter at a time. */
static inline weir_err weir_queue_get(weir_queue *q, void **item, double deadline)
{
    return q->rt->get(q, item, deadline);
}
static inline void weir_queue_shut(weir_queue *q) { q->rt->shut(q); }
static inline void weir_queue_free(weir_queue *q) /* NULL is allowed */
{
    if (q)
        q->rt->drop(q);
}
#endif
