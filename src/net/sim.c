/* sim.c - a virtual cluster in one process: its options, a run from the first event to the last,
 * the world's table. See sim.h. */
#include "net/sim.h"
#include "core/log.h"
#include "net/frame.h"
#include <stdio.h>
#include <stdlib.h>

enum { RANKS_MAX = 1 << 20, STACK = 1 << 20, DRY_STACK = 64 << 10 };

#define AT(field) offsetof(weir_sim_options, field)
static const weir_opt options[] = {
    WEIR_WORLD_OPTIONS,
    {"nodes", WEIR_OPT_INT, AT(nodes), "0", "ranks (0: as many as --workers)", .min = 0,
     .max = RANKS_MAX},
    {"latency", WEIR_OPT_TIME, AT(latency), "50us", "from one node to another", .min = 0,
     .max = 1e6},
    {"rate", WEIR_OPT_RATE, AT(rate), "1G", "bits a second of a node's link, each way", .min = 1,
     .max = 1e18},
    {"overhead", WEIR_OPT_TIME, AT(overhead), "0", "the sender's, for each message", .min = 0,
     .max = 1e6},
    {"jitter", WEIR_OPT_REAL, AT(jitter), "0",
     "up to this portion of the latency is added, at random", .min = 0, .max = 1e6},
    {"packet", WEIR_OPT_INT, AT(packet), "65536",
     "bytes that travel together; streams take turns by packets", .min = 64, .max = 1e15},
    {"rack", WEIR_OPT_INT, AT(rack), "0",
     "nodes a rack, under one more switch (0: all on one switch)", .min = 0, .max = RANKS_MAX},
    {"uplink", WEIR_OPT_RATE, AT(uplink), "0",
     "bits a second of a rack's link, each way (0: as a node's)", .min = 0, .max = 1e18},
    {"rack_latency", WEIR_OPT_TIME, AT(rack_latency), "0", "more latency between racks", .min = 0,
     .max = 1e6},
    {"machine", WEIR_OPT_INT, AT(machine), "1", "consecutive ranks that share a machine", .min = 1,
     .max = RANKS_MAX},
    {"local_latency", WEIR_OPT_TIME, AT(local_latency), "1us", "within a machine", .min = 0,
     .max = 1e6},
    {"local_rate", WEIR_OPT_RATE, AT(local_rate), "80G", "bits a second within a machine", .min = 1,
     .max = 1e18},
    {"rendezvous", WEIR_OPT_BOOL, AT(rendezvous), "yes",
     "a long send is done only once its receiver has matched it"},
    {"eager", WEIR_OPT_INT, AT(eager), "16384", "bytes up to which a send is short", .min = 0,
     .max = 1e15},
    {"seed", WEIR_OPT_INT, AT(seed), "1", "all that is random here derives from it"},
    {"cost", WEIR_OPT_TIME, AT(cost), "0", "what a piece of work costs (0: as the program says)",
     .min = 0, .max = 1e9},
    {"draw", WEIR_OPT_CHOICE, AT(draw), "constant", "how that varies",
     .choices = "constant|lognormal|gamma"},
    {"cv", WEIR_OPT_REAL, AT(cv), "0.1", "coefficient of variation of what is drawn", .min = 0,
     .max = 10},
    {"slow", WEIR_OPT_TEXT, AT(slow), NULL, "RANKxTIMES/...: ranks whose work takes longer"},
    {"kill", WEIR_OPT_TEXT, AT(kill), NULL,
     "RANK@SECONDS/...: ranks that die; `any` and EARLY~LATE are drawn"},
    {"pause", WEIR_OPT_TEXT, AT(pause), NULL,
     "RANK@SECONDS+LENGTH/...: ranks that stop for a while, or for ever"},
    {"cut", WEIR_OPT_TEXT, AT(cut), NULL, "A-B@SECONDS+LENGTH/...: links that are cut, and heal"},
    {"join", WEIR_OPT_TEXT, AT(join), NULL,
     "SECONDS/...: when others start that want to join, each a node"},
    {"leave", WEIR_OPT_TEXT, AT(leave), NULL,
     "RANK@SECONDS/...: ranks that are told to leave, each alone"},
    {"drop", WEIR_OPT_REAL, AT(drop), "0",
     "portion of packets that are lost, and sent again after rto", .min = 0, .max = 0.9},
    {"duplicate", WEIR_OPT_REAL, AT(duplicate), "0", "portion of packets that come twice", .min = 0,
     .max = 1},
    {"corrupt", WEIR_OPT_REAL, AT(corrupt), "0",
     "portion of packets whose checksum is wrong, and sent again after rto", .min = 0, .max = 0.9},
    {"rto", WEIR_OPT_TIME, AT(rto), "200ms", "until a packet is sent again, doubled each time",
     .min = 0, .max = 1e6},
    {"detect", WEIR_OPT_TIME, AT(detect), "1ms", "until the others notice that a rank has died",
     .min = 0, .max = 1e6},
    {"dry", WEIR_OPT_BOOL, AT(dry), "no",
     "messages have sizes and no content, so that thousands of ranks fit"},
    {0},
};

