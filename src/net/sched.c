/* sched.c - fibres of one comm thread: who runs next, and who is woken by what.
 *
 * A fibre that blocks looks for the next one itself and, if there is none, waits for the world on
 * its own stack: a message for the fibre that waits costs no switch at all. */
#include "net/world.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* So that fibres which only feed each other do not starve the wire. */
enum { TURNS_BETWEEN_LOOKS = 64 };

/* ---- wakes from other threads ---- */

void weir_sched_remote(weir_sched *s, weir_wake *w)
{
    weir_wake *old = atomic_load(&s->remote);
    uint64_t one = 1;

    do
        w->next = old;
    while (!atomic_compare_exchange_weak(&s->remote, &old, w));
    if (!old && atomic_load(&s->asleep) && write(s->bell, &one, sizeof one) < 0)
        return; /* the counter is full: it rings already */
}

bool weir_sched_drain(weir_sched *s)
{
    weir_wake *w, *next, *turned = NULL;

    if (!atomic_load_explicit(&s->remote, memory_order_relaxed))
        return false;
    for (w = atomic_exchange(&s->remote, NULL); w; w = next) { /* oldest first */
        next = w->next;
        w->next = turned;
        turned = w;
    }
    for (w = turned; w; w = next) {
        next = w->next;
        w->fn(w);
    }
    return true;
}

/* Announced before the last look: whoever hands something over after that look sees the sleeper and
 * rings. */
bool weir_sched_sleep(weir_sched *s)
{
    atomic_store(&s->asleep, 1);
    if (!atomic_load(&s->remote))
        return true;
    atomic_store(&s->asleep, 0);
    return false;
}

void weir_sched_woken(weir_sched *s, bool rung)
{
    uint64_t rings;

    atomic_store(&s->asleep, 0);
    if (rung && read(s->bell, &rings, sizeof rings) < 0)
        return; /* nobody rang */
}

static void woken_from_afar(weir_wake *w)
{
    weir_net_task *t = (weir_net_task *)w;

    atomic_store(&t->waking, false);
    weir_sched_ready(t);
}

bool weir_sched_here(const weir_sched *s) { return pthread_equal(s->thread, pthread_self()); }

void weir_sched_wake(weir_net_task *t)
{
    if (weir_sched_here(t->net->sched))
        weir_sched_ready(t);
    /* a wake that is on its way must not be pushed again */
    else if (!atomic_exchange(&t->waking, true))
        weir_sched_remote(t->net->sched, &t->wake);
}

/* ---- who runs ---- */

void weir_sched_ready(weir_net_task *t)
{
    weir_sched *s = t->net->sched;

    if (t->queued || t->finished)
        return;
    t->queued = true;
    t->next_ready = NULL;
    *s->tail = t;
    s->tail = &t->next_ready;
}

void weir_sched_patient(weir_net_task *t)
{
    t->net->sched->patient += !t->patient;
    t->patient = true;
}

static weir_net_task *take_ready(weir_sched *s)
{
    weir_net_task *t;

    while ((t = s->ready)) {
        if (!(s->ready = t->next_ready))
            s->tail = &s->ready;
        t->queued = false;
        if (!t->finished)
            break;
    }
    return t;
}

/* Waits for the world, no longer than to the next deadline, and readies those that are late. */
static void idle(weir_sched *s)
{
    double until = WEIR_NEVER, now;

    if (s->world->arm) {
        s->world->idle(s, until);
        return;
    }
    for (weir_net_task *t = s->all; t; t = t->next)
        if (t->blocked && t->deadline < until)
            until = t->deadline;
    s->world->idle(s, until);
    if (until >= WEIR_NEVER)
        return;
    now = s->world->now(s);
    for (weir_net_task *t = s->all; t; t = t->next)
        if (t->blocked && t->deadline <= now)
            weir_sched_ready(t);
}

/* The next to run; NULL when no fibre lives. */
static weir_net_task *choose(weir_sched *s)
{
    weir_net_task *t;

    if (++s->turns % TURNS_BETWEEN_LOOKS == 0)
        s->world->idle(s, 0);
    while (!(t = take_ready(s))) {
        if (!s->live)
            return NULL;
        idle(s);
    }
    return t;
}

/* Makes `t` (NULL: the thread itself) the one that runs, and gives what to switch to. */
static weir_fibre *stage(weir_sched *s, weir_net_task *t)
{
    s->current = t;
    weir_why_use(t ? &t->why : NULL);
    return t ? t->fibre : s->main;
}

