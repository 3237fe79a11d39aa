/* storm_run.c - a storm as options of a run, and the run. See storm.h. */
#include "core/file.h"
#include "train/storm_inside.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char MODEL[] = "mlp:hidden=5", RATE[] = "0.1";
/* Longer than any wait may last: nobody is ever busy for long. */
static const double STALL = 1e4;
/* When nobody is there any more: a process that is left out keeps its number. */
static const double NEVER = 1e8;
enum { SPEC = 4096 };

/* ---- in words ---- */

static const char *const kind_name[WEIR_STORM_KINDS] = {"kill", "pause",   "cut",
                                                        "join", "leave",   "delay",
                                                        "drop", "corrupt", "duplicate"};

void weir_storm_say(const weir_storm_fault *f, char *text, size_t room)
{
    char until[40] = "";

    if (f->kind == WEIR_STORM_PAUSE || f->kind == WEIR_STORM_CUT)
        snprintf(until, sizeof until, f->lasts > 0 ? " for %.4g s" : " for ever", f->lasts);
    if (f->kind >= WEIR_STORM_DELAY)
        snprintf(text, room, "%s of %.3g", kind_name[f->kind], f->portion);
    else if (f->kind == WEIR_STORM_CUT)
        snprintf(text, room, "cut between %d and %d at %.6g s%s", f->a, f->b, f->at, until);
    else
        snprintf(text, room, "%s of %d at %.6g s%s", kind_name[f->kind], f->a, f->at, until);
}

typedef struct page {
    char *text;
    size_t room, used;
} page;

#define SAY(p, ...)                                                                            \
    ((p)->used += (p)->used < (p)->room ? (size_t)snprintf((p)->text + (p)->used,              \
                                                           (p)->room - (p)->used, __VA_ARGS__) \
                                        : 0)

static void say_fault(page *p, const weir_storm_fault *f, bool first, bool out)
{
    SAY(p, "%s", first ? "" : "/");
    if (f->kind == WEIR_STORM_JOIN)
        SAY(p, "%.9g", out ? NEVER : f->at);
    else if (f->kind == WEIR_STORM_CUT)
        SAY(p, "%d-%d@%.9g", f->a, f->b, f->at);
    else
        SAY(p, "%d@%.9g", f->a, f->at);
    if (f->lasts > 0)
        SAY(p, "+%.9g", f->lasts);
}

static void say_kind(page *p, const weir_storm *s, weir_storm_kind kind)
{
    bool first = true;

    for (int i = 0; i < s->faults; i++) {
        const weir_storm_fault *f = &s->fault[i];
        bool out = s->without >> i & 1;
        if (f->kind != kind || (out && kind != WEIR_STORM_JOIN))
            continue;
        if (first)
            SAY(p, ",%s=", kind == WEIR_STORM_DELAY ? "jitter" : kind_name[kind]);
        if (kind >= WEIR_STORM_DELAY)
            SAY(p, "%.9g", f->portion);
        else
            say_fault(p, f, first, out);
        first = false;
    }
}

static void say_net(const weir_storm *s, char *text, size_t room)
{
    page p = {text, room, 0};

    SAY(&p, "sim:nodes=%d,seed=%llu,latency=%.9gs,detect=%.9gs,cost=%.9gs,machine=%d,eager=%d,",
        s->ranks, (unsigned long long)s->seed, s->latency, s->detect, s->cost, s->machine,
        s->eager);
    SAY(&p, "rendezvous=%s,rto=10ms", s->rendezvous ? "yes" : "no");
    for (int kind = 0; kind < WEIR_STORM_KINDS; kind++)
        say_kind(&p, s, (weir_storm_kind)kind);
}

/* ---- options ---- */

typedef struct option {
    const char *key;
    char value[SPEC];
} option;

enum { OPTIONS = 24 };

