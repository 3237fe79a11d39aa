/* test_choose.c - codecs that are chosen while a run goes on: all ranks choose alike, nothing is
 * lost on the way from one to another, and the link decides. In a simulated world, whose clock and
 * links are the test's own. */
#include "exchange/buckets.h"
#include "exchange/choose.h"
#include "help_ranks.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { N = 40000, TAIL = 100, RANKS = 4, MOST_CHOICES = 20 };

/* ---- a rank with an exchange ---- */

typedef struct rig {
    weir_arena *arena;
    weir_tensor tensor[3];
    float *param, *grad;
    weir_lane *lane;
    int lanes;
    weir_group group;
    weir_coll_use coll;
    void *self;
} rig;

static weir_err rig_open(rig *r, weir_net *net, const char *codec, const char *optim)
{
    weir_bucket *b;

    r->tensor[0] = (weir_tensor){"a", 0, N / 2, 2, {N / 200, 100}, true, 0};
    r->tensor[1] = (weir_tensor){"b", N / 2, N / 2, 2, {N / 200, 100}, true, 1};
    r->tensor[2] = (weir_tensor){"c", N, TAIL, 1, {TAIL}, false, 1};
    r->param = WEIR_NEW(r->arena, float, N + TAIL);
    r->grad = WEIR_NEW(r->arena, float, N + TAIL + WEIR_EXCHANGE_NOTES);
    CHECK(r->param && r->grad);
    WEIR_TRY(weir_group_all(net, r->arena, &r->group));
    WEIR_TRY(weir_coll_open("ring", &r->group, r->arena, &r->coll));
    WEIR_TRY(weir_buckets_cut(&(weir_flat){r->tensor, 3, r->param, r->grad},
                              &(weir_cut_rules){.bytes = 65536, .small = WEIR_SMALL}, r->arena, &b,
                              &r->lanes));
    WEIR_TRY(weir_lanes_make(b, r->lanes, codec, optim, r->arena, &r->lane));
    r->lane[r->lanes - 1].notes = WEIR_EXCHANGE_NOTES;
    return WEIR_OK;
}

static weir_err rig_route(rig *r, weir_route **route)
{
    return weir_route_make(&(weir_exchange_env){.lane = r->lane,
                                                .lanes = r->lanes,
                                                .group_arena = r->arena,
                                                .seed = 1},
                           &r->coll, &r->group, route);
}

static weir_err rig_exchange(rig *r)
{
    WEIR_TRY(
        weir_plug_make(&weir_exchange_allreduce.plug, "exchange", "allreduce", r->arena, &r->self));
    return weir_exchange_allreduce.init(r->self, &(weir_exchange_env){.same = &r->group,
                                                                      .all = &r->group,
                                                                      .coll = &r->coll,
                                                                      .lane = r->lane,
                                                                      .lanes = r->lanes,
                                                                      .arena = r->arena,
                                                                      .group_arena = r->arena});
}

/* Whole numbers, mostly small, another on every rank and step. */
static float gradient(int rank, uint64_t step, size_t i)
{
    return (float)((int)((i * 7 + (uint64_t)rank * 13 + step * 5) % 9) - 4);
}

static void fill(rig *r, uint64_t step)
{
    for (size_t i = 0; i < N + TAIL; i++)
        r->grad[i] = gradient(r->group.me, step, i);
    memset(r->grad + N + TAIL, 0, WEIR_EXCHANGE_NOTES * sizeof(float));
}

/* ---- the link decides ---- */

/* A run of some steps; beside what the simulated link costs, a byte sent costs `byte[k]` seconds in
 * the k-th part of it. */
typedef struct course {
    const char *codec;
    int steps, parts;
    double byte[3];
    double epoch; /* steps of one; 0: all are past any warm-up */
    int choices[RANKS];
    struct {
        char taken[20], why[10];
        uint64_t step;
        double measured, predicted;
    } choice[RANKS][MOST_CHOICES];
    bool trying[RANKS];
} course;

static void note(course *c, int me, const weir_choice *made)
{
    const weir_policy *p = &made->policy[made->taken];

    snprintf(c->choice[me][c->choices[me]].taken, 20, "%s", p->name);
    snprintf(c->choice[me][c->choices[me]].why, 10, "%s", made->why);
    c->choice[me][c->choices[me]].step = made->step;
    c->choice[me][c->choices[me]].measured = p->measured;
    c->choice[me][c->choices[me]++].predicted = p->predicted;
}

