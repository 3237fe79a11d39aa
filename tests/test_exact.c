/* test_exact.c - exact mode: gradients are as the fast ones are, and no sample's numbers depend on
 * the company it is in. */
#include "core/vec.h"
#include "help_nn.h"
#include "nn/kernels.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BATCH = 22 };

typedef struct one_case {
    const char *layers;
    weir_model_input in;
} one_case;

#define ROW(n)                               \
    {                                        \
        .dims = 1, .dim = {n}, .classes = 10 \
    }
#define ROWS(n, w)                              \
    {                                           \
        .dims = 2, .dim = {n, w}, .classes = 10 \
    }
#define PICTURE(c, h, w)                           \
    {                                              \
        .dims = 3, .dim = {c, h, w}, .classes = 10 \
    }
#define TOKENS(n, v)                                                                   \
    {                                                                                  \
        .dims = 1, .dim = {n}, .tokens = true, .kind = WEIR_SCORE_TOKENS, .classes = v \
    }

/* Every layer that has exact sums, at sizes of the zoo and at odd ones, and what else stands
 * between such layers. */
static const one_case cases[] = {
    {"dense out=1", ROW(1)},
    {"dense out=33", ROW(100)},
    {"dense out=10 bias=no", ROW(84)},
    {"dense out=120; relu; dense out=84; relu; dense out=10; softmax", ROW(400)},
    {"dense out=1024; relu; dense out=10; softmax", ROW(784)},
    {"dense out=5", ROWS(3, 6)},
    {"dense out=36", ROWS(19, 12)},
    {"conv out=4 kernel=3", PICTURE(1, 8, 8)},
    {"conv out=6 kernel=5 pad=2", PICTURE(1, 28, 28)},
    {"conv out=16 kernel=5", PICTURE(6, 14, 14)},
    {"conv out=5 kernel=3 stride=2 pad=1", PICTURE(3, 9, 7)},
    {"conv out=16 kernel=3 pad=1 bias=no", PICTURE(3, 32, 32)},
    {"conv out=16 kernel=3 pad=1 bias=no", PICTURE(16, 32, 32)},
    {"conv out=32 kernel=3 stride=2 pad=1 bias=no", PICTURE(16, 32, 32)},
    {"conv out=32 kernel=1 stride=2 bias=no", PICTURE(16, 32, 32)},
    {"conv out=64 kernel=3 pad=1 bias=no", PICTURE(64, 8, 8)},
    {"conv out=2 kernel=3 pad=1 bias=no", PICTURE(2, 8, 8)},
    {"conv out=8 kernel=3 groups=2 pad=1", PICTURE(4, 6, 6)},
    {"conv out=32 kernel=3 groups=2 bias=no", PICTURE(32, 4, 4)},
    {"conv out=16 kernel=3 groups=16 pad=1", PICTURE(16, 5, 5)},
    {"conv out=9 kernel=2 groups=3 stride=2", PICTURE(6, 5, 5)},
    {"conv out=3 kernel=5 pad=3", PICTURE(2, 3, 3)},
    {"conv out=20 kernel=3; relu; conv out=7 kernel=3 stride=2; relu", PICTURE(3, 8, 8)},
    {"conv out=16 kernel=3 pad=1; relu; maxpool kernel=3 stride=2; conv out=8 kernel=1; flatten; "
     "dense out=3",
     PICTURE(3, 9, 9)},
    {"conv out=16 kernel=3; tanh; avgpool kernel=3 stride=2 pad=1; conv out=20 kernel=1; "
     "globalavgpool; flatten; dense out=3",
     PICTURE(3, 9, 9)},
    {"conv a out=20 kernel=3; relu; conv b out=20 kernel=3 pad=1; add from=a; relu; dropout "
     "rate=0.3",
     PICTURE(3, 6, 6)},
    {"layernorm", ROW(10)},
    {"layernorm", ROWS(5, 33)},
    {"position; position; dense out=3", ROWS(5, 4)},
    {"embedding out=33", TOKENS(9, 5)},
    {"embedding out=24; position p; layernorm; dense out=72; attention heads=2; dense out=24; add "
     "from=p; layernorm; gelu; "
     "dense out=50; softmax",
     TOKENS(17, 50)},
};
static const one_case norms[] = {
    {"batchnorm", ROW(21)},
    {"batchnorm sync=yes; relu; dense out=5", ROW(21)},
    {"conv out=20 kernel=3 bias=no; batchnorm; relu; conv out=4 kernel=1", PICTURE(3, 6, 6)},
    {"batchnorm sync=yes", PICTURE(3, 5, 4)},
};
/* The rig has no fast gradients of tensors that two layers have. */
static const one_case tied = {"embedding e out=16; dense out=40 weight=e; softmax", TOKENS(9, 40)};
enum { CASES = sizeof cases / sizeof *cases, NORMS = sizeof norms / sizeof *norms };

/* ---- against the fast gradients ---- */

