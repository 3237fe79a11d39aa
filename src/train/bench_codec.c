/* bench_codec.c - how fast a codec reads gradients and adds messages, on one core, beside a copy of
 * the same memory. */
#include "codec/codec.h"
#include "core/json.h"
#include "core/rng.h"
#include "core/task.h"
#include "train/run.h"
#include <stdlib.h>
#include <string.h>

/* whole pages: what a lane holds back lies beside its gradient (core/arena.h) */
enum { ROUNDS = 20, WIDTH = 4096, POOL = 1 << 20, STRIDE = 49 * 1024 };

/* One codec, one bucket of a matrix (and a last, shorter row, where the floats do not come out
 * even), a fresh gradient a round: a window of a pool of normal numbers that moves on. */
typedef struct trial {
    const weir_codec *codec;
    void *self;
    weir_tensor tensor[2];
    weir_view view[2];
    weir_bucket bucket;
    weir_feed feed;
    float *pool, *held, *hold, *acc;
    char *msg;
    size_t len, sent, decoded; /* bytes of the last message; of all; of those decoded */
    /* seconds; to decode, a byte of the message: a sparse one's length varies from round to
     * round */
    double encode[ROUNDS], decode[ROUNDS], copy[ROUNDS];
} trial;

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *x)
{
    qsort(x, ROUNDS, sizeof *x, by_value);
    return x[ROUNDS / 2];
}

static void add_matrix(trial *t, const char *name, size_t rows, size_t cols)
{
    weir_bucket *b = &t->bucket;
    weir_tensor *tensor = &t->tensor[b->views];

    *tensor = (weir_tensor){.name = name,
                            .at = b->n,
                            .n = rows * cols,
                            .dims = 2,
                            .dim = {(int64_t)rows, (int64_t)cols}};
    t->view[b->views++] = (weir_view){.tensor = tensor, .at = b->n, .rows = rows, .cols = cols};
    b->n += rows * cols;
}

static weir_err open_trial(trial *t, const char *spec, size_t floats, weir_arena *arena)
{
    const weir_plug *plug;
    size_t cols = floats < WIDTH ? floats : WIDTH, n = floats;
    weir_rng r = weir_rng_at(1, WEIR_RNG_TEST, 0, 0);

    t->bucket.view = t->view;
    add_matrix(t, "w", floats / cols, cols);
    if (floats % cols)
        add_matrix(t, "rest", 1, floats % cols);
    WEIR_TRY(weir_plug_find(weir_codecs, "codec", spec, &plug));
    WEIR_TRY(weir_plug_make(plug, "codec", spec, arena, &t->self));
    t->codec = (const weir_codec *)plug;
    WEIR_TRY(t->codec->init(t->self, &t->bucket, arena));
    t->pool = WEIR_NEW(arena, float, n + POOL);
    t->held = weir_alloc_beside(arena, n * sizeof(float), t->pool);
    t->hold = weir_alloc_beside(arena, n * sizeof(float), t->pool);
    t->acc = WEIR_NEW(arena, float, n);
    t->msg = weir_alloc(arena, t->codec->bound(t->self));
    t->feed.tile = WEIR_NEW(arena, float, WEIR_FEED_TILE);
    if (!t->pool || !t->held || !t->hold || !t->acc || !t->msg || !t->feed.tile)
        return weir_fail_nomem(4 * n * sizeof(float));
    for (size_t i = 0; i < n + POOL; i++)
        t->pool[i] = weir_rng_normal(&r);
    for (size_t i = 0; i < n; i++) /* pages are there before anything is timed */
        t->hold[i] = t->acc[i] = 0;
    return WEIR_OK;
}

