/* sim_fault.c - faults by order: kill=WHO@WHEN, pause=WHO@WHEN+LENGTH, cut=A-B@WHEN+LENGTH,
 * leave=WHO@WHEN, join=WHEN; several are parted by /. WHO is a node or `any` of those of the start,
 * drawn from the seed; WHEN is a time, or EARLY~LATE, drawn too; without a LENGTH it lasts for
 * ever. */
#include "net/sim.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    weir_sim *sim;
    const char *option, *text, *at;
    weir_rng rng;
    int joins;
} reader;

static weir_err bad(const reader *r, const char *wanted)
{
    return weir_fail(WEIR_USAGE, "net sim: %s=%.100s: %s was expected where it says '%.40s'",
                     r->option, r->text, wanted, r->at);
}

static bool take(reader *r, const char *word)
{
    size_t n = strlen(word);

    if (strncmp(r->at, word, n))
        return false;
    r->at += n;
    return true;
}

static weir_err read_rank(reader *r, int *rank)
{
    char *end;
    long x;

    if (take(r, "any")) {
        *rank = (int)weir_rng_below(&r->rng, (uint64_t)r->sim->starters);
        return WEIR_OK;
    }
    x = strtol(r->at, &end, 10);
    if (end == r->at || x < 0 || x >= r->sim->nodes)
        return bad(r, "a rank of the run, or any,");
    *rank = (int)x;
    r->at = end;
    return WEIR_OK;
}

static weir_err read_time(reader *r, double *seconds)
{
    char *end;
    double x = strtod(r->at, &end);

    if (end == r->at || !(x >= 0) || x > 1e9)
        return bad(r, "a time in seconds");
    r->at = end;
    if (take(r, "ms"))
        x /= 1e3;
    else if (take(r, "us"))
        x /= 1e6;
    else
        take(r, "s");
    *seconds = x;
    return WEIR_OK;
}

static weir_err read_when(reader *r, weir_sim_order *o)
{
    double late, length;

    WEIR_TRY(read_time(r, &o->at));
    if (take(r, "~")) {
        WEIR_TRY(read_time(r, &late));
        o->at += (late - o->at) * (((double)weir_rng_u32(&r->rng) + 0.5) * 0x1p-32);
    }
    o->until = WEIR_NEVER;
    if ((o->kind == WEIR_SIM_PAUSE || o->kind == WEIR_SIM_CUT) && take(r, "+")) {
        WEIR_TRY(read_time(r, &length));
        o->until = o->at + length;
    }
    if (*r->at && *r->at != '/')
        return bad(r, "/ and another one, or the end,");
    return WEIR_OK;
}

static weir_err read_one(reader *r, weir_sim_order *o)
{
    if (o->kind == WEIR_SIM_JOIN) {
        o->a = r->sim->starters + r->joins++;
        return read_when(r, o);
    }
    WEIR_TRY(read_rank(r, &o->a));
    if (o->kind == WEIR_SIM_CUT) {
        if (!take(r, "-"))
            return bad(r, "- and another rank");
        WEIR_TRY(read_rank(r, &o->b));
        if (o->a == o->b)
            return bad(r, "two different ranks");
    }
    if (!take(r, "@"))
        return bad(r, "@ and a time");
    return read_when(r, o);
}

static weir_err read_all(weir_sim *s, const char *option, const char *text, int kind)
{
    reader r = {.sim = s, .option = option, .text = text, .at = text};
    weir_sim_order *more;

    if (!text || !*text)
        return WEIR_OK;
    r.rng = weir_rng_at((uint64_t)s->o->seed, WEIR_RNG_SIM, 1ull << 56, (uint32_t)kind);
    do {
        if (!(more = realloc(s->order, (size_t)(s->orders + 1) * sizeof *more)))
            return weir_fail_nomem(sizeof *more);
        s->order = more;
        s->order[s->orders] = (weir_sim_order){.kind = kind};
        WEIR_TRY(read_one(&r, &s->order[s->orders]));
        s->orders++;
        s->cuts += kind == WEIR_SIM_CUT;
    } while (take(&r, "/"));
    return WEIR_OK;
}

weir_err weir_sim_orders_read(weir_sim *s)
{
    WEIR_TRY(read_all(s, "kill", s->o->kill, WEIR_SIM_KILL));
    WEIR_TRY(read_all(s, "pause", s->o->pause, WEIR_SIM_PAUSE));
    WEIR_TRY(read_all(s, "cut", s->o->cut, WEIR_SIM_CUT));
    WEIR_TRY(read_all(s, "join", s->o->join, WEIR_SIM_JOIN));
    WEIR_TRY(read_all(s, "leave", s->o->leave, WEIR_SIM_LEAVE));
    for (int i = 0; i < s->orders; i++)
        weir_sim_push(s, s->order[i].at, WEIR_SIM_ORDER, s->order[i].a, &s->order[i]);
    return WEIR_OK;
}