static void switch_away(weir_sched *s, weir_net_task *me)
{
    weir_net_task *t = choose(s);

    if (t != me)
        weir_fibre_switch(me->fibre, stage(s, t));
}

void weir_sched_block(weir_net *n, double deadline)
{
    weir_net_task *me = n->sched->current;

    if (me->visitor) {
        weir_visitor_block(me->visitor, deadline);
        return;
    }
    me->blocked = true;
    me->deadline = deadline;
    if (n->world->arm && deadline < WEIR_NEVER)
        n->world->arm(me, deadline);
    switch_away(n->sched, me);
    me->blocked = false;
}

/* A rank that only looks, again and again, would stop a virtual clock: there it is set back by the
 * least a deadline takes. */
void weir_sched_look(weir_net *n)
{
    if (n->world->arm)
        weir_sched_block(n, n->world->now(n->sched));
    else
        n->world->idle(n->sched, 0);
}

void weir_net_yield(weir_net *n)
{
    weir_sched *s = n->sched;

    if (s->world->arm) {
        weir_sched_look(n);
        return;
    }
    s->world->idle(s, 0);
    if (!s->ready)
        return;
    weir_sched_ready(s->current);
    switch_away(s, s->current);
}

/* ---- fibres ---- */

static void body(void *arg)
{
    weir_net_task *t = arg;
    weir_sched *s = t->net->sched;

    t->result = t->fn(t->arg);
    t->finished = true;
    s->live--;
    s->patient -= t->patient;
    if (t->joiner)
        weir_sched_ready(t->joiner);
    weir_fibre_leave(t->fibre, stage(s, choose(s)));
}

weir_err weir_net_fibre(weir_net *n, const char *name, weir_err (*fn)(void *), void *arg,
                        weir_net_task **out)
{
    weir_sched *s = n->sched;
    weir_net_task *t = calloc(1, sizeof *t);
    weir_err err;

    if (!t)
        return weir_fail_nomem(sizeof *t);
    t->wake.fn = woken_from_afar;
    t->net = n;
    t->fn = fn;
    t->arg = arg;
    t->armed[0] = t->armed[1] = WEIR_NEVER;
    snprintf(t->name, sizeof t->name, "%s", name);
    err = weir_fibre_new(n->stack, body, t, &t->fibre);
    if (err) {
        free(t);
        return err;
    }
    t->next = s->all;
    s->all = t;
    s->live++;
    weir_sched_ready(t);
    *out = t;
    return WEIR_OK;
}

static void unqueue(weir_sched *s, weir_net_task *t)
{
    weir_net_task **at = &s->ready;

    while (*at != t)
        at = &(*at)->next_ready;
    if (!(*at = t->next_ready))
        s->tail = at;
}

static void free_task(weir_sched *s, weir_net_task *t)
{
    weir_net_task **at = &s->all;

    while (atomic_load(&t->waking)) /* a wake nobody needs any more is still on its way */
        weir_sched_drain(s);
    if (t->queued) /* it was readied for nothing just before it ended */
        unqueue(s, t);
    if (t->timers)
        s->world->disarm(t);
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    weir_fibre_free(t->fibre);
    free(t);
}

weir_err weir_net_fibre_join(weir_net *n, weir_net_task *t)
{
    weir_err result;

    while (!t->finished) {
        t->joiner = n->sched->current;
        weir_sched_block(n, WEIR_NEVER);
    }
    result = t->result;
    if (result)
        weir_fail(result, "%s", t->why.text);
    free_task(n->sched, t);
    return result;
}

/* ---- from beginning to end ---- */

weir_err weir_sched_open(weir_sched *s, const weir_world *world)
{
    *s = (weir_sched){.world = world, .thread = pthread_self(), .tail = &s->ready};
    s->bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (s->bell < 0)
        return weir_fail(WEIR_FAILED, "no eventfd: %s", strerror(errno));
    weir_err err = weir_fibre_thread(&s->main);
    if (err)
        close(s->bell);
    return err;
}

void weir_sched_run(weir_sched *s)
{
    weir_why *before = weir_why_use(NULL);
    weir_net_task *t = choose(s);

    if (t)
        weir_fibre_switch(s->main, stage(s, t)); /* the last fibre comes back here */
    s->current = NULL;
    weir_why_use(before);
}

void weir_sched_close(weir_sched *s)
{
    while (s->all)
        free_task(s, s->all);
    weir_sched_drain(s);
    weir_fibre_free(s->main);
    close(s->bell);
}
