/* The laws of codec/, over every codec in the list. */
#include "codec/codec.h"
#include "codec/message.h"
#include "core/rng.h"
#include "core/vec.h"
#include "help_vectors.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* ---- one worker's codec on one bucket ---- */

enum { MOST_VIEWS = 4, MOST = 60000 };

typedef struct rig {
    weir_arena *arena;
    const weir_codec *codec;
    const weir_feedback *feedback;
    void *self, *fresh;
    weir_tensor tensor[MOST_VIEWS];
    weir_view view[MOST_VIEWS];
    weir_bucket bucket;
    weir_feed feed;
    float *held, *hold, *grad, *value, *before;
    unsigned char *msg, *first;
    size_t len, first_len; /* of the last round, and of the first */
    weir_turn turn;
} rig;

static rig *rig_open(const char *spec, int views, const size_t (*shape)[2])
{
    static const char *const name[] = {"a", "b", "c", "d"};
    rig *r = calloc(1, sizeof *r);
    const weir_plug *plug;

    r->arena = weir_arena_new();
    for (int v = 0; v < views; v++) {
        size_t n = shape[v][0] * shape[v][1];
        r->tensor[v] = (weir_tensor){name[v], r->bucket.n, n, 2, {(int64_t)shape[v][0], (int64_t)shape[v][1]}, true, v};
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
    r->feed.tile = WEIR_NEW(r->arena, float, WEIR_TILE);
    r->turn.epochs = 100; /* past any warm-up */
    return r;
}

static void rig_close(rig *r)
{
    weir_arena_free(r->arena);
    free(r);
}

/* All rounds of one step of a group of one; its value is in r->value, what is held back in r->hold. */
static weir_err rig_step(rig *r, bool residual)
{
    size_t n = r->bucket.n;
    const unsigned char guard = 0xa5;

    r->feed = (weir_feed){.n = n, .bad = n, .grad = r->grad, .scale = 1, .held = residual ? r->held : NULL, .hold = residual ? r->hold : NULL,
                          .key = 7, .tile = r->feed.tile};
    for (size_t i = 0; i < n; i++)
        r->before[i] = residual ? r->held[i] + r->grad[i] : r->grad[i];
    for (r->turn.round = 0; r->turn.round < r->codec->rounds; r->turn.round++) {
        size_t bound = r->codec->bound(r->self);
        memset(r->msg + bound, guard, 64);
        WEIR_TRY(r->codec->encode(r->self, r->turn, &r->feed, r->msg, &r->len));
        assert_true(r->len <= bound);
        for (int i = 0; i < 64; i++)
            assert_int_equal(r->msg[bound + (size_t)i], guard);
        if (r->turn.round == 0)
            memcpy(r->first, r->msg, r->first_len = r->len);
        if (r->turn.round + 1 < r->codec->rounds)
            WEIR_TRY(r->codec->absorb(r->self, r->turn, r->msg, r->len));
    }
    r->turn.round--;
    if (r->codec->settle && residual)
        r->codec->settle(r->self, r->hold);
    memset(r->value, 0, n * sizeof(float));
    return r->codec->decode(r->self, r->turn, r->msg, r->len, r->value);
}

static void rig_commit(rig *r)
{
    float *old = r->held;

    if (r->codec->keep)
        r->codec->keep(r->self);
    r->held = r->hold;
    r->hold = old;
    r->turn.step++;
}

static const size_t shapes[][2] = {{64, 50}, {300, 7}, {1, 5000}, {1, 1}};

static const char *const specs[] = {
    "none", "half:residual=yes", "half:bf16,residual=yes", "int8:residual=yes", "onebit", "sign", "strom", "strom:density=0.001", "strom:pack=none", "strom:quanta=5", "strom:tau=0.02", "strom:per=bucket",
    "strom:tau=1e-9", "topk", "topk:select=exact", "topk:select=hierarchical,rice=no", "topk:density=1", "dgc", "redsync", "redsync:quantise=no", "redsync:quantise=no,select=search", "redsync:select=search",
    "redsync:error=drop", "qsgd:residual=yes", "qsgd:levels=100", "terngrad:residual=yes", "powersgd", "powersgd:5", "powersgd:1000", "auto",
    "auto:among=[half:bf16,residual=yes+topk]", NULL};

/* Every codec there is has a row above. */
static void all_are_tried(void **state)
{
    (void)state;
    for (weir_plugs p = weir_codecs; *p; p++) {
        bool found = false;
        for (const char *const *s = specs; *s; s++)
            found |= !strncmp(*s, (*p)->name, strlen((*p)->name));
        if (!found)
            fail_msg("the codec %s has no row in specs", (*p)->name);
    }
}

static void check_fresh(const char *spec, kind k, int views, const size_t (*shape)[2]);

/* ---- conservation ---- */

/* sent + held back = what was given, for many steps; and for the sum over all of them. */
static void check_conserved(const char *spec, kind k, int views, const size_t (*shape)[2])
{
    rig *r = rig_open(spec, views, shape);
    size_t n = r->bucket.n;
    double *given = calloc(n, sizeof *given), *sent = calloc(n, sizeof *sent);
    bool drops = strstr(spec, "drop") != NULL, mixes = r->codec->rounds > 1; /* mixes: an element's error is of the size of others */

    for (int step = 0; step < 12; step++) {
        double most = 0;
        fill(r->grad, n, k, (uint64_t)step);
        assert_int_equal(rig_step(r, true), WEIR_OK);
        assert_int_equal(r->feed.bad, n);
        for (size_t i = 0; i < n; i++)
            most = fmax(most, fabs((double)r->before[i]));
        for (size_t i = 0; i < n; i++) {
            double lost = (double)r->before[i] - (double)r->value[i] - (double)r->hold[i];
            given[i] += (double)r->grad[i];
            sent[i] += (double)r->value[i];
            if (!drops && !(fabs(lost) <= (mixes ? 2e-6 * most : 5e-7 * (fabs((double)r->before[i]) + fabs((double)r->value[i])))))
                fail_msg("%s, kind %d, step %d, element %zu: %g became %g and %g", spec, k, step, i, (double)r->before[i], (double)r->value[i], (double)r->hold[i]);
        }
        rig_commit(r);
        for (size_t i = 0; i < n && !drops; i++)
            if (!(fabs(given[i] - sent[i] - (double)r->held[i]) <= 1e-4 * (most + fabs(given[i]))))
                fail_msg("%s, kind %d, element %zu: given %g, sent %g, held back %g", spec, k, i, given[i], sent[i], (double)r->held[i]);
    }
    free(given);
    free(sent);
    rig_close(r);
}

static void conservation(void **state)
{
    (void)state;
    for (const char *const *s = specs; *s; s++)
        for (kind k = 0; k < KINDS; k++)
            if (strcmp(*s, "none"))
                check_conserved(*s, k, 4, shapes);
}

/* Buckets of nothing and of one element, tensors of nothing beside others: as any other, and another instance reads them. */
static void smallest(void **state)
{
    static const size_t none[][2] = {{0, 0}}, one[][2] = {{1, 1}}, rows[][2] = {{0, 7}, {0, 300}}, beside[][2] = {{0, 5}, {20, 30}, {0, 1}, {1, 1}};
    static const struct { int views; const size_t (*shape)[2]; } few[] = {{0, none}, {1, none}, {1, one}, {2, rows}, {4, beside}};

    (void)state;
    for (const char *const *s = specs; *s; s++)
        for (size_t f = 0; f < sizeof few / sizeof *few; f++) {
            for (kind k = 0; k < KINDS && strcmp(*s, "none"); k++)
                check_conserved(*s, k, few[f].views, few[f].shape);
            check_fresh(*s, NORMAL, few[f].views, few[f].shape);
        }
}

/* Bit for bit, where whole numbers in floats are all there is. */
static void whole_numbers(void **state)
{
    static const char *const exact[] = {"half:residual=yes", "half:bf16,residual=yes", "topk", "topk:select=exact", "topk:select=hierarchical,rice=no", "topk:density=1", "dgc", "redsync:quantise=no",
                                        "redsync:quantise=no,select=search", "powersgd:1000", "auto:among=topk", "strom:tau=2", "strom:tau=2,quanta=7", "strom:tau=1,pack=none", NULL};

    (void)state;
    for (const char *const *s = exact; *s; s++) {
        rig *r = rig_open(*s, 4, shapes);
        for (int step = 0; step < 10; step++) {
            fill(r->grad, r->bucket.n, WHOLE, (uint64_t)step);
            assert_int_equal(rig_step(r, true), WEIR_OK);
            for (size_t i = 0; i < r->bucket.n; i++)
                assert_true(r->before[i] == r->value[i] + r->hold[i]);
            rig_commit(r);
        }
        rig_close(r);
    }
}

/* ---- messages ---- */

static void check_fresh(const char *spec, kind k, int views, const size_t (*shape)[2])
{
    rig *r = rig_open(spec, views, shape);
    float *again = calloc(r->bucket.n + 1, sizeof *again);

    for (int step = 0; step < 3; step++) {
        fill(r->grad, r->bucket.n, k, (uint64_t)step);
        assert_int_equal(rig_step(r, true), WEIR_OK);
        memset(again, 0, r->bucket.n * sizeof *again);
        if (r->codec->absorb) /* it has heard the first round, as all have */
            assert_int_equal(r->codec->absorb(r->fresh, (weir_turn){.step = r->turn.step, .epochs = 100}, r->first, r->first_len), WEIR_OK);
        assert_int_equal(r->codec->decode(r->fresh, r->turn, r->msg, r->len, again), WEIR_OK);
        assert_memory_equal(again, r->value, r->bucket.n * sizeof *again);
        rig_commit(r);
    }
    free(again);
    rig_close(r);
}

static void fresh_instance(void **state)
{
    (void)state;
    for (const char *const *s = specs; *s; s++)
        for (kind k = 0; k < KINDS; k++)
            check_fresh(*s, k, 4, shapes);
}

/* Refused, and nothing is added. */
static void check_refused(rig *r, const unsigned char *msg, size_t len)
{
    memset(r->value, 0, r->bucket.n * sizeof(float));
    assert_int_equal(r->codec->decode(r->fresh, r->turn, msg, len, r->value), WEIR_INVALID);
    for (size_t i = 0; i < r->bucket.n; i++)
        assert_true(r->value[i] == 0);
}

static void flipped_heads(void **state)
{
    (void)state;
    for (const char *const *s = specs; *s; s++) {
        rig *r = rig_open(*s, 4, shapes);
        bool bare = r->codec->combine == WEIR_COMBINE_ADD; /* sums have no head */
        fill(r->grad, r->bucket.n, NORMAL, 1);
        assert_int_equal(rig_step(r, true), WEIR_OK);
        for (int bit = 0; bit < 8 * WEIR_MESSAGE_HEAD && !bare; bit++) {
            r->msg[bit / 8] ^= (unsigned char)(1 << bit % 8);
            check_refused(r, r->msg, r->len);
            r->msg[bit / 8] ^= (unsigned char)(1 << bit % 8);
        }
        for (size_t cut = 0; cut < r->len; cut += 1 + cut / 3)
            check_refused(r, r->msg, cut);
        for (size_t cut = 0; cut < r->first_len && r->codec->absorb; cut += 1 + cut / 3)
            assert_int_equal(r->codec->absorb(r->fresh, (weir_turn){0}, r->first, cut), WEIR_INVALID);
        rig_close(r);
    }
}

/* What docs/WIRE.md says they have. */
static void wire_bytes(void **state)
{
    static const size_t one[][2] = {{100, 300}};
    static const struct { const char *spec; size_t bytes; } row[] = {
        {"none", 4 * 30000}, {"half", 16 + 7 * (4 + 8192) + 4 + 2 * (30000 - 7 * 4096)}, {"half:bf16", 16 + 7 * (4 + 8192) + 4 + 2 * (30000 - 7 * 4096)}, {"int8", 16 + 117 * 260 + 4 + 48}, {"onebit", 16 + 100 * (8 + 40)}, {"sign", 16 + 4 + 3752},
        {"qsgd", 16 + 234 * (4 + 80) + 4 + 32}, {"qsgd:levels=1", 16 + 234 * (4 + 32) + 4 + 12}, {"qsgd:levels=100", 16 + 234 * (4 + 128) + 4 + 48}, {"terngrad", 16 + 4 + 7500}, {"topk:select=exact,rice=no", 16 + 16 + 300 * 8}, {"redsync:select=trimmed,rice=no,density=0.01", 16 + 16 + 300 * 4},
        {"redsync:select=trimmed,rice=no,quantise=no", 16 + 16 + 30 * 8}, {"dgc:select=exact,rice=no", 16 + 16 + 30 * 8},
        {"strom:tau=1e-9", 16 + 16 + 7500}, {"strom:tau=1e-9,quanta=5", 16 + 16 + 15000}, {"strom:tau=1e-9,quanta=9", 16 + 16 + 30000}, {"powersgd", 4 * 2 * 300}};

    (void)state;
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        rig *r = rig_open(row[k].spec, 1, one);
        fill(r->grad, r->bucket.n, NORMAL, 1);
        assert_int_equal(rig_step(r, true), WEIR_OK);
        if (r->len != row[k].bytes)
            fail_msg("%s: %zu bytes, %zu by the formula", row[k].spec, r->len, row[k].bytes);
        if (r->codec->rounds > 1)
            assert_int_equal(r->first_len, 4 * 2 * 100);
        rig_close(r);
    }
}

