/* flight.c - see flight.h. */
#include "coll/flight.h"

weir_flight_entry *weir_flight_begin(weir_group *g, const char *coll, const char *verb,
                                     size_t bytes)
{
    weir_flight *f = g->flight;
    weir_flight_entry *l;

    if (!f)
        return NULL;
    l = &f->entry[f->entries++ % WEIR_FLIGHT_ENTRIES];
    *l = (weir_flight_entry){.coll = coll,
                             .verb = verb,
                             .sequence = g->sequence,
                             .bytes = bytes,
                             .began = weir_net_now(g->net)};
    return l;
}

weir_err weir_flight_end(weir_group *g, weir_flight_entry *l, weir_err err)
{
    if (l) {
        l->ended = weir_net_now(g->net);
        l->err = err;
    }
    return err;
}

static void write_entry(const weir_flight_entry *l, double now, FILE *out)
{
    fprintf(out, "sequence %u: %s %s of %zu bytes, begun %.6f s ago, ", (unsigned)l->sequence,
            l->coll, l->verb, l->bytes, now - l->began);
    if (!l->ended)
        fprintf(out, "under way\n");
    else
        fprintf(out, "%s after %.6f s\n", l->err ? weir_err_name(l->err) : "done",
                l->ended - l->began);
}

void weir_flight_write(const weir_flight *f, double now, FILE *out)
{
    uint64_t first = f->entries > WEIR_FLIGHT_ENTRIES ? f->entries - WEIR_FLIGHT_ENTRIES : 0;

    for (uint64_t i = first; i < f->entries; i++)
        write_entry(&f->entry[i % WEIR_FLIGHT_ENTRIES], now, out);
}
