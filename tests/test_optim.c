/* test_optim.c - optimisers against plain references and PyTorch's numbers, their state under
 * another cut into buckets; and the rates at their ends. */
#include "optim/optim.h"
#include "optim/rate.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* ---- a model of two tensors, 7 rows of 5 that decay and 5 that do not, cut into one bucket or
 * three ---- */

enum { ROWS = 7, COLS = 5, ALL = ROWS * COLS + COLS };
static const weir_tensor tensors[] = {
    {"w", 0, ROWS *COLS, 2, {ROWS, COLS}, true, 0},
    {"b", ROWS *COLS, COLS, 1, {COLS}, false, 0},
};
static const weir_view one_view[] = {{&tensors[0], 0, ROWS, COLS},
                                     {&tensors[1], ROWS *COLS, 1, COLS}};
static const weir_view head[] = {{&tensors[0], 0, 2, COLS}};
static const weir_view middle[] = {{&tensors[0], 0, 4, COLS}};
static const weir_view tail[] = {{&tensors[0], 0, 1, COLS}, {&tensors[1], COLS, 1, COLS}};

typedef struct model {
    const weir_optim *optim;
    float param[ALL], grad[ALL];
    weir_bucket bucket[3];
    void *self[3];
    int buckets;
    weir_arena *arena;
} model;

static void add_bucket(model *m, size_t at, size_t n, const weir_view *view, int views)
{
    m->bucket[m->buckets] =
        (weir_bucket){m->buckets, at, n, m->param + at, m->grad + at, view, views, 0, false};
    m->buckets++;
}

static weir_err make(model *m, const char *spec, bool cut)
{
    const weir_plug *plug;

    memset(m, 0, sizeof *m);
    m->arena = weir_arena_new();
    assert_non_null(m->arena);
    if (cut) {
        add_bucket(m, 0, 2 * COLS, head, 1);
        add_bucket(m, 2 * COLS, 4 * COLS, middle, 1);
        add_bucket(m, 6 * COLS, 2 * COLS, tail, 2);
    } else {
        add_bucket(m, 0, ALL, one_view, 2);
    }
    WEIR_TRY(weir_plug_find(weir_optims, "optim", spec, &plug));
    m->optim = (const weir_optim *)plug;
    for (int i = 0; i < m->buckets; i++) {
        WEIR_TRY(weir_plug_make(plug, "optim", spec, m->arena, &m->self[i]));
        WEIR_TRY(m->optim->init(m->self[i], &m->bucket[i], m->arena));
    }
    for (int i = 0; i < ALL; i++)
        m->param[i] = sinf((float)i);
    return WEIR_OK;
}

static void set_grad(model *m, int step)
{
    for (int i = 0; i < ALL; i++)
        m->grad[i] = cosf((float)(i * 3 + step * 7)) * 0.3f;
}

static void run(model *m, int from, int to, double rate, float scale)
{
    for (int s = from; s < to; s++) {
        set_grad(m, s);
        for (int i = 0; i < m->buckets; i++)
            m->optim->step(m->self[i], &m->bucket[i], (uint64_t)s, rate, scale);
    }
}

/* ---- sgd ---- */

static void reference(float *w, float *v, const float *grad, float rate, float momentum,
                      float decay, float scale, bool nesterov)
{
    for (int i = 0; i < ALL; i++) {
        float g = grad[i] * scale + (i < ROWS * COLS ? decay : 0) * w[i];
        v[i] = momentum * v[i] + g;
        w[i] -= rate * (nesterov ? g + momentum * v[i] : v[i]);
    }
}

static void check_reference(const char *spec, float momentum, float decay, bool nesterov, bool cut)
{
    model m;
    float w[ALL], v[ALL] = {0};

    assert_int_equal(make(&m, spec, cut), WEIR_OK);
    memcpy(w, m.param, sizeof w);
    for (int s = 0; s < 5; s++) {
        run(&m, s, s + 1, 0.05, 0.5f);
        reference(w, v, m.grad, 0.05f, momentum, decay, 0.5f, nesterov);
    }
    for (int i = 0; i < ALL; i++)
        assert_float_equal(m.param[i], w[i], 1e-6);
    weir_arena_free(m.arena);
}

static void sgd_follows_the_reference(void **unused)
{
    (void)unused;
    for (int cut = 0; cut < 2; cut++) {
        check_reference("sgd", 0, 0, false, cut);
        check_reference("sgd:decay=0.1", 0, 0.1f, false, cut);
        check_reference("sgd:momentum=0.9", 0.9f, 0, false, cut);
        check_reference("sgd:momentum=0.9,decay=0.1", 0.9f, 0.1f, false, cut);
        check_reference("sgd:momentum=0.9,nesterov=yes,decay=0.1", 0.9f, 0.1f, true, cut);
    }
}