/* Of several tensors in a bucket: {64, 50}, {300, 7}, {1, 5000}, {1, 1}. */
static void wire_bytes_of_many(void **state)
{
    static const struct { const char *spec; size_t first, bytes; } row[] = {
        {"none", 0, 4 * 10301}, {"half", 0, 16 + 3 * 4 + 2 * 10301 + 2}, {"int8", 0, 16 + 41 * 4 + 10301 + 3}, {"onebit", 0, 16 + 64 * (8 + 8) + 300 * (8 + 4) + 8 + 628 + 8 + 4},
        {"sign", 0, 16 + 4 + 400 + 4 + 264 + 4 + 628 + 4 + 4}, {"qsgd", 0, 16 + 80 * (4 + 80) + 4 + 40}, {"terngrad", 0, 16 + 4 + 800 + 4 + 528 + 4 + 1252 + 4 + 4},
        {"powersgd", 4 * (2 * 64 + 2 * 300 + 5000 + 1), 4 * (2 * 50 + 2 * 7)}};

    (void)state;
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        rig *r = rig_open(row[k].spec, 4, shapes);
        fill(r->grad, r->bucket.n, NORMAL, 1);
        assert_int_equal(rig_step(r, true), WEIR_OK);
        if (r->len != row[k].bytes || (row[k].first && r->first_len != row[k].first))
            fail_msg("%s: %zu and %zu bytes, %zu and %zu by the formula", row[k].spec, r->first_len, r->len, row[k].first, row[k].bytes);
        rig_close(r);
    }
}

