/* storm_draw.c - what a seed stands for: a run, and what goes wrong in it. See storm.h. */
#include "core/rng.h"
#include "net/mesh.h"
#include "train/refuse.h"
#include "train/storm.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* What is drawn by numbers of its own, so that a wish for one thing leaves the others as they
 * are. */
enum { SHAPE, LINKS, EXCHANGE, CODEC, COLL, OPTIM, FAULTS };

static weir_rng draw_for(const weir_storm *s, int what)
{
    return weir_rng_at(s->seed, WEIR_RNG_TEST, (uint64_t)what, 0x53);
}

static bool chance(weir_rng *r, double p) { return (double)weir_rng_unit(r) < p; }
static int between(weir_rng *r, int low, int high)
{
    return low + (int)weir_rng_below(r, (uint64_t)(high - low + 1));
}
static double real_between(weir_rng *r, double low, double high)
{
    return low + (high - low) * (double)weir_rng_unit(r);
}
/* As likely to be of any size. */
static double scale_between(weir_rng *r, double low, double high)
{
    return exp(real_between(r, log(low), log(high)));
}

/* ---- the run ---- */

static void draw_shape(weir_storm *s)
{
    weir_rng r = draw_for(s, SHAPE);

    s->ranks = between(&r, 3, 6);
    s->steps = between(&r, 16, 32);
    s->batch = between(&r, 5, 12);
    s->samples = between(&r, 20, 70);
    s->eval_every = chance(&r, 0.5) ? between(&r, 1, 9) : 0;
    s->check_every = chance(&r, 0.3) ? between(&r, 1, 9) : 0;
    s->save_every = chance(&r, 0.2) ? between(&r, 2, 9) : 0;
    s->elastic = !chance(&r, 0.1);
    s->cost = real_between(&r, 0.01, 0.03);
    s->timeout = real_between(&r, 0.7, 1.5);
}

static void draw_links(weir_storm *s)
{
    static const int eager[] = {0, 100, 16384};
    weir_rng r = draw_for(s, LINKS);

    s->latency = scale_between(&r, 20e-6, 20e-3);
    s->detect = scale_between(&r, 1e-3, 0.1);
    s->machine = chance(&r, 0.3) ? between(&r, 2, 3) : 1;
    s->eager = eager[between(&r, 0, 2)];
    s->rendezvous = chance(&r, 0.7);
}

/* ---- variants ---- */

static int count(weir_plugs list)
{
    int n = 0;

    while (list[n])
        n++;
    return n;
}

/* With the first of these options that the variant takes. */
static void with_options(char *spec, const weir_plug *plug, const char *const *options)
{
    weir_arena *arena = weir_arena_new();
    weir_err err = WEIR_FAILED;
    void *self;

    for (; err && arena; options++) {
        snprintf(spec, WEIR_STORM_TEXT, "%s%s%s", plug->name, **options ? ":" : "", *options);
        err = weir_plug_make(plug, "storm", spec, arena, &self);
        if (!**options)
            break;
    }
    weir_arena_free(arena);
}

/* Small tensors, and few steps: nothing stays dense for long, and what is sent is a part. */
static void draw_codec(weir_storm *s, weir_rng *r)
{
    static const char *const keeps[] = {"small=1,warmup=0,ramp=0,density=0.2,residual=yes",
                                        "small=1,warmup=0,residual=yes", "small=1,every=7,try=1",
                                        ""};
    static const char *const plain[] = {"small=1,warmup=0,ramp=0.3,density=0.1", "small=1,warmup=0",
                                        "small=1", ""};
    weir_plugs list = weir_codecs;
    const weir_plug *plug = list[weir_rng_below(r, (uint64_t)count(list))];

    with_options(s->codec, plug, chance(r, 0.7) ? keeps : plain);
}

static void draw_optim(weir_storm *s)
{
    static const char *const momentum[] = {"momentum=0.9", ""}, *const none[] = {""};
    weir_rng r = draw_for(s, OPTIM);
    const weir_plug *first = weir_optims[0],
                    *any = weir_optims[weir_rng_below(&r, (uint64_t)count(weir_optims))];

    if (chance(&r, 0.6))
        with_options(s->optim, first, none);
    else
        with_options(s->optim, any, chance(&r, 0.5) ? momentum : none);
}