weir_sim_count weir_sim_counted(weir_net *n) { return weir_sim_of(n)->count; }
static weir_net_mishaps happened(weir_net *n) { return weir_sim_of(n)->count.mishaps; }

static void chosen(const void *self, weir_net_facts *facts)
{
    const weir_sim_options *o = self;

    facts->ranks = (int)o->nodes;
    facts->joins = weir_sim_latecomers(o) > 0;
    facts->dry = o->dry;
    facts->costs = o->cost > 0;
    facts->varies = o->draw != WEIR_SIM_CONSTANT || (o->slow && *o->slow);
}

/* ---- what happens next ---- */

static void happen(weir_sim *s, const weir_sim_event *e)
{
    switch (e->kind) {
    case WEIR_SIM_PACKET:
        weir_sim_on_packet(s, e->thing);
        break;
    case WEIR_SIM_UPLINK:
        weir_sim_on_uplink(s, e->node, e->thing);
        break;
    case WEIR_SIM_DELIVER:
        weir_sim_deliver(s, e->thing, true);
        break;
    case WEIR_SIM_ACK:
        if (!weir_sim_put_off(s, e))
            weir_sim_on_ack(s, e->thing);
        else if (s->node[e->node].paused_until >= WEIR_NEVER)
            weir_sim_no_ack(s, e->thing);
        break;
    case WEIR_SIM_TIMER:
        weir_sim_on_timer(s, e);
        break;
    case WEIR_SIM_ORDER:
        weir_sim_on_order(s, e->thing);
        break;
    case WEIR_SIM_HEAL:
        weir_sim_on_heal(s, e->thing);
        break;
    case WEIR_SIM_CALL:
        weir_sim_on_call(s, e);
        break;
    default:
        weir_sim_on_life(s, e);
    }
}

static void step(weir_sim *s)
{
    weir_sim_event e;

    if (s->events && s->heap[0].at >= s->next_look) {
        s->now = s->next_look;
        s->next_look = s->now + s->stall / 4;
        weir_sim_look(s);
        return;
    }
    if ((s->nomem && !s->stuck) || !weir_sim_pop(s, &e)) {
        weir_sim_on_stuck(s);
        return;
    }
    s->now = e.at;
    s->count.events++;
    happen(s, &e);
}

/* Time passes only when nobody can run: the scheduler's look in between is none of it. */
static void idle(weir_sched *sched, double until)
{
    weir_sched_drain(sched);
    while (until > 0 && !sched->ready && sched->live) {
        step(sched->state);
        weir_sched_drain(sched);
    }
}

static double now(weir_sched *sched) { return ((weir_sim *)sched->state)->now; }

/* ---- a run ---- */

static weir_err first_fibre(void *arg)
{
    weir_sim_node *a = arg;
    weir_sim *s = weir_sim_of(&a->net);
    weir_err err = s->fn(&a->net, s->arg);

    weir_sim_leave(s, a, err, err ? weir_why_text() : "");
    weir_loss_end(&a->net);
    return err;
}

/* All ranks are here, so the rank info of one of them tells only how many there are to be, if it
 * does. */
static weir_err count_nodes(weir_sim *s)
{
    int nodes = (int)s->o->nodes, told = s->rank_info->size;

    if (s->rank_info->rank != 0)
        return weir_fail(
            WEIR_MISFIT,
            "net sim has all its ranks in one process, and this is rank %d of a run of %d",
            s->rank_info->rank, told);
    if (nodes && told > 1 && told != nodes)
        return weir_fail(WEIR_MISFIT, "net sim: nodes=%d, but the run was told to have %d ranks",
                         nodes, told);
    s->starters = nodes ? nodes : told;
    s->nodes = s->starters + weir_sim_latecomers(s->o);
    if (s->nodes > s->starters && !s->rank_info->guests)
        return weir_fail(WEIR_MISFIT,
                         "net sim: join=%.100s: nobody can join this: only an elastic run of weir "
                         "train takes others in",
                         s->o->join);
    return s->starters > 0 ? WEIR_OK : weir_fail(WEIR_USAGE, "net sim: how many nodes?");
}

/* Those of the start are ranks; others know nobody yet. */
static weir_err open_node(weir_sim *s, int i, const weir_world *world, void *self)
{
    weir_rank_info rank_info = *s->rank_info;
    weir_sim_node *a = &s->node[i];
    bool guest = i >= s->starters;

    rank_info.rank = guest ? 0 : i;
    rank_info.size = guest ? 1 : s->starters;
    snprintf(rank_info.join, sizeof rank_info.join, "%s", guest ? WEIR_MEET_HERE : "");
    WEIR_TRY(weir_net_open(&a->net, &s->sched, world, self, &rank_info));
    a->net.machine = s->machine;
    a->net.dry = s->o->dry;
    a->net.stack = s->o->dry ? DRY_STACK : STACK;
    a->machine = i / (int)s->o->machine;
    a->door = a->last_door = -1;
    weir_sim_tasks(&a->net);
    if (guest)
        return WEIR_OK;
    s->seat[i] = a;
    s->machine[i] = i - i % (int)s->o->machine;
    return WEIR_OK;
}