/* The bits that the words of a part take by Golomb and Rice, counted from what came out. */
static size_t rice_bytes(const float *x, size_t n, unsigned b)
{
    size_t bits = 0, before = 0;

    for (size_t i = 0; i < n; i++)
        if (x[i] != 0) {
            bits += ((i - before) >> b) + 1 + b + 1;
            before = i;
        }
    return (bits + 31) / 32 * 4;
}

/* Messages of single elements: rows and parts as docs/WIRE.md has them; how long each is follows from what it says, and what it says from what came out. */
static void wire_bytes_of_places(void **state)
{
    static const char *const sparse[] = {"strom", "strom:pack=none", "strom:density=0.001", "strom:tau=1e-9", "topk", "topk:select=exact", "topk:rice=no", "dgc", "redsync", "redsync:quantise=no", "redsync:rice=no"};

    (void)state;
    for (size_t k = 0; k < sizeof sparse / sizeof *sparse; k++) {
        rig *r = rig_open(sparse[k], 4, shapes);
        size_t all = 16 + 4 * 16;
        fill(r->grad, r->bucket.n, NORMAL, 1);
        assert_int_equal(rig_step(r, true), WEIR_OK);
        for (int v = 0; v < 4; v++) {
            struct { float value; uint32_t words; uint8_t how, bits; uint16_t valued; uint32_t bytes; } row;
            const weir_view *w = &r->view[v];
            size_t n = w->rows * w->cols, words = 0, want;
            memcpy(&row, r->msg + 16 + 16 * v, 16);
            for (size_t i = 0; i < n; i++)
                words += r->value[w->at + i] != 0;
            want = row.how == 0 ? 4 * words : row.how == 1 ? rice_bytes(r->value + w->at, n, row.bits) : (n * row.bits + 31) / 32 * 4;
            want += row.valued ? 4 * words : 0;
            if (row.words != words || row.bytes != want || row.how > 2 || (row.how == 1 && strstr(sparse[k], "=no") && !strstr(sparse[k], "quantise")))
                fail_msg("%s, tensor %d: %u words in %u bytes, %zu in %zu by the formula", sparse[k], v, row.words, row.bytes, words, want);
            all += row.bytes;
        }
        assert_int_equal(r->len, all);
        rig_close(r);
    }
}

