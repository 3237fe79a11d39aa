/* coll.c - the table, opening, and the verbs: a group of one has nothing to do. */
#include "coll/coll.h"
#include "coll/direct.h"
#include "coll/flight.h"
#include "core/log.h"

#define X(name) &weir_coll_##name.plug,
static const weir_plug *const table[] = {
#include "coll/list.h"
    NULL};
#undef X
weir_plugs weir_colls = table;

weir_err weir_coll_find(const char *spec, const weir_plug **found)
{
    bool mpi = false;

    for (weir_plugs p = weir_colls; *p; p++)
        mpi |= weir_plug_named("mpi", (*p)->name);
    if (weir_plug_named(spec, "mpi") && !mpi)
        return weir_net_without_mpi("--coll mpi");
    return weir_plug_find(weir_colls, "collective", spec, found);
}

weir_err weir_coll_open(const char *spec, const weir_group *group, weir_arena *arena,
                        weir_coll_use *use)
{
    const weir_plug *plug;
    const char *why;
    weir_coll_use made;

    WEIR_TRY(weir_coll_find(spec, &plug));
    WEIR_TRY(weir_plug_make(plug, "collective", spec, arena, &made.self));
    made.coll = (const weir_coll *)plug;
    if (made.coll->fits && (why = made.coll->fits(made.self, group)))
        return weir_fail(WEIR_MISFIT, "the collective %s cannot be used: %s", plug->name, why);
    if (made.coll->open)
        WEIR_TRY(made.coll->open(made.self, group, arena));
    *use = made;
    return WEIR_OK;
}

weir_err weir_coll_memory(weir_coll_use *use, weir_group *group, size_t bytes, weir_arena *arena,
                          void **out)
{
    void *p = NULL;

    if (group->size > 1 && use->coll->memory)
        WEIR_TRY(use->coll->memory(use->self, group, bytes, &p));
    if (!p && !(p = weir_alloc(arena, bytes)))
        return weir_fail_nomem(bytes);
    *out = p;
    return WEIR_OK;
}

/* What a collective is about, for WEIR_DEBUG=trace,coll and for the record. */
static weir_flight_entry *begin(const weir_coll_use *use, weir_group *group, const char *verb,
                                size_t bytes)
{
    if (weir_log_on(WEIR_LOG_TRACE, "coll"))
        weir_log(WEIR_LOG_TRACE, "coll", "%s %s, sequence %u of group %u: %zu bytes on %d ranks",
                 use->coll->plug.name, verb, (unsigned)group->sequence, group->id, bytes,
                 group->size);
    return weir_flight_begin(group, use->coll->plug.name, verb, bytes);
}

weir_err weir_allreduce(weir_coll_use *use, weir_group *group, void *buf, size_t units,
                        const weir_sum *sum)
{
    weir_flight_entry *entry = begin(use, group, "all-reduce", units * sum->unit);

    return weir_flight_end(group, entry,
                           group->size > 1 ? use->coll->allreduce(use->self, group, buf, units, sum)
                                           : WEIR_OK);
}

weir_err weir_reduce_scatter(weir_coll_use *use, weir_group *group, void *buf, size_t units,
                             const weir_sum *sum)
{
    weir_flight_entry *entry = begin(use, group, "reduce-scatter", units * sum->unit);

    return weir_flight_end(group, entry,
                           group->size > 1
                               ? use->coll->reduce_scatter(use->self, group, buf, units, sum)
                               : WEIR_OK);
}

weir_err weir_allgather(weir_coll_use *use, weir_group *group, void *all, const size_t *off,
                        const size_t *len)
{
    weir_flight_entry *entry = begin(use, group, "all-gather", len[group->me]);

    return weir_flight_end(group, entry,
                           group->size > 1 ? use->coll->allgather(use->self, group, all, off, len)
                                           : WEIR_OK);
}

weir_err weir_broadcast(weir_coll_use *use, weir_group *group, int root, void *buf, size_t bytes)
{
    weir_flight_entry *entry = begin(use, group, "broadcast", bytes);

    return weir_flight_end(group, entry,
                           group->size > 1
                               ? use->coll->broadcast(use->self, group, root, buf, bytes)
                               : WEIR_OK);
}

weir_err weir_alltoall(weir_coll_use *use, weir_group *group, const weir_pieces *out,
                       const weir_pieces *in)
{
    size_t bytes = 0;

    for (int i = 0; i < group->size; i++)
        bytes += out->len[i];
    weir_flight_entry *entry = begin(use, group, "all-to-all", bytes);
    return weir_flight_end(group, entry, weir_direct_alltoall(group, out, in));
}

weir_err weir_talk_gather_all(weir_coll_use *use, weir_group *group, int root, const weir_pieces *x)
{
    weir_flight_entry *entry = begin(use, group, "gather", x->len[group->me]);

    return weir_flight_end(group, entry,
                           group->size > 1 ? weir_direct_gather(group, root, x) : WEIR_OK);
}

weir_err weir_barrier(weir_coll_use *use, weir_group *group)
{
    return weir_reduce_scatter(use, group, NULL, 0, &weir_sum_f32);
}
