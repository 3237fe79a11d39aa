/* fifo.h - for who makes queues (core/task.c, net/queue.c): items in the order in which they came,
 * with a lock, and a condition on which a thread waits for them. */
#ifndef WEIR_CORE_FIFO_H
#define WEIR_CORE_FIFO_H
#include "core/err.h"
#include <pthread.h>

typedef struct weir_fifo {
    pthread_mutex_t lock;
    pthread_cond_t filled; /* whoever puts, or shuts, signals it */
    bool shut;
    int room, count, first;
    void **item;
} weir_fifo;

weir_err weir_fifo_open(weir_fifo *, int room);
void weir_fifo_close(weir_fifo *);
/* All that follow with the lock held. WEIR_SHUT, or WEIR_BIG: it is full. */
weir_err weir_fifo_put(weir_fifo *, void *item);
/* Nothing is there, and more may come. */
static inline bool weir_fifo_waits(const weir_fifo *f) { return !f->count && !f->shut; }
/* Waits once, as a thread. WEIR_LATE: the deadline (of CLOCK_MONOTONIC) has passed. */
weir_err weir_fifo_wait(weir_fifo *, double deadline);
/* The first item; where there is none WEIR_SHUT, or `err`: why nobody waits any more. */
weir_err weir_fifo_take(weir_fifo *, void **item, weir_err err);
#endif