/* ---- gradients that are not finite ---- */

static void not_finite(void **state)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};

    (void)state;
    for (const char *const *s = specs; *s; s++)
        for (int k = 0; k < 3; k++) {
            rig *r = rig_open(*s, 4, shapes);
            fill(r->grad, r->bucket.n, NORMAL, 1);
            r->grad[3300] = bad[k]; /* in "b" */
            rig_step(r, true);
            if (!r->codec->raw)
                assert_true(r->feed.bad <= 3300 && r->feed.bad + WEIR_TILE > 3300);
            rig_close(r);
        }
}

/* However many there are, and wherever: a message stays within its bound (rig_step looks). */
static void many_not_finite(void **state)
{
    static const size_t one[][2] = {{120, 400}};

    (void)state;
    for (const char *const *s = specs; *s; s++)
        for (size_t every = 1; every < 300; every = every * 3 / 2 + 1)
            for (int rows = 0; rows < 2; rows++) {
                rig *r = rig_open(*s, 1, one);
                fill(r->grad, r->bucket.n, every % 3 ? NORMAL : HEAVY, every);
                for (size_t i = 0; i < r->bucket.n; i++)
                    if (rows ? i / every % 2 : i % every == 0)
                        r->grad[i] = every % 2 && i % 3 == 0 ? INFINITY : NAN;
                rig_step(r, true);
                rig_close(r);
            }
}

