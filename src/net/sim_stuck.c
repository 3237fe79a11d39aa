/* sim_stuck.c - nobody can run and nothing will ever happen: says who waits for what, and ends the
 * run. */
#include "core/log.h"
#include "net/sim.h"
#include <stdarg.h>
#include <stdio.h>

enum { SHOWN = 6 }; /* ranks */

static const char *const channel_name[] = {"0",     "test",  "coll", "members",
                                           "state", "serve", "peers"};

typedef struct page {
    char *text;
    size_t room, used;
} page;

static void say(page *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(page *p, const char *format, ...)
{
    va_list args;

    if (p->used >= p->room)
        return;
    va_start(args, format);
    p->used += (size_t)vsnprintf(p->text + p->used, p->room - p->used, format, args);
    va_end(args);
}

static void say_tag(page *p, uint64_t tag)
{
    unsigned channel = (unsigned)(tag >> 56);

    say(p, " (channel %s",
        channel < sizeof channel_name / sizeof *channel_name ? channel_name[channel] : "unknown");
    say(p, ", sequence %u, part %u)", (unsigned)(tag >> 24), (unsigned)(tag & 0xffffff));
}

/* The first of the operations it waits for. */
static void say_task(page *p, weir_sim_node *a, const weir_net_task *t)
{
    for (const weir_net_op *o = a->net.posted; o; o = o->next)
        if (o->waiter == t) {
            if (o->peer == WEIR_ANY)
                say(p, "waits for a message of any rank");
            else
                say(p, "waits for a message of rank %d", o->peer);
            say_tag(p, o->tag);
            return;
        }
    for (const weir_sim_parcel *m = a->out; m; m = m->after)
        if (m->op && m->op->waiter == t) {
            say(p, "waits for rank %d to take a message of %zu bytes",
                weir_sim_of(&a->net)->node[m->to].net.rank, m->msg.len);
            say_tag(p, m->msg.tag);
            return;
        }
    say(p, "waits for a queue or a task of its own");
}

static void say_rank(page *p, weir_sim *s, weir_sim_node *a)
{
    uint64_t doing = atomic_load(&a->net.doing);

    say(p, "; rank %d", a->net.rank);
    if (doing)
        say(p, " in phase %s of step %llu", weir_phase_name((weir_phase)(doing & 0xff)),
            (unsigned long long)(doing >> 8));
    for (weir_net_task *t = s->sched.all; t; t = t->next)
        if (t->net == &a->net && !t->finished) {
            say(p, ": %s ", t->name);
            say_task(p, a, t);
        }
}

static void report(weir_sim *s)
{
    page p = {.text = s->why, .room = sizeof s->why};
    int shown = 0, more = 0;

    say(&p, "deadlock at %.9g s of virtual time: everybody waits and nothing is under way",
        weir_sim_seconds(s));
    for (int r = 0; r < s->nodes; r++)
        if (s->node[r].ended || !s->node[r].here)
            continue;
        else if (shown < SHOWN && ++shown)
            say_rank(&p, s, &s->node[r]);
        else
            more++;
    if (more)
        say(&p, "; and %d more", more);
}

/* Ranks that are stopped for ever are ended, as a launcher would, once all others are through. */
static bool end_stopped(weir_sim *s)
{
    bool any = false, others = false;

    for (int r = 0; r < s->nodes; r++)
        if (!s->node[r].ended && s->node[r].here)
            *(weir_sim_paused(s, &s->node[r]) ? &any : &others) = true;
    for (int r = 0; any && !others && r < s->nodes; r++)
        weir_sim_kill(s, &s->node[r]);
    return any && !others;
}

/* Everybody's verbs fail; if that is not enough, queues and tasks end too; if even that is not,
 * their tasks never run again. */
void weir_sim_on_stuck(weir_sim *s)
{
    if (!s->stuck && !s->nomem && end_stopped(s))
        return;
    if (!s->stuck++) {
        if (s->nomem)
            snprintf(s->why, sizeof s->why, "out of memory at %.9g s of virtual time",
                     weir_sim_seconds(s));
        else
            report(s);
        weir_log(WEIR_LOG_INFO, "net", "%s", s->why);
        for (int r = 0; r < s->nodes; r++)
            if (!s->node[r].ended)
                weir_net_abort(&s->node[r].net, WEIR_FAILED);
    } else if (s->stuck == 2) {
        for (int r = 0; r < s->nodes; r++)
            if (!s->node[r].ended)
                weir_loss_end(&s->node[r].net);
    } else {
        for (weir_net_task *t = s->sched.all; t; t = t->next)
            t->finished = true;
        s->sched.live = 0;
    }
}