static weir_err step(rig *r, weir_net *net, uint64_t k, double byte, double epoch)
{
    weir_commit commit = {.when = {.step = k, .epochs = epoch > 0 ? (double)k / epoch : 100},
                          .rate = 1e-3,
                          .keep = true};

    fill(r, k);
    WEIR_TRY(weir_net_spend(net, 1e-3)); /* computing */
    for (int i = 0; i < r->lanes; i++) {
        weir_net_count before = weir_net_counted(net);
        WEIR_TRY(weir_exchange_allreduce.bucket(r->self, &r->lane[i], commit.when));
        if (byte > 0)
            WEIR_TRY(
                weir_net_spend(net, byte * (double)(weir_net_counted(net).sent - before.sent)));
    }
    return weir_exchange_allreduce.finish(r->self, &commit);
}

static weir_err run_course(rig *r, weir_net *net, void *arg)
{
    course *c = arg;
    int me = weir_net_rank(net);

    WEIR_TRY(rig_open(r, net, c->codec, "sgd:momentum=0.9"));
    WEIR_TRY(rig_exchange(r));
    for (int k = 0; k < c->steps; k++) {
        WEIR_TRY(step(r, net, (uint64_t)k, c->byte[k * c->parts / c->steps], c->epoch));
        const weir_choice *made = weir_exchange_allreduce.choice(r->self, &c->trying[me]);
        if (made && c->choices[me] < MOST_CHOICES)
            note(c, me, made);
    }
    return WEIR_OK;
}

static weir_err with_rig(weir_net *net, weir_err (*fn)(rig *, weir_net *, void *), void *arg)
{
    rig *r = calloc(1, sizeof *r);
    weir_err err;

    CHECK(r);
    r->arena = weir_arena_new();
    err = fn(r, net, arg);
    weir_arena_free(r->arena);
    free(r);
    return err;
}

static weir_err course_rank(weir_net *net, void *arg) { return with_rig(net, run_course, arg); }

static course *take(const char *net, course start)
{
    course *c = malloc(sizeof *c);

    *c = start;
    ranks_all_ok(&(
        ranks){.net = net, .size = RANKS, .timeout = 10, .stall = 60, .fn = course_rank, .arg = c});
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(c->choices[i], c->choices[0]);
        assert_true(c->choices[i] > 0);
        /* all ranks came to the same, to the last bit */
        assert_memory_equal(c->choice[i], c->choice[0], sizeof c->choice[0]);
    }
    return c;
}

static void slow_link(void **state)
{
    course *c =
        take("sim:latency=50us,rate=20M", (course){.codec = "auto", .steps = 80, .parts = 1});

    (void)state;
    assert_string_equal(c->choice[0][0].taken, "strom");
    assert_string_equal(c->choice[0][0].why, "first");
    assert_true(c->choice[0][0].predicted < 2 * c->choice[0][0].measured &&
                c->choice[0][0].measured < 2 * c->choice[0][0].predicted);
    assert_int_equal(c->choices[0], 1);
    assert_false(c->trying[0]);
    free(c);
}

static void fast_link(void **state)
{
    course *c =
        take("sim:latency=1us,rate=100G", (course){.codec = "auto", .steps = 80, .parts = 1});

    (void)state;
    assert_string_equal(c->choice[0][0].taken, "none");
    free(c);
}

/* Only what may be chosen is. */
static void among(void **state)
{
    course *c = take("sim:latency=50us,rate=20M",
                     (course){.codec = "auto:among=half", .steps = 80, .parts = 1});

    (void)state;
    assert_string_equal(c->choice[0][0].taken, "half");
    free(c);
}

static void changing_link(void **state)
{
    course *c = take("sim:latency=10us,rate=100G",
                     (course){.codec = "auto", .steps = 300, .parts = 3, .byte = {0, 1e-6, 0}});
    const char *taken[MOST_CHOICES];
    int n = 0;

    (void)state;
    for (int k = 0; k < c->choices[0]; k++)
        if (!n || strcmp(taken[n - 1], c->choice[0][k].taken))
            taken[n++] = c->choice[0][k].taken;
    assert_int_equal(n, 3);
    assert_string_equal(taken[0], "none");
    assert_string_equal(taken[1], "strom");
    assert_string_equal(taken[2], "none");
    for (int k = 1; k < c->choices[0]; k++)
        assert_string_equal(c->choice[0][k].why, "changed");
    free(c);
}

/* The link stays as it is, but messages become shorter while densities come down: when they have,
 * it is looked at again. */
static void after_the_ramp(void **state)
{
    /* strom's ends in step 70 */
    course *c =
        take("sim:latency=1us,rate=100G", (course){.codec = "auto:among=[half+strom:warmup=0.1]",
                                                   .steps = 150,
                                                   .parts = 1,
                                                   .epoch = 200});
    int last = c->choices[0] - 1;

    (void)state;
    assert_true(last >= 1 && c->choice[0][0].step < 70 && c->choice[0][last].step >= 70);
    assert_string_equal(c->choice[0][last].why, "changed");
    free(c);
}

