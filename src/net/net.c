/* net.c - the table of worlds, a run from open to close, small verbs. */
#include "net/world.h"
#include "core/log.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define X(name) &weir_net_##name.plug,
static const weir_plug *const worlds[] = {
#include "net/list.h"
    NULL};
#undef X
weir_plugs weir_nets = worlds;

/* ---- one rank ---- */

weir_err weir_net_open(weir_net *n, weir_sched *s, const weir_world *world, void *self,
                       const weir_rank_info *rank_info)
{
    *n = (weir_net){.sched = s,
                    .world = world,
                    .self = self,
                    .rank = rank_info->rank,
                    .size = rank_info->size,
                    .joins = rank_info->join[0],
                    .ended = -1,
                    .strict = true};
    n->posted_tail = &n->posted;
    for (int i = 0; i < WEIR_SHELVES; i++)
        n->arrived[i].last = &n->arrived[i].first;
    n->losses_tail = &n->losses;
    n->hold = (size_t)((weir_world_self *)self)->hold;
    n->stack = world->stack;
    n->board = rank_info->board;
    if (n->board && (uint64_t)n->rank < n->board->ranks)
        atomic_store(&n->board->slot[n->rank].pid, (int32_t)getpid());
    weir_net_rt_fill(n);
    return WEIR_OK;
}

void weir_net_close(weir_net *n)
{
    weir_match_drop(n, INT32_MAX);
    for (weir_loss *l = n->losses, *next; l; l = next) {
        next = l->next;
        free(l);
    }
    free(n->peer);
    free(n->guest);
    free(n->admitted);
    free(n->welcome);
}

typedef struct first {
    weir_net *net;
    weir_err (*fn)(weir_net *, void *);
    void *arg;
    bool guest; /* it meets nobody yet */
} first;

static weir_err first_fibre(void *arg)
{
    first *f = arg;
    weir_err err = f->net->life && !f->guest ? weir_liveness_meet(f->net) : WEIR_OK;

    if (!err && !f->guest)
        weir_log(WEIR_LOG_INFO, "net", "rank %d of %d has met all others over %s", f->net->rank,
                 f->net->size, weir_net_name(f->net));

    if (!err)
        err = f->fn(f->net, f->arg);
    weir_liveness_leave(f->net, err, weir_why_text());
    weir_loss_end(f->net);
    return err;
}

static weir_err run_first(first *f)
{
    weir_net_task *t;
    weir_err err;

    WEIR_TRY(weir_net_fibre(f->net, "comm", first_fibre, f, &t));
    weir_sched_run(f->net->sched);
    err = t->result;
    if (err)
        weir_fail(err, "%s", t->why.text);
    return err;
}

/* Opens the links of a rank that has peers, runs, closes. */
static weir_err run_linked(first *f, const weir_rank_info *rank_info)
{
    weir_net *n = f->net;
    weir_err err;

    f->guest = rank_info->join[0];
    if (n->size == 1 && !f->guest)
        return run_first(f);
    WEIR_TRY(weir_liveness_open(n, rank_info));
    err = n->world->open(n, rank_info);
    if (!err) {
        err = run_first(f);
        weir_match_drop(n, INT32_MAX);
        n->world->close(n, !err);
        weir_sched_drain(n->sched); /* the last buffers have come back */
    }
    weir_liveness_close(n);
    return err;
}

weir_err weir_net_run_one(const weir_world *world, void *self, const weir_rank_info *rank_info,
                          weir_err (*fn)(weir_net *, void *), void *arg)
{
    weir_sched sched;
    weir_net net;
    first f = {&net, fn, arg};
    weir_err err;

    if (rank_info->size < 1 || rank_info->rank < 0 || rank_info->rank >= rank_info->size)
        return weir_fail(WEIR_USAGE, "rank %d of %d: a rank is at least 0 and below the size",
                         rank_info->rank, rank_info->size);
    WEIR_TRY(weir_sched_open(&sched, world));
    err = weir_net_open(&net, &sched, world, self, rank_info);
    if (!err) {
        sched.state = &net;
        err = run_linked(&f, rank_info);
        weir_net_close(&net);
    }
    weir_sched_close(&sched);
    return err;
}

/* ---- worlds ---- */

static bool have(const char *name)
{
    for (weir_plugs p = weir_nets; *p; p++)
        if (!strcmp((*p)->name, name))
            return true;
    return false;
}

#define GET_MPI                                                                               \
    "this weir was built without MPI: install one with its mpicc (Debian: libopenmpi-dev or " \
    "libmpich-dev) and run make again, or name its compiler: make MPI=/path/to/mpicc"

weir_err weir_net_without_mpi(const char *what)
{
    return weir_fail(WEIR_USAGE, "%s: " GET_MPI, what);
}

static weir_err find_world(const char *spec, const weir_world **world)
{
    const weir_plug *p;

    if (weir_plug_named(spec, "mpi") && !have("mpi"))
        return weir_net_without_mpi("--net mpi");
    WEIR_TRY(weir_plug_find(weir_nets, "net", spec, &p));
    *world = (const weir_world *)p;
    return WEIR_OK;
}

