/* The laws of exchange/: buckets that cover the vector once, a step that is a transaction. */
#include "help_ranks.h"
#include "core/vec.h"
#include "exchange/buckets.h"
#include "exchange/exchange.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* Runs fn as `size` ranks; gives "" if all succeeded, else the sentence of the lowest rank whose
 * error is not the loss of another. */
static const char *run_ranks(int size, weir_err (*fn)(weir_net *, void *), void *arg)
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

static uint64_t fold(const float *x, size_t n)
{
    uint64_t h = 14695981039346656037ull;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], 4);
        h = (h ^ bits) * 1099511628211ull;
    }
    return h;
}

/* ---- buckets ---- */

static void check_cut(const weir_tensor *t, int tensors, size_t total, size_t bytes,
                      bool whole_tensors, bool fuse)
{
    weir_arena *a = weir_arena_new();
    float *param = WEIR_NEW(a, float, total), *grad = WEIR_NEW(a, float, total);
    weir_bucket *b;
    int n;
    size_t at = 0;
    int ready = -1;

    assert_int_equal(weir_buckets_cut(&(weir_flat){t, tensors, param, grad},
                                      &(weir_cut_rules){bytes, whole_tensors, fuse, WEIR_SMALL}, a,
                                      &b, &n),
                     WEIR_OK);
    for (int i = 0; i < n; i++) {
        size_t inside = 0;
        assert_int_equal(b[i].at, at);
        assert_true(b[i].ready >= ready);
        assert_int_equal(b[i].dense, i == n - 1);
        for (int v = 0; v < b[i].views; v++) {
            const weir_view *w = &b[i].view[v];
            assert_int_equal(w->at, inside);
            assert_int_equal(w->tensor->at + w->first, at + inside);
            assert_true(w->tensor->ready <= b[i].ready);
            if (whole_tensors)
                assert_int_equal(w->rows * w->cols, w->tensor->n);
            inside += w->rows * w->cols;
        }
        assert_int_equal(inside, b[i].n);
        if (b[i].views > 1 && !b[i].dense)
            assert_true(b[i].n * 4 <= bytes + bytes / 16); /* a trifle goes with the next */
        at += b[i].n;
        ready = b[i].ready;
    }
    assert_int_equal(at, total);
    weir_arena_free(a);
}

static void buckets(void **state)
{
    weir_tensor t[] = {{"c.w", 0, 1000, 2, {10, 100}, true, 0},
                       {"b.w", 1000, 100000, 2, {100, 1000}, true, 1},
                       {"a.w", 101000, 600, 4, {2, 3, 10, 10}, true, 2},
                       {"c.b", 101600, 10, 1, {10}, false, 0},
                       {"b.b", 101610, 100, 1, {100}, false, 1},
                       {"a.s", 101710, 6, 2, {2, 3}, true, 2}};

    (void)state;
    for (int wholes = 0; wholes < 2; wholes++)
        for (size_t bytes = 16; bytes < 1 << 20; bytes = bytes * 3 / 2)
            for (int fuse = 0; fuse < 2; fuse++)
                check_cut(t, 6, 101716, bytes, wholes, fuse);
}

/* ---- the step as a transaction ---- */

enum { N = 50000 };
enum { V = 39900 }; /* where v begins, in the middle of a bucket */
typedef struct small {
    weir_tensor t[3];
    float param[N], grad[N + WEIR_NOTES], copy[N];
    weir_lane *lane;
    int lanes;
    bool early, heavy;
} small;