/* Nothing changes: it is looked at again all the same. */
static void due(void **state)
{
    course *c = take("sim:latency=50us,rate=20M",
                     (course){.codec = "auto:every=30,try=2", .steps = 120, .parts = 1});

    (void)state;
    assert_true(c->choices[0] >= 3);
    for (int k = 1; k < c->choices[0]; k++) {
        assert_string_equal(c->choice[0][k].why, "due");
        assert_string_equal(c->choice[0][k].taken, "strom");
        assert_true(c->choice[0][k].step >= c->choice[0][k - 1].step + 30);
    }
    free(c);
}

/* ---- nothing is lost ---- */

/* By step: which candidate; or, as a capital, one that is tried and given up before its commit, as
 * if a peer had been lost. */
typedef struct way {
    const char *codec, *by;
    int steps;
    double *given, *sent, *held; /* of all ranks; what one got; what all hold back */
} way;

static weir_err go(rig *r, weir_net *net, void *arg)
{
    way *w = arg;
    weir_route *route;

    WEIR_TRY(rig_open(r, net, w->codec, "sgd:momentum=0"));
    WEIR_TRY(rig_route(r, &route));
    for (int k = 0; k < w->steps; k++) {
        bool given_up = w->by[k] >= 'A';
        fill(r, (uint64_t)k);
        for (int i = 0; i < r->lanes; i++) {
            weir_lane *l = &r->lane[i];
            if (l->candidates > 1)
                weir_lane_choose(l, given_up ? w->by[k] - 'A' : w->by[k] - '0');
            WEIR_TRY(weir_route_sum(route, l, (weir_when){.step = (uint64_t)k, .epochs = 100}, 1));
            if (!given_up)
                weir_lane_commit(l);
        }
        for (size_t i = 0; i < N && !given_up; i++) {
            w->given[i] += (double)gradient(r->group.me, (uint64_t)k, i);
            w->sent[i] += r->group.me ? 0 : (double)r->grad[i];
        }
    }
    for (weir_lane *l = r->lane; l < r->lane + r->lanes; l++) {
        const weir_stripes *own = &l->codec->stripes;
        for (size_t i = 0; i < l->bucket->n && l->held.now; i++)
            w->held[l->bucket->at + i] += (double)l->held.now[i];
        for (size_t i = 0; own->owned.now && i < weir_stripes_own(own)->bucket.n; i++)
            w->held[l->bucket->at + weir_stripes_own(own)->at + i] += (double)own->owned.now[i];
    }
    return WEIR_OK;
}

static weir_err way_rank(weir_net *net, void *arg) { return with_rig(net, go, arg); }

/* After each of its steps. What is sent as it is is exact, of whole numbers; else a step rounds an
 * element (RANKS + 6) times, as help_held.c counts them, and nothing is larger than the largest of
 * all that has gone in so far. */
static void check_conserved(const char *codec, const char *by, bool exact)
{
    for (int steps = 1; steps <= (int)strlen(by); steps++) {
        way w = {codec,
                 by,
                 steps,
                 calloc(N, sizeof(double)),
                 calloc(N, sizeof(double)),
                 calloc(N, sizeof(double))};
        double most = 0, kept = 0, in = 0, off;
        ranks_all_ok(&(ranks){
            .net = "sim", .size = RANKS, .timeout = 10, .stall = 60, .fn = way_rank, .arg = &w});
        for (size_t i = 0; i < N; i++) {
            double all = 0;
            for (int step = 0; step < steps; step++)
                for (int m = 0; m < RANKS; m++)
                    all += fabs((double)gradient(m, (uint64_t)step, i));
            in = fmax(in, all);
            most = fmax(most, fabs(w.given[i] - w.sent[i] - w.held[i]));
            kept = fmax(kept, fabs(w.held[i]));
        }
        off = exact ? 0 : steps * (RANKS + 6) * 0x1p-24 * in;
        if (most > off)
            fail_msg("%s, %.*s: given, sent and held back are %g apart", codec, steps, by, most);
        if (by[steps - 1] == '0' ? kept > 0 : by[steps - 1] == '2' && kept == 0)
            fail_msg("%s, %.*s: up to %g is held back", codec, steps, by, kept);
        free(w.given);
        free(w.sent);
        free(w.held);
    }
}

static void conservation(void **state)
{
    (void)state;
    /* whole numbers: to the last bit */
    check_conserved("auto:among=[half+strom:tau=3]", "0022112201022", true);
    check_conserved("auto:among=[half+strom:tau=3]", "2C0C02B02A2", true); /* steps given up */
    /* an owner that holds something back, too */
    check_conserved("auto:among=onebit+strom", "01122101220", false);
    check_conserved("auto:among=onebit+strom", "1B0C1A10", false);
}

