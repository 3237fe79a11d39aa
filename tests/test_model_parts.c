/* test_model_parts.c - a step that is cut, into micro-batches or over workers, is the whole step:
 * gradients, running statistics, what is dropped. */
#include "help_nn.h"
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const weir_pass training = {.training = true};

/* ---- micro-batches ---- */

static float *copy(const float *x, size_t n)
{
    float *y = malloc(n * sizeof *y);

    memcpy(y, x, n * sizeof *y);
    return y;
}

static void parts_add_up(const char *spec)
{
    bench b;
    double whole, parts;

    bench_open(&b, spec);
    whole = pass(&b, 0, 8, 0.125f, false);
    float *g = copy(b.grad, b.params);
    parts = pass(&b, 0, 5, 0.125f, false) + pass(&b, 5, 3, 0.125f, true);
    assert_true(fabs(whole - parts) <= 1e-6 * whole);
    for (int i = 0; i < b.tensors; i++)
        assert_true(relative(b.grad + b.tensor[i].at, g + b.tensor[i].at, b.tensor[i].n) < 2e-6);
    /* twice the same, added, is twice the gradient to the bit; and a pass that does not add forgets
     * all that */
    pass(&b, 0, 8, 0.125f, false);
    pass(&b, 0, 8, 0.125f, true);
    for (size_t i = 0; i < b.params; i++)
        assert_true(b.grad[i] == 2 * g[i]);
    pass(&b, 0, 8, 0.125f, false);
    assert_memory_equal(b.grad, g, b.params * sizeof *g);
    free(g);
    bench_close(&b);
}

static void micro_batches_add_up(void **state)
{
    (void)state;
    parts_add_up("mlp:hidden=48");
    parts_add_up("lenet");
}
/* ---- running statistics ---- */

static const char norm_net[] =
    "conv out=8 kernel=3 stride=4 bias=no\nbatchnorm a sync=yes\nrelu\nconv out=6 kernel=3 "
    "stride=2\n"
    "batchnorm b\nflatten\nbatchnorm c sync=yes\ndense out=classes\nsoftmax\n";

/* A model of the test's own, in a file beside nothing else. */
static void open_text(bench *b, const char *text)
{
    char path[] = "/tmp/weir_test_XXXXXX.net";
    int fd = mkstemps(path, 4);

    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && !close(fd));
    bench_open(b, path);
    unlink(path);
}

static double step_part(bench *b, int from, int n, int micro)
{
    weir_model_batch batch = {.n = n,
                              .x = b->x + (size_t)from * b->pixels,
                              .label = b->label + from};
    weir_score score = {0};

    ok(weir_model_forward(b->model, &batch, &(weir_pass){.training = true, .micro = micro},
                          &score));
    ok(weir_model_backward(b->model, 0.125f, micro > 0, NULL, NULL));
    return score.loss;
}

static void statistics_change_at_commit(void **state)
{
    float *still, *before, *one, *two;
    size_t n;
    bench b;

    (void)state;
    open_text(&b, norm_net);
    still = weir_model_still(b.model, &n);
    assert_int_equal(n, 2 * (8 + 6 + 54));
    before = copy(still, n);
    assert_true(before[0] == 0 && before[8] == 1);
    step_part(&b, 0, 8, 0);
    assert_memory_equal(still, before, n * sizeof *still);
    weir_model_commit(b.model);
    one = copy(still, n);
    assert_true(relative(one, before, n) > 0.01);
    weir_model_commit(b.model); /* nothing was done since */
    assert_memory_equal(still, one, n * sizeof *still);
    /* a step that is abandoned, then done: as if once */
    memcpy(still, before, n * sizeof *still);
    step_part(&b, 4, 8, 0);
    step_part(&b, 0, 8, 0);
    weir_model_commit(b.model);
    assert_memory_equal(still, one, n * sizeof *still);
    /* two micro-batches: as two steps */
    memcpy(still, before, n * sizeof *still);
    for (int k = 0; k < 2; k++) {
        step_part(&b, 4 * k, 4, 0);
        weir_model_commit(b.model);
    }
    two = copy(still, n);
    memcpy(still, before, n * sizeof *still);
    for (int k = 0; k < 2; k++)
        step_part(&b, 4 * k, 4, k);
    weir_model_commit(b.model);
    assert_memory_equal(still, two, n * sizeof *still);
    free(before);
    free(one);
    free(two);
    bench_close(&b);
}

