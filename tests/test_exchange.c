/* The laws of exchange/, over every exchange in the list that a law is for, by its facts: buckets
 * that cover the vector once, a step that is a transaction, sums in double. Gradients that are not
 * finite: test_exchange_finite.c. */
#include "help_small.h"
#include "core/vec.h"
#include "exchange/buckets.h"
#include "exchange/exchange.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

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

typedef struct fate {
    const char *codec, *exchange;
    bool disturbed, heavy;
    int at; /* behind how many hundredths of the lanes */
    small_hash end[3];
} fate;

/* Two members make steps 0..4. Disturbed: a third is with them, gives half of its buckets of step 2
 * and leaves on an error; the two renew their group and repeat the step. Member numbers, not ranks,
 * make the gradients; the third one's is zero. */
static weir_err fate_rank(weir_net *net, void *arg)
{
    fate *f = arg;
    weir_arena *a = weir_arena_new();
    small *s = WEIR_NEW(a, small, 1);
    const weir_exchange *x = small_exchange(f->exchange);
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
        f->end[me] = small_note_all(s);
    weir_arena_free(a);
    return me == 2 ? (err == WEIR_FAILED ? weir_fail(WEIR_FAILED, "left") : err) : err;
}

/* Undisturbed: three members for steps 0 and 1, then two. */
static weir_err plain_rank(weir_net *net, void *arg)
{
    fate *f = arg;
    weir_arena *a = weir_arena_new();
    small *s = WEIR_NEW(a, small, 1);
    const weir_exchange *x = small_exchange(f->exchange);
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
            f->end[me] = small_note_all(s);
    }
    weir_arena_free(a);
    return err;
}

static void check_transaction(const char *codec, const char *exchange, bool heavy)
{
    fate plain = {.codec = codec, .exchange = exchange, .heavy = heavy};

    assert_string_equal(small_run(3, plain_rank, &plain), "");
    /* after the first lane, in the middle, before the last */
    for (int at = 0; at <= 100; at += 50) {
        fate disturbed = {
            .codec = codec, .exchange = exchange, .disturbed = true, .heavy = heavy, .at = at};
        assert_string_equal(small_run(3, fate_rank, &disturbed), "rank 2: left");
        for (int i = 0; i < 2; i++)
            if (plain.end[i].param != plain.end[0].param ||
                disturbed.end[i].param != plain.end[0].param ||
                disturbed.end[i].held != plain.end[i].held)
                fail_msg("%s, %s, left after %d%% of its lanes: rank %d is not as if undisturbed",
                         codec, exchange, at, i);
    }
}

/* Every codec as it comes; and those that keep or learn something only when told to. Where replicas
 * drift, what was sent is sent, and a step cannot be repeated. */
static void check_transactions(const char *exchange)
{
    static const char *const others[] = {
        "half:residual=yes", "half:bf16,residual=yes", "int8:residual=yes",
        "qsgd:residual=yes", "terngrad:residual=yes",  "redsync:quantise=no,select=search",
        "strom:mask=yes",    "strom:per=bucket",       "topk:mask=yes",
        "redsync:mask=yes"};

    for (weir_plugs p = weir_codecs; *p; p++)
        if (small_fits(exchange, (*p)->name))
            check_transaction((*p)->name, exchange, false);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        for (int heavy = 0; heavy < 2; heavy++)
            if (small_fits(exchange, others[i]))
                check_transaction(others[i], exchange, heavy);
}

static void transaction(void **state)
{
    (void)state;
    for (weir_plugs p = weir_exchanges; *p; p++)
        if (!((const weir_exchange *)*p)->drifts && ((const weir_exchange *)*p)->regroup)
            check_transactions((*p)->name);
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
    const char *codec, *exchange;
    bool dense_first;
    uint64_t held[2];
} late;

static weir_err late_rank(weir_net *net, void *arg)
{
    late *f = arg;
    weir_arena *a = weir_arena_new();
    small *s = WEIR_NEW(a, small, 1);
    const weir_exchange *x = small_exchange(f->exchange);
    int me = weir_net_rank(net);
    weir_group g;
    weir_coll_use coll;
    void *self;
    weir_err err = weir_group_all(net, a, &g);

    if (!err)
        err = weir_coll_open("ring", &g, a, &coll);
    s->plain = x->drifts; /* there momentum is always before the codec, also in dense steps */
    if (!err)
        err = small_make(s, f->codec, f->exchange, &g, &coll, a, x, &self);
    for (uint64_t step = f->dense_first ? 0 : 2; step < 5 && !err; step++) {
        s->early = step < 2;
        err = small_step(s, x, self, me, step, -1);
    }
    /* what the last step left; and, where all step together, what it said */
    f->held[me] = small_note(s).held * 31 + (x->drifts ? 0 : small_fold(s->grad, SMALL_N));
    if (!err && x->settle)
        err = x->settle(self, (weir_when){.step = 5});
    if (x->close)
        x->close(self);
    weir_arena_free(a);
    return err;
}

/* Steps that do not go through the codec leave nothing in it. */
static void check_beginning(const char *exchange, const char *codec)
{
    late begun = {.codec = codec, .exchange = exchange, .dense_first = true},
         fresh = {.codec = codec, .exchange = exchange};

    assert_string_equal(small_run(2, late_rank, &begun), "");
    assert_string_equal(small_run(2, late_rank, &fresh), "");
    for (int i = 0; i < 2; i++)
        if (begun.held[i] != fresh.held[i])
            fail_msg("%s, %s: rank %d does not go on as one that begins", exchange, codec, i);
}