/* ---- laws of some ---- */

static void off_is_dense(void **state)
{
    static const char *const off[] = {"none", "topk:density=1", "topk:density=1,select=exact", "topk:density=1,select=hierarchical", "dgc:density=1", "redsync:density=1,quantise=no,select=trimmed",
                                      "redsync:density=1,quantise=no,select=search", "powersgd:64"};

    (void)state;
    for (size_t k = 0; k < sizeof off / sizeof *off; k++) {
        rig *r = rig_open(off[k], 2, shapes);
        fill(r->grad, r->bucket.n, NORMAL, 3);
        assert_int_equal(rig_step(r, true), WEIR_OK);
        assert_memory_equal(r->value, r->before, r->bucket.n * sizeof(float));
        rig_close(r);
    }
}

static void unbiased(void **state)
{
    static const char *const drawn[] = {"qsgd", "qsgd:levels=1", "terngrad:clip=0"};
    static const size_t one[][2] = {{1, 40}};
    enum { DRAWS = 100000 };

    (void)state;
    for (size_t k = 0; k < sizeof drawn / sizeof *drawn; k++) {
        rig *r = rig_open(drawn[k], 1, one);
        double sum[40] = {0}, square[40] = {0};
        fill(r->value, 40, NORMAL, 5);
        float x[40];
        memcpy(x, r->value, sizeof x);
        for (int d = 0; d < DRAWS; d++) {
            memcpy(r->grad, x, sizeof x);
            r->turn.step = (uint64_t)d;
            assert_int_equal(rig_step(r, false), WEIR_OK);
            for (int i = 0; i < 40; i++)
                sum[i] += (double)r->value[i], square[i] += (double)r->value[i] * (double)r->value[i];
        }
        for (int i = 0; i < 40; i++) {
            double mean = sum[i] / DRAWS, deviation = sqrt(fmax(0, square[i] / DRAWS - mean * mean) / DRAWS);
            if (fabs(mean - (double)x[i]) > 5 * deviation + 1e-8)
                fail_msg("%s: the mean of element %d is %g, not %g (deviation %g)", drawn[k], i, mean, (double)x[i], deviation);
        }
        rig_close(r);
    }
}

/* grad = the sum of the first `rank` products of a column and a row. */
static void make_low_rank(rig *r, int rank)
{
    float u[3][120], v[3][80];

    fill(&u[0][0], 360, NORMAL, 1);
    fill(&v[0][0], 240, HEAVY, 2);
    memset(r->grad, 0, r->bucket.n * sizeof(float));
    for (size_t i = 0; i < 120; i++)
        for (size_t j = 0; j < 80; j++)
            for (int k = 0; k < rank; k++)
                r->grad[i * 80 + j] += u[k][i] * v[k][j];
}