/* One parameter from 1, gradients 0.5 and 0.25, rate 0.1, momentum 0.9, decay 0.01: torch.optim.SGD
 * by hand. */
static void check_by_hand(const char *spec, double first, double second)
{
    model m;

    assert_int_equal(make(&m, spec, false), WEIR_OK);
    m.param[0] = 1;
    for (int s = 0; s < 2; s++) {
        m.grad[0] = s ? 0.25f : 0.5f;
        weir_optim_sgd.step(m.self[0], &m.bucket[0], (uint64_t)s, 0.1, 1);
        assert_float_equal(m.param[0], s ? second : first, 1e-6);
    }
    weir_arena_free(m.arena);
}

static void sgd_is_pytorchs(void **unused)
{
    (void)unused;
    check_by_hand("sgd", 0.95, 0.925);
    check_by_hand("sgd:decay=0.01", 0.949, 0.923051);
    check_by_hand("sgd:momentum=0.9,decay=0.01", 0.949, 0.877151);
    check_by_hand("sgd:momentum=0.9,decay=0.01,nesterov=yes", 0.9031, 0.81257411);
}

static void sgd_tells_its_momentum_and_refuses(void **unused)
{
    model m;
    (void)unused;

    assert_int_equal(make(&m, "sgd:momentum=0.75", false), WEIR_OK);
    weir_momentum taken;
    assert_true(weir_optim_sgd.momentum(m.self[0], &taken) && taken.factor == 0.75f);
    weir_arena_free(m.arena);
    assert_int_equal(make(&m, "sgd:nesterov=yes", false), WEIR_MISFIT);
    assert_non_null(strstr(weir_why_text(), "momentum"));
    weir_arena_free(m.arena);
    assert_int_equal(make(&m, "sgd:momentum=1", false), WEIR_USAGE);
    weir_arena_free(m.arena);
    assert_int_equal(make(&m, "sgd:decay=-1", false), WEIR_USAGE);
    weir_arena_free(m.arena);
}

/* ---- those that adapt: adagrad, adam, adamw ---- */

typedef struct rule {
    const char *spec;
    double beta1, beta2, eps, decay, initial;
    bool adagrad, decoupled;
} rule;

/* One element's step t (from 1) as the papers have it, in double. */
static void exact_step(const rule *r, double *w, double *m, double *v, double g, double rate,
                       double decay, int t)
{
    g += r->decoupled ? 0 : decay * *w;
    if (r->adagrad) {
        *v += g * g;
        *w -= rate * g / (sqrt(*v) + r->eps);
        return;
    }
    *w -= r->decoupled ? rate * decay * *w : 0;
    *m = r->beta1 * *m + (1 - r->beta1) * g;
    *v = r->beta2 * *v + (1 - r->beta2) * g * g;
    *w -= rate * (*m / (1 - pow(r->beta1, t))) / (sqrt(*v / (1 - pow(r->beta2, t))) + r->eps);
}

static void check_rule(const rule *r, bool cut)
{
    double w[ALL], m[ALL] = {0}, v[ALL];
    model have;

    assert_int_equal(make(&have, r->spec, cut), WEIR_OK);
    for (int i = 0; i < ALL; i++)
        w[i] = have.param[i], v[i] = r->initial;
    for (int s = 0; s < 30; s++) {
        run(&have, s, s + 1, 0.02, 0.5f);
        for (int i = 0; i < ALL; i++)
            exact_step(r, w + i, m + i, v + i, have.grad[i] * 0.5, 0.02,
                       i < ROWS * COLS ? r->decay : 0, s + 1);
    }
    for (int i = 0; i < ALL; i++)
        assert_float_equal(have.param[i], w[i], 3e-6);
    weir_arena_free(have.arena);
}