/* ---- saved and loaded ---- */

enum { FIELDS = 64 };
/* io first */
typedef struct shelf {
    weir_io io;
    int fields;
    struct {
        char name[128];
        float *x;
        size_t n;
    } field[FIELDS];
} shelf;

static weir_err shelf_range(weir_io *io, const char *name, const weir_io_piece *piece)
{
    shelf *s = (shelf *)io;
    int k = 0;

    while (k < s->fields && strcmp(s->field[k].name, name))
        k++;
    CHECK(k < FIELDS);
    if (k == s->fields) {
        CHECK(!io->loading);
        snprintf(s->field[k].name, sizeof s->field[k].name, "%s", name);
        s->field[k].x = calloc(piece->whole + 1, sizeof *piece->x);
        s->field[k].n = piece->whole;
        s->fields++;
    }
    CHECK(s->field[k].x && s->field[k].n == piece->whole);
    memcpy(io->loading ? piece->x : s->field[k].x + piece->at,
           io->loading ? s->field[k].x + piece->at : piece->x, piece->n * sizeof *piece->x);
    return WEIR_OK;
}

/* What the lanes hold back in all, element by element; the sum of their speeds. */
static void hold(const rig *r, double *held)
{
    for (const weir_lane *l = r->lane; l < r->lane + r->lanes; l++) {
        const weir_stripes *own = &l->codec->stripes;
        for (size_t i = 0; l->held.now && i < l->bucket->n; i++) {
            held[l->bucket->at + i] += (double)l->held.now[i];
            held[N] += (double)l->speed.now[i];
        }
        for (size_t i = 0; own->owned.now && i < weir_stripes_own(own)->bucket.n; i++)
            held[l->bucket->at + weir_stripes_own(own)->at + i] += (double)own->owned.now[i];
    }
}

static weir_err save_and_load(rig *r, rig *fresh, weir_net *net, shelf *s, double (*held)[N + 1])
{
    static const char by[] = "1212101";
    weir_route *route;

    WEIR_TRY(rig_open(r, net, "auto:among=onebit+strom", "sgd:momentum=0.9"));
    WEIR_TRY(rig_route(r, &route));
    for (int k = 0; by[k]; k++) {
        fill(r, (uint64_t)k);
        for (weir_lane *l = r->lane; l < r->lane + r->lanes; l++) {
            weir_lane_choose(l, l->candidates > 1 ? by[k] - '0' : 0);
            WEIR_TRY(weir_route_sum(route, l, (weir_when){.step = (uint64_t)k, .epochs = 100}, 1));
            weir_lane_commit(l);
        }
    }
    hold(r, held[0]);
    s->io = (weir_io){.range = shelf_range};
    for (int i = 0; i < r->lanes; i++)
        WEIR_TRY(weir_lane_state(&r->lane[i], &s->io));
    WEIR_TRY(rig_open(fresh, net, "auto:among=onebit+strom", "sgd:momentum=0.9"));
    WEIR_TRY(rig_route(fresh, &route));
    s->io.loading = true;
    for (int i = 0; i < r->lanes; i++)
        WEIR_TRY(weir_lane_state(&fresh->lane[i], &s->io));
    hold(fresh, held[1]);
    return WEIR_OK;
}

static weir_err shelf_rank(weir_net *net, void *arg)
{
    rig *r = calloc(2, sizeof *r);
    shelf *s = calloc(1, sizeof *s);
    weir_err err;

    CHECK(r && s);
    r[0].arena = weir_arena_new();
    r[1].arena = weir_arena_new();
    err = save_and_load(&r[0], &r[1], net, s, arg);
    weir_arena_free(r[0].arena);
    weir_arena_free(r[1].arena);
    for (int k = 0; k < s->fields; k++)
        free(s->field[k].x);
    free(s);
    free(r);
    return err;
}

static void saved_and_loaded(void **state)
{
    double(*held)[N + 1] = calloc(2, sizeof *held), most = 0;

    (void)state;
    ranks_all_ok(&(ranks){
        .net = "sim", .size = RANKS, .timeout = 10, .stall = 60, .fn = shelf_rank, .arg = held});
    for (size_t i = 0; i <= N; i++) {
        most = fmax(most, fabs(held[0][i]));
        assert_true(fabs(held[0][i] - held[1][i]) <= 1e-4 * (1 + fabs(held[0][i])));
    }
    assert_true(most > 0.1);
    free(held);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_link),     cmocka_unit_test(fast_link),       cmocka_unit_test(among),
        cmocka_unit_test(changing_link), cmocka_unit_test(after_the_ramp),  cmocka_unit_test(due),
        cmocka_unit_test(conservation),  cmocka_unit_test(saved_and_loaded)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