/* What has no more rank than the messages arrives whole, whatever the steps before were: nothing, or something of a lower rank. */
static void low_rank(void **state)
{
    static const size_t one[][2] = {{120, 80}};
    rig *r = rig_open("powersgd:3", 1, one);

    (void)state;
    for (int rank = 0; rank <= 3; rank++) {
        double off = 0, norm = 0;
        make_low_rank(r, rank);
        assert_int_equal(rig_step(r, true), WEIR_OK);
        for (size_t i = 0; i < r->bucket.n; i++) {
            off += pow((double)r->value[i] - (double)r->before[i], 2);
            norm += pow((double)r->before[i], 2);
        }
        assert_true(off <= 1e-10 * norm);
        rig_commit(r);
    }
    rig_close(r);
}

static size_t sent(const rig *r)
{
    size_t k = 0;

    for (size_t i = 0; i < r->bucket.n; i++)
        k += r->value[i] != 0;
    return k;
}

/* k = 200 of 20,000. */
static void selection_sizes(void **state)
{
    static const size_t one[][2] = {{10, 2000}};
    static const struct { const char *spec; size_t least, most; } row[] = {
        {"topk:density=0.01", 60, 400}, {"topk:density=0.01,select=exact", 200, 200}, {"dgc:density=0.01", 60, 266}, {"topk:density=0.01,select=hierarchical", 60, 266},
        {"redsync:density=0.01,quantise=no,select=trimmed", 200, 200}, {"redsync:density=0.01,quantise=no,select=search", 200, 400},
        {"redsync:density=0.01,select=trimmed", 200, 200}, {"redsync:density=0.01,select=search", 200, 400}};

    (void)state;
    for (size_t k = 0; k < sizeof row / sizeof *row; k++)
        for (kind g = NORMAL; g <= CONSTANT; g++) {
            rig *r = rig_open(row[k].spec, 1, one);
            fill(r->grad, r->bucket.n, g, 9);
            assert_int_equal(rig_step(r, true), WEIR_OK);
            size_t n = sent(r), least = row[k].least, most = row[k].most;
            if (g == SPIKY && least < 200) /* few that matter: a sample may see none of them */
                least = 5;
            if (n < least || n > most)
                fail_msg("%s, kind %d: %zu sent, %zu to %zu were expected", row[k].spec, g, n, least, most);
            rig_close(r);
        }
}

/* Whatever earlier steps left: never more than twice what is aimed at, of trimmed selection just so many; quantised, both sides in turn. */
static void selection_sizes_later(void **state)
{
    static const size_t one[][2] = {{10, 2000}};
    static const struct { const char *spec; size_t least, most; } row[] = {
        {"topk:density=0.01,select=exact", 200, 200}, {"topk:density=0.01", 1, 400}, {"dgc:density=0.01", 1, 266}, {"redsync:density=0.01,quantise=no,select=trimmed", 200, 200},
        {"redsync:density=0.01,select=trimmed", 200, 200}, {"redsync:density=0.01,quantise=no,select=search", 1, 400}, {"redsync:density=0.01,select=search", 200, 400}};

    (void)state;
    for (size_t k = 0; k < sizeof row / sizeof *row; k++)
        for (kind g = NORMAL; g < CONSTANT; g++) {
            rig *r = rig_open(row[k].spec, 1, one);
            for (int step = 0; step < 12; step++) {
                fill(r->grad, r->bucket.n, g, (uint64_t)step);
                assert_int_equal(rig_step(r, true), WEIR_OK);
                size_t n = sent(r);
                if (n < row[k].least || n > row[k].most)
                    fail_msg("%s, kind %d, step %d: %zu sent, %zu to %zu were expected", row[k].spec, g, step, n, row[k].least, row[k].most);
                rig_commit(r);
            }
            rig_close(r);
        }
}

/* What is sent by an exact selection is never smaller than what stays. */
static void largest_are_sent(void **state)
{
    static const char *const spec[] = {"topk:select=exact,density=0.02", "redsync:quantise=no,select=trimmed,density=0.02", "redsync:quantise=no,select=search,density=0.02"};

    (void)state;
    for (size_t k = 0; k < sizeof spec / sizeof *spec; k++) {
        static const size_t one[][2] = {{10, 2000}};
        rig *r = rig_open(spec[k], 1, one);
        float least = INFINITY, left = 0;
        fill(r->grad, r->bucket.n, HEAVY, 4);
        assert_int_equal(rig_step(r, true), WEIR_OK);
        for (size_t i = 0; i < r->bucket.n; i++)
            if (r->value[i] != 0)
                least = fminf(least, fabsf(r->value[i]));
            else
                left = fmaxf(left, fabsf(r->hold[i]));
        assert_true(least >= left);
        rig_close(r);
    }
}