static weir_err small_make(small *s, const char *codec, const char *exchange, weir_group *g,
                           weir_coll_use *coll, weir_arena *a, const weir_exchange *x, void **self)
{
    weir_bucket *b;

    s->t[0] = (weir_tensor){"w", 0, V, 2, {V / 100, 100}, true, 0};
    s->t[1] = (weir_tensor){"v", V, N - 100 - V, 2, {(N - 100 - V) / 100, 100}, true, 0};
    s->t[2] = (weir_tensor){"b", N - 100, 100, 1, {100}, false, 0};
    for (int i = 0; i < N; i++)
        s->param[i] = (float)(i % 31) / 31;
    WEIR_TRY(weir_buckets_cut(&(weir_flat){s->t, 3, s->param, s->grad},
                              &(weir_cut_rules){.bytes = 32768, .small = WEIR_SMALL}, a, &b,
                              &s->lanes));
    WEIR_TRY(weir_lanes_make(b, s->lanes, codec, "sgd:momentum=0.9", a, &s->lane));
    s->lane[s->lanes - 1].notes = WEIR_NOTES;
    WEIR_TRY(weir_plug_make(&x->plug, "exchange", exchange, a, self));
    return x->init(*self, &(weir_exchange_env){g, g, coll, s->lane, s->lanes, a, a});
}

static void small_gradient(small *s, int member, uint64_t step)
{
    for (int i = 0; i < N + WEIR_NOTES; i++)
        s->grad[i] = (float)((i * 3 + member * 5 + (int)step) % 17) / 17 - 0.4f;
    for (int i = 0; i < N && s->heavy; i++) /* few have nearly all: thresholds are lifted */
        s->grad[i] *=
            1e-2f / powf((float)((i * 7919 + member * 31 + (int)step * 13) % 9973 + 1) / 9973, 2);
}

static weir_err small_step(small *s, const weir_exchange *x, void *self, int member, uint64_t step,
                           int die_before)
{
    /* past any warm-up, unless early */
    weir_commit c = {.turn = {.step = step, .epochs = s->early ? 0 : 100},
                     .rate = 0.1,
                     .keep = true};

    small_gradient(s, member, step);
    for (int i = 0; i < s->lanes; i++) {
        if (i == die_before)
            return WEIR_FAILED;
        WEIR_TRY(x->bucket(self, &s->lane[i], c.turn));
    }
    return x->finish(self, &c);
}

typedef struct fate {
    const char *codec, *exchange;
    bool disturbed, heavy;
    int at; /* behind how many hundredths of the lanes */
    uint64_t hash[3], held[3];
} fate;

/* Parameters, and what is held back and on its way. */
static void note(fate *f, const small *s, int me)
{
    f->hash[me] = fold(s->param, N);
    for (int i = 0; i < s->lanes; i++) {
        const weir_lane *l = &s->lane[i];
        const float *all[] = {l->held.now, l->speed.now};
        for (int k = 0; k < 2; k++)
            f->held[me] = f->held[me] * 31 + (all[k] ? fold(all[k], l->bucket->n) : 0);
        f->held[me] = f->held[me] * 31 + (l->codec->stripes.owned.now
                                              ? fold(l->codec->stripes.owned.now,
                                                     weir_stripes_own(&l->codec->stripes)->bucket.n)
                                              : 0);
    }
}

typedef struct hasher {
    weir_io io;
    uint64_t hash;
} hasher; /* io first */

static weir_err hash_range(weir_io *io, const char *name, float *x, size_t at, size_t n,
                           size_t whole, weir_keep keep)
{
    hasher *h = (hasher *)io;

    (void)name, (void)at, (void)whole, (void)keep;
    h->hash = h->hash * 31 + fold(x, n);
    return WEIR_OK;
}

static weir_err hash_u64(weir_io *io, const char *name, uint64_t *x, size_t n, weir_keep keep)
{
    (void)name, (void)keep;
    for (size_t i = 0; i < n; i++)
        ((hasher *)io)->hash = ((hasher *)io)->hash * 31 + x[i];
    return WEIR_OK;
}

/* And all else that lanes keep: what codecs and optimisers have learned. */
static void note_all(fate *f, const small *s, int me)
{
    hasher h = {.io = {.range = hash_range, .u64 = hash_u64}};

    note(f, s, me);
    for (int i = 0; i < s->lanes; i++)
        if (weir_lane_state(&s->lane[i], &h.io))
            h.hash = 0;
    f->held[me] = f->held[me] * 31 + h.hash;
}

