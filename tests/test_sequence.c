/* test_sequence.c - layers of sequences, and losses beside that of classes: against PyTorch
 * (tests/torch), finite differences and plain sums; the kernels they use, in every variant this
 * machine can run. */
#include "help_nn.h"
#include "nn/kernels.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A line of tests/torch/sequence_cases. */
typedef struct one_case {
    char name[64], layers[256];
    int batch;
    weir_model_input in;
} one_case;

static void read_data(const char *text, weir_model_input *in)
{
    long long a = 0, b = 0, c = 0;
    int n = sscanf(strchr(text, ':'), ":%lld:%lld:%lld", &a, &b, &c);

    if (!strncmp(text, "tokens", 6))
        *in = (weir_model_input){
            .dims = 1, .dim = {b}, .tokens = true, .kind = WEIR_SCORE_TOKENS, .classes = a};
    else if (!strncmp(text, "values", 6))
        *in = (weir_model_input){.dims = 1, .dim = {a}, .kind = WEIR_SCORE_VALUES, .classes = b};
    else
        *in = (weir_model_input){.dims = 2,
                                 .dim = {a, b},
                                 .kind = n == 3 ? WEIR_SCORE_TOKENS : WEIR_SCORE_CLASSES,
                                 .classes = n == 3 ? c : b};
}

static int each_case(void (*each)(const one_case *, void *), void *arg)
{
    size_t n;
    char *text = read_source("tests/torch/sequence_cases", &n), *rest = text, *line;
    int count = 0;

    while ((line = strsep(&rest, "\n"))) {
        one_case c = {0};
        char data[64];
        if (line[0] == '#' ||
            sscanf(line, "%63s %d %63s %255[^\n]", c.name, &c.batch, data, c.layers) != 4)
            continue;
        read_data(data, &c.in);
        each(&c, arg);
        count++;
    }
    free(text);
    return count;
}

/* ---- PyTorch ---- */

static void close_to(const one_case *c, const char *what, const float *x, size_t n)
{
    char name[128];
    double apart;

    snprintf(name, sizeof name, "%s/%s", c->name, what);
    if (!((apart = apart_from(name, x, n)) <= 1e-5))
        fail_msg("%s is %g from PyTorch's", name, apart);
}

static void compare_case(const one_case *c, void *arg)
{
    int k = 0;
    rig r;

    (void)arg;
    rig_open_data(&r, c->layers, c->batch, &c->in);
    rig_forward(&r);
    rig_backward(&r);
    close_to(c, "y", r.y, r.outs);
    if (!c->in.tokens)
        close_to(c, "dx", r.dx, r.ins);
    for (int i = 0; i < r.graph->nodes; i++)
        for (int w = 0; w < r.graph->node[i].weights; w++) {
            const weir_tensor *t = &r.graph->tensor[r.graph->node[i].tensor[w]];
            char what[16];
            snprintf(what, sizeof what, "dw%d", k++);
            close_to(c, what, r.grad + t->at, t->n);
        }
    rig_close(&r);
}

static void layers_are_as_pytorch(void **state)
{
    (void)state;
    assert_true(each_case(compare_case, NULL) >= 20);
}

/* ---- finite differences ---- */

static double functional(rig *r)
{
    double sum = 0;

    rig_forward(r);
    for (size_t i = 0; r->take && i < r->outs; i++)
        sum += (double)r->y[i] * r->dy[i];
    return r->take ? sum : r->engine.run.score.loss / r->plan->n;
}

/* Central difference along a random direction of `at` against the gradient. */
static void check_direction(rig *r, float *at, const float *grad, size_t n, uint32_t stream,
                            const char *name)
{
    const float h = 1e-2f;
    float *start = malloc(n * sizeof *start);
    double expected = 0, scale = 0, up, down;

    memcpy(start, at, n * sizeof *start);
    for (size_t i = 0; i < n; i++) {
        expected += (double)grad[i] * hash_value(stream, (uint32_t)i);
        scale += (double)grad[i] * grad[i];
        at[i] = start[i] + h * hash_value(stream, (uint32_t)i);
    }
    up = functional(r);
    for (size_t i = 0; i < n; i++)
        at[i] = start[i] - h * hash_value(stream, (uint32_t)i);
    down = functional(r);
    memcpy(at, start, n * sizeof *start);
    free(start);
    if (!(fabs((up - down) / (2 * h) - expected) <= 2e-3 * sqrt(scale) + 1e-6))
        fail_msg("%s: the gradient says %g, differences say %g (norm %g)", name, expected,
                 (up - down) / (2 * h), sqrt(scale));
}

