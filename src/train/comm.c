/* comm.c - a queue of jobs one way, a queue of answers back; among the answers may be a request to
 * lend a hand. */
#include "train/comm.h"
#include <stdio.h>

enum { ROOM = 1024 }; /* jobs posted and not yet done: a few more than a model has buckets */

typedef struct job {
    weir_err (*fn)(void *);
    void *arg;
    bool answer, always;
} job;

struct weir_comm {
    weir_net *net;
    weir_queue *jobs, *answers, *hands;
    void (*hand)(void *); /* what compute is asked to do while it waits */
    void *hand_arg;
    job job[ROOM + 1]; /* reused in order: the queue is full before one would be overwritten */
    unsigned posted;
    /* of the first job that failed, with its sentence; written by the comm task before it
     * answers */
    weir_err err;
    char why[WEIR_WHY_MAX];
    weir_err (*compute)(weir_comm *, void *);
    void (*close)(void *);
    void *arg;
};

weir_net *weir_comm_net(weir_comm *c) { return c->net; }

static weir_err post(weir_comm *c, weir_err (*fn)(void *), void *arg, bool answer, bool always)
{
    job *j = &c->job[c->posted % (ROOM + 1)];

    *j = (job){fn, arg, answer, always};
    if (weir_queue_put(c->jobs, j))
        return weir_fail(WEIR_FAILED, "the queue to the comm task is full: more than %d buckets",
                         ROOM);
    c->posted++;
    return WEIR_OK;
}

weir_err weir_comm_post(weir_comm *c, weir_err (*fn)(void *), void *arg)
{
    return post(c, fn, arg, false, false);
}

static weir_err call(weir_comm *c, weir_err (*fn)(void *), void *arg, bool always)
{
    void *done;

    WEIR_TRY(post(c, fn, arg, true, always));
    for (;;) {
        WEIR_TRY(weir_queue_get(c->answers, &done, WEIR_NEVER));
        if (done != &c->hand)
            break;
        c->hand(c->hand_arg);
        WEIR_TRY(weir_queue_put(c->hands, c));
    }
    return c->err ? weir_fail(c->err, "%s", c->why) : WEIR_OK;
}

weir_err weir_comm_call(weir_comm *c, weir_err (*fn)(void *), void *arg)
{
    return call(c, fn, arg, false);
}

void weir_comm_close(weir_comm *c, weir_err (*fn)(void *), void *arg) { call(c, fn, arg, true); }

void weir_comm_lend(weir_comm *c, void (*fn)(void *), void *arg)
{
    void *done;

    c->hand = fn;
    c->hand_arg = arg;
    if (weir_queue_put(c->answers, &c->hand) || weir_queue_get(c->hands, &done, WEIR_NEVER))
        fn(arg); /* it cannot: the queues hold what is needed, and are shut by compute itself */
}

static weir_err nothing(void *arg)
{
    (void)arg;
    return WEIR_OK;
}

static weir_err compute(void *arg)
{
    weir_comm *c = arg;
    weir_err err = c->compute(c, c->arg);
    char why[WEIR_WHY_MAX];

    snprintf(why, sizeof why, "%s", weir_why_text());
    if (err) { /* peers, and our own comm task, may be waiting for what will never come */
        weir_net_abort(c->net, err);
        /* behind all that was posted: the comm task has let go of our memory */
        weir_comm_call(c, nothing, NULL);
    }
    c->close(c->arg);
    weir_queue_shut(c->jobs);
    return err ? weir_fail(err, "%s", why) : WEIR_OK;
}

static void serve(weir_comm *c)
{
    void *item;

    while (!weir_queue_get(c->jobs, &item, WEIR_NEVER)) {
        job *j = item;
        bool answer = j->answer;
        weir_err err = c->err && !j->always ? WEIR_OK : j->fn(j->arg);
        if (err && !c->err) {
            c->err = err;
            snprintf(c->why, sizeof c->why, "%s", weir_why_text());
        }
        if (answer)
            weir_queue_put(c->answers, c);
    }
}

weir_err weir_comm_run(weir_net *net, weir_err (*fn)(weir_comm *, void *), void (*close)(void *),
                       void *arg)
{
    weir_arena *arena = weir_arena_new(); /* not the stack: fibres have little */
    weir_comm *c = arena ? WEIR_NEW(arena, weir_comm, 1) : NULL;
    weir_task *task;
    weir_err err;

    if (!c)
        return weir_arena_free(arena), weir_fail_nomem(sizeof *c);
    *c = (weir_comm){.net = net, .compute = fn, .close = close, .arg = arg};
    err = weir_queue_new(weir_net_rt(net), ROOM, &c->jobs);
    if (!err)
        err = weir_queue_new(weir_net_rt(net), 2, &c->answers);
    if (!err)
        err = weir_queue_new(weir_net_rt(net), 1, &c->hands);
    if (!err && !(err = weir_task_start(weir_net_rt(net), "compute", compute, c, &task))) {
        serve(c);
        err = weir_task_join(task);
    }
    if (!err && c->err)
        err = weir_fail(c->err, "%s", c->why);
    weir_queue_free(c->hands);
    weir_queue_free(c->answers);
    weir_queue_free(c->jobs);
    weir_arena_free(arena);
    return err;
}
