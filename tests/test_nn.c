/* test_nn.c - layers alone: against finite differences, and against PyTorch (tests/torch). */
#include "help_nn.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A line of tests/torch/cases. */
typedef struct one_case {
    char name[64], layers[512];
    int batch;
    weir_shape sample;
} one_case;

/* Calls `each` for every case of a list; returns how many there were. */
static int each_in(const char *list, void (*each)(const one_case *, void *), void *arg)
{
    size_t n;
    char *text = read_source(list, &n), *rest = text, *line;
    int count = 0;

    while ((line = strsep(&rest, "\n"))) {
        one_case c = {0};
        char shape[64], *at = shape;
        if (line[0] == '#' ||
            sscanf(line, "%63s %d %63s %511[^\n]", c.name, &c.batch, shape, c.layers) != 4)
            continue;
        for (char *word; (word = strsep(&at, "x"));)
            c.sample.dim[c.sample.dims++] = atoll(word);
        each(&c, arg);
        count++;
    }
    free(text);
    return count;
}

static int each_case(void (*each)(const one_case *, void *), void *arg)
{
    return each_in("tests/torch/cases", each, arg);
}

/* The kind of the only layer, a mark before it not counted; NULL: there are more. */
static const char *alone(const one_case *c)
{
    const char *kind = !strncmp(c->layers, "mark; ", 6) ? c->layers + 6 : c->layers;

    return strchr(kind, ';') ? NULL : kind;
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
    rig_open(&r, c->layers, c->batch, &c->sample);
    rig_forward(&r);
    rig_backward(&r);
    close_to(c, "y", r.y, r.outs);
    close_to(c, "dx", r.dx, r.ins);
    for (int i = 0; i < r.graph->nodes; i++)
        for (int w = 0; w < r.graph->node[i].weights; w++) {
            const weir_tensor *t = &r.graph->tensor[r.graph->node[i].tensor[w]];
            char what[24];
            snprintf(what, sizeof what, "dw%d", k++);
            close_to(c, what, r.grad + t->at, t->n);
        }
    for (int i = 0; i < r.graph->stills; i++) {
        char what[24];
        snprintf(what, sizeof what, "still%d", i);
        close_to(c, what, r.next + r.graph->still[i].at, r.graph->still[i].n);
    }
    if (r.graph->stills) {
        rig_evaluate(&r);
        close_to(c, "eval", r.y, r.outs);
    }
    rig_close(&r);
}

static void layers_are_as_pytorch(void **state)
{
    (void)state;
    assert_true(each_case(compare_case, NULL) >= 80);
}

/* ---- finite differences ---- */

/* The functional whose gradient is taken: dy . y, or the mean loss. */
static double functional(rig *r)
{
    double sum = 0;

    rig_forward(r);
    for (size_t i = 0; i < r->outs; i++)
        sum += r->take ? (double)r->y[i] * r->dy[i] : (double)r->y[i] / r->plan->n;
    return sum;
}

/* Central difference along a random direction of `at` against the gradient. */
static void check_direction(rig *r, float *at, const float *grad, size_t n, float h,
                            uint32_t stream, const char *name)
{
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
    if (!(fabs((up - down) / (2 * h) - expected) <= 2e-3 * sqrt(scale)))
        fail_msg("%s: the gradient says %g, differences say %g (norm %g)", name, expected,
                 (up - down) / (2 * h), sqrt(scale));
}

/* All values apart by 4/n, and none nearer to zero than 2/n: no relu or maximum changes sides
 * within half of that. */
static float spread_out(rig *r)
{
    size_t n = r->ins + r->ins % 2, step = 7919;

    for (size_t i = 0; i < r->ins; i++)
        r->x[i] = (float)(((double)(i * step % n) + 0.5) / (double)n * 4 - 2);
    return 0.9f / (float)n;
}