static void draw_exchange(weir_storm *s, weir_rng *r)
{
    static const char *const levels[] = {"hier=yes", ""}, *const bound[] = {"bound=1", ""},
                             *const none[] = {""};
    const weir_plug *plug = weir_exchanges[weir_rng_below(r, (uint64_t)count(weir_exchanges))];
    int which = between(r, 0, 3);

    with_options(s->exchange, plug,
                 which == 0                     ? bound
                 : which == 1 && s->machine > 1 ? levels
                                                : none);
}

static void draw_coll(weir_storm *s, weir_rng *r)
{
    snprintf(s->coll, sizeof s->coll, "%s",
             weir_colls[weir_rng_below(r, (uint64_t)count(weir_colls))]->name);
}

static void settings_of(const weir_storm *s, weir_settings *set)
{
    set->exchange = s->exchange;
    set->codec = s->codec;
    set->coll = s->coll;
    set->optim = s->optim;
    set->net = "sim";
}

/* Does this collective serve so many in a simulated world? */
static weir_err open_coll(weir_net *net, void *storm)
{
    const weir_storm *s = storm;
    weir_mesh mesh = {0};
    weir_coll_use use;
    weir_err err = weir_mesh_open(&mesh, net);

    if (!err)
        err = weir_coll_open(s->coll, &mesh.all, mesh.arena, &use);
    weir_mesh_close(&mesh);
    return err;
}

static bool coll_fits(weir_storm *s)
{
    weir_rank_info rank_info = {.size = s->ranks};
    char net[80];

    snprintf(net, sizeof net, "sim:nodes=%d,machine=%d", s->ranks, s->machine);
    return weir_net_run(net, &rank_info, open_coll, s) == WEIR_OK;
}

/* Whether they work together; and go on when one is lost. */
static weir_err fits(weir_storm *s, bool *yes, bool *goes_on)
{
    weir_arena *arena = weir_arena_new();
    weir_settings set;
    weir_facts facts;
    weir_err err = arena ? weir_settings_init(&set, arena) : weir_fail_nomem(0);

    if (!err) {
        settings_of(s, &set);
        err = weir_facts_read(&set, arena, &facts);
    }
    if (!err) {
        facts.ranks = s->ranks;
        facts.trains = true;
        *yes = !weir_refuse(&facts) && coll_fits(s);
        *goes_on = facts.elastic;
        for (s->variant = 0; weir_exchanges[s->variant] != &facts.exchange->plug; s->variant++)
            ;
    }
    weir_arena_free(arena);
    return err;
}

static weir_err draw_variants(weir_storm *s, const weir_storm_wish *wish)
{
    enum { TRIES = 1000 };
    weir_rng exchange = draw_for(s, EXCHANGE), codec = draw_for(s, CODEC), coll = draw_for(s, COLL);
    bool yes = false, goes_on = false;

    draw_optim(s);
    for (int i = 0; i < TRIES && !yes; i++) {
        draw_exchange(s, &exchange);
        draw_codec(s, &codec);
        draw_coll(s, &coll);
        if (wish->exchange)
            snprintf(s->exchange, sizeof s->exchange, "%s", wish->exchange);
        if (wish->codec)
            snprintf(s->codec, sizeof s->codec, "%s", wish->codec);
        if (wish->coll)
            snprintf(s->coll, sizeof s->coll, "%s", wish->coll);
        WEIR_TRY(fits(s, &yes, &goes_on));
        if (yes && s->elastic && !goes_on && !wish->exchange) /* few of those that cannot go on */
            yes = chance(&exchange, 0.2);
    }
    if (!yes)
        return weir_fail(WEIR_MISFIT, "nothing fits --exchange %s --codec %s --coll %s",
                         s->exchange, s->codec, s->coll);
    s->elastic &= goes_on;
    if (!s->elastic && !s->save_every)
        s->save_every = 3;
    return WEIR_OK;
}

/* ---- what goes wrong ---- */

/* Some pieces of computing a step, and as many messages. */
static double length_of(const weir_storm *s) { return s->steps * (8 * s->cost + 8 * s->latency); }

