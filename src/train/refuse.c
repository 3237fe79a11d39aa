/* refuse.c - see refuse.h. */
#include "train/refuse.h"
#include <stdio.h>

/* ---- facts ---- */

static weir_err read_exchange(weir_facts *f, weir_arena *arena)
{
    const weir_plug *plug;
    void *self;

    WEIR_TRY(weir_plug_find(weir_exchanges, "exchange", f->set->exchange, &plug));
    WEIR_TRY(weir_plug_make(plug, "exchange", f->set->exchange, arena, &self));
    f->exchange = (const weir_exchange *)plug;
    if (f->exchange->facts)
        f->exchange->facts(self, &f->options);
    return WEIR_OK;
}

static weir_err read_codec(weir_facts *f, weir_arena *arena)
{
    const weir_plug *plug;
    void *self;

    WEIR_TRY(weir_plug_find(weir_codecs, "codec", f->set->codec, &plug));
    WEIR_TRY(weir_plug_make(plug, "codec", f->set->codec, arena, &self));
    f->codec = (const weir_codec *)plug;
    f->feedback = f->codec->raw ? NULL : self;
    return WEIR_OK;
}

static weir_err read_optim(weir_facts *f, weir_arena *arena)
{
    const weir_plug *plug;
    weir_momentum momentum;
    void *self;

    WEIR_TRY(weir_plug_find(weir_optims, "optimiser", f->set->optim, &plug));
    WEIR_TRY(weir_plug_make(plug, "optimiser", f->set->optim, arena, &self));
    f->optim = (const weir_optim *)plug;
    f->momentum = f->optim->momentum && f->optim->momentum(self, &momentum);
    return WEIR_OK;
}

/* With other members. Where replicas drift, one state has to be made of several. */
static bool goes_on(const weir_exchange *x) { return x->regroup && (!x->drifts || x->recover); }

weir_err weir_facts_read(const weir_settings *set, weir_arena *arena, weir_facts *out)
{
    weir_facts f = {.set = set};

    WEIR_TRY(weir_net_check(set->net, &f.net));
    WEIR_TRY(read_exchange(&f, arena));
    WEIR_TRY(read_codec(&f, arena));
    WEIR_TRY(read_optim(&f, arena));
    f.elastic = set->elastic && f.net.loses && !f.net.dry && goes_on(f.exchange);
    *out = f;
    return WEIR_OK;
}

/* ---- what does not go together ---- */

/* Options that a sentence is about. */
enum { EXCHANGE = 1, CODEC = 2, OPTIM = 4, NET = 8, EXACT = 16, MODEL = 32 };

typedef struct verdict {
    unsigned about; /* 0: nothing stands against it */
    char why[WEIR_WHY_MAX / 2];
} verdict;

#define REFUSE(v, options, ...) \
    ((v)->about = (options), snprintf((v)->why, sizeof(v)->why, __VA_ARGS__))

static void judge_world(const weir_facts *f, verdict *v)
{
    if (f->net.dry && f->trains)
        REFUSE(v, NET,
               "a dry world moves sizes and no numbers, so nothing can be trained in it: leave out "
               "dry=yes, or measure it by weir bench train");
    else if (f->net.varies && !f->net.costs && !f->set->profile)
        REFUSE(v, NET,
               "draw and slow change what work costs, and nothing says what that is: give "
               "cost=TIME, or --profile FILE");
}

static void judge_exchange(const weir_facts *f, verdict *v)
{
    if (f->options.odd)
        REFUSE(v, EXCHANGE, "%s", f->options.odd);
}