static void differ_case(const one_case *c, void *arg)
{
    rig r;

    (void)arg;
    if (strchr(c->layers, ';')) /* layers alone */
        return;
    rig_open_data(&r, c->layers, c->batch, &c->in);
    rig_forward(&r);
    rig_backward(&r);
    float *dx = malloc(r.ins * sizeof *dx), *grad = malloc((r.graph->params + 1) * sizeof *grad);
    memcpy(dx, r.dx, r.ins * sizeof *dx);
    memcpy(grad, r.grad, r.graph->params * sizeof *grad);
    for (uint32_t k = 0; k < 3; k++) {
        if (!c->in.tokens)
            check_direction(&r, r.x, dx, r.ins, 1000 + k, c->name);
        for (int i = 0; i < r.graph->tensors; i++) {
            const weir_tensor *t = &r.graph->tensor[i];
            check_direction(&r, r.param + t->at, grad + t->at, t->n, 2000 + k, t->name);
        }
    }
    free(dx);
    free(grad);
    rig_close(&r);
}

static void gradients_are_differences(void **state)
{
    (void)state;
    assert_true(each_case(differ_case, NULL) > 0);
}

/* ---- the same bytes twice, and with other threads ---- */

static void run_twice(const one_case *c, void *arg)
{
    rig r;

    (void)arg;
    rig_open_data(&r, c->layers, c->batch, &c->in);
    rig_forward(&r);
    rig_backward(&r);
    size_t bytes = r.graph->params * sizeof(float);
    float *grad = malloc(bytes + 1), *y = malloc(r.outs * sizeof *y);
    memcpy(grad, r.grad, bytes);
    memcpy(y, r.y, r.outs * sizeof *y);
    memset(r.grad, 0xff, bytes);
    rig_forward(&r);
    rig_backward(&r);
    assert_memory_equal(grad, r.grad, bytes);
    assert_memory_equal(y, r.y, r.outs * sizeof *y);
    free(grad);
    free(y);
    rig_close(&r);
}

static void passes_repeat_and_overwrite(void **state)
{
    (void)state;
    weir_model_threads(2);
    each_case(run_twice, NULL);
    weir_model_threads(1);
    each_case(run_twice, NULL);
}

/* ---- losses ---- */

static void right_tokens_are_counted(void **state)
{
    static const weir_model_input in = {.dims = 2,
                                        .dim = {4, 3},
                                        .kind = WEIR_SCORE_TOKENS,
                                        .classes = 3};
    rig r;

    (void)state;
    rig_open_data(&r, "softmax", 1, &in);
    memcpy(r.x, (float[]){1, 2, 3, /**/ 3, 3, 1, /**/ 3, 3, 1, /**/ 0, 0, -1}, 12 * sizeof(float));
    memcpy(r.label, (int32_t[]){2, 0, 1, 2}, 4 * sizeof(int32_t)); /* a tie is the first one's */
    rig_forward(&r);
    assert_true(r.engine.run.score.right == 2 && r.engine.run.score.count == 4);
    assert_float_equal(r.engine.run.score.loss,
                       log(1 + exp(-1) + exp(-2)) + 2 * log(2 + exp(-2)) + log(2 + exp(-1)) + 1,
                       1e-6);
    rig_close(&r);
}

static void squares_are_summed(void **state)
{
    static const weir_model_input in = {.dims = 1,
                                        .dim = {2},
                                        .kind = WEIR_SCORE_VALUES,
                                        .classes = 2};
    rig r;

    (void)state;
    rig_open_data(&r, "mse", 2, &in);
    memcpy(r.x, (float[]){1, 2, 3, 5}, 4 * sizeof(float));
    memcpy(r.value, (float[]){0, 0, 0, 1}, 4 * sizeof(float));
    rig_forward(&r);
    assert_true(r.engine.run.score.squares == 30 && r.engine.run.score.count == 2 &&
                r.engine.run.score.loss == 15);
    rig_close(&r);
}

static void hostile_numbers_are_refused(void **state)
{
    static const weir_model_input in = {
        .dims = 1, .dim = {3}, .tokens = true, .kind = WEIR_SCORE_TOKENS, .classes = 5};
    static const int32_t bad[] = {-1, 5, INT32_MAX, INT32_MIN};
    rig r;

    (void)state;
    rig_open_data(&r, "embedding out=5; softmax", 2, &in);
    for (int i = 0; i < 4; i++) {
        int32_t good = r.token[5];
        rig_forward(&r);
        r.token[5] = bad[i];
        assert_int_equal(weir_layer_steps_run(&r.plan->stage[0], WEIR_LAYER_FORWARD), WEIR_INVALID);
        assert_non_null(strstr(weir_why_text(), "place 5"));
        r.token[5] = good;
        r.label[4] = bad[i];
        assert_int_equal(weir_layer_steps_run(&r.plan->stage[1], WEIR_LAYER_FORWARD), WEIR_INVALID);
        r.label[4] = 0;
    }
    rig_close(&r);
}

/* ---- kernels ---- */

