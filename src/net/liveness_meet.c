/* liveness_meet.c - peers come and go: greetings, goodbyes, and last words. */
#include "net/liveness.h"
#include "net/frame.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const double LEAVE = 2; /* seconds to wait for the others' goodbyes */
/* seconds to wait for those who have not come yet, to tell them why we leave */
static const double TELL = 0.3;
static const double HELLO_AGAIN = 0.05; /* seconds until a greeting is said again */

static weir_err meet_failed(weir_net *n, double waited)
{
    const weir_liveness *l = n->life;
    weir_net_op op = {.err = WEIR_OK, .peer = -1};
    int p = 0;

    if (l->misfit[0])
        return weir_fail(WEIR_MISFIT, "%s", l->misfit);
    op.err = weir_loss_all(n, n->generation, &op.peer);
    if (op.err)
        return weir_net_why(n, &op);
    while (p == n->rank || (l->peer[p].hello && l->peer[p].welcome))
        p++;
    return weir_fail(WEIR_SILENT, "rank %d did not join the run within %.0f s", p, waited);
}

static void say_hello(weir_net *n, int p)
{
    weir_hello body = {.size = (uint32_t)n->size, .pid = (int32_t)getpid()};

    memcpy(body.host, n->life->host, sizeof body.host);
    n->world->tell(n, p, WEIR_FRAME_HELLO, &body, sizeof body);
}

weir_err weir_liveness_meet(weir_net *n)
{
    weir_liveness *l = n->life;
    double until = n->world->now(n->sched) + l->meet;
    int who;

    for (int p = 0; p < n->size; p++)
        if (p != n->rank)
            say_hello(n, p);
    while (l->hellos < n->size - 1 || l->welcomes < n->size - 1 || l->misfit[0]) {
        if (l->misfit[0] || weir_loss_all(n, n->generation, &who) ||
            n->world->now(n->sched) >= until)
            return meet_failed(n, l->meet);
        weir_liveness_watch(n, until);
    }
    l->met = true;
    if (n->world->met)
        n->world->met(n);
    return WEIR_OK;
}

/* Said again and again: the other may not know of this one yet, and drops what it says. */
weir_err weir_liveness_greet(weir_net *n, int p)
{
    double until = n->world->now(n->sched) + n->life->timeout, again = 0, now;
    int who;

    while (!n->life->peer[p].hello || !n->life->peer[p].welcome) {
        now = n->world->now(n->sched);
        if (weir_loss_is(n, p, WEIR_PEER_LOST) || weir_loss_all(n, WEIR_EVER, &who))
            return WEIR_OK; /* whoever needs it finds out */
        if (now >= until) {
            weir_liveness_give_up(n, p, WEIR_LOST, "did not come");
            return WEIR_OK;
        }
        if (now >= again) {
            say_hello(n, p);
            again = now + HELLO_AGAIN;
        }
        weir_liveness_watch(n, again < until ? again : until);
    }
    return WEIR_OK;
}

static bool all_gone(const weir_net *n)
{
    for (int p = 0; p < n->size; p++)
        if (p != n->rank && !n->life->peer[p].bye &&
            !weir_loss_is(n, p, WEIR_PEER_LOST | WEIR_PEER_LEFT))
            return false;
    return true;
}

/* Nobody is missing but those that are lost. */
static bool all_came(const weir_net *n)
{
    for (int p = 0; p < n->size; p++)
        if (p != n->rank && !n->life->peer[p].hello && !weir_loss_is(n, p, WEIR_PEER_LOST))
            return false;
    return true;
}

static void say_goodbye(weir_net *n)
{
    double until = n->world->now(n->sched) + LEAVE;

    for (int p = 0; p < n->size; p++)
        if (p != n->rank && !weir_loss_is(n, p, WEIR_PEER_LOST)) {
            n->world->tell(n, p, WEIR_FRAME_DONE, NULL, 0);
            n->world->tell(n, p, WEIR_FRAME_BYE, NULL, 0);
        }
    while (!all_gone(n) && n->world->now(n->sched) < until)
        weir_liveness_watch(n, until);
    /* who has said goodbye wants nothing more: closing need not wait for it */
    for (int p = 0; p < n->size; p++)
        if (n->life->peer[p].bye && !weir_loss_is(n, p, WEIR_PEER_LOST))
            n->world->cut(n, p);
}

static void say_why(weir_net *n, weir_err why, const char *sentence)
{
    weir_fault f;

    weir_net_ended_by(n, &f);
    if (!f.code) { /* nobody else is to blame */
        weir_liveness_fault(n, n->rank, WEIR_LOST, &f);
        f.cause = (weir_err)weir_err_exit(why);
        snprintf(f.what, sizeof f.what, "%s", sentence);
    }
    for (int p = 0; p < n->size; p++)
        if (p != n->rank)
            weir_liveness_tell_cause(n, p, &f);
    n->life->leaving = &f;
    for (double until = n->world->now(n->sched) + TELL;
         !all_came(n) && n->world->now(n->sched) < until;)
        weir_liveness_watch(n, until);
    n->life->leaving = NULL;
}

void weir_liveness_leave(weir_net *n, weir_err why, const char *sentence)
{
    if (!n->life)
        return;
    if (why)
        say_why(n, why, sentence);
    else
        say_goodbye(n);
}