static void as_fast(const one_case *c)
{
    rig fast, exact;

    rig_open_data(&fast, c->layers, BATCH, &c->in);
    rig_open_exact(&exact, c->layers, BATCH, &c->in);
    for (int i = 0; i < 2; i++) {
        rig *r = i ? &exact : &fast;
        rig_forward(r);
        rig_backward(r);
    }
    weir_vec_best()->narrow(exact.grad, exact.exact, exact.graph->params);
    for (int i = 0; i < fast.graph->tensors; i++) {
        const weir_tensor *t = &fast.graph->tensor[i];
        double apart = relative(exact.grad + t->at, fast.grad + t->at, t->n);
        if (!(apart <= 1e-5))
            fail_msg("%s: the exact gradient of %s is %g from the fast one", c->layers, t->name,
                     apart);
    }
    assert_true(relative(exact.y, fast.y, fast.outs) <= 1e-5 &&
                relative(exact.dx, fast.dx, fast.ins) <= 1e-5);
    rig_close(&fast);
    rig_close(&exact);
}

static void exact_gradients_are_as_fast_ones(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++)
        as_fast(&cases[i]);
    for (int i = 0; i < NORMS; i++)
        as_fast(&norms[i]);
}

/* ---- company ---- */

/* A piece of per-sample data of the whole, for samples from..from + n - 1. */
static void take(void *to, const void *all, size_t floats, int from, int n)
{
    size_t each = floats / BATCH * sizeof(float);

    memcpy(to, (const char *)all + (size_t)from * each, (size_t)n * each);
}

/* Samples from..from + n - 1 of the whole, alone; their sums are added to `sum`. */
static void check_some(const one_case *c, const rig *whole, int from, int n, double *sum)
{
    size_t labels = (size_t)BATCH * (size_t)(c->in.kind == WEIR_SCORE_TOKENS ? c->in.dim[0] : 1);
    rig r;

    rig_open_exact(&r, c->layers, n, &c->in);
    take(r.x, whole->x, whole->ins, from, n);
    take(r.token, whole->token, whole->ins, from, n);
    take(r.label, whole->label, labels, from, n);
    if (whole->take)
        take(r.dy, whole->dy, whole->outs, from, n);
    r.scale = whole->scale;
    r.first = (uint64_t)from;
    rig_forward(&r);
    rig_backward(&r);
    if (whole->take &&
        memcmp(r.y, whole->y + whole->outs / BATCH * (size_t)from, r.outs * sizeof(float)))
        fail_msg("%s: the outputs of samples %d..%d are others among %d", c->layers, from,
                 from + n - 1, BATCH);
    if (!c->in.tokens &&
        memcmp(r.dx, whole->dx + whole->ins / BATCH * (size_t)from, r.ins * sizeof(float)))
        fail_msg("%s: the input gradients of samples %d..%d are others among %d", c->layers, from,
                 from + n - 1, BATCH);
    weir_vec_best()->add_f64(sum, r.exact, r.graph->params);
    rig_close(&r);
}

static void check_sums(const one_case *c, const rig *whole, const double *sum, const char *how)
{
    double apart = 0, all = 0;

    for (size_t i = 0; i < whole->graph->params; i++) {
        apart += (sum[i] - whole->exact[i]) * (sum[i] - whole->exact[i]);
        all += whole->exact[i] * whole->exact[i];
    }
    if (!(sqrt(apart) <= 1e-15 * sqrt(all)) || !(all > 0))
        fail_msg("%s, %s: sums of doubles are %g apart", c->layers, how, sqrt(apart / all));
}

/* One thread has them all; then two threads, and shares as workers have them. */
static void any_company(const one_case *c)
{
    static const int shares[][4] = {{BATCH}, {1, 21}, {11, 11}, {7, 6, 9}, {16, 2, 4}};
    rig whole;

    weir_model_threads(1);
    rig_open_exact(&whole, c->layers, BATCH, &c->in);
    rig_forward(&whole);
    rig_backward(&whole);
    for (size_t k = 0; k < sizeof shares / sizeof *shares; k++) {
        double *sum = calloc(whole.graph->params, sizeof *sum);
        int from = 0;
        assert_non_null(sum);
        weir_model_threads(k % 2 ? 1 : 2 + (int)k / 2);
        for (int i = 0; i < 4 && shares[k][i]; from += shares[k][i++])
            check_some(c, &whole, from, shares[k][i], sum);
        assert_int_equal(from, BATCH);
        check_sums(c, &whole, sum, k ? "in shares" : "on two threads");
        free(sum);
    }
    rig_close(&whole);
}

static void no_sample_sees_the_others(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++)
        any_company(&cases[i]);
    any_company(&tied);
    weir_model_threads(1);
}

/* ---- the kernel ---- */

