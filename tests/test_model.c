/* test_model.c - whole models: a pass repeats, says what is ready, allocates nothing; the vector's
 * order, initial weights, batches and models that are refused. */
#include "help_nn.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const weir_pass training = {.training = true};

/* ---- laws of a pass ---- */

static float *copy(const float *x, size_t n)
{
    float *y = malloc(n * sizeof *y);

    memcpy(y, x, n * sizeof *y);
    return y;
}

static void count_ready(void *arg, int k)
{
    int *last = arg;

    assert_true(k == *last + 1);
    *last = k;
}

static void no_samples_no_gradient(void **state)
{
    weir_score score = {0};
    int last = -1;
    bench b;

    (void)state;
    bench_open(&b, "lenet");
    pass(&b, 0, 8, 0.125f, false);
    float *g = copy(b.grad, b.params);
    ok(weir_model_forward(b.model, &(weir_model_batch){0}, &training, &score));
    assert_true(score.count == 0 && score.loss == 0);
    ok(weir_model_backward(b.model, 1, true, count_ready, &last));
    assert_int_equal(last, 4);
    assert_memory_equal(b.grad, g, b.params * sizeof *g);
    ok(weir_model_forward(b.model, &(weir_model_batch){0}, &training, &score));
    ok(weir_model_backward(b.model, 1, false, NULL, NULL));
    for (size_t i = 0; i < b.params; i++)
        assert_true(b.grad[i] == 0);
    free(g);
    bench_close(&b);
}

static void runs_repeat_to_the_bit(void **state)
{
    bench b[2];

    (void)state;
    for (int k = 0; k < 2; k++) {
        bench_open(&b[k], "lenet");
        for (uint32_t s = 0; s < 5; s++) {
            set_batch(&b[k], HASH_STEP + s);
            if (k) /* other sizes in between, which move the memory, change nothing */
                pass(&b[k], 0, 3 + (int)s * 3, 1, false);
            pass(&b[k], 0, 7, 1 / 7.f, false);
            sgd_step(&b[k], 0.1f);
        }
    }
    assert_memory_equal(b[0].param, b[1].param, b[0].params * sizeof *b[0].param);
    bench_close(&b[0]);
    bench_close(&b[1]);
}

/* When `ready` says that tensors are final, they are. */
typedef struct watch {
    bench *b;
    float *seen;
    int last;
} watch;

static void keep_ready(void *arg, int k)
{
    watch *w = arg;

    count_ready(&w->last, k);
    for (int i = 0; i < w->b->tensors; i++)
        if (w->b->tensor[i].ready == k)
            memcpy(w->seen + w->b->tensor[i].at, w->b->grad + w->b->tensor[i].at,
                   w->b->tensor[i].n * sizeof(float));
}

static void ready_means_final(void **state)
{
    weir_score score = {0};
    bench b;

    (void)state;
    bench_open(&b, "lenet");
    for (int add = 0; add < 2; add++) {
        weir_model_batch batch = {.n = 8, .x = b.x, .label = b.label};
        watch w = {&b, calloc(b.params, sizeof(float)), -1};
        ok(weir_model_forward(b.model, &batch, &training, &score));
        ok(weir_model_backward(b.model, 1, add, keep_ready, &w));
        assert_int_equal(w.last, 4);
        assert_memory_equal(w.seen, b.grad, b.params * sizeof *b.grad);
        free(w.seen);
    }
    bench_close(&b);
}

static void evaluation_scores_alike(void **state)
{
    static const weir_pass evaluating = {.training = false};
    weir_model_batch batch;
    weir_score score = {0};
    bench b;

    (void)state;
    bench_open(&b, "lenet");
    batch = (weir_model_batch){.n = 8, .x = b.x, .label = b.label};
    double loss = pass(&b, 0, 8, 1, false);
    ok(weir_model_forward(b.model, &batch, &evaluating, &score));
    assert_true(score.loss == loss);
    assert_int_equal(weir_model_backward(b.model, 1, false, NULL, NULL), WEIR_FAILED);
    bench_close(&b);
}

