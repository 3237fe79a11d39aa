/* wait.c - waiting for operations, taking them back, and what is written once over the verbs. */
#include "net/world.h"

static const double LET_OUT = 1.0; /* seconds that a cancelled send may take */

/* Operations that are waited for together: pointers, or a row. */
typedef struct batch {
    weir_net_op **some, *row;
    int count;
} batch;

static weir_net_op *at(const batch *b, int i) { return b->row ? &b->row[i] : b->some[i]; }

/* Sleeps until something has happened to one of them. A deadline that has passed is a look at what
 * is there. */
static weir_err park(weir_net *n, const batch *b, double until, bool *looked)
{
    double now = n->world->now(n->sched);

    if (now >= until) {
        if (*looked)
            return weir_fail(WEIR_LATE, "a message did not come before its deadline");
        *looked = true;
        weir_sched_look(n);
        return WEIR_OK;
    }
    for (int i = 0; i < b->count; i++) {
        weir_net_op *o = at(b, i);
        if (!o)
            continue;
        o->waiter = n->sched->current;
        if (o->kind == WEIR_NET_OP_POSTED && o->at <= 0)
            o->at = now;
    }
    weir_sched_block(n, until);
    for (int i = 0; i < b->count; i++)
        if (at(b, i))
            at(b, i)->waiter = NULL;
    return WEIR_OK;
}

static int first_done(const batch *b)
{
    for (int i = 0; i < b->count; i++)
        if (at(b, i) && at(b, i)->done)
            return i;
    return -1;
}

weir_err weir_net_wait(weir_net *n, weir_net_op **ops, int count, double deadline, int *which)
{
    batch b = {.some = ops, .count = count};
    double until = deadline > 0 ? deadline : WEIR_NEVER;
    bool looked = false;
    int i;

    while ((i = first_done(&b)) < 0)
        WEIR_TRY(park(n, &b, until, &looked));
    *which = i;
    return WEIR_OK;
}

weir_err weir_net_wait_all(weir_net *n, weir_net_op *ops, int count, double deadline)
{
    batch b = {.row = ops, .count = count};
    double until = deadline > 0 ? deadline : WEIR_NEVER;
    bool looked = false;

    for (;;) {
        int done = 0;
        for (int i = 0; i < count; i++)
            if (ops[i].done) {
                WEIR_TRY(weir_net_why(n, &ops[i]));
                done++;
            }
        if (done == count)
            return WEIR_OK;
        WEIR_TRY(park(n, &b, until, &looked));
    }
}

/* The bytes of a send that is under way come back when the peer's machine has taken them, or when
 * the link to it is closed. */
static void let_out(weir_net *n, weir_net_op *o, double limit)
{
    if (n->world->let)
        n->world->let(n, o);
    while (!o->done && n->world->now(n->sched) < limit)
        n->world->idle(n->sched, limit);
    if (!o->done)
        weir_liveness_give_up(n, o->peer, WEIR_SILENT, "did not take a message");
    while (!o->done)
        n->world->idle(n->sched, n->world->now(n->sched) + 1e-2);
}

void weir_net_cancel(weir_net *n, weir_net_op **ops, int count)
{
    double limit = 0;

    for (int i = 0; i < count; i++) {
        if (!ops[i])
            continue;
        ops[i]->waiter = NULL;
        if (ops[i]->done)
            weir_net_release(n, ops[i]);
        else if (ops[i]->kind == WEIR_NET_OP_POSTED)
            weir_match_unpost(n, ops[i]);
    }
    for (int i = 0; i < count; i++)
        if (ops[i] && !ops[i]->done) {
            if (limit <= 0)
                limit = n->world->now(n->sched) + LET_OUT;
            let_out(n, ops[i], limit);
            weir_net_release(n, ops[i]);
        }
}

/* ---- written once over the verbs ---- */

/* Waits for one; on an error it has been cancelled. */
static weir_err finish(weir_net *n, weir_net_op *o)
{
    int which;
    weir_err err = weir_net_wait(n, &o, 1, 0, &which);

    if (!err)
        err = weir_net_why(n, o);
    if (err)
        weir_net_cancel(n, &o, 1);
    return err;
}

weir_err weir_net_send_wait(weir_net *n, int peer, uint64_t tag, const void *data, size_t len)
{
    weir_net_op o;

    weir_net_send(n, peer, tag, data, len, &o);
    return finish(n, &o);
}

weir_err weir_net_recv_wait(weir_net *n, int peer, uint64_t tag, void *buf, size_t cap, size_t *len)
{
    weir_net_op o;

    weir_net_recv(n, peer, tag, buf, cap, &o);
    WEIR_TRY(finish(n, &o));
    weir_net_release(n, &o); /* cap 0: the message was lent, and must be empty */
    if (o.len > cap)
        return weir_fail(WEIR_BIG,
                         "a message of %zu bytes from rank %d where an empty one was expected",
                         o.len, o.peer);
    if (len)
        *len = o.len;
    return WEIR_OK;
}
