/* test_torch.c - mlp and lenet from the same start as PyTorch: losses, and weights after 20 steps of plain SGD. */
#include "help_nn.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PROJECTIONS = 16 };

static float *numbers(const char *label, const char *what, int k, size_t count)
{
    char name[64], *bytes;
    size_t n, got;
    float *x;

    snprintf(name, sizeof name, k < 0 ? "%s/%s" : "%s/%s%d", label, what, k);
    bytes = read_source("tests/torch/numbers", &n);
    x = find_numbers(bytes, n, name, &got);
    free(bytes);
    if (!x || got != count)
        fail_msg("tests/torch/numbers has no %s of %zu floats", name, count);
    return x;
}

/* How far a tensor is from theirs, by random projections of all of it and by some of its elements, as a part of its norm. */
static void compare_tensor(const bench *b, const weir_tensor *t, const char *label, int k)
{
    const float *w = b->param + t->at;
    size_t stride = t->n / 512 ? t->n / 512 : 1, count = (t->n + stride - 1) / stride < 512 ? (t->n + stride - 1) / stride : 512;
    float *norm = numbers(label, "norm", k, 1), *project = numbers(label, "project", k, PROJECTIONS),
          *some = numbers(label, "some", k, count);
    double apart = 0, apart_some = 0;

    for (uint32_t j = 0; j < PROJECTIONS; j++) {
        double sum = 0;
        for (size_t i = 0; i < t->n; i++)
            sum += hash_value(HASH_SIGN + j, (uint32_t)i) < 0 ? -(double)w[i] : (double)w[i];
        apart += (sum - project[j]) * (sum - project[j]) / PROJECTIONS;
    }
    for (size_t i = 0; i < count; i++)
        apart_some += ((double)w[i * stride] - some[i]) * ((double)w[i * stride] - some[i]) * (double)t->n / (double)count;
    if (!(sqrt(apart) <= 1e-4 * norm[0] && sqrt(apart_some) <= 1e-4 * norm[0]))
        fail_msg("%s of %s is %g and %g from PyTorch's", t->name, label, sqrt(apart) / norm[0], sqrt(apart_some) / norm[0]);
    free(norm);
    free(project);
    free(some);
}

static void compare_weights(const bench *b, const char *label)
{
    int k = 0, most = 0;

    for (int i = 0; i < b->tensors; i++)
        most = b->tensor[i].ready > most ? b->tensor[i].ready : most;
    for (int ready = most; ready >= 0; ready--)
        for (int bias = 0; bias < 2; bias++)
            for (int i = 0; i < b->tensors; i++)
                if (b->tensor[i].ready == ready && (b->tensor[i].dims == 1) == bias)
                    compare_tensor(b, &b->tensor[i], label, k++);
}

static void trains_as_pytorch(const char *name, size_t params)
{
    float *losses = numbers(name, "loss", -1, 20);
    bench b;

    bench_open(&b, name);
    assert_int_equal(b.params, params);
    for (uint32_t s = 0; s < 20; s++) {
        set_batch(&b, HASH_STEP + 2 * s);
        double loss = pass(&b, 0, 8, 1 / 8.f, false) / 8;
        if (!(fabs(loss - losses[s]) <= 1e-5 * losses[s]))
            fail_msg("%s: the loss of step %u is %.8g, PyTorch's %.8g", name, s, loss, losses[s]);
        sgd_step(&b, 0.01f);
    }
    compare_weights(&b, name);
    free(losses);
    bench_close(&b);
}

static void mlp_trains_as_pytorch(void **state)
{
    (void)state;
    trains_as_pytorch("mlp", 1863690);
}

static void lenet_trains_as_pytorch(void **state)
{
    (void)state;
    trains_as_pytorch("lenet", 61706);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(mlp_trains_as_pytorch), cmocka_unit_test(lenet_trains_as_pytorch)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