/* Two members make steps 0..4. Disturbed: a third is with them, gives half of its buckets of step 2
 * and leaves on an error; the two renew their group and repeat the step. Member numbers, not ranks,
 * make the gradients; the third one's is zero. */
static weir_err fate_rank(weir_net *net, void *arg)
{
    fate *f = arg;
    weir_arena *a = weir_arena_new();
    small *s = WEIR_NEW(a, small, 1);
    const weir_exchange *x = &weir_exchange_allreduce;
    int me = weir_net_rank(net), two[] = {0, 1};
    weir_group g;
    weir_coll_use coll;
    void *self;
    weir_err err = weir_group_all(net, a, &g);

    s->heavy = f->heavy;
    if (!err)
        err = weir_coll_open("ring:segment=4096", &g, a, &coll);
    if (!err)
        err = small_make(s, f->codec, f->exchange, &g, &coll, a, x, &self);
    for (uint64_t step = 0; step < 5 && !err; step++) {
        if (me == 2 && step >= 2)
            small_gradient(s, 2, step);
        err = small_step(s, x, self, me, step,
                         f->disturbed && me == 2 && step == 2 ? 1 + (s->lanes - 2) * f->at / 100
                                                              : -1);
        if (err == WEIR_LOST && f->disturbed && me < 2 && step == 2) {
            weir_net_renew(net, 1, two, 2);
            err = weir_group_make(net, 0, two, 2, a, &g);
            if (!err)
                err =
                    x->regroup(self, &(weir_exchange_env){&g, &g, &coll, s->lane, s->lanes, a, a});
            if (!err)
                err = small_step(s, x, self, me, step, -1);
        }
    }
    if (me < 2 && !err)
        note_all(f, s, me);
    weir_arena_free(a);
    return me == 2 ? (err == WEIR_FAILED ? weir_fail(WEIR_FAILED, "left") : err) : err;
}

/* Undisturbed: three members for steps 0 and 1, then two. */
static weir_err plain_rank(weir_net *net, void *arg)
{
    fate *f = arg;
    weir_arena *a = weir_arena_new();
    small *s = WEIR_NEW(a, small, 1);
    const weir_exchange *x = &weir_exchange_allreduce;
    int me = weir_net_rank(net), two[] = {0, 1};
    weir_group g;
    weir_coll_use coll;
    void *self;
    weir_err err = weir_group_all(net, a, &g);

    s->heavy = f->heavy;
    if (!err)
        err = weir_coll_open("ring:segment=4096", &g, a, &coll);
    if (!err)
        err = small_make(s, f->codec, f->exchange, &g, &coll, a, x, &self);
    for (uint64_t step = 0; step < 2 && !err; step++)
        err = small_step(s, x, self, me, step, -1);
    if (!err && me < 2) {
        err = weir_group_make(net, 1, two, 2, a, &g);
        if (!err)
            err = x->regroup(self, &(weir_exchange_env){&g, &g, &coll, s->lane, s->lanes, a, a});
        for (uint64_t step = 2; step < 5 && !err; step++)
            err = small_step(s, x, self, me, step, -1);
        if (!err)
            note_all(f, s, me);
    }
    weir_arena_free(a);
    return err;
}

static void check_transaction(const char *codec, const char *exchange, bool heavy)
{
    fate plain = {.codec = codec, .exchange = exchange, .heavy = heavy};

    assert_string_equal(run_ranks(3, plain_rank, &plain), "");
    /* after the first lane, in the middle, before the last */
    for (int at = 0; at <= 100; at += 50) {
        fate disturbed = {
            .codec = codec, .exchange = exchange, .disturbed = true, .heavy = heavy, .at = at};
        assert_string_equal(run_ranks(3, fate_rank, &disturbed), "rank 2: left");
        for (int i = 0; i < 2; i++)
            if (plain.hash[i] != plain.hash[0] || disturbed.hash[i] != plain.hash[0] ||
                disturbed.held[i] != plain.held[i])
                fail_msg("%s, %s, left after %d%% of its lanes: rank %d is not as if undisturbed",
                         codec, exchange, at, i);
    }
}

