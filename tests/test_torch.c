/* test_torch.c - the zoo from the same start as PyTorch: losses, gradients, and weights after 20
 * steps of plain SGD.
 *
 *   test_torch dump MODEL STEP FILE   writes the gradients of a step's batch at the start, for
 * tests/torch/check_live.py */
#include "help_nn.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The parameter counts of the papers, and of the same nets in PyTorch. */
static const struct {
    const char *name;
    size_t params;
} zoo[] = {{"mlp", 1863690},     {"lenet", 61706},     {"alexnet", 23272266}, {"vgg16", 14724042},
           {"resnet20", 272474}, {"resnet32", 466906}, {"resnet44", 661338},  {"resnet56", 855770}};
enum { MODELS = sizeof zoo / sizeof *zoo };

static float *numbers(const char *model, const char *what, size_t *count)
{
    char name[64], *bytes;
    size_t n;
    float *x;

    snprintf(name, sizeof name, "%s/%s", model, what);
    bytes = read_source("tests/torch/numbers", &n);
    x = find_numbers(bytes, n, name, count);
    free(bytes);
    if (!x)
        fail_msg("tests/torch/numbers has no %s", name);
    return x;
}

/* The tensors in PyTorch's order: layers from the first to the last, weight before bias. */
static int order(const bench *b, const weir_tensor **list)
{
    int count = 0, most = 0;

    for (int i = 0; i < b->tensors; i++)
        most = b->tensor[i].ready > most ? b->tensor[i].ready : most;
    for (int ready = most; ready >= 0; ready--)
        for (int bias = 0; bias < 2; bias++)
            for (int i = 0; i < b->tensors; i++)
                if (b->tensor[i].ready == ready &&
                    (strstr(b->tensor[i].name, ".bias") != NULL) == bias)
                    list[count++] = &b->tensor[i];
    return count;
}

/* Every tensor of `x`, parameters or gradients, against those saved as "MODEL/what0" ...; bound
 * NULL: 1e-4. */
static void compare(const bench *b, const char *model, const char *what, const float *x,
                    const float *bound)
{
    const weir_tensor *list[1024];
    int count = order(b, list);

    assert_int_equal(count, b->tensors);
    for (int k = 0; k < count; k++) {
        char name[64];
        double apart, most = bound ? (double)bound[k] : 1e-4;
        snprintf(name, sizeof name, "%s/%s%d", model, what, k);
        if (!((apart = apart_from(name, x + list[k]->at, list[k]->n)) <= most))
            fail_msg("%s, %s, is %g from PyTorch's; %g are allowed", name, list[k]->name, apart,
                     most);
    }
}

static void gradients_are_pytorchs(void **state)
{
    for (int i = 0; i < MODELS; i++) {
        size_t n, count;
        float *first = numbers(zoo[i].name, "first", &n),
              *bounds = numbers(zoo[i].name, "bounds", &count);
        float *params = numbers(zoo[i].name, "params", &n);
        bench b;

        (void)state;
        bench_open(&b, zoo[i].name);
        assert_int_equal(b.params, zoo[i].params);
        assert_int_equal(b.params, (size_t)params[0] * 1000 + (size_t)params[1]);
        assert_int_equal(count, b.tensors);
        set_batch(&b, HASH_STEP + 2 * (uint32_t)first[0]);
        double ours = pass(&b, 0, 8, 1 / 8.f, false) / 8;
        if (!(fabs(ours - first[1]) <= 1e-5 * first[1]))
            fail_msg("%s: the loss is %.8g, PyTorch's %.8g", zoo[i].name, ours, first[1]);
        compare(&b, zoo[i].name, "grad", b.grad, bounds);
        free(first);
        free(bounds);
        free(params);
        bench_close(&b);
    }
}

/* In deep nets a loss moves by more than 1e-5 when sums are taken in another order: after some
 * steps only the weights are compared. */
static void trains_as_pytorch(const char *name, uint32_t exact)
{
    size_t n;
    float *losses = numbers(name, "loss", &n);
    bench b;

    bench_open(&b, name);
    assert_int_equal(n, 20);
    for (uint32_t s = 0; s < 20; s++) {
        set_batch(&b, HASH_STEP + 2 * s);
        double loss = pass(&b, 0, 8, 1 / 8.f, false) / 8;
        if (!(fabs(loss - losses[s]) <= (s < exact ? 1e-5 : 1e-3) * losses[s]))
            fail_msg("%s: the loss of step %u is %.8g, PyTorch's %.8g", name, s, loss, losses[s]);
        sgd_step(&b, 0.01f);
        weir_model_commit(b.model);
    }
    compare(&b, name, "end", b.param, NULL);
    free(losses);
    bench_close(&b);
}

static void mlp_trains_as_pytorch(void **state)
{
    (void)state;
    trains_as_pytorch("mlp", 20);
}

static void lenet_trains_as_pytorch(void **state)
{
    (void)state;
    trains_as_pytorch("lenet", 20);
}

static void alexnet_trains_as_pytorch(void **state)
{
    (void)state;
    trains_as_pytorch("alexnet", 20);
}

static void resnet20_trains_as_pytorch(void **state)
{
    (void)state;
    trains_as_pytorch("resnet20", 2);
}

/* Loss, then the gradients in PyTorch's order. */
static int dump(const char *model, uint32_t step, const char *path)
{
    const weir_tensor *list[1024];
    FILE *f = fopen(path, "wb");
    bench b;

    if (!f)
        return perror(path), 1;
    bench_open(&b, model);
    set_batch(&b, HASH_STEP + 2 * step);
    double loss = pass(&b, 0, 8, 1 / 8.f, false) / 8;
    fwrite(&loss, sizeof loss, 1, f);
    for (int k = 0, count = order(&b, list); k < count; k++)
        fwrite(b.grad + list[k]->at, sizeof *b.grad, list[k]->n, f);
    bench_close(&b);
    return fclose(f) ? 1 : 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_pytorchs),     cmocka_unit_test(mlp_trains_as_pytorch),
        cmocka_unit_test(lenet_trains_as_pytorch),    cmocka_unit_test(alexnet_trains_as_pytorch),
        cmocka_unit_test(resnet20_trains_as_pytorch),
    };

    if (argc == 5 && !strcmp(argv[1], "dump"))
        return dump(argv[2], (uint32_t)atoi(argv[3]), argv[4]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