static void dense_beginning(void **state)
{
    (void)state;
    for (weir_plugs e = weir_exchanges; *e; e++)
        for (weir_plugs p = weir_codecs; *p; p++) {
            const weir_codec *c = (const weir_codec *)*p;
            const weir_exchange *x = (const weir_exchange *)*e;
            char spec[80];
            snprintf(spec, sizeof spec, "%s:warmup=1%s", c->plug.name,
                     x->drifts ? ",residual=yes" : ",correct=no");
            if (!c->raw && !c->chooses && small_fits(x->plug.name, spec))
                check_beginning(x->plug.name, spec);
        }
}

/* ---- sums in double ---- */

/* Terms that floats would lose: rank 0 has something from 1 to 2, every other 2^-25, which only
 * together come to its last bit. In each piece of the ring another one's comes first. */
static weir_err exact_rank(weir_net *net, void *arg)
{
    weir_arena *a = weir_arena_new();
    small *s = WEIR_NEW(a, small, 1);
    const weir_exchange *x = arg;
    double *exact = WEIR_NEW(a, double, SMALL_N + WEIR_EXCHANGE_NOTES);
    weir_group g;
    weir_coll_use coll;
    void *self;
    weir_err err = weir_group_all(net, a, &g);

    if (!err)
        err = weir_coll_open("ring:segment=4096", &g, a, &coll);
    if (!err)
        err = small_make(s, "none", x->plug.name, &g, &coll, a, x, &self);
    for (int i = 0; i < SMALL_N + WEIR_EXCHANGE_NOTES; i++) {
        exact[i] = g.me ? 0x1p-25 : 1 + i % 8 / 8.0;
        s->grad[i] = NAN; /* is not looked at */
    }
    for (int i = 0; i < s->lanes && !err; i++) {
        s->lane[i].exact = exact + s->lane[i].bucket->at;
        err = x->bucket(self, &s->lane[i], (weir_when){0});
    }
    for (int i = 0; i < SMALL_N + WEIR_EXCHANGE_NOTES && !err; i++)
        if (s->grad[i] != (float)(1 + i % 8 / 8.0 + (g.size - 1) * 0x1p-25))
            err = weir_fail(WEIR_FAILED, "element %d is %a", i, (double)s->grad[i]);
    if (!err && g.size == 5 && s->grad[0] != 1 + 0x1p-23f)
        err = weir_fail(WEIR_FAILED, "the small ones are lost");
    weir_arena_free(a);
    return err;
}

/* Where all step together; others are refused with --exact (test_peers.py). */
static void doubles_are_rounded_once(void **state)
{
    (void)state;
    for (weir_plugs p = weir_exchanges; *p; p++)
        if (!((const weir_exchange *)*p)->drifts) {
            assert_string_equal(small_run(1, exact_rank, (void *)(uintptr_t)*p), "");
            assert_string_equal(small_run(5, exact_rank, (void *)(uintptr_t)*p), "");
        }
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
    weir_net_op o;
    void *self;

    WEIR_TRY(weir_group_all(net, a, &g));
    WEIR_TRY(weir_coll_open("ring", &g, a, &coll));
    WEIR_TRY(small_make(s, codec, "allreduce", &g, &coll, a, x, &self));
    WEIR_TRY(small_step(s, x, self, me, 0, -1));
    if (me == 0) {
        CHECK(small_step(s, x, self, me, 1, -1) == WEIR_MISFIT &&
              strstr(weir_why_text(), "the stripes of bucket 0: rank 1 sent 5 bytes where"));
        WEIR_TRY(weir_net_send_wait(net, 1, weir_tag(WEIR_CHANNEL_MEMBERS, 1, 0), NULL, 0));
    } else {
        uint64_t tag = weir_tag(WEIR_CHANNEL_COLL, weir_coll_sequence(&g), 0);
        weir_net_send(net, 0, tag, "short", 5, &o);
        WEIR_TRY(weir_net_recv_wait(net, 0, tag, s->copy, sizeof s->copy, NULL));
        WEIR_TRY(weir_net_wait_all(net, &o, 1, 0));
        /* nobody leaves before all is heard */
        WEIR_TRY(weir_net_recv_wait(net, 0, weir_tag(WEIR_CHANNEL_MEMBERS, 1, 0), NULL, 0, NULL));
    }
    weir_arena_free(a);
    return WEIR_OK;
}

static void short_stripes(void **state)
{
    int striped = 0;

    (void)state;
    for (weir_plugs p = weir_codecs; *p; p++) {
        const weir_codec *c = (const weir_codec *)*p;
        char spec[80];
        snprintf(spec, sizeof spec, "%s:warmup=0", c->plug.name);
        if (c->combine != WEIR_COMBINE_STRIPE || c->raw || c->chooses)
            continue;
        assert_string_equal(small_run(2, cut_short, spec), "");
        striped++;
    }
    assert_true(striped > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(short_stripes),
                                       cmocka_unit_test(buckets),
                                       cmocka_unit_test(transaction),
                                       cmocka_unit_test(transaction_of_machines),
                                       cmocka_unit_test(dense_beginning),
                                       cmocka_unit_test(doubles_are_rounded_once)};

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
