/* host.c - see host.h. */
#include "train/host.h"
#include <stdlib.h>

/* A rank of this process. */
typedef struct room {
    weir_comm *comm;
    weir_visitor *visitor;
} room;

struct weir_host {
    const char *spec;
    const weir_rank_info *rank_info;
    weir_task *task;    /* the comm thread */
    weir_queue *opened; /* rooms, as they come up; shut when the world has come to its end */
    room *room;
    int ranks;
};

int weir_host_ranks(const weir_host *h) { return h->ranks; }

/* ---- on the comm thread ---- */

/* Which of this process's ranks it is. */
static room *room_of(weir_host *h, weir_net *net)
{
    return &h->room[weir_net_simulated(net) ? weir_net_rank(net) : 0];
}

static weir_err open_room(weir_net *net, room *r)
{
    WEIR_TRY(weir_comm_open(net, &r->comm));
    return weir_net_expect(net, "compute", &r->visitor);
}

static weir_err serve_rank(weir_net *net, void *host)
{
    weir_host *h = host;
    room *r = room_of(h, net);
    weir_err err = open_room(net, r);

    weir_queue_put(h->opened, r);
    if (!err) {
        err = weir_comm_serve(r->comm);
        weir_visitor_await(r->visitor);
    }
    if (r->comm)
        weir_comm_close(r->comm);
    return err;
}

static weir_err comm_thread(void *host)
{
    weir_host *h = host;
    weir_err err = weir_net_run(h->spec, h->rank_info, serve_rank, h);

    weir_queue_shut(h->opened);
    return err;
}

/* ---- around it ---- */

/* All there are: in a simulated world every rank's first fibre runs before any that those start. */
static weir_err wait_for_ranks(weir_host *h)
{
    weir_err err = WEIR_OK;
    void *opened;

    for (int k = 0; k < h->ranks; k++) {
        WEIR_TRY(weir_queue_get(h->opened, &opened, WEIR_NEVER));
        if (!((room *)opened)->visitor)
            err = WEIR_FAILED;
    }
    return err;
}

/* One of them could not be opened: nobody will come to the others. */
static void leave_all(weir_host *h)
{
    for (int k = 0; h->room && k < h->ranks; k++)
        if (h->room[k].visitor) {
            weir_comm_give_up(weir_host_enter(h, k), WEIR_FAILED);
            weir_host_leave(h, k);
        }
}

static weir_err count_ranks(weir_host *h)
{
    weir_net_facts facts;

    WEIR_TRY(weir_net_check(h->spec, &facts));
    h->ranks = !facts.simulated ? 1 : facts.ranks ? facts.ranks : h->rank_info->size;
    return WEIR_OK;
}

static weir_err start(weir_host *h)
{
    weir_rt *rt = weir_rt_threads();

    WEIR_TRY(count_ranks(h));
    if (!(h->room = calloc((size_t)h->ranks, sizeof *h->room)))
        return weir_fail_nomem((size_t)h->ranks * sizeof *h->room);
    WEIR_TRY(weir_queue_new(rt, h->ranks, &h->opened));
    return weir_task_start(rt, "comm", comm_thread, h, &h->task);
}

weir_err weir_host_open(const char *spec, const weir_rank_info *rank_info, weir_host **host)
{
    weir_host *h = calloc(1, sizeof *h);
    weir_err err, why;

    if (!h)
        return weir_fail_nomem(sizeof *h);
    h->spec = spec;
    h->rank_info = rank_info;
    err = start(h);
    if (!err && !(err = wait_for_ranks(h))) {
        *host = h;
        return WEIR_OK;
    }
    leave_all(h);
    why = weir_host_close(h); /* it has the sentence, unless nothing was started */
    return why ? why : err;
}

weir_comm *weir_host_enter(weir_host *h, int k)
{
    weir_visitor_enter(h->room[k].visitor);
    return h->room[k].comm;
}

void weir_host_leave(weir_host *h, int k)
{
    weir_comm_leave(h->room[k].comm);
    weir_visitor_leave(h->room[k].visitor);
}

weir_err weir_host_close(weir_host *h)
{
    weir_err err = h->task ? weir_task_join(h->task) : WEIR_OK;

    for (int k = 0; h->room && k < h->ranks; k++) {
        weir_comm_free(h->room[k].comm);
        weir_visitor_free(h->room[k].visitor);
    }
    free(h->room);
    weir_queue_free(h->opened);
    free(h);
    return err;
}