static void evaluation_uses_statistics(void **state)
{
    weir_model_batch batch;
    weir_score trained = {0}, alone = {0}, all = {0};
    bench b;

    (void)state;
    open_text(&b, norm_net);
    for (int k = 0; k < 200; k++) { /* the same batch until they have settled */
        step_part(&b, 0, 16, 0);
        weir_model_commit(b.model);
    }
    batch = (weir_model_batch){.n = 16, .x = b.x, .label = b.label};
    ok(weir_model_forward(b.model, &batch, &training, &trained));
    ok(weir_model_forward(b.model, &batch, &(weir_pass){0}, &all));
    assert_true(fabs(all.loss - trained.loss) < 0.1 * trained.loss && all.loss != trained.loss);
    for (int i = 0; i < 16; i++) { /* a sample's score does not depend on its neighbours */
        batch = (weir_model_batch){.n = 1, .x = b.x + (size_t)i * b.pixels, .label = b.label + i};
        ok(weir_model_forward(b.model, &batch, &(weir_pass){0}, &alone));
    }
    assert_true(fabs(all.loss - alone.loss) < 1e-5 * all.loss);
    bench_close(&b);
}

/* ---- several workers ---- */

enum { WORKERS = 3 };

typedef struct meeting {
    pthread_barrier_t gate;
    double *x[WORKERS];
    int calls[WORKERS];
} meeting;

typedef struct worker {
    meeting *all;
    int me, first, n;
    bench b;
    double loss;
    pthread_t thread;
} worker;

static weir_err sum_up(void *arg, double *x, size_t n)
{
    worker *w = arg;
    double *sum = calloc(n, sizeof *sum);

    w->all->x[w->me] = x;
    w->all->calls[w->me]++;
    pthread_barrier_wait(&w->all->gate);
    for (int k = 0; k < WORKERS; k++)
        for (size_t i = 0; i < n; i++)
            sum[i] += w->all->x[k][i];
    pthread_barrier_wait(&w->all->gate);
    memcpy(x, sum, n * sizeof *x);
    free(sum);
    return WEIR_OK;
}

static void *work(void *arg)
{
    worker *w = arg;

    weir_model_on_sum(w->b.model, sum_up, w);
    w->loss = step_part(&w->b, w->first, w->n, 0);
    weir_model_commit(w->b.model);
    return NULL;
}

static void workers_are_as_one(void **state)
{
    static const char net[] =
        "conv out=20 kernel=3 stride=2 bias=no\nbatchnorm sync=yes\nrelu x\nconv out=20 kernel=3 "
        "pad=1 bias=no\n"
        "batchnorm sync=yes\nadd from=x\nrelu\nglobalavgpool\nflatten\ndense out=classes\n"
        "softmax\n";
    static const int share[WORKERS] = {5, 3, 0};
    meeting all = {0};
    worker w[WORKERS];
    double loss = 0;
    float *still;
    size_t n;
    bench one;

    (void)state;
    open_text(&one, net);
    double whole = step_part(&one, 0, 8, 0);
    weir_model_commit(one.model);
    float *sum = calloc(one.params, sizeof *sum);
    pthread_barrier_init(&all.gate, NULL, WORKERS);
    for (int k = 0; k < WORKERS; k++) {
        w[k] = (worker){.all = &all,
                        .me = k,
                        .n = share[k],
                        .first = k ? w[k - 1].first + share[k - 1] : 0};
        open_text(&w[k].b, net);
        assert_int_equal(pthread_create(&w[k].thread, NULL, work, &w[k]), 0);
    }
    for (int k = 0; k < WORKERS; k++) {
        pthread_join(w[k].thread, NULL);
        loss += w[k].loss;
        for (size_t i = 0; i < one.params; i++)
            sum[i] += w[k].b.grad[i];
        assert_int_equal(all.calls[k], 6); /* two in forward and one in backward, for each norm */
        still = weir_model_still(w[k].b.model, &n);
        assert_true(relative(still, weir_model_still(one.model, &n), n) < 1e-6);
    }
    assert_true(fabs(loss - whole) < 1e-6 * whole);
    for (int i = 0; i < one.tensors; i++)
        if (!(relative(sum + one.tensor[i].at, one.grad + one.tensor[i].at, one.tensor[i].n) <
              3e-5))
            fail_msg("%s of three workers is %g from that of one", one.tensor[i].name,
                     relative(sum + one.tensor[i].at, one.grad + one.tensor[i].at,
                              one.tensor[i].n));
    for (int k = 0; k < WORKERS; k++)
        bench_close(&w[k].b);
    bench_close(&one);
    pthread_barrier_destroy(&all.gate);
    free(sum);
}