static void differ_case(const one_case *c, void *arg)
{
    rig r;
    float h = 1e-2f;

    (void)arg;
    if (!alone(c))
        return;
    rig_open(&r, c->layers, c->batch, &c->sample);
    if (!strncmp(c->layers, "relu", 4) || !strncmp(c->layers, "maxpool", 7))
        h = spread_out(&r);
    rig_forward(&r);
    rig_backward(&r);
    float *dx = malloc(r.ins * sizeof *dx), *grad = malloc((r.graph->params + 1) * sizeof *grad);
    memcpy(dx, r.dx, r.ins * sizeof *dx);
    memcpy(grad, r.grad, r.graph->params * sizeof *grad);
    for (uint32_t k = 0; k < 3; k++) {
        check_direction(&r, r.x, dx, r.ins, h, 1000 + k, c->name);
        for (int i = 0; i < r.graph->tensors; i++) {
            const weir_tensor *t = &r.graph->tensor[i];
            check_direction(&r, r.param + t->at, grad + t->at, t->n, h, 2000 + k, t->name);
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

/* ---- the list ---- */

static void mark_kind(const one_case *c, void *arg)
{
    bool *seen = arg;

    for (int i = 0; alone(c) && weir_layers[i]; i++) {
        size_t len = strlen(weir_layers[i]->name);
        seen[i] |= !strncmp(alone(c), weir_layers[i]->name, len) && strchr(" ", alone(c)[len]);
    }
}

static void every_layer_has_a_case(void **state)
{
    bool seen[64] = {0};

    (void)state;
    each_case(mark_kind, seen);
    each_in("tests/torch/sequence_cases", mark_kind, seen); /* those that test_sequence runs */
    for (int i = 0; weir_layers[i]; i++)
        if (!seen[i])
            fail_msg("layer %s stands alone in no line of tests/torch/cases or sequence_cases",
                     weir_layers[i]->name);
}

static void descriptors_are_whole(void **state)
{
    (void)state;
    assert_int_equal(weir_plug_check(weir_layers, "layer"), WEIR_OK);
    for (int i = 0; weir_layers[i]; i++) {
        const weir_layer *l = (const weir_layer *)weir_layers[i];
        assert_non_null(l->shape);
        assert_non_null(l->bind);
    }
}

/* ---- few rows, many rows ---- */

/* With one thread: several may share out a dense layer of few outputs in ways that depend on the
 * rows. */
static void rows_do_not_depend_on_their_number(void **state)
{
    static const struct {
        const char *layers;
        int64_t in, out;
    } shapes[] = {{"dense out=120; relu", 400, 120},
                  {"dense out=84 bias=no", 120, 84},
                  {"dense out=10", 1024, 10},
                  {"dense out=300; relu; dense out=7", 784, 7},
                  {"mark; dense out=1024", 33, 1024}};

    (void)state;
    weir_model_threads(1);
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        weir_shape sample = {1, {shapes[k].in}};
        rig whole;
        rig_open(&whole, shapes[k].layers, 64, &sample);
        rig_forward(&whole);
        rig_backward(&whole);
        for (int n = 1; n <= 40; n++) {
            rig r;
            rig_open(&r, shapes[k].layers, n, &sample);
            rig_forward(&r);
            rig_backward(&r);
            if (memcmp(r.y, whole.y, r.outs * sizeof *r.y))
                fail_msg("%s: outputs of %d rows are not those of 64", shapes[k].layers, n);
            if (memcmp(r.dx, whole.dx, r.ins * sizeof *r.dx))
                fail_msg("%s: gradients of %d rows are not those of 64", shapes[k].layers, n);
            rig_close(&r);
        }
        rig_close(&whole);
    }
}

/* ---- memory ---- */

static void placed_memory_does_not_overlap(void **state)
{
    enum { N = 200 };
    weir_mem mem[N] = {0};
    size_t bytes, sum = 0;

    (void)state;
    for (uint32_t i = 0; i < N; i++) {
        mem[i].bytes = hash_bits(7, i) % 5000;
        mem[i].first = (int)(hash_bits(8, i) % 100);
        mem[i].last = mem[i].first + (int)(hash_bits(9, i) % 10);
        mem[i].next = i + 1 < N ? &mem[i + 1] : NULL;
        sum += mem[i].bytes;
    }
    assert_int_equal(weir_mem_place_all(mem, &bytes), WEIR_OK);
    assert_true(bytes < sum / 4); /* about a tenth lives at a time */
    for (int i = 0; i < N; i++) {
        assert_true(mem[i].offset % 64 == 0 && mem[i].offset + mem[i].bytes <= bytes);
        for (int k = 0; k < i; k++)
            assert_true(mem[i].first > mem[k].last || mem[k].first > mem[i].last ||
                        mem[i].offset + mem[i].bytes <= mem[k].offset ||
                        mem[k].offset + mem[k].bytes <= mem[i].offset);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descriptors_are_whole),
        cmocka_unit_test(every_layer_has_a_case),
        cmocka_unit_test(layers_are_as_pytorch),
        cmocka_unit_test(gradients_are_differences),
        cmocka_unit_test(rows_do_not_depend_on_their_number),
        cmocka_unit_test(placed_memory_does_not_overlap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
