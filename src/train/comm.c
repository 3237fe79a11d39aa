/* comm.c - lines: a queue of jobs one way, a queue of answers back; among the answers may be a
 * request to lend a hand. */
#include "train/comm.h"
#include <stdio.h>
#include <stdlib.h>

enum {
    ROOM = 1024,     /* jobs posted and not yet done: a few more than a model has buckets */
    QUEUE = ROOM + 1 /* and one to clear the line by, which always finds room */
};

typedef struct job {
    weir_err (*fn)(void *);
    void *arg;
    bool answer; /* somebody waits for it */
    bool always; /* it is not skipped */
} job;

struct weir_line {
    weir_comm *comm;
    weir_line *next;
    char name[16];
    weir_queue *jobs, *answers, *returned;
    weir_net_task *fibre; /* NULL: the rank's first one serves it */
    void (*lent)(void *); /* what compute is asked to do while it waits */
    void *lent_arg;
    job job[QUEUE]; /* reused in order */
    unsigned posted;
    atomic_uint done; /* by the comm task */
    /* of the first job that failed since the line was clear, with its sentence; written by the comm
     * task before it answers */
    weir_err err;
    char why[WEIR_WHY_MAX];
};

struct weir_comm {
    weir_net *net;
    weir_line *first, **last;
    /* what the compute side gave up with */
    weir_err err;
    char why[WEIR_WHY_MAX];
};

weir_net *weir_comm_net(const weir_comm *c) { return c->net; }
weir_line *weir_comm_line(const weir_comm *c) { return c->first; }

/* ---- jobs ---- */

static weir_err post(weir_line *l, job what)
{
    if (l->posted - atomic_load(&l->done) >= ROOM + (unsigned)what.always)
        return weir_fail(WEIR_FAILED,
                         "the line '%s' to the comm task is full: more than %d jobs, or buckets",
                         l->name, ROOM);
    job *j = &l->job[l->posted++ % QUEUE];
    *j = what;
    return weir_queue_put(l->jobs, j);
}

weir_err weir_line_post(weir_line *l, weir_err (*fn)(void *), void *arg)
{
    return post(l, (job){.fn = fn, .arg = arg});
}

/* Waits for the answer, and lends a hand until it comes. */
static weir_err wait_for_answer(weir_line *l)
{
    void *done;

    for (;;) {
        WEIR_TRY(weir_queue_get(l->answers, &done, WEIR_NEVER));
        if (done != &l->lent)
            return WEIR_OK;
        l->lent(l->lent_arg);
        WEIR_TRY(weir_queue_put(l->returned, l));
    }
}

weir_err weir_line_call(weir_line *l, weir_err (*fn)(void *), void *arg)
{
    WEIR_TRY(post(l, (job){.fn = fn, .arg = arg, .answer = true}));
    WEIR_TRY(wait_for_answer(l));
    return l->err ? weir_fail(l->err, "%s", l->why) : WEIR_OK;
}

void weir_line_lend(weir_line *l, void (*fn)(void *), void *arg)
{
    void *done;

    l->lent = fn;
    l->lent_arg = arg;
    if (weir_queue_put(l->answers, &l->lent) || weir_queue_get(l->returned, &done, WEIR_NEVER))
        fn(arg); /* it cannot: the queues hold what is needed, and are shut by compute itself */
}

static weir_err nothing(void *arg)
{
    (void)arg;
    return WEIR_OK;
}

void weir_line_clear(weir_line *l)
{
    if (!post(l, (job){.fn = nothing, .answer = true, .always = true}))
        wait_for_answer(l);
    l->err = WEIR_OK;
}

/* Does jobs until the line is shut. */
static void serve_line(weir_line *l)
{
    void *item;

    while (!weir_queue_get(l->jobs, &item, WEIR_NEVER)) {
        job j = *(job *)item;
        weir_err err = l->err && !j.always ? WEIR_OK : j.fn(j.arg);
        if (err && !l->err) {
            l->err = err;
            snprintf(l->why, sizeof l->why, "%s", weir_why_text());
        }
        atomic_fetch_add(&l->done, 1);
        if (j.answer)
            weir_queue_put(l->answers, l);
    }
}

/* ---- lines ---- */

static void close_line(weir_line *l)
{
    weir_queue_free(l->returned);
    weir_queue_free(l->answers);
    weir_queue_free(l->jobs);
}

