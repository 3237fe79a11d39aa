/* Gradients that are not finite, or nearly too large, by every exchange and every codec: the step
 * says so, names the tensor, and changes nothing. */
#include "help_small.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

typedef struct spoilt {
    const char *codec, *exchange;
    bool early;
    float bad;
    int at; /* EVERYWHERE: all of it, and on both ranks */
    bool whole[2];
    small_hash before[2], after[2];
} spoilt;

enum { EVERYWHERE = -1 };

static bool same(small_hash a, small_hash b) { return a.param == b.param && a.held == b.held; }

static void spoil(const spoilt *f, small *s, int me)
{
    if (f->at == EVERYWHERE)
        for (int i = 0; i < SMALL_N; i++)
            s->grad[i] = (float)(i * 7919 % 10007) / 10007 * (i % 3 ? f->bad : -f->bad);
    else if (me == 1)
        s->grad[f->at] = f->bad;
}

/* The step after those that went well. */
static weir_err spoilt_step(const spoilt *f, small *s, const weir_exchange *x, void *self, int me)
{
    weir_commit c = {.when = {.step = 2, .epochs = f->early ? 0 : 100}, .rate = 0.1, .keep = true};

    small_gradient(s, me, 2);
    spoil(f, s, me);
    for (int i = 0; i < s->lanes; i++)
        WEIR_TRY(x->bucket(self, &s->lane[i], c.when));
    WEIR_TRY(x->finish(self, &c));
    return x->settle ? x->settle(self, (weir_when){.step = 3}) : WEIR_OK;
}

static bool all_finite(const small *s)
{
    for (int i = 0; i < SMALL_N; i++)
        if (!isfinite(s->param[i]))
            return false;
    for (const weir_lane *l = s->lane; l < s->lane + s->lanes; l++)
        for (size_t i = 0; l->held.now && i < l->bucket->n; i++)
            if (!isfinite(l->held.now[i]))
                return false;
    return true;
}

static weir_err nan_rank(weir_net *net, void *arg)
{
    spoilt *f = arg;
    const weir_exchange *x = small_exchange(f->exchange);
    weir_arena *a = weir_arena_new();
    small *s = WEIR_NEW(a, small, 1);
    weir_group g;
    weir_coll_use coll;
    void *self = NULL;
    char why[WEIR_WHY_MAX] = "";
    weir_err err = weir_group_all(net, a, &g);

    s->early = f->early;
    if (!err)
        err = weir_coll_open("ring", &g, a, &coll);
    if (!err)
        err = small_make(s, f->codec, f->exchange, &g, &coll, a, x, &self);
    for (uint64_t step = 0; step < 2 && !err; step++)
        err = small_step(s, x, self, g.me, step, -1);
    if (!err) {
        f->before[g.me] = small_note_all(s);
        err = spoilt_step(f, s, x, self, g.me);
        f->whole[g.me] = all_finite(s);
        f->after[g.me] = small_note_all(s);
    }
    snprintf(why, sizeof why, "%s", weir_why_text());
    if (x->close && self)
        x->close(self);
    weir_arena_free(a);
    return err ? weir_fail(err, "%s", why) : WEIR_OK;
}

/* Who has it stops with an error that names the tensor, and the others have an end that names it
 * too: where all step together they may find it first, in the sum. And nothing changes, no
 * parameter, nothing that is held back; but where replicas drift: there deltas that are out are
 * out, those of others are applied as they come, and an error ends the run (docs/TOUR.md). */
static void check_spoilt(spoilt f, const char *tensor)
{
    ranks r = {.size = 2, .timeout = 10, .stall = 60, .fn = nan_rank, .arg = &f};
    bool drifts = small_exchange(f.exchange)->drifts;
    char name[20];

    snprintf(name, sizeof name, "of %s ", tensor);
    ranks_run(&r);
    assert_true(r.err[1] == WEIR_NAN || (!drifts && r.err[0] == WEIR_NAN));
    for (int i = 0; i < 2; i++)
        if ((r.err[i] != WEIR_NAN && r.err[i] != WEIR_LOST) || !strstr(r.why[i], name))
            fail_msg("%s, %s, %g in %s: rank %d: %s", f.exchange, f.codec, (double)f.bad, tensor, i,
                     r.why[i]);
    for (int i = 0; i < 2 && !drifts; i++)
        if (!same(f.before[i], f.after[i]))
            fail_msg("%s, %s, %g in %s: rank %d has changed", f.exchange, f.codec, (double)f.bad,
                     tensor, i);
}

static void check_all_spoilt(const weir_exchange *x, float bad)
{
    static const char *const others[] = {"half:residual=yes",     "half:bf16",
                                         "int8:residual=yes",     "qsgd:residual=yes",
                                         "terngrad:residual=yes", "redsync:quantise=no",
                                         "topk:select=exact",     "strom:tau=0.1"};
    spoilt f = {.exchange = x->plug.name, .bad = bad};

    for (weir_plugs p = weir_codecs; *p; p++)
        if (small_fits(x->plug.name, f.codec = (*p)->name)) {
            f.at = SMALL_V + 50; /* with the end of w in one bucket */
            check_spoilt(f, "v");
            f.at = SMALL_V - 1;
            check_spoilt(f, "w");
        }
    f.at = SMALL_V + 50;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        f.codec = others[i];
        check_spoilt(f, "v");
    }
    f.codec = "strom";
    f.early = true; /* in warm-up */
    check_spoilt(f, "v");
    f.codec = "none";
    f.at = SMALL_N - 50;
    check_spoilt(f, "b");
}

static void not_finite(void **state)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};

    (void)state;
    for (weir_plugs p = weir_exchanges; *p; p++)
        for (int k = 0; k < 3; k++)
            check_all_spoilt((const weir_exchange *)*p, bad[k]);
}

/* Finite, but nearly too large for a float: either all goes well and is finite, or the step says
 * that it is not, and nothing has changed. */
static void too_large(void **state)
{
    (void)state;
    for (weir_plugs e = weir_exchanges; *e; e++)
        for (weir_plugs p = weir_codecs; *p; p++) {
            spoilt f = {.codec = (*p)->name,
                        .exchange = (*e)->name,
                        .bad = 3e38f,
                        .at = EVERYWHERE};
            ranks r = {.size = 2, .timeout = 10, .stall = 60, .fn = nan_rank, .arg = &f};
            bool drifts = small_exchange(f.exchange)->drifts;
            if (!small_fits(f.exchange, f.codec))
                continue;
            ranks_run(&r);
            for (int i = 0; i < 2; i++) {
                bool unchanged = same(f.before[i], f.after[i]);
                if (!(r.err[i]
                          ? (r.err[i] == WEIR_NAN || r.err[i] == WEIR_LOST) && (unchanged || drifts)
                          : f.whole[i]))
                    fail_msg("%s, %s: rank %d: %s, %s, %s", f.exchange, f.codec, i, r.why[i],
                             unchanged ? "unchanged" : "changed",
                             f.whole[i] ? "finite" : "not finite");
            }
        }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(not_finite), cmocka_unit_test(too_large)};

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