static weir_err step(trial *t, int round)
{
    weir_rt *rt = weir_rt_threads();
    size_t n = t->bucket.n;
    bool residual = !t->codec->raw && ((const weir_feedback *)t->self)->residual;
    weir_when when = {.step = (uint64_t)round, .epochs = 1e9};
    double begun;

    t->feed = (weir_feed){.n = n,
                          .bad = n,
                          .grad = t->pool + (size_t)round * STRIDE % POOL,
                          .scale = 1,
                          .held = residual ? t->held : NULL,
                          .hold = residual ? t->hold : NULL,
                          .key = 1,
                          .tile = t->feed.tile};
    begun = weir_now(rt);
    memcpy(t->acc, t->feed.grad, n * sizeof(float));
    t->copy[round] = weir_now(rt) - begun;
    t->encode[round] = 0;
    for (; when.round < t->codec->rounds; when.round++) {
        begun = weir_now(rt);
        WEIR_TRY(t->codec->encode(t->self, when, &t->feed, t->msg, &t->len));
        if (when.round + 1 < t->codec->rounds)
            WEIR_TRY(t->codec->absorb(t->self, when, t->msg, t->len));
        t->encode[round] += weir_now(rt) - begun;
        t->sent += t->len;
    }
    when.round--;
    begun = weir_now(rt);
    if (t->codec->take_sent && residual)
        t->codec->take_sent(t->self, t->hold);
    t->encode[round] += weir_now(rt) - begun;
    begun = weir_now(rt);
    WEIR_TRY(t->codec->decode(t->self, when, t->msg, t->len, t->acc));
    t->decode[round] = (weir_now(rt) - begun) / (double)t->len;
    t->decoded += t->len;
    if (t->codec->keep)
        t->codec->keep(t->self);
    float *old = t->held;
    t->held = t->hold;
    t->hold = old;
    return WEIR_OK;
}

static weir_err run_trial(trial *t, const char *spec, size_t floats, bool json, FILE *out,
                          weir_arena *arena)
{
    double bytes, e, d, c, ratio;
    char text[200];

    WEIR_TRY(open_trial(t, spec, floats, arena));
    for (int round = 0; round < ROUNDS; round++)
        WEIR_TRY(step(t, round));
    bytes = (double)t->bucket.n * sizeof(float) * 1e-9;
    e = bytes / median(t->encode), d = bytes / (median(t->decode) * (double)t->decoded / ROUNDS),
    c = bytes / median(t->copy);
    ratio = ROUNDS * bytes * 1e9 / (double)t->sent;
    weir_json *j = weir_json_object();
    if (!j)
        return weir_fail_nomem(0);
    weir_json_put_text(j, "bench", "codec");
    weir_json_put_text(j, "codec", spec);
    weir_json_put_int(j, "floats", (int64_t)t->bucket.n);
    weir_json_put_real(j, "encode_gb_per_s", e);
    weir_json_put_real(j, "decode_gb_per_s", d);
    weir_json_put_real(j, "copy_gb_per_s", c);
    weir_json_put_real(j, "ratio", ratio);
    snprintf(text, sizeof text,
             "%s, %zu floats: encode %.2f GB/s (%.2f x copy), decode %.2f GB/s (%.2f x), copy %.2f "
             "GB/s, ratio %.1f",
             spec, t->bucket.n, e, e / c, d, d / c, c, ratio);
    return weir_bench_print(out, j, json, text);
}

weir_err weir_bench_codec(const char *spec, size_t floats, bool json, FILE *out)
{
    weir_err err = WEIR_OK;

    if (!floats)
        return weir_fail(WEIR_USAGE, "--floats 0: there is nothing to encode");
    for (weir_plugs p = weir_codecs; *p && !err; p++) {
        weir_arena *arena = weir_arena_new();
        trial *t = arena ? WEIR_NEW(arena, trial, 1) : NULL;
        err = t ? run_trial(t, spec ? spec : (*p)->name, floats, json, out, arena)
                : weir_fail_nomem(sizeof *t);
        weir_arena_free(arena);
        if (spec)
            break;
    }
    return err;
}