static weir_err make_line(weir_comm *c, const char *name, weir_line **line)
{
    weir_rt *rt = weir_net_rt(c->net);
    weir_line *l = calloc(1, sizeof *l);
    weir_err err;

    if (!l)
        return weir_fail_nomem(sizeof *l);
    l->comm = c;
    snprintf(l->name, sizeof l->name, "%s", name);
    err = weir_queue_new(rt, QUEUE, &l->jobs);
    if (!err)
        err = weir_queue_new(rt, 2, &l->answers);
    if (!err)
        err = weir_queue_new(rt, 1, &l->returned);
    if (err) {
        close_line(l);
        free(l);
    } else {
        *line = l;
    }
    return err;
}

static void add_line(weir_comm *c, weir_line *l)
{
    *c->last = l;
    c->last = &l->next;
}

static weir_err line_fibre(void *line)
{
    serve_line(line);
    return WEIR_OK;
}

static weir_err start_line(void *line)
{
    weir_line *l = line;

    return weir_net_fibre(l->comm->net, l->name, line_fibre, l, &l->fibre);
}

weir_err weir_line_open(weir_comm *c, const char *name, weir_line **line)
{
    weir_line *l;
    weir_err err;

    WEIR_TRY(make_line(c, name, &l));
    if ((err = weir_line_call(c->first, start_line, l))) {
        close_line(l);
        free(l);
        return err;
    }
    add_line(c, l);
    *line = l;
    return WEIR_OK;
}

/* ---- from beginning to end ---- */

weir_err weir_comm_open(weir_net *net, weir_comm **comm)
{
    weir_comm *c = calloc(1, sizeof *c);
    weir_line *l;
    weir_err err;

    if (!c)
        return weir_fail_nomem(sizeof *c);
    c->net = net;
    c->last = &c->first;
    if ((err = make_line(c, "step", &l))) {
        free(c);
        return err;
    }
    add_line(c, l);
    *comm = c;
    return WEIR_OK;
}

/* Errors of jobs that were posted and not asked for. */
static weir_err collect(weir_comm *c)
{
    for (weir_line *l = c->first; l; l = l->next)
        WEIR_TRY(weir_line_call(l, nothing, NULL));
    return WEIR_OK;
}

void weir_comm_give_up(weir_comm *c, weir_err err)
{
    if (!c->err) {
        c->err = err;
        snprintf(c->why, sizeof c->why, "%s", weir_why_text());
    }
    weir_net_abort(c->net, err); /* peers, and our own lines, may wait for what will never come */
    for (weir_line *l = c->first; l; l = l->next)
        weir_line_clear(l);
}

void weir_comm_leave(weir_comm *c)
{
    weir_err err = c->err ? WEIR_OK : collect(c);

    if (err)
        weir_comm_give_up(c, err);
    for (weir_line *l = c->first; l; l = l->next)
        weir_queue_shut(l->jobs);
}

weir_err weir_comm_serve(weir_comm *c)
{
    serve_line(c->first);
    for (weir_line *l = c->first->next; l; l = l->next)
        weir_net_fibre_join(c->net, l->fibre);
    return c->err ? weir_fail(c->err, "%s", c->why) : WEIR_OK;
}

/* The compute thread may not have returned yet from shutting the last one: lines stay. */
void weir_comm_close(weir_comm *c)
{
    for (weir_line *l = c->first; l; l = l->next)
        close_line(l);
}

void weir_comm_free(weir_comm *c)
{
    weir_line *next;

    for (weir_line *l = c ? c->first : NULL; l; l = next) {
        next = l->next;
        free(l);
    }
    free(c);
}

/* ---- with a thread of ours ---- */

typedef struct side {
    weir_comm *comm;
    const weir_compute *what;
} side;

static weir_err compute_thread(void *arg)
{
    side *s = arg;
    weir_err err = s->what->run(s->comm, s->what->arg);

    if (!err)
        err = collect(s->comm);
    if (err)
        weir_comm_give_up(s->comm, err);
    s->what->close(s->what->arg);
    weir_comm_leave(s->comm);
    return WEIR_OK; /* the comm side tells */
}

weir_err weir_comm_run(weir_net *net, const weir_compute *what)
{
    side s = {.what = what};
    weir_task *task;
    weir_err err;

    WEIR_TRY(weir_comm_open(net, &s.comm));
    err = weir_task_start(weir_net_rt(net), "compute", compute_thread, &s, &task);
    if (!err) {
        err = weir_comm_serve(s.comm);
        weir_task_join(task);
    }
    weir_comm_close(s.comm);
    weir_comm_free(s.comm);
    return err;
}
