/* mpi_idle.c - a rank that waits, under MPI.
 *
 * MPI makes progress only when it is called: a rank that waits calls it, in a hurry while something
 * is under way, else less and less often, and sleeps between on the bell and on the words'
 * sockets. */
#include "net/mpi_link.h"
#include <poll.h>
#include <sched.h>
#include <time.h>

/* seconds between looks at the words when there is always something to do */
static const double LOOK = 1e-4;
static const double SWEEP = 0.1;      /* seconds between looks at what is held */
static const double YIELD = 2e-4;     /* seconds of giving way before sleeping */
static const double NAP_LEAST = 2e-5; /* a nap: an eighth of the time waited so far, but ... */
static const double NAP_BUSY = 5e-5;  /* ... no longer while something is under way */
static const double NAP_MOST = 1e-3;  /* ... no longer at all */

double weir_mpi_now(weir_sched *s)
{
    struct timespec t;

    (void)s;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* What can be done without sleeping; was there any. Words first: they tell of a death that MPI may
 * not live through. */
static bool progress(weir_net *n, double at)
{
    mpi_link *l = n->link;
    bool any = weir_sched_drain(n->sched);

    if (at - l->looked >= LOOK) {
        l->looked = at;
        any |= weir_mpi_control(n);
        if (at - l->swept >= SWEEP) {
            l->swept = at;
            weir_mpi_sweep(n);
        }
    }
    any |= weir_mpi_packets(n);
    any |= weir_mpi_finish(n);
    return any;
}

/* Sleeps on the bell and on the words. */
static void nap(weir_sched *s, int words, double seconds)
{
    struct pollfd set[2] = {{.fd = s->bell, .events = POLLIN}, {.fd = words, .events = POLLIN}};
    struct timespec t;

    seconds = seconds < 3600 ? seconds : 3600;
    t.tv_sec = (time_t)seconds;
    t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
    if (!weir_sched_sleep(s))
        return;
    if (ppoll(set, 2, &t, NULL) < 0)
        set[0].revents = 0; /* a signal: look again */
    weir_sched_woken(s, set[0].revents != 0);
}

void weir_mpi_wait(weir_net *n, double until)
{
    mpi_link *l = n->link;
    double begun = weir_mpi_now(n->sched), at = begun, length, most;

    while (!progress(n, at) && !n->sched->ready) {
        at = weir_mpi_now(n->sched);
        if (at >= until)
            return;
        if (at - begun < l->spin)
            continue;
        if (at - begun < YIELD && !l->down) {
            sched_yield();
            continue;
        }
        most = l->down ? 1 : l->count ? NAP_BUSY : NAP_MOST;
        length = l->down ? 1 : (at - begun) / 8;
        length = length < NAP_LEAST ? NAP_LEAST : length > most ? most : length;
        nap(n->sched, l->poll, length < until - at ? length : until - at);
        l->looked = 0; /* something may have been said meanwhile */
    }
}

void weir_mpi_idle(weir_sched *s, double until)
{
    weir_net *n = s->state;
    bool busy;
    double next;

    if (!n->link) { /* alone */
        if (!weir_sched_drain(s) && until > 0 && !s->ready)
            nap(s, -1, until - weir_mpi_now(s) > 0 ? until - weir_mpi_now(s) : 0);
        return;
    }
    busy = progress(n, weir_mpi_now(s)) || until <= 0;
    next = weir_liveness_tick(n);
    if (!busy && !s->ready)
        weir_mpi_wait(n, until < next ? until : next);
}
