/* sim_event.c - what will happen, by time: a heap with four children a node; and the deadlines of
 * tasks in it. */
#include "net/sim.h"
#include <stdlib.h>

/* A task that looks at a deadline in the past is set back by this much, or who only polls would
 * stop the clock. */
static const double POLL = 1e-6;

enum { CHILDREN = 4, FIRST_ROOM = 256 };

static bool before(const weir_sim_event *a, const weir_sim_event *b)
{
    return a->at < b->at || (a->at == b->at && a->number < b->number);
}

static void insert(weir_sim *s, weir_sim_event e)
{
    size_t i = s->events, up;

    if (s->events == s->room) {
        size_t room = s->room ? 2 * s->room : FIRST_ROOM;
        weir_sim_event *more = realloc(s->heap, room * sizeof *more);
        if (!more) {
            s->nomem = true;
            return;
        }
        s->heap = more;
        s->room = room;
    }
    e.number = s->numbers++;
    for (s->events++; i && before(&e, &s->heap[up = (i - 1) / CHILDREN]); i = up)
        s->heap[i] = s->heap[up];
    s->heap[i] = e;
}

void weir_sim_push(weir_sim *s, double at, weir_sim_kind kind, int node, void *thing)
{
    insert(s, (weir_sim_event){
                  .at = at > s->now ? at : s->now, .kind = kind, .node = node, .thing = thing});
}

bool weir_sim_pop(weir_sim *s, weir_sim_event *out)
{
    weir_sim_event last;
    size_t i = 0, child, least;

    if (!s->events)
        return false;
    *out = s->heap[0];
    last = s->heap[--s->events];
    for (; (child = CHILDREN * i + 1) < s->events; i = least) {
        least = child;
        for (size_t k = child + 1; k < child + CHILDREN && k < s->events; k++)
            if (before(&s->heap[k], &s->heap[least]))
                least = k;
        if (!before(&s->heap[least], &last))
            break;
        s->heap[i] = s->heap[least];
    }
    s->heap[i] = last;
    return true;
}

bool weir_sim_put_off(weir_sim *s, const weir_sim_event *e)
{
    const weir_sim_node *a = &s->node[e->node];
    weir_sim_event later = *e;

    if (e->put_off || !weir_sim_paused(s, a))
        return false;
    later.at = a->paused_until;
    later.put_off = true;
    /* else it never comes: what it holds is found again when the run is taken down */
    if (later.at < WEIR_NEVER)
        insert(s, later);
    return true;
}

/* ---- deadlines ---- */

/* One timer serves all deadlines behind it: when it fires, the task's own deadline of that moment
 * is armed anew. So a task that waits again and again with a time-out has two of them at most in
 * the heap, unless its deadlines come ever nearer. */
void weir_sim_arm(weir_net_task *t, double deadline)
{
    weir_sim *s = t->net->sched->state;

    if (deadline <= s->now)
        deadline = s->now + POLL;
    if (t->armed[0] <= deadline)
        return;
    t->armed[1] = t->armed[0];
    t->armed[0] = deadline;
    t->timers++;
    weir_sim_push(s, deadline, WEIR_SIM_TIMER, weir_sim_index(t->net), t);
}

void weir_sim_disarm(weir_net_task *t)
{
    weir_sim *s = t->net->sched->state;

    for (size_t i = 0; i < s->events; i++)
        if (s->heap[i].kind == WEIR_SIM_TIMER && s->heap[i].thing == t)
            s->heap[i].thing = NULL;
    t->timers = 0;
}

static void fired(weir_net_task *t, double at)
{
    if (at == t->armed[0]) {
        t->armed[0] = t->armed[1];
        t->armed[1] = WEIR_NEVER;
    } else if (at == t->armed[1]) {
        t->armed[1] = WEIR_NEVER;
    }
}

void weir_sim_on_timer(weir_sim *s, const weir_sim_event *e)
{
    weir_net_task *t = e->thing;

    if (!t)
        return;
    if (!e->put_off)
        fired(t, e->at);
    if (weir_sim_put_off(s, e))
        return;
    t->timers--;
    if (t->finished || !t->blocked)
        return;
    if (t->deadline <= s->now)
        weir_sched_ready(t);
    else if (t->deadline < WEIR_NEVER)
        weir_sim_arm(t, t->deadline);
}