/* The density that strom follows is met within a few steps, for gradients of any size. */
static void strom_follows(void **state)
{
    static const size_t one[][2] = {{100, 600}};

    (void)state;
    for (int e = -6; e <= 3; e += 3) {
        rig *r = rig_open("strom:density=0.01", 1, one);
        double share = 0;
        for (int step = 0; step < 200; step++) {
            fill(r->grad, r->bucket.n, NORMAL, (uint64_t)step);
            weir_vec_best()->scale(r->grad, powf(10, (float)e) * (step > 60 ? 0.1f : 1), r->bucket.n);
            assert_int_equal(rig_step(r, true), WEIR_OK);
            share += step >= 150 ? (double)sent(r) / (double)r->bucket.n / 50 : 0;
            rig_commit(r);
        }
        if (share < 0.005 || share > 0.02)
            fail_msg("gradients of 1e%d: density %g", e, share);
        rig_close(r);
    }
}

/* Two tensors, one with gradients a hundredth of the other's: each has the share that is aimed at, or one threshold holds the small ones back. */
static void strom_per(void **state)
{
    static const size_t two[][2] = {{100, 100}, {100, 100}};

    (void)state;
    for (int bucket = 0; bucket < 2; bucket++) {
        rig *r = rig_open(bucket ? "strom:density=0.01,per=bucket,ramp=0" : "strom:density=0.01,ramp=0", 2, two);
        size_t half = r->bucket.n / 2, of[2] = {0};
        fill(r->grad, r->bucket.n, NORMAL, 7);
        weir_vec_best()->scale(r->grad + half, 0.01f, half);
        assert_int_equal(rig_step(r, true), WEIR_OK);
        for (size_t i = 0; i < r->bucket.n; i++)
            of[i / half] += r->value[i] != 0;
        assert_true(bucket ? of[0] > 150 && of[0] < 260 && of[1] == 0 : of[0] > 60 && of[0] < 150 && of[1] > 60 && of[1] < 150);
        rig_close(r);
    }
}

/* ---- masking: what was sent begins anew ---- */

static void masks(void **state)
{
    static const char *const sparse[] = {"strom", "topk", "dgc", "redsync"};

    (void)state;
    for (size_t k = 0; k < sizeof sparse / sizeof *sparse; k++) {
        rig *r = rig_open(sparse[k], 4, shapes);
        size_t n = r->bucket.n;
        float *speed = calloc(n, sizeof *speed), *sped = calloc(n, sizeof *sped);
        fill(r->grad, n, NORMAL, 2);
        fill(speed, n, NORMAL, 3);
        assert_true(r->codec->sparse);
        r->feed = (weir_feed){.n = n, .bad = n, .grad = r->grad, .scale = 1, .held = r->held, .hold = r->hold, .speed = speed, .sped = sped, .momentum = 0.9f, .mask = true, .tile = r->feed.tile};
        assert_int_equal(r->codec->encode(r->self, r->turn, &r->feed, r->msg, &r->len), WEIR_OK);
        assert_int_equal(r->codec->decode(r->self, r->turn, r->msg, r->len, r->value), WEIR_OK);
        assert_true(sent(r) > 0);
        for (size_t i = 0; i < n; i++)
            assert_true(sped[i] == (r->value[i] != 0 ? 0 : 0.9f * speed[i] + r->grad[i]));
        free(speed);
        free(sped);
        rig_close(r);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_tried), cmocka_unit_test(conservation), cmocka_unit_test(smallest), cmocka_unit_test(whole_numbers), cmocka_unit_test(fresh_instance), cmocka_unit_test(flipped_heads),
        cmocka_unit_test(wire_bytes), cmocka_unit_test(wire_bytes_of_many), cmocka_unit_test(wire_bytes_of_places), cmocka_unit_test(not_finite), cmocka_unit_test(many_not_finite), cmocka_unit_test(off_is_dense), cmocka_unit_test(unbiased), cmocka_unit_test(low_rank),
        cmocka_unit_test(selection_sizes), cmocka_unit_test(selection_sizes_later), cmocka_unit_test(largest_are_sent), cmocka_unit_test(strom_follows),
        cmocka_unit_test(strom_per), cmocka_unit_test(masks),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