static weir_err open_nodes(weir_sim *s, const weir_world *world, void *self)
{
    if (!(s->node = calloc((size_t)s->nodes, sizeof *s->node)))
        return weir_fail_nomem((size_t)s->nodes * sizeof *s->node);
    WEIR_TRY(weir_sim_seats(s, s->starters));
    for (int i = 0; i < s->nodes; i++)
        WEIR_TRY(open_node(s, i, world, self));
    WEIR_TRY(weir_sim_speeds_read(s));
    WEIR_TRY(weir_sim_orders_read(s));
    return weir_sim_wire_open(s);
}

static weir_err start(weir_sim_node *a)
{
    a->here = true;
    return weir_net_fibre(&a->net, "comm", first_fibre, a, &a->task);
}

static weir_err start_ranks(weir_sim *s)
{
    for (int i = 0; i < s->starters; i++)
        WEIR_TRY(start(&s->node[i]));
    return WEIR_OK;
}

void weir_sim_arrive(weir_sim *s, weir_sim_node *a)
{
    bool goes_on = false;

    for (int i = 0; i < s->nodes; i++)
        goes_on |=
            s->node[i].here && !weir_sim_gone(&s->node[i]) && !weir_net_outside(&s->node[i].net);
    if (goes_on && start(a))
        s->nomem = true;
}

static void close_all(weir_sim *s)
{
    s->over = true;
    for (int r = 0; s->node && r < s->nodes; r++)
        if (s->node[r].net.sched)
            weir_net_close(&s->node[r].net);
    if (s->node) {
        weir_sim_parcels_close(s);
        weir_sim_control_close(s);
        weir_sim_guests_close(s);
    }
    weir_sim_wire_close(s);
    free(s->order);
    free(s->heap);
    s->heap = NULL;
    s->events = 0;
}

/* The first failure of a rank that was not killed; of those the others are the judges. */
static weir_err result(weir_sim *s)
{
    const weir_sim_count *c = &s->count;

    weir_log(WEIR_LOG_INFO, "net",
             "sim: %d ranks, %.9g s of virtual time, %llu events, %llu packets (%llu dropped, %llu "
             "corrupt, %llu twice)",
             s->nodes, weir_sim_seconds(s), (unsigned long long)c->events,
             (unsigned long long)c->packets, (unsigned long long)c->mishaps.dropped,
             (unsigned long long)c->mishaps.corrupted, (unsigned long long)c->mishaps.duplicated);
    if (s->stuck)
        return weir_fail(WEIR_FAILED, "%s", s->why);
    return s->first_bad < 0 ? WEIR_OK : weir_fail(s->node[s->first_bad].err, "%s", s->why);
}

static weir_err run(const weir_world *world, void *self, const weir_rank_info *rank_info,
                    weir_err (*fn)(weir_net *, void *), void *arg)
{
    weir_sim *s = calloc(1, sizeof *s);
    weir_err err;

    if (!s)
        return weir_fail_nomem(sizeof *s);
    s->o = self;
    s->rank_info = rank_info;
    s->fn = fn;
    s->arg = arg;
    s->first_bad = -1;
    s->now = WEIR_SIM_START;
    s->timeout = rank_info->timeout > 0 ? rank_info->timeout : 30;
    s->stall = rank_info->stall > 0 ? rank_info->stall : 600;
    s->next_look = s->stall / 4;
    err = count_nodes(s);
    if (!err && !(err = weir_sched_open(&s->sched, world))) {
        s->sched.state = s;
        err = open_nodes(s, world, self);
        if (!err)
            err = start_ranks(s);
        if (!err) {
            weir_sched_run(&s->sched);
            err = result(s);
        }
        close_all(s);
        weir_sched_close(&s->sched);
    }
    free(s->machine);
    free(s->node);
    free(s);
    return err;
}

const weir_world weir_net_sim = {
    .plug = {"sim",
             "a virtual cluster in one process: virtual time, modelled links, faults on demand",
             sizeof(weir_sim_options), options},
    .facts = {.loses = true, .simulated = true},
    .stack = STACK,
    .run = run,
    .chosen = chosen,
    .send = weir_sim_send,
    .tell = weir_sim_tell,
    .fetch = weir_sim_fetch,
    .drop = weir_sim_drop,
    .cut = weir_sim_cut_peer,
    .idle = idle,
    .now = now,
    .arm = weir_sim_arm,
    .disarm = weir_sim_disarm,
    .let = weir_sim_let,
    .left = weir_sim_left,
    .know = weir_sim_know,
    .cost = weir_sim_cost,
    .stood = weir_sim_stood,
    .happened = happened,
    .node = weir_sim_index,
    .invite = weir_sim_invite,
    .grow = weir_sim_grow,
    .link = weir_sim_link,
    .greet = weir_sim_greet,
    .tell_guests = weir_sim_tell_guests,
    .knock = weir_sim_knock,
    .wait_in = weir_sim_wait_in,
};