static void adaptive_ones_follow_the_reference(void **unused)
{
    static const rule rules[] = {
        {.spec = "adagrad", .eps = 1e-10, .adagrad = true},
        {.spec = "adagrad:decay=0.3,eps=1e-3,initial=0.1",
         .eps = 1e-3,
         .decay = 0.3,
         .initial = 0.1,
         .adagrad = true},
        {.spec = "adam", .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
        {.spec = "adam:beta1=0.5,beta2=0.9,eps=0.01,decay=0.3",
         .beta1 = 0.5,
         .beta2 = 0.9,
         .eps = 0.01,
         .decay = 0.3},
        {.spec = "adam:beta1=0,beta2=0", .eps = 1e-8},
        {.spec = "adamw",
         .beta1 = 0.9,
         .beta2 = 0.999,
         .eps = 1e-8,
         .decay = 0.01,
         .decoupled = true},
        {.spec = "adamw:decay=0.3",
         .beta1 = 0.9,
         .beta2 = 0.999,
         .eps = 1e-8,
         .decay = 0.3,
         .decoupled = true},
    };
    (void)unused;

    for (size_t i = 0; i < 2 * sizeof rules / sizeof *rules; i++)
        check_rule(&rules[i / 2], i % 2);
}

/* PyTorch 2's weights after 10 steps, from
 *   python3 -c 'import torch; from math import sin, cos
 *   w = torch.tensor([sin(i) for i in range(4)], requires_grad=True); o = torch.optim.Adam([w],
 * lr=0.1) for s in range(10): w.grad = torch.tensor([cos(3 * i + 7 * s) * 0.3 for i in range(4)]);
 * o.step() print(w)' and likewise with weight_decay, betas, eps, initial_accumulator_value, and
 * with Adagrad and AdamW. */
static void adaptive_ones_are_pytorchs(void **unused)
{
    static const struct {
        const char *spec;
        double w[4];
    } after[] = {
        {"adagrad", {-0.10255688, 0.95187080, 0.79139674, 0.26648411}},
        {"adagrad:decay=0.1,initial=0.5", {-0.03986409, 0.79368144, 0.77857381, 0.16712923}},
        {"adam", {-0.25203252, 1.12715602, 0.59240913, 0.48692104}},
        {"adam:beta1=0.8,beta2=0.99,eps=1e-3,decay=0.1",
         {-0.13768291, 0.76983446, 0.49222973, 0.30286825}},
        {"adamw", {-0.24982768, 1.11636710, 0.58595777, 0.48274404}},
        {"adamw:decay=0.2", {-0.21096300, 0.92819595, 0.47471923, 0.40917307}},
    };
    (void)unused;

    for (size_t k = 0; k < sizeof after / sizeof *after; k++) {
        model m;
        assert_int_equal(make(&m, after[k].spec, true), WEIR_OK);
        run(&m, 0, 10, 0.1, 1);
        for (int i = 0; i < 4; i++)
            assert_float_equal(m.param[i], after[k].w[i], 1e-6);
        weir_arena_free(m.arena);
    }
}

static void adaptive_ones_refuse(void **unused)
{
    static const char *const bad[] = {"adam:beta1=1",         "adam:beta2=1",  "adam:eps=0",
                                      "adamw:decay=-1",       "adagrad:eps=0", "adagrad:initial=-1",
                                      "adagrad:momentum=0.9", "adam:beta1=nan"};
    model m;
    (void)unused;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(make(&m, bad[i], false), WEIR_USAGE);
        weir_arena_free(m.arena);
    }
}

/* ---- state ---- */

typedef struct memory_io {
    weir_io io;
    struct {
        char name[64];
        float x[ALL];
        size_t whole, got;
    } field[4];
    int fields;
} memory_io;

static weir_err keep_range(weir_io *io, const char *name, const weir_io_piece *piece)
{
    memory_io *m = (memory_io *)io;
    int i = 0;

    assert_int_equal(piece->keep, WEIR_KEEP_SAME);
    while (i < m->fields && strcmp(m->field[i].name, name))
        i++;
    if (i == m->fields && !io->loading) {
        snprintf(m->field[m->fields++].name, sizeof m->field[0].name, "%s", name);
        m->field[i].whole = piece->whole;
    }
    assert_true(i < m->fields);
    assert_int_equal(m->field[i].whole, piece->whole);
    memcpy(io->loading ? piece->x : m->field[i].x + piece->at,
           io->loading ? m->field[i].x + piece->at : piece->x, piece->n * sizeof *piece->x);
    m->field[i].got += io->loading ? 0 : piece->n;
    return WEIR_OK;
}

static void pass_state(model *m, memory_io *io, bool loading)
{
    io->io.loading = loading;
    for (int i = 0; i < m->buckets; i++)
        assert_int_equal(m->optim->state(m->self[i], &m->bucket[i], &io->io), WEIR_OK);
    assert_string_equal(io->io.prefix, "optim.");
}

static bool kept(const memory_io *io, const char *name)
{
    for (int i = 0; i < io->fields; i++)
        if (!strcmp(io->field[i].name, name))
            return io->field[i].got == io->field[i].whole;
    return false;
}