/* Where nobody waits for all, a message is applied when it comes, by whoever gets it. */
static void judge_drift(const weir_facts *f, verdict *v)
{
    if (!f->exchange->drifts)
        return;
    if (!f->optim->bare)
        REFUSE(v, EXCHANGE | OPTIM,
               "messages are applied when they come, and this optimiser's step is more than a "
               "gradient times a rate: take sgd, or --exchange allreduce");
    else if (f->codec->rounds > 1)
        REFUSE(v, EXCHANGE | CODEC,
               "a message of this codec means something only when everybody's of that step are "
               "summed, and nobody waits for that here: take another codec, or --exchange "
               "allreduce");
    else if (f->momentum && f->feedback && f->feedback->residual && !f->feedback->correct)
        REFUSE(v, EXCHANGE | CODEC | OPTIM,
               "momentum stands before the codec here, and nowhere else: leave out the codec's "
               "correct=no, or take momentum=0");
}

/* A codec that is left open is measured and chosen by all workers together. */
static void judge_choice(const weir_facts *f, verdict *v)
{
    if (!f->codec->chooses)
        return;
    if (!f->exchange->chooses)
        REFUSE(v, EXCHANGE | CODEC,
               "a codec can be chosen only where all workers step together: name one");
    else if (f->options.levels)
        REFUSE(v, EXCHANGE | CODEC,
               "machines compress by one codec between them, and none is chosen there: name one");
    else if (f->net.dry && f->ranks > 1)
        REFUSE(v, NET | CODEC,
               "a choice is measured, and in a dry world no worker can tell another what it "
               "measured: name a codec");
}

static void judge_exact(const weir_facts *f, verdict *v)
{
    const weir_model_facts *m = &f->model;

    if (!f->set->exact)
        return;
    if (!f->codec->raw)
        REFUSE(v, EXACT | CODEC,
               "exact sums are of doubles, which no codec encodes: take --codec none");
    else if (f->exchange->drifts)
        REFUSE(v, EXACT | EXCHANGE,
               "exact sums are taken over all workers, and nobody waits for all here: take "
               "--exchange allreduce");
    else if (f->net.dry)
        REFUSE(v, EXACT | NET, "a dry world has no sums");
    else if (m->inexact)
        REFUSE(v, EXACT | MODEL, "layer %s has no exact sums, as no %s layer has", m->inexact,
               m->inexact_kind);
    else if (m->mixes && f->ranks > 1)
        REFUSE(v, EXACT | MODEL,
               "layer %s looks at the samples of one worker only: exact sums over several need its "
               "sync=yes",
               m->mixes);
}

/* ---- the sentence ---- */

static weir_err tell(const weir_facts *f, const verdict *v)
{
    const struct {
        unsigned option;
        const char *name, *value;
    } named[] = {{EXCHANGE, "exchange", f->set->exchange},
                 {CODEC, "codec", f->set->codec},
                 {OPTIM, "optim", f->set->optim},
                 {NET, "net", f->set->net},
                 {EXACT, "exact", "yes"},
                 {MODEL, "model", f->set->model}};
    char text[WEIR_WHY_MAX / 2];
    unsigned left = v->about;
    size_t n = 0;

    for (size_t i = 0; i < sizeof named / sizeof *named && n < sizeof text; i++) {
        if (!(v->about & named[i].option))
            continue;
        left &= ~named[i].option;
        n += (size_t)snprintf(text + n, sizeof text - n, "%s--%s %s",
                              !n     ? ""
                              : left ? ", "
                                     : " and ",
                              named[i].name, named[i].value);
    }
    return weir_fail(WEIR_MISFIT, "%s%s: %s", text,
                     v->about & (v->about - 1) ? " cannot work together" : "", v->why);
}

weir_err weir_refuse(const weir_facts *f)
{
    static void (*const judge[])(const weir_facts *, verdict *) = {judge_world, judge_exchange,
                                                                   judge_drift, judge_choice,
                                                                   judge_exact};
    verdict v = {0};

    for (size_t i = 0; i < sizeof judge / sizeof *judge; i++) {
        judge[i](f, &v);
        if (v.about)
            return tell(f, &v);
    }
    return WEIR_OK;
}