static int list_options(const weir_storm *s, option *o)
{
    int n = 0;

#define PUT(name, ...) (o[n].key = (name), snprintf(o[n++].value, SPEC, __VA_ARGS__))
    PUT("model", "%s", MODEL);
    PUT("data", "synth:shape=1x3x3,classes=3,count=%d,test=12", s->samples);
    PUT("lr", "%s", RATE);
    PUT("threads", "1");
    PUT("seed", "%llu", (unsigned long long)s->seed);
    PUT("steps", "%d", s->steps);
    PUT("batch", "%d", s->batch);
    PUT("exchange", "%s", s->exchange);
    PUT("codec", "%s", s->codec);
    PUT("coll", "%s", s->coll);
    PUT("optim", "%s", s->optim);
    PUT("eval-every", "%d", s->eval_every);
    PUT("check-every", "%d", s->check_every);
    PUT("timeout", "%.9g", s->timeout);
    PUT("stall", "%.9g", STALL);
    if (s->elastic)
        PUT("max-workers", "%d", s->most);
    else
        PUT("elastic", "no");
    if (s->out[0]) {
        PUT("out", "%s", s->out);
        PUT("save-every", "%d", s->save_every);
        PUT("keep", "2");
    }
    say_net(s, o[n].value, SPEC);
    o[n++].key = "net";
#undef PUT
    return n;
}

void weir_storm_options(const weir_storm *s, char *text, size_t room)
{
    option *o = calloc(OPTIONS, sizeof *o);
    page p = {text, room, 0};
    int n = o ? list_options(s, o) : 0;

    text[0] = 0;
    for (int i = 0; i < n; i++)
        SAY(&p, "%s--%s %s", i ? " " : "", o[i].key, o[i].value);
    free(o);
}

weir_err weir_storm_settings(const weir_storm *s, weir_arena *arena, weir_settings *set)
{
    option *o = calloc(OPTIONS, sizeof *o);
    weir_err err = o ? weir_settings_init(set, arena) : weir_fail_nomem(OPTIONS * sizeof *o);
    int n = o ? list_options(s, o) : 0;

    for (int i = 0; i < n && !err; i++)
        err = weir_settings_set(set, o[i].key, o[i].value);
    free(o);
    return err ? err : weir_settings_check(set);
}

/* ---- the run ---- */

weir_err weir_storm_train(const weir_storm *s, const weir_settings *set, const weir_hooks *hooks)
{
    weir_rank_info rank_info = {.size = s->ranks,
                                .local_size = s->ranks,
                                .source = "storm",
                                .host = "storm",
                                .timeout = s->timeout,
                                .stall = STALL};
    weir_result result;
    int stopped;

    return weir_train_run(set, &rank_info, hooks, &result, &stopped);
}

static weir_err run(storm_watch *w)
{
    const weir_witness witness = {weir_storm_see, weir_storm_end, w, WEIR_STORM_BUCKET};
    const weir_hooks hooks = {.event = weir_storm_event, .arg = w, .witness = &witness};
    weir_settings set;

    WEIR_TRY(weir_storm_settings(w->storm, w->arena, &set));
    return weir_storm_train(w->storm, &set, &hooks);
}

/* Until all have met and have what they need, a death ends it. */
static weir_err never_began(storm_watch *w, weir_err err)
{
    weir_storm_result *r = w->result;
    const weir_net_mishaps *m = &r->happened;

    r->refused = err == WEIR_MISFIT;
    r->early = (err == WEIR_LOST || err == WEIR_SILENT) && (m->kills || m->pauses || m->cuts);
    return r->refused || r->early ? WEIR_OK : err;
}

static weir_err run_and_check(storm_watch *w)
{
    weir_err ran = run(w);

    if (w->nomem)
        return weir_fail_nomem(0);
    if (ran && !w->generations)
        return never_began(w, ran);
    weir_storm_check(w);
    w->result->joined = w->result->happened.joins;
    return w->storm->out[0] ? weir_storm_check_saved(w) : WEIR_OK;
}

static void free_watch(storm_watch *w)
{
    if (!w)
        return;
    weir_arena_free(w->arena);
    free(w->generation);
    free(w->attempt);
    free(w->settled);
    free(w->line);
    free(w);
}

weir_err weir_storm_run(const weir_storm *s, weir_storm_result *result)
{
    storm_watch *w = calloc(1, sizeof *w);
    weir_err err = w && (w->arena = weir_arena_new()) ? WEIR_OK : weir_fail_nomem(0);

    *result = (weir_storm_result){.variant = s->variant};
    if (s->out[0]) /* one that crashed may have left it */
        weir_tree_remove(s->out);
    if (!err) {
        w->storm = s;
        w->result = result;
        err = run_and_check(w);
    }
    if (s->out[0])
        weir_tree_remove(s->out);
    free_watch(w);
    return err;
}