/* Saved by one cut, taken up by the other, at step 4: both go on alike. */
static void check_state(const char *spec, const char *const *names, bool cut)
{
    memory_io io = {.io = {.range = keep_range, .prefix = "optim."}};
    model a, b;
    int n = 0;

    assert_int_equal(make(&a, spec, cut), WEIR_OK);
    assert_int_equal(make(&b, spec, !cut), WEIR_OK);
    run(&a, 0, 4, 0.1, 1);
    pass_state(&a, &io, false);
    while (names[n])
        assert_true(kept(&io, names[n++]));
    assert_int_equal(io.fields, n);
    memcpy(b.param, a.param, sizeof a.param);
    pass_state(&b, &io, true);
    run(&a, 4, 8, 0.1, 1);
    run(&b, 4, 8, 0.1, 1);
    assert_memory_equal(a.param, b.param, sizeof a.param);
    weir_arena_free(a.arena);
    weir_arena_free(b.arena);
}

static void state_outlives_another_cut(void **unused)
{
    static const char *const sgd[] = {"optim.w.momentum", "optim.b.momentum", NULL},
                             *const sum[] = {"optim.w.sum", "optim.b.sum", NULL},
                             *const two[] = {"optim.w.exp_avg", "optim.b.exp_avg",
                                             "optim.w.exp_avg_sq", "optim.b.exp_avg_sq", NULL};
    (void)unused;

    for (int cut = 0; cut < 2; cut++) {
        check_state("sgd:momentum=0.9,decay=0.1", sgd, cut);
        check_state("adagrad:decay=0.1", sum, cut);
        check_state("adam:decay=0.1", two, cut);
        check_state("adamw", two, cut);
    }
}

static void no_momentum_keeps_nothing(void **unused)
{
    memory_io io = {.io = {.range = keep_range, .prefix = "optim."}};
    model m;
    (void)unused;

    assert_int_equal(make(&m, "sgd:decay=0.1", true), WEIR_OK);
    pass_state(&m, &io, false);
    assert_int_equal(io.fields, 0);
    weir_arena_free(m.arena);
}

static void a_range_outside_its_field_is_refused(void **unused)
{
    memory_io io = {.io = {.range = keep_range}};
    float x[4] = {0};
    (void)unused;

    assert_int_equal(weir_io_range(&io.io, "x", &(weir_io_piece){x, 0, 4, 4, WEIR_KEEP_SAME}),
                     WEIR_OK);
    assert_int_equal(weir_io_range(&io.io, "x", &(weir_io_piece){x, 1, 4, 4, WEIR_KEEP_SAME}),
                     WEIR_FAILED);
    assert_int_equal(weir_io_range(&io.io, "x",
                                   &(weir_io_piece){x, SIZE_MAX, 2, 4, WEIR_KEEP_SAME}),
                     WEIR_FAILED);
}

/* ---- rates ---- */

enum { STEPS = 1000, EPOCH = 50 };

static double rate(const char *spec, uint64_t step)
{
    weir_arena *a = weir_arena_new();
    weir_rate_use use;
    double x;

    assert_int_equal(weir_rate_open(spec, STEPS, EPOCH, a, &use), WEIR_OK);
    x = weir_rate_at(&use, (double)step);
    weir_arena_free(a);
    return x;
}

static void rates_are_exact_at_their_ends(void **unused)
{
    (void)unused;
    assert_true(rate("0.05", 0) == 0.05 && rate("5e-2", STEPS) == 0.05 &&
                rate("constant:0.05", 7) == 0.05);
    for (int i = 0; i < 2; i++) {
        const char *spec = i ? "linear:rate=0.3,floor=0.1" : "cosine:rate=0.3,floor=0.1";
        assert_true(rate(spec, 0) == 0.3);
        assert_true(rate(spec, STEPS) == 0.1 && rate(spec, STEPS + 9) == 0.1);
        assert_float_equal(rate(spec, STEPS / 2), 0.2, 1e-15);
        for (int s = 0; s < STEPS; s++)
            assert_true(rate(spec, (uint64_t)s) > rate(spec, (uint64_t)s + 1));
    }
    assert_float_equal(rate("linear:rate=1", STEPS - 1), 1e-3, 1e-15);
}

static void the_cosine_is_a_cosine(void **unused)
{
    (void)unused;
    for (int s = 0; s < STEPS; s++)
        assert_float_equal(rate("cosine:rate=1", (uint64_t)s), (1 + cos(M_PI * s / STEPS)) / 2,
                           1e-15);
}