/* What "auto" stands for where nobody has started MPI. */
static const char *resolve(const char *spec) { return !strcmp(spec, "auto") ? "zmq" : spec; }

/* What a spec stands for under this launcher. */
static weir_err resolve_at(const weir_rank_info *rank_info, const char **spec)
{
    if (strcmp(*spec, "auto") || !rank_info->mpi || rank_info->size == 1)
        return *spec = resolve(*spec), WEIR_OK;
    if (!have("mpi"))
        return weir_fail(WEIR_MISFIT, "%s started %d ranks, but " GET_MPI, rank_info->source,
                         rank_info->size);
    return *spec = "mpi", WEIR_OK;
}

weir_err weir_net_run(const char *spec, const weir_rank_info *rank_info,
                      weir_err (*fn)(weir_net *, void *), void *arg)
{
    const weir_world *world;
    weir_arena *arena;
    void *self;
    weir_err err;

    WEIR_TRY(resolve_at(rank_info, &spec));
    WEIR_TRY(find_world(spec, &world));
    if (!(arena = weir_arena_new()))
        return weir_fail_nomem(0);
    err = weir_plug_make(&world->plug, "net", spec, arena, &self);
    if (!err)
        err = (world->run ? world->run : weir_net_run_one)(world, self, rank_info, fn, arg);
    weir_arena_free(arena);
    return err;
}

weir_err weir_net_check(const char *spec, weir_net_facts *facts)
{
    const weir_world *world;
    weir_arena *arena;
    void *self;
    weir_err err;

    WEIR_TRY(find_world(resolve(spec), &world));
    if (!(arena = weir_arena_new()))
        return weir_fail_nomem(0);
    err = weir_plug_make(&world->plug, "net", resolve(spec), arena, &self);
    if (!err)
        *facts = world->facts;
    if (!err && world->chosen)
        world->chosen(self, facts);
    weir_arena_free(arena);
    return err;
}

/* ---- small verbs ---- */

int weir_net_rank(const weir_net *n) { return n->rank; }
int weir_net_size(const weir_net *n) { return n->size; }
const char *weir_net_name(const weir_net *n) { return n->world->plug.name; }
int weir_net_machine(const weir_net *n, int rank) { return n->machine ? n->machine[rank] : 0; }
int weir_net_here(const weir_net *n)
{
    int count = 0;

    for (int r = 0; r < n->size; r++)
        count += weir_net_machine(n, r) == weir_net_machine(n, n->rank);
    return count;
}

bool weir_net_simulated(const weir_net *n) { return n->world->facts.simulated; }
bool weir_net_dry(const weir_net *n) { return n->dry; }
weir_net_count weir_net_counted(const weir_net *n) { return n->count; }
int weir_net_asked(const weir_net *n) { return atomic_load(&n->asked); }
weir_net_mishaps weir_net_happened(weir_net *n)
{
    return n->world->happened ? n->world->happened(n) : (weir_net_mishaps){0};
}
int weir_net_node(weir_net *n) { return n->world->node ? n->world->node(n) : n->rank; }
double weir_net_now(weir_net *n) { return n->world->now(n->sched); }

void weir_net_phase(weir_net *n, weir_phase phase, uint64_t step)
{
    uint64_t doing = step << 8 | (uint64_t)phase;

    atomic_store_explicit(&n->doing, doing, memory_order_relaxed);
    if (n->board && (uint64_t)n->rank < n->board->ranks)
        atomic_store_explicit(&n->board->slot[n->rank].doing, doing, memory_order_relaxed);
}

weir_phase weir_net_doing(const weir_net *n, uint64_t *step)
{
    uint64_t doing = atomic_load_explicit(&n->doing, memory_order_relaxed);

    *step = doing >> 8;
    return (weir_phase)(doing & 0xff);
}

double weir_net_cost(weir_net *n, double nominal)
{
    return n->world->cost ? n->world->cost(n, nominal) : nominal;
}

static double stood(weir_net *n) { return n->world->stood ? n->world->stood(n) : 0; }

/* Work that a pause has held up ends later by as much, wherever in it the pause lay. */
weir_err weir_net_spend(weir_net *n, double cost)
{
    double until = weir_net_now(n) + cost, before = stood(n), end;

    if (weir_sched_here(n->sched)) {
        while (weir_net_now(n) < (end = until + (stood(n) - before)) && !n->closing &&
               !atomic_load(&n->aborted))
            weir_sched_block(n, end);
        if (atomic_load(&n->aborted))
            return weir_fail((weir_err)atomic_load(&n->aborted),
                             "this rank was given up while it computed");
    } else {
        struct timespec t = {.tv_sec = (time_t)cost,
                             .tv_nsec = (long)((cost - (double)(time_t)cost) * 1e9)};
        while (nanosleep(&t, &t))
            ;
    }
    return WEIR_OK;
}