static void check_product(const weir_kernels *kernels, int64_t m, int64_t units, int64_t k,
                          bool turned, bool add)
{
    int64_t cols = units * WEIR_UNIT;
    float *a = malloc((size_t)(m * k) * 4), *b = malloc((size_t)(k * cols) * 4),
          *c = malloc((size_t)(m * cols) * 4);
    weir_product p = {m,
                      units,
                      k,
                      {a, turned ? 1 : k, turned ? m : 1},
                      {b, cols, WEIR_UNIT},
                      {c, cols, WEIR_UNIT},
                      add};

    hash_fill(a, (size_t)(m * k), 1, 1);
    hash_fill(b, (size_t)(k * cols), 2, 1);
    hash_fill(c, (size_t)(m * cols), 3, 1);
    kernels->product(&p);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < cols; j++) {
            double sum = add ? hash_value(3, (uint32_t)(i * cols + j)) : 0;
            for (int64_t x = 0; x < k; x++)
                sum += (double)a[i * p.a.row + x * p.a.col] * b[x * cols + j];
            assert_float_equal(c[i * cols + j], sum, 1e-5);
        }
    free(a);
    free(b);
    free(c);
}

static void products_are_sums(void **state)
{
    (void)state;
    for (int v = 0; weir_kernels_all()[v]; v++)
        for (int64_t m = 0; m < 15; m++)
            for (int64_t units = 1; units < 7; units++) {
                check_product(weir_kernels_all()[v], m, units, 5, m % 2, false);
                check_product(weir_kernels_all()[v], m, units, 1 + m, m % 2, true);
            }
}

static void squares_are_turned(void **state)
{
    float x[WEIR_UNIT * 48], y[WEIR_UNIT * 48];

    (void)state;
    hash_fill(x, WEIR_UNIT * 48, 5, 1);
    for (int v = 0; weir_kernels_all()[v]; v++)
        for (int64_t n = WEIR_UNIT; n <= 48; n += WEIR_UNIT) {
            weir_kernels_all()[v]->transpose(y, x, n);
            for (int64_t i = 0; i < n; i++)
                for (int64_t j = 0; j < WEIR_UNIT; j++)
                    assert_true(y[i * WEIR_UNIT + j] == x[j * n + i]);
        }
}

static void rows_of_softmax_are_exact(void **state)
{
    enum { N = 1031 };
    float x[N], y[N];

    (void)state;
    for (int v = 0; weir_kernels_all()[v]; v++)
        for (int n = 1; n <= N; n += n < 40 ? 1 : 330) {
            const weir_kernels *k = weir_kernels_all()[v];
            double sum = 0;
            float top = -INFINITY;
            hash_fill(x, (size_t)n, 9, .02f); /* up to 50 */
            for (int i = 0; i < n; i++)
                top = x[i] > top ? x[i] : top;
            for (int i = 0; i < n; i++)
                sum += exp((double)(float)(x[i] - top));
            assert_true(k->most(x, n) == top);
            assert_float_equal(k->exp_sum(x, n, 1, top) / sum, 1, 1e-6);
            assert_float_equal(k->exp_to(y, x, n, 1, top, 2) / sum, 2, 2e-6);
            for (int i = 0; i < n; i++)
                assert_true(fabs(y[i] - 2 * exp((double)(float)(x[i] - top))) <=
                            4e-7 * exp((double)(float)(x[i] - top)) + 3e-38);
        }
}

/* A NaN or an infinity anywhere must not be lost on the way. */
static void numbers_that_are_none_stay(void **state)
{
    (void)state;
    for (int v = 0; weir_kernels_all()[v]; v++)
        for (int bad = 0; bad < 2; bad++) {
            const weir_kernels *k = weir_kernels_all()[v];
            float x[40] = {0}, y[40], gate[64] = {0}, c[16] = {0}, h[16], carry[16];
            static const float zero[64];
            x[37] = bad ? NAN : INFINITY;
            assert_true(isnan(k->exp_sum(x, 40, 1, k->most(x, 40))));
            k->exp_to(y, x, 40, 1, k->most(x, 40), 1);
            assert_true(isnan(y[37]));
            gate[32] = bad ? NAN : 0;
            k->lstm(&(weir_lstm_cells){.rows = 1,
                                       .cells = 16,
                                       .gap = 16,
                                       .gate = gate,
                                       .sum = zero,
                                       .old = zero,
                                       .c = c,
                                       .h = h,
                                       .carry = carry});
            assert_true(isnan(h[0]) == bad && isfinite(h[1]));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_are_as_pytorch),
        cmocka_unit_test(gradients_are_differences),
        cmocka_unit_test(passes_repeat_and_overwrite),
        cmocka_unit_test(right_tokens_are_counted),
        cmocka_unit_test(squares_are_summed),
        cmocka_unit_test(hostile_numbers_are_refused),
        cmocka_unit_test(products_are_sums),
        cmocka_unit_test(rows_of_softmax_are_exact),
        cmocka_unit_test(numbers_that_are_none_stay),
        cmocka_unit_test(squares_are_turned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