/* Every codec as it comes; and those that keep or learn something only when told to. */
static void transaction(void **state)
{
    static const char *const others[] = {
        "half:residual=yes", "half:bf16,residual=yes", "int8:residual=yes",
        "qsgd:residual=yes", "terngrad:residual=yes",  "redsync:quantise=no,select=search",
        "strom:mask=yes",    "strom:per=bucket",       "topk:mask=yes",
        "redsync:mask=yes"};

    (void)state;
    for (weir_plugs p = weir_codecs; *p; p++)
        check_transaction((*p)->name, "allreduce", false);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        for (int heavy = 0; heavy < 2; heavy++)
            check_transaction(others[i], "allreduce", heavy);
}

/* Two on one machine and one on another, who is lost: those left have one machine, and nothing to
 * compress. */
static void transaction_of_machines(void **state)
{
    (void)state;
    check_transaction("strom", "allreduce:hier=yes,each=2", false);
    check_transaction("onebit", "allreduce:hier=yes,each=2", false);
    check_transaction("powersgd", "allreduce:hier=yes,each=2", false);
}

/* ---- a dense beginning ---- */

typedef struct late {
    const char *codec;
    bool dense_first;
    uint64_t held[2];
} late;

static weir_err late_rank(weir_net *net, void *arg)
{
    late *f = arg;
    fate seen = {0};
    weir_arena *a = weir_arena_new();
    small *s = WEIR_NEW(a, small, 1);
    const weir_exchange *x = &weir_exchange_allreduce;
    int me = weir_net_rank(net);
    weir_group g;
    weir_coll_use coll;
    void *self;
    weir_err err = weir_group_all(net, a, &g);

    if (!err)
        err = weir_coll_open("ring", &g, a, &coll);
    if (!err)
        err = small_make(s, f->codec, "allreduce", &g, &coll, a, x, &self);
    for (uint64_t step = f->dense_first ? 0 : 2; step < 5 && !err; step++) {
        s->early = step < 2;
        err = small_step(s, x, self, me, step, -1);
    }
    note(&seen, s, me);
    /* what the last step said, and what it left */
    f->held[me] = seen.held[me] * 31 + fold(s->grad, N);
    weir_arena_free(a);
    return err;
}

/* Steps that do not go through the codec leave nothing in it. */
static void dense_beginning(void **state)
{
    (void)state;
    for (weir_plugs p = weir_codecs; *p; p++) {
        const weir_codec *c = (const weir_codec *)*p;
        char spec[80];
        late begun = {.codec = spec, .dense_first = true}, fresh = {.codec = spec};
        if (c->raw || c->chooses)
            continue;
        snprintf(spec, sizeof spec, "%s:warmup=1,correct=no", c->plug.name);
        assert_string_equal(run_ranks(2, late_rank, &begun), "");
        assert_string_equal(run_ranks(2, late_rank, &fresh), "");
        for (int i = 0; i < 2; i++)
            if (begun.held[i] != fresh.held[i])
                fail_msg("%s: rank %d does not go on as one that begins", spec, i);
    }
}

/* ---- gradients that are not finite ---- */

typedef struct spoilt {
    const char *codec;
    bool early;
    float bad;
    int at;
    fate before, after;
} spoilt;