static void steps_allocate_nothing(void **state)
{
    size_t before;
    bench b;

    (void)state;
    bench_open(&b, "lenet");
    ok(weir_model_prepare(b.model, 8));
    before = weir_arena_bytes(b.arena);
    for (int add = 0; add < 2; add++)
        pass(&b, 0, 8, 1, add);
    assert_int_equal(weir_arena_bytes(b.arena), before);
    bench_close(&b);
}

/* ---- order, initial weights, errors ---- */

static void vector_is_in_order(void **state)
{
    static const struct {
        const char *name;
        int ready;
    } order[] = {{"dense3.weight", 0}, {"dense2.weight", 1}, {"dense1.weight", 2},
                 {"conv2.weight", 3},  {"dense3.bias", 0},   {"dense2.bias", 1},
                 {"dense1.bias", 2},   {"conv2.bias", 3},    {"conv1.weight", 4},
                 {"conv1.bias", 4}};
    size_t at = 0;
    bench b;

    (void)state;
    bench_open(&b, "lenet");
    assert_string_equal(weir_model_name(b.model), "lenet");
    assert_int_equal(b.tensors, sizeof order / sizeof *order);
    for (int i = 0; i < b.tensors; i++) {
        assert_string_equal(b.tensor[i].name, order[i].name);
        assert_int_equal(b.tensor[i].ready, order[i].ready);
        assert_int_equal(b.tensor[i].at, at);
        assert_int_equal(b.tensor[i].decays, b.tensor[i].dims > 1);
        at += b.tensor[i].n;
    }
    assert_int_equal(at, b.params);
    bench_close(&b);
}

static void initial_weights_are_named(void **state)
{
    double sum = 0, most = 0, bound = 1 / sqrt(784);
    bench a, b;

    (void)state;
    bench_open(&a, "mlp:hidden=64");
    bench_open(&b, "mlp:hidden=80");
    weir_model_init(a.model, 7);
    weir_model_init(b.model, 7);
    const weir_tensor *first = &a.tensor[2], *other = &b.tensor[2], *second = &a.tensor[1];
    assert_string_equal(first->name, "dense1.weight");
    for (size_t i = 0; i < first->n; i++) {
        float x = a.param[first->at + i];
        sum += x;
        most = fabs(x) > most ? fabs(x) : most;
    }
    /* even within the bound: of some 50,000 none beyond 0.99 of it has a chance of e^-500, and the
     * mean is within 5 deviations of 0 */
    assert_true(most <= bound && most > 0.99 * bound &&
                fabs(sum / (double)first->n) < 5 * bound / sqrt(3 * (double)first->n));
    /* the same name, the same numbers, whatever else the model holds; another name or seed,
     * others */
    assert_memory_equal(a.param + first->at, b.param + other->at, first->n * sizeof(float));
    assert_true(fabs(a.param[first->at] / bound - a.param[second->at] * 8) > 1e-6);
    float *before = copy(a.param, a.params);
    weir_model_init(a.model, 8);
    /* vectors of one size that know nothing of each other are sqrt(2) of it apart; biases are 0 */
    assert_true(fabs(relative(a.param, before, a.params) - sqrt(2)) < 0.05);
    free(before);
    bench_close(&a);
    bench_close(&b);
}

static void bad_batches_are_refused(void **state)
{
    weir_model_batch batch;
    weir_score score = {0};
    bench b;

    (void)state;
    bench_open(&b, "lenet");
    batch = (weir_model_batch){.n = 4, .x = b.x, .label = b.label};
    b.label[2] = CLASSES;
    assert_int_equal(weir_model_forward(b.model, &batch, &training, &score), WEIR_INVALID);
    assert_non_null(strstr(weir_why_text(), "label 10"));
    assert_true(score.count == 0);
    assert_int_equal(weir_model_backward(b.model, 1, false, NULL, NULL), WEIR_FAILED);
    b.label[2] = 0;
    batch.n = ROOM + 1;
    assert_int_equal(weir_model_forward(b.model, &batch, &training, &score), WEIR_FAILED);
    batch.n = 4;
    bench_close(&b);
}