/* Soon after the last one, in a moment or while it is noticed; or at any time. */
static double draw_time(const weir_storm *s, weir_rng *r, double last)
{
    if (last <= 0 || chance(r, 0.4))
        return real_between(r, 0, 1.05 * length_of(s));
    if (chance(r, 0.5))
        return last + s->detect + scale_between(r, 1e-5, 0.1);
    return last + real_between(r, 0, 2 * s->timeout);
}

/* Shorter than the time-out, or longer: by some, or without an end. */
static double draw_length(const weir_storm *s, weir_rng *r)
{
    int which = between(r, 0, 9);

    if (which < 4)
        return real_between(r, 0.001, 0.95) * s->timeout;
    return which < 9 ? real_between(r, 1.02, 4) * s->timeout : 0;
}

static int draw_node(const weir_storm *s, weir_rng *r)
{
    return between(r, 0, s->ranks - 1 + s->joins);
}

static void add(weir_storm *s, weir_storm_fault f)
{
    if (s->faults < WEIR_STORM_FAULTS)
        s->fault[s->faults++] = f;
}

/* A side of the run against the other. */
static void cut_in_two(weir_storm *s, weir_rng *r, double at, double lasts)
{
    int side = between(r, 1, (1 << s->ranks) - 2);

    for (int a = 0; a < s->ranks; a++)
        for (int b = a + 1; b < s->ranks; b++)
            if ((side >> a & 1) != (side >> b & 1))
                add(s, (weir_storm_fault){WEIR_STORM_CUT, a, b, at, lasts, 0});
}

static void draw_cut(weir_storm *s, weir_rng *r, double at)
{
    int a = draw_node(s, r), b = draw_node(s, r);
    double lasts = draw_length(s, r);

    if (chance(r, 0.3))
        cut_in_two(s, r, at, lasts);
    else if (a != b)
        add(s, (weir_storm_fault){WEIR_STORM_CUT, a, b, at, lasts, 0});
}

static void draw_fault(weir_storm *s, weir_rng *r, double *last)
{
    double at = *last = draw_time(s, r, *last);
    int kind = between(r, 0, 99);

    if (kind < 30)
        add(s, (weir_storm_fault){WEIR_STORM_KILL, draw_node(s, r), 0, at, 0, 0});
    else if (kind < 50)
        add(s, (weir_storm_fault){WEIR_STORM_PAUSE, draw_node(s, r), 0, at, draw_length(s, r), 0});
    else if (kind < 65)
        draw_cut(s, r, at);
    else if (kind < 85 && s->elastic)
        add(s, (weir_storm_fault){WEIR_STORM_JOIN, s->ranks + s->joins++, 0, at, 0, 0});
    else
        add(s, (weir_storm_fault){WEIR_STORM_LEAVE, draw_node(s, r), 0, at, 0, 0});
}

static void draw_faults(weir_storm *s)
{
    weir_rng r = draw_for(s, FAULTS);
    int n = between(&r, 1, 6);
    double last = 0;

    if (chance(&r, 0.4))
        add(s, (weir_storm_fault){WEIR_STORM_DELAY, .portion = scale_between(&r, 0.1, 10)});
    if (chance(&r, 0.3))
        add(s, (weir_storm_fault){WEIR_STORM_DROP, .portion = scale_between(&r, 0.001, 0.03)});
    if (chance(&r, 0.2))
        add(s, (weir_storm_fault){WEIR_STORM_CORRUPT, .portion = scale_between(&r, 0.001, 0.03)});
    if (chance(&r, 0.3))
        add(s, (weir_storm_fault){WEIR_STORM_DUPLICATE, .portion = scale_between(&r, 0.01, 0.5)});
    for (int i = 0; i < n; i++)
        draw_fault(s, &r, &last);
    s->most = chance(&r, 0.8) ? s->ranks + s->joins + 4 : s->ranks;
}

weir_err weir_storm_draw(uint64_t seed, const weir_storm_wish *wish, weir_storm *s)
{
    *s = (weir_storm){.seed = seed, .without = wish->without};
    draw_shape(s);
    draw_links(s);
    WEIR_TRY(draw_variants(s, wish));
    draw_faults(s);
    if (s->save_every && wish->room)
        snprintf(s->out, sizeof s->out, "%s/seed-%llu", wish->room, (unsigned long long)seed);
    return WEIR_OK;
}