/* Rank 1's gradient of step 2 is spoilt at one place. */
static weir_err nan_rank(weir_net *net, void *arg)
{
    spoilt *f = arg;
    const weir_exchange *x = &weir_exchange_allreduce;
    weir_arena *a = weir_arena_new();
    small *s = WEIR_NEW(a, small, 1);
    weir_commit c = {.turn = {.step = 2, .epochs = f->early ? 0 : 100}, .rate = 0.1, .keep = true};
    weir_group g;
    weir_coll_use coll;
    void *self;
    char why[WEIR_WHY_MAX];
    weir_err err = weir_group_all(net, a, &g);

    s->early = f->early;
    if (!err)
        err = weir_coll_open("ring", &g, a, &coll);
    if (!err)
        err = small_make(s, f->codec, "allreduce", &g, &coll, a, x, &self);
    for (uint64_t step = 0; step < 2 && !err; step++)
        err = small_step(s, x, self, g.me, step, -1);
    if (!err) {
        note_all(&f->before, s, g.me);
        small_gradient(s, g.me, 2);
        if (g.me == 1)
            s->grad[f->at] = f->bad;
        for (int i = 0; i < s->lanes && !err; i++)
            err = x->bucket(self, &s->lane[i], c.turn);
        if (!err)
            err = x->finish(self, &c);
        snprintf(why, sizeof why, "%s", weir_why_text());
        note_all(&f->after, s, g.me);
        err = err ? weir_fail(err, "%s", why) : WEIR_OK;
    }
    weir_arena_free(a);
    return err;
}

/* It stops the step with an error that names the tensor, and changes nothing: no parameter, nothing
 * that is held back. */
static void check_spoilt(const char *codec, bool early, float bad, int at, const char *tensor)
{
    spoilt f = {.codec = codec, .early = early, .bad = bad, .at = at};
    ranks r = {.size = 2, .timeout = 10, .stall = 60, .fn = nan_rank, .arg = &f};
    char name[20];

    snprintf(name, sizeof name, "of %s ", tensor);
    ranks_run(&r);
    /* dense sums tell both, and who says so first is heard by the other */
    assert_true(r.err[0] == WEIR_NAN || r.err[1] == WEIR_NAN);
    for (int i = 0; i < 2; i++)
        if ((r.err[i] != WEIR_NAN && r.err[i] != WEIR_LOST) || !strstr(r.why[i], name))
            fail_msg("%s, %g in %s: rank %d: %s", codec, (double)bad, tensor, i, r.why[i]);
    for (int i = 0; i < 2; i++)
        if (f.before.hash[i] != f.after.hash[i] || f.before.held[i] != f.after.held[i])
            fail_msg("%s, %g in %s: rank %d has changed", codec, (double)bad, tensor, i);
}

static void not_finite(void **state)
{
    static const char *const others[] = {"half:residual=yes",     "half:bf16",
                                         "int8:residual=yes",     "qsgd:residual=yes",
                                         "terngrad:residual=yes", "redsync:quantise=no",
                                         "topk:select=exact",     "strom:tau=0.1"};
    static const float bad[] = {NAN, INFINITY, -INFINITY};

    (void)state;
    for (int k = 0; k < 3; k++) {
        for (weir_plugs p = weir_codecs; *p; p++) {
            /* with the end of w in one bucket */
            check_spoilt((*p)->name, false, bad[k], V + 50, "v");
            check_spoilt((*p)->name, false, bad[k], V - 1, "w");
        }
        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
            check_spoilt(others[i], false, bad[k], V + 50, "v");
        check_spoilt("strom", true, bad[k], V + 50, "v"); /* in warm-up */
        check_spoilt("none", false, bad[k], N - 50, "b");
    }
}

/* ---- sums in double ---- */

/* Terms that floats would lose: rank 0 has 1, every other 2^-25, which only together come to a
 * float's last bit. */
