/* visit.c - a thread that we did not start takes part as a task of a rank.
 *
 * In a real world it is a thread like others, and there is nothing to do. In a simulated one all
 * tasks are fibres of one thread, one of which runs at a time, and the clock stands still while it
 * does. There a fibre stands in for the visitor: the two pass one turn to and fro. Whoever has it
 * runs, with the whole world at rest; when the visitor blocks in a verb, its stand-in does so in
 * its place, and others run. */
#include "net/world.h"
#include <stdlib.h>

struct weir_visitor {
    weir_net *net;
    weir_net_task *stand_in; /* NULL: a real world */
    pthread_mutex_t lock;
    pthread_cond_t passed;
    bool turn; /* the visitor's, not the stand-in's */
    bool gone;
    double deadline; /* until which it blocks */
};

/* With the lock held: waits for one's turn. Where verbs ask on which thread they are, it is on this
 * one from now on. */
static void wait_for_turn(weir_visitor *v, bool mine)
{
    while (v->turn != mine)
        pthread_cond_wait(&v->passed, &v->lock);
    v->net->sched->thread = pthread_self();
}

static void pass_turn(weir_visitor *v, bool mine)
{
    v->turn = !mine;
    pthread_cond_broadcast(&v->passed);
}

/* The world's thread itself waits here, as it would for a fibre that computes. */
static void let_visitor_run(weir_visitor *v)
{
    pthread_mutex_lock(&v->lock);
    v->stand_in->visitor = v;
    pass_turn(v, false);
    wait_for_turn(v, false);
    v->stand_in->visitor = NULL;
    pthread_mutex_unlock(&v->lock);
}

static weir_err stand_in(void *visitor)
{
    weir_visitor *v = visitor;

    for (let_visitor_run(v); !v->gone; let_visitor_run(v))
        weir_sched_block(v->net, v->deadline);
    return WEIR_OK;
}

void weir_visitor_block(weir_visitor *v, double deadline)
{
    pthread_mutex_lock(&v->lock);
    v->deadline = deadline;
    pass_turn(v, true);
    wait_for_turn(v, true);
    pthread_mutex_unlock(&v->lock);
}

weir_err weir_net_expect(weir_net *n, const char *name, weir_visitor **out)
{
    weir_visitor *v = calloc(1, sizeof *v);
    weir_err err = WEIR_OK;

    if (!v)
        return weir_fail_nomem(sizeof *v);
    v->net = n;
    pthread_mutex_init(&v->lock, NULL);
    pthread_cond_init(&v->passed, NULL);
    if (weir_net_simulated(n))
        err = weir_net_fibre(n, name, stand_in, v, &v->stand_in);
    if (err)
        weir_visitor_free(v);
    else
        *out = v;
    return err;
}

void weir_visitor_enter(weir_visitor *v)
{
    if (!v->stand_in)
        return;
    pthread_mutex_lock(&v->lock);
    wait_for_turn(v, true);
    pthread_mutex_unlock(&v->lock);
}

void weir_visitor_leave(weir_visitor *v)
{
    if (!v->stand_in)
        return;
    pthread_mutex_lock(&v->lock);
    v->gone = true;
    pass_turn(v, true);
    pthread_mutex_unlock(&v->lock);
}

void weir_visitor_await(weir_visitor *v)
{
    if (v->stand_in)
        weir_net_fibre_join(v->net, v->stand_in);
}

void weir_visitor_free(weir_visitor *v)
{
    if (!v)
        return;
    pthread_cond_destroy(&v->passed);
    pthread_mutex_destroy(&v->lock);
    free(v);
}
