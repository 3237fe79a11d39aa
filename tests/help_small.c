/* help_small.c - see help_small.h. */
#include "help_small.h"
#include "exchange/buckets.h"
#include "train/refuse.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static const char OPTIM[] = "sgd:momentum=0.9";

const char *small_run(int size, weir_err (*fn)(weir_net *, void *), void *arg)
{
    static char text[600];
    ranks r = {.size = size, .timeout = 10, .stall = 60, .fn = fn, .arg = arg};

    ranks_run(&r);
    text[0] = 0;
    for (int lost = 0; lost < 2; lost++)
        for (int i = 0; i < size && !text[0]; i++)
            if (r.err[i] && (r.err[i] == WEIR_LOST) == lost)
                snprintf(text, sizeof text, "rank %d: %s", i, r.why[i]);
    return text;
}

const weir_exchange *small_exchange(const char *spec)
{
    const weir_plug *plug;

    return weir_plug_find(weir_exchanges, "exchange", spec, &plug) ? NULL
                                                                   : (const weir_exchange *)plug;
}

bool small_fits(const char *exchange, const char *codec)
{
    weir_settings set = {.exchange = exchange, .codec = codec, .optim = OPTIM, .net = "sim"};
    weir_arena *a = weir_arena_new();
    weir_facts facts;

    assert_int_equal(weir_facts_read(&set, a, &facts), WEIR_OK);
    facts.ranks = 2;
    bool refused = weir_refuse(&facts);
    weir_arena_free(a);
    return !refused;
}

uint64_t small_fold(const float *x, size_t n)
{
    uint64_t h = 14695981039346656037ull;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], 4);
        h = (h ^ bits) * 1099511628211ull;
    }
    return h;
}

weir_err small_make(small *s, const char *codec, const char *exchange, weir_group *g,
                    weir_coll_use *coll, weir_arena *a, const weir_exchange *x, void **self)
{
    weir_bucket *b;

    s->t[0] = (weir_tensor){"w", 0, SMALL_V, 2, {SMALL_V / 100, 100}, true, 0};
    s->t[1] = (weir_tensor){
        "v", SMALL_V, SMALL_N - 100 - SMALL_V, 2, {(SMALL_N - 100 - SMALL_V) / 100, 100}, true, 0};
    s->t[2] = (weir_tensor){"b", SMALL_N - 100, 100, 1, {100}, false, 0};
    for (int i = 0; i < SMALL_N; i++)
        s->param[i] = (float)(i % 31) / 31;
    WEIR_TRY(weir_buckets_cut(&(weir_flat){s->t, 3, s->param, s->grad},
                              &(weir_cut_rules){.bytes = 32768, .small = WEIR_SMALL}, a, &b,
                              &s->lanes));
    WEIR_TRY(weir_lanes_make(b, s->lanes, codec, s->plain ? "sgd" : OPTIM, a, &s->lane));
    s->lane[s->lanes - 1].notes = WEIR_EXCHANGE_NOTES;
    WEIR_TRY(weir_plug_make(&x->plug, "exchange", exchange, a, self));
    return x->init(*self, &(weir_exchange_env){g, g, coll, s->lane, s->lanes, a, a});
}

void small_gradient(small *s, int member, uint64_t step)
{
    for (int i = 0; i < SMALL_N + WEIR_EXCHANGE_NOTES; i++)
        s->grad[i] = (float)((i * 3 + member * 5 + (int)step) % 17) / 17 - 0.4f;
    for (int i = 0; i < SMALL_N && s->heavy; i++) /* few have nearly all: thresholds are lifted */
        s->grad[i] *=
            1e-2f / powf((float)((i * 7919 + member * 31 + (int)step * 13) % 9973 + 1) / 9973, 2);
}

weir_err small_step(small *s, const weir_exchange *x, void *self, int member, uint64_t step,
                    int die_before)
{
    /* past any warm-up, unless early */
    weir_commit c = {.when = {.step = step, .epochs = s->early ? 0 : 100},
                     .rate = 0.1,
                     .keep = true};

    small_gradient(s, member, step);
    for (int i = 0; i < s->lanes; i++) {
        if (i == die_before)
            return WEIR_FAILED;
        WEIR_TRY(x->bucket(self, &s->lane[i], c.when));
    }
    return x->finish(self, &c);
}

small_hash small_note(const small *s)
{
    small_hash h = {.param = small_fold(s->param, SMALL_N)};

    for (int i = 0; i < s->lanes; i++) {
        const weir_lane *l = &s->lane[i];
        const weir_stripes *stripes = &l->codec->stripes;
        const float *all[] = {l->held.now, l->speed.now};
        for (int k = 0; k < 2; k++)
            h.held = h.held * 31 + (all[k] ? small_fold(all[k], l->bucket->n) : 0);
        h.held = h.held * 31 + (stripes->owned.now ? small_fold(stripes->owned.now,
                                                                weir_stripes_own(stripes)->bucket.n)
                                                   : 0);
    }
    return h;
}

typedef struct hasher {
    weir_io io;
    uint64_t hash;
} hasher; /* io first */

static weir_err hash_range(weir_io *io, const char *name, const weir_io_piece *piece)
{
    hasher *h = (hasher *)io;

    (void)name;
    h->hash = h->hash * 31 + small_fold(piece->x, piece->n);
    return WEIR_OK;
}

static weir_err hash_u64(weir_io *io, const char *name, uint64_t *x, size_t n, weir_keep keep)
{
    (void)name, (void)keep;
    for (size_t i = 0; i < n; i++)
        ((hasher *)io)->hash = ((hasher *)io)->hash * 31 + x[i];
    return WEIR_OK;
}

small_hash small_note_all(const small *s)
{
    hasher io = {.io = {.range = hash_range, .u64 = hash_u64}};
    small_hash h = small_note(s);

    for (int i = 0; i < s->lanes; i++)
        if (weir_lane_state(&s->lane[i], &io.io))
            io.hash = 0;
    h.held = h.held * 31 + io.hash;
    return h;
}
