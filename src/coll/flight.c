/* flight.c - see flight.h. */
#include "coll/flight.h"

weir_leg *weir_flight_begin(weir_group *g, const char *coll, const char *verb, size_t bytes)
{
    weir_flight *f = g->flight;
    weir_leg *l;

    if (!f)
        return NULL;
    l = &f->leg[f->legs++ % WEIR_LEGS];
    *l = (weir_leg){
        .coll = coll, .verb = verb, .turn = g->turn, .bytes = bytes, .began = weir_net_now(g->net)};
    return l;
}

weir_err weir_flight_end(weir_group *g, weir_leg *l, weir_err err)
{
    if (l) {
        l->ended = weir_net_now(g->net);
        l->err = err;
    }
    return err;
}

static void write_leg(const weir_leg *l, double now, FILE *out)
{
    fprintf(out, "turn %u: %s %s of %zu bytes, begun %.6f s ago, ", (unsigned)l->turn, l->coll,
            l->verb, l->bytes, now - l->began);
    if (!l->ended)
        fprintf(out, "under way\n");
    else
        fprintf(out, "%s after %.6f s\n", l->err ? weir_err_name(l->err) : "done",
                l->ended - l->began);
}

void weir_flight_write(const weir_flight *f, double now, FILE *out)
{
    uint64_t first = f->legs > WEIR_LEGS ? f->legs - WEIR_LEGS : 0;

    for (uint64_t i = first; i < f->legs; i++)
        write_leg(&f->leg[i % WEIR_LEGS], now, out);
}