static void steps_fall_when_they_should(void **unused)
{
    (void)unused;
    assert_true(rate("step:rate=0.8,every=100,factor=0.5", 99) == 0.8);
    assert_true(rate("step:rate=0.8,every=100,factor=0.5", 100) == 0.4);
    assert_true(rate("step:rate=0.8,every=100,factor=0.5", 399) == 0.1);
    assert_true(rate("step:rate=0.8,every=2e,factor=0.5", 99) == 0.8);
    assert_true(rate("step:rate=0.8,every=2e,factor=0.5", 100) == 0.4);
    assert_float_equal(rate("step:rate=1,every=1,factor=0.9", 100), pow(0.9, 100), 1e-15);
}

static void warm_up_rises_to_the_first_value(void **unused)
{
    (void)unused;
    assert_true(rate("constant:rate=0.5,warmup=4", 0) == 0.125);
    assert_true(rate("constant:rate=0.5,warmup=4", 3) == 0.5);
    assert_true(rate("cosine:rate=0.5,warmup=4", 3) == 0.5 &&
                rate("cosine:rate=0.5,warmup=4", 4) == 0.5);
    assert_true(rate("cosine:rate=0.5,warmup=4", 5) < 0.5 &&
                rate("cosine:rate=0.5,warmup=4", STEPS) == 0);
    assert_float_equal(rate("linear:rate=1,warmup=500", 750), 0.5, 1e-15);
    assert_true(rate("constant:rate=1,warmup=2e", 99) == 1 &&
                rate("constant:rate=1,warmup=2e", 49) == 0.5);
    assert_true(rate("step:rate=1,every=10,factor=0.5,warmup=5", 14) == 1);
    assert_true(rate("step:rate=1,every=10,factor=0.5,warmup=5", 15) == 0.5);
    /* a run that ends while warming up */
    assert_true(rate("cosine:rate=1,warmup=2000", 999) == 0.5);
    /* none left for the schedule: it never begins to fall */
    assert_true(rate("cosine:rate=1,warmup=1000", 1000) == 1);
}

static void what_is_no_rate_is_said_in_words(void **unused)
{
    static const struct {
        const char *spec, *words;
    } bad[] = {
        {"abc", "a number, or one of constant, step, cosine, linear"},
        {"", "a number"},
        {"1e", "a number"},
        {"0.1x", "a number"},
        {"-1", "at least 0"},
        {"nan", "a number"},
        {"inf", "a number"},
        {"cosine:rate=abc", "rate=abc"},
        {"cosine:rat=1", "rat"},
        {"step:every=0", "at least one step"},
        {"step:every=0e", "at least one step"},
        {"step:every=1.5e", "epochs as in 2e"},
        {"linear:warmup=-1", "epochs as in 2e"},
        {"linear:warmup=e", "epochs as in 2e"},
        {"linear:warmup=2ee", "epochs as in 2e"},
        {"linear:warmup=", "epochs as in 2e"},
        {"linear:warmup=99999999999999999999", "epochs"},
        {"linear:warmup=9999999999999999999e", "epochs"},
    };
    weir_arena *a = weir_arena_new();
    weir_rate_use use = {.steps = 77};
    (void)unused;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(weir_rate_open(bad[i].spec, STEPS, EPOCH, a, &use), WEIR_USAGE);
        assert_non_null(strstr(weir_why_text(), bad[i].words));
    }
    assert_int_equal(use.steps, 77);
    weir_arena_free(a);
}

static void tables_are_sound(void **unused)
{
    (void)unused;
    assert_int_equal(weir_plug_check(weir_optims, "optim"), WEIR_OK);
    assert_int_equal(weir_plug_check(weir_rates, "lr"), WEIR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sgd_follows_the_reference),
        cmocka_unit_test(sgd_is_pytorchs),
        cmocka_unit_test(sgd_tells_its_momentum_and_refuses),
        cmocka_unit_test(adaptive_ones_follow_the_reference),
        cmocka_unit_test(adaptive_ones_are_pytorchs),
        cmocka_unit_test(adaptive_ones_refuse),
        cmocka_unit_test(state_outlives_another_cut),
        cmocka_unit_test(no_momentum_keeps_nothing),
        cmocka_unit_test(a_range_outside_its_field_is_refused),
        cmocka_unit_test(rates_are_exact_at_their_ends),
        cmocka_unit_test(the_cosine_is_a_cosine),
        cmocka_unit_test(steps_fall_when_they_should),
        cmocka_unit_test(warm_up_rises_to_the_first_value),
        cmocka_unit_test(what_is_no_rate_is_said_in_words),
        cmocka_unit_test(tables_are_sound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