static weir_err exact_rank(weir_net *net, void *arg)
{
    weir_arena *a = weir_arena_new();
    small *s = WEIR_NEW(a, small, 1);
    double *exact = WEIR_NEW(a, double, N + WEIR_NOTES);
    weir_group g;
    weir_coll_use coll;
    void *self;
    weir_err err = weir_group_all(net, a, &g);

    (void)arg;
    if (!err)
        err = weir_coll_open("ring:segment=4096", &g, a, &coll);
    if (!err)
        err = small_make(s, "none", "allreduce", &g, &coll, a, &weir_exchange_allreduce, &self);
    for (int i = 0; i < N + WEIR_NOTES; i++) {
        exact[i] = g.me ? 0x1p-25 : 1 + i;
        s->grad[i] = NAN; /* is not looked at */
    }
    for (int i = 0; i < s->lanes && !err; i++) {
        s->lane[i].exact = exact + s->lane[i].bucket->at;
        err = weir_exchange_allreduce.bucket(self, &s->lane[i], (weir_turn){0});
    }
    for (int i = 0; i < N + WEIR_NOTES && !err; i++)
        if (s->grad[i] != (float)(1 + i + (g.size - 1) * 0x1p-25))
            err = weir_fail(WEIR_FAILED, "element %d is %a", i, (double)s->grad[i]);
    if (!err && g.size == 5 && s->grad[0] != 1 + 0x1p-23f)
        err = weir_fail(WEIR_FAILED, "the small ones are lost");
    weir_arena_free(a);
    return err;
}

static void doubles_are_rounded_once(void **state)
{
    (void)state;
    assert_string_equal(run_ranks(1, exact_rank, NULL), "");
    assert_string_equal(run_ranks(5, exact_rank, NULL), "");
}

/* ---- a peer that sends too little ---- */

/* Rank 1's part of the second step is cut short: what it sent in the first must not count again. */
static weir_err cut_short(weir_net *net, void *codec)
{
    const weir_exchange *x = &weir_exchange_allreduce;
    weir_arena *a = weir_arena_new();
    small *s = WEIR_NEW(a, small, 1);
    int me = weir_net_rank(net);
    weir_group g;
    weir_coll_use coll;
    weir_op o;
    void *self;

    WEIR_TRY(weir_group_all(net, a, &g));
    WEIR_TRY(weir_coll_open("ring", &g, a, &coll));
    WEIR_TRY(small_make(s, codec, "allreduce", &g, &coll, a, x, &self));
    WEIR_TRY(small_step(s, x, self, me, 0, -1));
    if (me == 0) {
        CHECK(small_step(s, x, self, me, 1, -1) == WEIR_MISFIT &&
              strstr(weir_why_text(), "the stripes of bucket 0: rank 1 sent 5 bytes where"));
        WEIR_TRY(weir_net_send_wait(net, 1, weir_tag(WEIR_CHANNEL_AGREE, 1, 0), NULL, 0));
    } else {
        uint64_t tag = weir_tag(WEIR_CHANNEL_COLL, weir_coll_turn(&g), 0);
        weir_net_send(net, 0, tag, "short", 5, &o);
        WEIR_TRY(weir_net_recv_wait(net, 0, tag, s->copy, sizeof s->copy, NULL));
        WEIR_TRY(weir_net_wait_all(net, &o, 1, 0));
        /* nobody leaves before all is heard */
        WEIR_TRY(weir_net_recv_wait(net, 0, weir_tag(WEIR_CHANNEL_AGREE, 1, 0), NULL, 0, NULL));
    }
    weir_arena_free(a);
    return WEIR_OK;
}

static void short_stripes(void **state)
{
    static const char *const striped[] = {"int8", "onebit:warmup=0", "qsgd"};

    (void)state;
    for (size_t i = 0; i < sizeof striped / sizeof *striped; i++)
        assert_string_equal(run_ranks(2, cut_short, (void *)(uintptr_t)striped[i]), "");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(short_stripes),
                                       cmocka_unit_test(buckets),
                                       cmocka_unit_test(transaction),
                                       cmocka_unit_test(transaction_of_machines),
                                       cmocka_unit_test(dense_beginning),
                                       cmocka_unit_test(not_finite),
                                       cmocka_unit_test(doubles_are_rounded_once)};

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