static void bad_numbers_are_blamed(void **state)
{
    weir_model_batch batch;
    weir_score score = {0};
    bench b;

    (void)state;
    bench_open(&b, "lenet");
    assert_null(weir_model_blame(b.model));
    batch = (weir_model_batch){.n = 4, .x = b.x, .label = b.label};
    ok(weir_model_forward(b.model, &batch, &training, &score));
    assert_null(weir_model_blame(b.model));
    b.param[b.tensor[0].at + 5] = NAN;
    ok(weir_model_forward(b.model, &batch, &training, &score));
    assert_true(isnan(score.loss));
    assert_string_equal(weir_model_blame(b.model), "dense3");
    b.param[b.tensor[3].at + 5] = INFINITY;
    weir_model_refresh(b.model);
    ok(weir_model_forward(b.model, &batch, &training, &score));
    assert_string_equal(weir_model_blame(b.model), "conv2");
    b.x[100] = NAN;
    ok(weir_model_forward(b.model, &batch, &training, &score));
    assert_string_equal(weir_model_blame(b.model), "input");
    bench_close(&b);
}

static void unknown_models_are_refused(void **state)
{
    weir_arena *arena = weir_arena_new();
    weir_model *model;

    (void)state;
    assert_int_equal(weir_model_open("lenett", &pictures, 8, arena, &model), WEIR_USAGE);
    assert_non_null(strstr(weir_why_text(), "lenet, "));
    assert_int_equal(weir_model_open("mlp:hiden=3", &pictures, 8, arena, &model), WEIR_USAGE);
    assert_non_null(strstr(weir_why_text(), "'hiden'; it has hidden"));
    assert_int_equal(weir_model_open("mlp:hidden=3x", &pictures, 8, arena, &model), WEIR_USAGE);
    assert_int_equal(weir_model_open("mlp:hidden", &pictures, 8, arena, &model), WEIR_USAGE);
    assert_int_equal(weir_model_open("mlp:hidden=0", &pictures, 8, arena, &model), WEIR_USAGE);
    assert_int_equal(weir_model_open("mlp:hidden=8/0", &pictures, 8, arena, &model), WEIR_USAGE);
    assert_non_null(strstr(weir_why_text(), "hidden=8/0: division by zero"));
    assert_int_equal(weir_model_open("", &pictures, 8, arena, &model), WEIR_USAGE);
    assert_int_not_equal(weir_model_open("./no/such.net", &pictures, 8, arena, &model), WEIR_OK);
    ok(weir_model_open(WEIR_SOURCE_DIR "/models/mlp.net:hidden=3", &pictures, 8, arena, &model));
    assert_string_equal(weir_model_name(model), "mlp");
    weir_model_close(model);
    weir_arena_free(arena);
}

static void models_say_what_they_are(void **state)
{
    char data[64], *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);

    (void)state;
    assert_true(weir_model_list(f));
    fclose(f);
    assert_non_null(strstr(text, "\n  lenet        LeNet-5"));
    assert_non_null(strstr(text, "\n      hidden=1024\n"));
    free(text);
    ok(weir_model_bench_data("mlp:hidden=3", data, sizeof data));
    assert_string_equal(data, "synth:shape=1x28x28,classes=10");
    assert_int_equal(weir_model_bench_data("mlp:hidden=3", data, 10), WEIR_INVALID);
    assert_int_equal(weir_model_bench_data("nobody", data, sizeof data), WEIR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_samples_no_gradient),     cmocka_unit_test(runs_repeat_to_the_bit),
        cmocka_unit_test(ready_means_final),          cmocka_unit_test(evaluation_scores_alike),
        cmocka_unit_test(steps_allocate_nothing),     cmocka_unit_test(vector_is_in_order),
        cmocka_unit_test(initial_weights_are_named),  cmocka_unit_test(bad_batches_are_refused),
        cmocka_unit_test(unknown_models_are_refused), cmocka_unit_test(bad_numbers_are_blamed),
        cmocka_unit_test(models_say_what_they_are),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
