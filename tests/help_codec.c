/* help_codec.c - see help_codec.h. */
#include "help_codec.h"
#include "core/rng.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

void fill(float *x, size_t n, kind k, uint64_t seed)
{
    weir_rng r = weir_rng_at(seed, WEIR_RNG_TEST, k, 0);

    for (size_t i = 0; i < n; i++) {
        float z = weir_rng_normal(&r);
        x[i] = k == NORMAL     ? 0.01f * z
               : k == HEAVY    ? z * z * z * z * z
               : k == SPIKY    ? (i % 997 == 5 ? 100 * z : 1e-6f * z)
               : k == CONSTANT ? 0.5f
               : k == ZERO     ? 0
               : k == TINY     ? z * 1e-41f
                               : rintf(4 * z);
    }
}

coder_rig *coder_open(const char *spec, int views, const size_t (*shape)[2])
{
    static const char *const name[] = {"a", "b", "c", "d"};
    coder_rig *r = calloc(1, sizeof *r);
    const weir_plug *plug;

    r->arena = weir_arena_new();
    for (int v = 0; v < views; v++) {
        size_t n = shape[v][0] * shape[v][1];
        r->tensor[v] = (weir_tensor){
            name[v], r->bucket.n, n, 2, {(int64_t)shape[v][0], (int64_t)shape[v][1]}, true, v};
        r->view[v] = (weir_view){&r->tensor[v], r->bucket.n, shape[v][0], shape[v][1], 0};
        r->bucket.n += n;
    }
    r->bucket.view = r->view;
    r->bucket.views = views;
    assert_int_equal(weir_plug_find(weir_codecs, "codec", spec, &plug), WEIR_OK);
    r->codec = (const weir_codec *)plug;
    assert_int_equal(weir_plug_make(plug, "codec", spec, r->arena, &r->self), WEIR_OK);
    assert_int_equal(weir_plug_make(plug, "codec", spec, r->arena, &r->fresh), WEIR_OK);
    assert_int_equal(r->codec->init(r->self, &r->bucket, r->arena), WEIR_OK);
    assert_int_equal(r->codec->init(r->fresh, &r->bucket, r->arena), WEIR_OK);
    r->feedback = r->codec->raw ? NULL : r->self;
    r->grad = WEIR_NEW(r->arena, float, r->bucket.n);
    r->held = WEIR_NEW(r->arena, float, r->bucket.n);
    r->hold = WEIR_NEW(r->arena, float, r->bucket.n);
    r->value = WEIR_NEW(r->arena, float, r->bucket.n);
    r->before = WEIR_NEW(r->arena, float, r->bucket.n);
    r->msg = weir_alloc(r->arena, r->codec->bound(r->self) + 64);
    r->first = weir_alloc(r->arena, r->codec->bound(r->self) + 1);
    r->feed.tile = WEIR_NEW(r->arena, float, WEIR_FEED_TILE);
    r->when.epochs = 100; /* past any warm-up */
    return r;
}

void coder_close(coder_rig *r)
{
    weir_arena_free(r->arena);
    free(r);
}

weir_err coder_step(coder_rig *r, bool residual)
{
    size_t n = r->bucket.n;
    const unsigned char guard = 0xa5;

    r->feed = (weir_feed){.n = n,
                          .bad = n,
                          .grad = r->grad,
                          .scale = 1,
                          .held = residual ? r->held : NULL,
                          .hold = residual ? r->hold : NULL,
                          .key = 7,
                          .tile = r->feed.tile};
    for (size_t i = 0; i < n; i++)
        r->before[i] = residual ? r->held[i] + r->grad[i] : r->grad[i];
    for (r->when.round = 0; r->when.round < r->codec->rounds; r->when.round++) {
        size_t bound = r->codec->bound(r->self);
        memset(r->msg + bound, guard, 64);
        WEIR_TRY(r->coded = r->codec->encode(r->self, r->when, &r->feed, r->msg, &r->len));
        assert_true(r->len <= bound);
        for (int i = 0; i < 64; i++)
            assert_int_equal(r->msg[bound + (size_t)i], guard);
        if (r->when.round == 0)
            memcpy(r->first, r->msg, r->first_len = r->len);
        if (r->when.round + 1 < r->codec->rounds)
            WEIR_TRY(r->codec->absorb(r->self, r->when, r->msg, r->len));
    }
    r->when.round--;
    if (r->codec->take_sent && residual)
        r->codec->take_sent(r->self, r->hold);
    memset(r->value, 0, n * sizeof(float));
    return r->codec->decode(r->self, r->when, r->msg, r->len, r->value);
}

void coder_commit(coder_rig *r)
{
    float *old = r->held;

    if (r->codec->keep)
        r->codec->keep(r->self);
    r->held = r->hold;
    r->hold = old;
    r->when.step++;
}

const char *const codec_specs[] = {"none",
                                   "half:residual=yes",
                                   "half:bf16,residual=yes",
                                   "int8:residual=yes",
                                   "onebit",
                                   "sign",
                                   "strom",
                                   "strom:density=0.001",
                                   "strom:pack=none",
                                   "strom:quanta=5",
                                   "strom:tau=0.02",
                                   "strom:per=bucket",
                                   "strom:tau=1e-9",
                                   "topk",
                                   "topk:select=exact",
                                   "topk:select=hierarchical,rice=no",
                                   "topk:density=1",
                                   "dgc",
                                   "redsync",
                                   "redsync:quantise=no",
                                   "redsync:quantise=no,select=search",
                                   "redsync:select=search",
                                   "redsync:error=drop",
                                   "qsgd:residual=yes",
                                   "qsgd:levels=100",
                                   "terngrad:residual=yes",
                                   "powersgd",
                                   "powersgd:5",
                                   "powersgd:1000",
                                   "auto",
                                   "auto:among=[half:bf16,residual=yes+topk]",
                                   NULL};

static const size_t four[][2] = {{64, 50}, {300, 7}, {1, 5000}, {1, 1}};
const bucket_shape usual_bucket = {4, four};

static const size_t none[][2] = {{0, 0}}, one[][2] = {{1, 1}}, rows[][2] = {{0, 7}, {0, 300}},
                    beside[][2] = {{0, 5}, {20, 30}, {0, 1}, {1, 1}};
const bucket_shape few_elements[FEW] = {{0, none}, {1, none}, {1, one}, {2, rows}, {4, beside}};