static bool cuts(const weir_sim_order *o, int a, int b)
{
    return o->kind == WEIR_SIM_CUT && ((o->a == a && o->b == b) || (o->a == b && o->b == a));
}

/* Since when, if cuts that ended as this one began count as the same. */
static double cut_since(const weir_sim *s, int a, int b, double since)
{
    for (int i = 0; i < s->orders; i++)
        if (cuts(&s->order[i], a, b) && s->order[i].at < since && s->order[i].until >= since) {
            since = s->order[i].at;
            i = -1;
        }
    return since;
}

double weir_sim_cut_until(const weir_sim *s, int a, int b, double *since)
{
    double until = 0;

    for (int i = 0; s->cuts && i < s->orders; i++) {
        const weir_sim_order *o = &s->order[i];
        if (cuts(o, a, b) && o->at <= s->now && o->until > s->now && o->until > until) {
            until = o->until;
            *since = o->at;
        }
    }
    if (until > 0)
        *since = cut_since(s, a, b, *since);
    return until;
}

/* Somebody will be given up if it lasts: looked at when the time-out has passed. */
static void watch(weir_sim *s, double from, double until, int who, int whom)
{
    if (until - from > s->timeout)
        weir_sim_push(s, from + s->timeout, WEIR_SIM_SILENCE, who, &s->node[whom]);
}

/* Do they stop the same rank, or cut the same link? */
static bool alike(const weir_sim_order *x, const weir_sim_order *y)
{
    return y->kind == WEIR_SIM_CUT ? cuts(x, y->a, y->b) : x->kind == y->kind && x->a == y->a;
}

/* When a pause or a cut ends, with those that begin before it does. All at once: what is put off is
 * so to the very end, and keeps its order. */
static double end_of(const weir_sim *s, const weir_sim_order *first)
{
    double until = first->until;
    bool longer;

    do {
        longer = false;
        for (const weir_sim_order *o = s->order; o < s->order + s->orders; o++)
            if (alike(o, first) && o->at <= until && o->until > until) {
                until = o->until;
                longer = true;
            }
    } while (longer);
    return until;
}

int weir_sim_latecomers(const weir_sim_options *o)
{
    int n = o->join && *o->join;

    for (const char *at = n ? o->join : ""; *at; at++)
        n += *at == '/';
    return n;
}

/* Who waited for something to come that never will leaves without that. */
static void look_left(weir_sim *s, double until)
{
    for (int r = 0; until >= WEIR_NEVER && r < s->nodes; r++)
        weir_sim_look_left(s, &s->node[r]);
}

static void begin_pause(weir_sim *s, weir_sim_node *a, const weir_sim_order *o)
{
    s->count.mishaps.pauses++;
    a->stood = weir_sim_stood(&a->net);
    a->paused_at = s->now;
    a->paused_until = end_of(s, o);
    for (int r = 0; r < s->nodes; r++)
        if (r != o->a)
            watch(s, o->at, a->paused_until, r, o->a);
    look_left(s, a->paused_until);
}

static bool runs(const weir_sim_node *a) { return a->here && !weir_sim_gone(a); }

static void begin_cut(weir_sim *s, weir_sim_order *o)
{
    double until = end_of(s, o);

    s->count.mishaps.cuts += runs(&s->node[o->a]) && runs(&s->node[o->b]);
    watch(s, o->at, until, o->a, o->b);
    watch(s, o->at, until, o->b, o->a);
    if (until < WEIR_NEVER)
        weir_sim_push(s, until, WEIR_SIM_HEAL, o->a, o);
    look_left(s, until);
}

void weir_sim_on_heal(weir_sim *s, const weir_sim_order *o)
{
    s->count.mishaps.heals += runs(&s->node[o->a]) && runs(&s->node[o->b]);
}

void weir_sim_on_order(weir_sim *s, weir_sim_order *o)
{
    weir_sim_node *a = &s->node[o->a];

    if (o->kind == WEIR_SIM_JOIN) {
        weir_sim_arrive(s, a);
    } else if (o->kind == WEIR_SIM_CUT) {
        begin_cut(s, o);
    } else if (!runs(a)) {
        return; /* there is nobody whom it could happen to */
    } else if (o->kind == WEIR_SIM_KILL) {
        weir_sim_kill(s, a);
    } else if (o->kind == WEIR_SIM_LEAVE) {
        s->count.mishaps.leaves++;
        atomic_store(&a->net.asked, SIGTERM);
    } else if (!weir_sim_paused(s, a)) {
        begin_pause(s, a, o);
    }
}
