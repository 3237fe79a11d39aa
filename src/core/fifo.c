/* fifo.c - see fifo.h. */
#include "core/fifo.h"
#include <errno.h>
#include <stdlib.h>
#include <time.h>

weir_err weir_fifo_open(weir_fifo *f, int room)
{
    pthread_condattr_t attr;

    if (room <= 0)
        return weir_fail(WEIR_FAILED, "a queue has room for one item at least, not %d", room);
    *f = (weir_fifo){.room = room, .item = calloc((size_t)room, sizeof *f->item)};
    if (!f->item)
        return weir_fail_nomem((size_t)room * sizeof *f->item);
    pthread_mutex_init(&f->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&f->filled, &attr);
    pthread_condattr_destroy(&attr);
    return WEIR_OK;
}

void weir_fifo_close(weir_fifo *f)
{
    pthread_cond_destroy(&f->filled);
    pthread_mutex_destroy(&f->lock);
    free(f->item);
}

weir_err weir_fifo_put(weir_fifo *f, void *item)
{
    if (f->shut)
        return WEIR_SHUT;
    if (f->count == f->room)
        return WEIR_BIG;
    f->item[(f->first + f->count++) % f->room] = item;
    return WEIR_OK;
}

weir_err weir_fifo_wait(weir_fifo *f, double deadline)
{
    struct timespec t;
    double at = deadline > 0 ? deadline : 0;

    if (at > 1e12) /* more than a timespec should hold, and longer than any machine runs */
        return pthread_cond_wait(&f->filled, &f->lock), WEIR_OK;
    t.tv_sec = (time_t)at;
    t.tv_nsec = (long)((at - (double)t.tv_sec) * 1e9);
    return pthread_cond_timedwait(&f->filled, &f->lock, &t) == ETIMEDOUT ? WEIR_LATE : WEIR_OK;
}

weir_err weir_fifo_take(weir_fifo *f, void **item, weir_err err)
{
    if (!f->count)
        return f->shut ? WEIR_SHUT : err;
    *item = f->item[f->first];
    f->first = (f->first + 1) % f->room;
    f->count--;
    return WEIR_OK;
}