static void check_wide(const weir_kernels *k, int64_t depth, int64_t rows, int64_t cols)
{
    enum { R = WEIR_WIDE_ROWS, C = WEIR_WIDE_COLS, STEP = C + 3 };
    double a[9 * R], b[9 * C], c[R * STEP], want[R * STEP];

    for (int i = 0; i < 9 * R; i++)
        a[i] = hash_value(HASH_X, (uint32_t)i);
    for (int i = 0; i < 9 * C; i++)
        b[i] = hash_value(HASH_WEIGHT, (uint32_t)i);
    for (int i = 0; i < R * STEP; i++)
        c[i] = want[i] = hash_value(HASH_OUT_GRAD, (uint32_t)i);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < cols; i++) {
            double sum = 0;
            for (int64_t d = 0; d < depth; d++)
                sum += a[d * R + r] * b[d * C + i];
            want[r * STEP + i] += sum;
        }
    k->wide(&(weir_wide){depth, rows, cols, a, b, c, STEP});
    assert_memory_equal(c, want, sizeof c); /* products are exact, so there is one rounding and one
                                               order; around it nothing changes */
}

static void every_kernel_has_the_same_doubles(void **state)
{
    (void)state;
    for (int v = 0; weir_kernels_all()[v]; v++)
        for (int64_t rows = 1; rows <= WEIR_WIDE_ROWS; rows++)
            for (int64_t cols = 1; cols <= WEIR_WIDE_COLS; cols++)
                check_wide(weir_kernels_all()[v], 1 + (rows + cols) % 9, rows, cols);
}

/* ---- whole models ---- */

/* A batch at once and in micro-batches, in exact mode. */
static void micro_batches_add_in_double(void **state)
{
    bench b;
    double *whole, *parts;
    size_t before;

    (void)state;
    bench_open(&b, "lenet");
    whole = WEIR_NEW(b.arena, double, b.params);
    parts = WEIR_NEW(b.arena, double, b.params);
    ok(weir_model_exact(b.model, parts));
    memset(b.grad, 0xFF, b.params * sizeof *b.grad);
    for (int i = 0; i < 4; i++)
        ok(weir_model_prepare(b.model, (int[]){ROOM, 5, 10, 1}[i]));
    before = weir_arena_bytes(b.arena);
    pass(&b, 0, ROOM, 1.0f / ROOM, false);
    memcpy(whole, parts, b.params * sizeof *whole);
    pass(&b, 0, 5, 1.0f / ROOM, false);
    pass(&b, 5, 10, 1.0f / ROOM, true);
    pass(&b, 15, 1, 1.0f / ROOM, true);
    for (size_t i = 0; i < b.params; i++)
        assert_true(fabs(whole[i] - parts[i]) <= 1e-12 * (fabs(whole[i]) + 1e-3) &&
                    (float)whole[i] == (float)parts[i]);
    for (size_t i = 0; i < b.params; i++)
        assert_true(isnan(b.grad[i]));                   /* nobody touches the floats */
    assert_int_equal(weir_arena_bytes(b.arena), before); /* and no step allocates */
    bench_close(&b);
}

static void a_worker_without_samples_adds_nothing(void **state)
{
    bench b;
    double *sum;

    (void)state;
    bench_open(&b, "mlp:hidden=16");
    sum = WEIR_NEW(b.arena, double, b.params);
    ok(weir_model_exact(b.model, sum));
    pass(&b, 0, 3, 1, false);
    assert_true(sum[0] != 0 || sum[b.params - 1] != 0);
    weir_score score = {0};
    ok(weir_model_forward(b.model, &(weir_model_batch){0}, &(weir_pass){.training = true}, &score));
    ok(weir_model_backward(b.model, 1, false, NULL, NULL));
    for (size_t i = 0; i < b.params; i++)
        assert_true(sum[i] == 0);
    bench_close(&b);
}

/* What a model says of itself, by which settings are judged (train/refuse.h). */
static void check_facts(const char *spec, const weir_model_input *in, const char *inexact,
                        const char *mixes)
{
    weir_arena *a = weir_arena_new();
    weir_model_facts f;
    weir_model *m;

    ok(weir_model_open(spec, in, 4, a, &m));
    f = weir_model_look(m);
    assert_true(!f.inexact == !inexact && !f.mixes == !mixes);
    if (inexact)
        assert_string_equal(f.inexact_kind, inexact);
    if (mixes)
        assert_string_equal(f.mixes, mixes);
    weir_model_close(m);
    weir_arena_free(a);
}

static void layers_without_exact_sums_say_so(void **state)
{
    const weir_model_input text = TOKENS(12, 50);

    (void)state;
    check_facts("lstm-small:width=8", &text, "lstm", NULL);
    check_facts("gpt:width=16,depth=1", &text, NULL, NULL);
    check_facts("resnet20:width=2", &colours, NULL, "stem.norm");
    check_facts("resnet20:width=2,sync=1", &colours, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_gradients_are_as_fast_ones),
        cmocka_unit_test(no_sample_sees_the_others),
        cmocka_unit_test(every_kernel_has_the_same_doubles),
        cmocka_unit_test(micro_batches_add_in_double),
        cmocka_unit_test(a_worker_without_samples_adds_nothing),
        cmocka_unit_test(layers_without_exact_sums_say_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