/* ---- dropout ---- */

/* A net that passes its input on, so that the gradient of the weights before shows what was
 * dropped. */
static void dropout_belongs_to_the_sample(void **state)
{
    static const char net[] = "flatten\ndense out=64\ndropout a rate=0.3\ndense out=32\ndropout "
                              "b\ndense out=classes\nsoftmax\n";
    weir_pass pass = {.training = true, .seed = 5, .step = 7, .first = 100};
    weir_score whole = {0}, parts = {0}, other = {0}, evaluated = {0}, again = {0};
    weir_model_batch batch;
    bench b;

    (void)state;
    open_text(&b, net);
    batch = (weir_model_batch){.n = 16, .x = b.x, .label = b.label};
    ok(weir_model_forward(b.model, &batch, &pass, &whole));
    ok(weir_model_backward(b.model, 1, false, NULL, NULL));
    float *g = copy(b.grad, b.params);
    ok(weir_model_forward(b.model, &batch, &(weir_pass){0}, &evaluated));
    ok(weir_model_forward(b.model, &batch, &(weir_pass){0}, &again));
    assert_true(evaluated.loss == again.loss && evaluated.loss != whole.loss);
    for (int i = 0; i < 16; i += 4) { /* the same samples in other batches: the same masks */
        weir_pass mine = pass;
        mine.first += (uint64_t)i;
        batch = (weir_model_batch){.n = 4, .x = b.x + (size_t)i * b.pixels, .label = b.label + i};
        ok(weir_model_forward(b.model, &batch, &mine, &parts));
        ok(weir_model_backward(b.model, 1, i > 0, NULL, NULL));
    }
    assert_true(fabs(whole.loss - parts.loss) < 1e-5 * whole.loss);
    assert_true(relative(b.grad, g, b.params) < 1e-5);
    batch = (weir_model_batch){.n = 16, .x = b.x, .label = b.label};
    for (int k = 0; k < 3; k++) { /* another seed, step or place: others */
        weir_pass mine = pass;
        *(k == 0 ? &mine.seed : k == 1 ? &mine.step : &mine.first) += 1;
        other = (weir_score){0};
        ok(weir_model_forward(b.model, &batch, &mine, &other));
        assert_true(fabs(other.loss - whole.loss) > 1e-4 * whole.loss);
    }
    free(g);
    bench_close(&b);
}

static void dropout_keeps_the_mean(void **state)
{
    weir_shape sample = {1, {20000}};
    double sum = 0;
    size_t dropped = 0;
    rig r;

    (void)state;
    rig_open(&r, "mark; dropout rate=0.25", 2, &sample);
    for (size_t i = 0; i < r.ins; i++)
        r.x[i] = 1;
    rig_forward(&r);
    for (size_t i = 0; i < r.outs; i++) {
        sum += r.y[i];
        dropped += r.y[i] == 0;
        assert_true(r.y[i] == 0 || r.y[i] == 1 / 0.75f);
    }
    /* each is dropped with probability 1/4, and else scaled to 4/3: within 5 deviations */
    assert_true(fabs((double)dropped / (double)r.outs - 0.25) <
                    5 * sqrt(0.25 * 0.75 / (double)r.outs) &&
                fabs(sum / (double)r.outs - 1) < 5 * sqrt(1.0 / 3 / (double)r.outs));
    assert_true(memcmp(r.y, r.y + r.outs / 2, r.outs / 2 * sizeof *r.y) != 0);
    rig_backward(&r);
    for (size_t i = 0; i < r.outs; i++)
        assert_true(r.dx[i] == r.dy[i] * r.y[i]);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(micro_batches_add_up),
        cmocka_unit_test(statistics_change_at_commit),
        cmocka_unit_test(evaluation_uses_statistics),
        cmocka_unit_test(workers_are_as_one),
        cmocka_unit_test(dropout_belongs_to_the_sample),
        cmocka_unit_test(dropout_keeps_the_mean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
