/* test_loader.c - the plan's laws over many sizes; the loader against the plan, from any step, with
 * failures and early ends; and the made-up pictures it is tried on. */
#include "data/loader.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static weir_arena *arena;
static const weir_data_need no_need;

static int setup(void **unused)
{
    (void)unused;
    return !(arena = weir_arena_new());
}

static int teardown(void **unused)
{
    (void)unused;
    weir_arena_free(arena);
    return 0;
}

static weir_data_use open_data(const char *spec)
{
    weir_data_use use;

    assert_int_equal(weir_data_open(spec, &no_need, arena, &use), WEIR_OK);
    return use;
}

/* ---- the plan ---- */

/* Over ranks and micro-batches the shares follow one another without gap and differ by at most
 * one. */
static void check_shares(weir_sample_plan p, weir_cursor at)
{
    uint64_t next = 0, first;
    int n, least = INT32_MAX, most = 0;

    for (p.rank = 0; p.rank < p.size; p.rank++)
        for (int m = 0; m < p.micro; m++) {
            weir_sample_plan_slice(&p, at, m, &first, &n);
            assert_int_equal(first, next);
            assert_true(n >= 0 && n <= weir_sample_plan_room(&p));
            next += (uint64_t)n;
            least = n < least ? n : least;
            most = n > most ? n : most;
        }
    assert_int_equal(next, weir_sample_plan_samples(&p, at));
    assert_true(most - least <= 1);
}

/* The rest of the epoch at the cursor, which begins with what was met before; leaves the cursor at
 * the next one. */
static void check_rest(const weir_sample_plan *p, weir_cursor *at, char *met)
{
    uint64_t epoch = at->epoch, rows = at->rows, used = at->used;

    while (at->epoch == epoch) {
        uint64_t n = weir_sample_plan_samples(p, *at);
        assert_true(n > 0 && n <= p->batch && (n == p->batch || used + n == rows));
        assert_int_equal(at->used, used);
        check_shares(*p, *at);
        for (uint64_t i = 0; i < n; i++, used++) {
            uint64_t index = weir_sample_plan_index(p, *at, i);
            assert_true(index < rows && !met[index]);
            met[index] = 1;
        }
        weir_plan_advance(p, at);
    }
    assert_int_equal(used, rows);
    assert_true(at->epoch == epoch + 1 && !at->used && at->rows == p->count);
}

static void check_epoch(const weir_sample_plan *p, uint64_t epoch)
{
    weir_cursor at = weir_plan_at(p, epoch * weir_sample_plan_epoch_steps(p));
    char *met = calloc(1, p->count);

    assert_true(at.epoch == epoch && at.used == 0);
    check_rest(p, &at, met);
    free(met);
}

static void every_epoch_meets_every_sample_once(void **unused)
{
    static const uint64_t counts[] = {1, 2, 7, 64, 100}, batches[] = {1, 3, 7, 64, 1000};
    static const int sizes[] = {1, 2, 3, 4, 7, 65}, micros[] = {1, 2, 5};
    (void)unused;

    for (int i = 0; i < 5 * 5 * 6 * 3; i++) {
        weir_sample_plan p = {.seed = 5,
                              .count = counts[i % 5],
                              .batch = batches[i / 5 % 5],
                              .size = sizes[i / 25 % 6],
                              .micro = micros[i / 150]};
        assert_int_equal(weir_sample_plan_check(&p), WEIR_OK);
        check_epoch(&p, 0);
        check_epoch(&p, 3);
    }
}

/* Batches of one size, then of another, then more rows: each sample of an epoch once. */
static void another_batch_goes_on_with_what_is_left(void **unused)
{
    static const uint64_t batches[] = {1, 3, 7, 64, 1000};
    (void)unused;

    for (int i = 0; i < 5 * 5 * 20; i++) {
        weir_sample_plan p = {
            .seed = 5, .count = 100, .batch = batches[i % 5], .size = 3, .micro = 2};
        weir_cursor at = weir_plan_at(&p, 0);
        char met[130] = {0};
        for (int k = 0; k < i / 25 && !at.epoch; k++) {
            for (uint64_t n = 0; n < weir_sample_plan_samples(&p, at); n++)
                met[weir_sample_plan_index(&p, at, n)] = 1;
            weir_plan_advance(&p, &at);
        }
        if (at.epoch)
            continue;
        p.batch = batches[i / 5 % 5];
        if (at.used)
            p.count = 130; /* the epoch keeps those it began with */
        check_rest(&p, &at, met);
        memset(met, 0, sizeof met);
        check_rest(&p, &at, met);
        assert_int_equal(memchr(met, 0, p.count) != NULL, 0);
    }
}

/* Whole steps of one batch are whole numbers, to the bit; a change of batch keeps the portion of
 * the epoch to within a step. */
static void time_counts_samples(void **unused)
{
    weir_sample_plan p = {.count = 1000, .batch = 64, .size = 1, .micro = 1}, q = p;
    weir_cursor at = weir_plan_at(&p, 0);
    (void)unused;

    q.batch = 100;
    for (uint64_t step = 0; step < 100; step++, weir_plan_advance(&p, &at)) {
        weir_cursor same = weir_plan_at(&p, step);
        assert_memory_equal(&same, &at, sizeof at);
        assert_true(weir_plan_time(&p, at) == (double)step);
        assert_true(fabs(weir_plan_time(&q, at) / 10 - (double)step / 16) <= 1.0 / 16);
    }
    at = (weir_cursor){.epoch = 2, .used = 500, .rows = 1000};
    p.count = 2000; /* 32 steps */
    assert_float_equal(weir_plan_time(&p, at), 2 * 32 + 500.0 / 64 * 32 / 16, 1e-12);
}

static void orders_differ_by_epoch_and_seed(void **unused)
{
    weir_sample_plan a = {.seed = 1, .count = 1000, .batch = 1000, .size = 1, .micro = 1}, b = a;
    int epochs = 0, seeds = 0, unmoved = 0;
    (void)unused;

    b.seed = 2;
    for (uint64_t i = 0; i < 1000; i++) {
        weir_cursor first = weir_plan_at(&a, 0), second = weir_plan_at(&a, 1);
        epochs += weir_sample_plan_index(&a, first, i) == weir_sample_plan_index(&a, second, i);
        seeds += weir_sample_plan_index(&a, first, i) == weir_sample_plan_index(&b, first, i);
        unmoved += weir_sample_plan_index(&a, first, i) == i;
    }
    assert_true(epochs < 20 && seeds < 20 && unmoved < 20);
}

static void plans_that_mean_nothing_are_refused(void **unused)
{
    const weir_sample_plan good = {.count = 10, .batch = 4, .size = 2, .rank = 1, .micro = 1};
    weir_sample_plan p;
    (void)unused;

    assert_int_equal(weir_sample_plan_check(&good), WEIR_OK);
    assert_int_not_equal((p = good, p.count = 0, weir_sample_plan_check(&p)), WEIR_OK);
    assert_int_not_equal((p = good, p.batch = 0, weir_sample_plan_check(&p)), WEIR_OK);
    assert_int_not_equal((p = good, p.rank = 2, weir_sample_plan_check(&p)), WEIR_OK);
    assert_int_not_equal((p = good, p.micro = 0, weir_sample_plan_check(&p)), WEIR_OK);
    assert_int_equal((p = good, p.batch = 1ull << 40, weir_sample_plan_check(&p)), WEIR_USAGE);
}

/* ---- the loader ---- */

static const char small[] = "synth:shape=3x2x2,classes=3,count=50,test=1";

static weir_err open_loader(const weir_data_use *data, const weir_sample_plan *p, uint64_t step,
                            int ahead, weir_loader **l)
{
    weir_loader_from from = {weir_plan_at(p, step), step};

    return weir_loader_open(weir_rt_threads(), data, p, from, ahead, l);
}

/* What the loader must give as micro-batch m of a step, fetched directly. */
static void expect_batch(const weir_data_use *data, const weir_sample_plan *p, uint64_t step, int m,
                         const weir_data_batch *got)
{
    uint64_t index[64];
    weir_data_pick pick = {.part = WEIR_DATA_TRAIN, .seed = p->seed, .step = step, .index = index};
    weir_cursor at = weir_plan_at(p, step);
    weir_data_batch want;

    weir_sample_plan_slice(p, at, m, &pick.first, &pick.n);
    for (int i = 0; i < pick.n; i++)
        index[i] = weir_sample_plan_index(p, at, pick.first + (uint64_t)i);
    assert_int_equal(weir_data_batch_new(&data->facts, pick.n, arena, &want), WEIR_OK);
    assert_int_equal(data->data->get(data->self, &pick, &want), WEIR_OK);
    assert_int_equal(got->n, pick.n);
    assert_memory_equal(got->x, want.x, (size_t)pick.n * 12 * sizeof(float));
    assert_memory_equal(got->label, want.label, (size_t)pick.n * sizeof(int32_t));
}

static void batches_come_in_order_from_any_step(void **unused)
{
    weir_data_use data = open_data(small);
    weir_sample_plan p = {.seed = 9, .count = 50, .batch = 8, .size = 5, .micro = 2};
    const weir_data_batch *batch;
    weir_loader *l;
    (void)unused;

    for (p.rank = 0; p.rank < p.size; p.rank++)
        for (uint64_t from = 0; from < 16; from += 5)
            for (int ahead = 1; ahead < 5; ahead += 3) {
                assert_int_equal(open_loader(&data, &p, from, ahead, &l), WEIR_OK);
                for (uint64_t step = from; step < 20; step++)
                    for (int m = 0; m < p.micro; m++) {
                        assert_int_equal(weir_loader_next(l, &batch), WEIR_OK);
                        expect_batch(&data, &p, step, m, batch);
                    }
                weir_loader_close(l);
            }
    weir_data_close(&data);
}

static void a_rank_without_samples_gets_empty_batches(void **unused)
{
    weir_data_use data = open_data(small);
    weir_sample_plan p = {.seed = 9, .count = 50, .batch = 2, .rank = 3, .size = 4, .micro = 1};
    const weir_data_batch *batch;
    weir_loader *l;
    (void)unused;

    assert_int_equal(open_loader(&data, &p, 0, 2, &l), WEIR_OK);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(weir_loader_next(l, &batch), WEIR_OK);
        assert_int_equal(batch->n, 0);
    }
    weir_loader_close(l);
    weir_data_close(&data);
}

/* Whenever it is closed, the task ends, and the sentence of an error that is under way stays. */
static void closing_early_never_hangs(void **unused)
{
    weir_data_use data = open_data(small);
    weir_sample_plan p = {.seed = 9, .count = 50, .batch = 8, .size = 1, .micro = 1};
    const weir_data_batch *batch;
    weir_loader *l;
    (void)unused;

    weir_fail(WEIR_LOST, "the peer is gone");
    for (int i = 0; i < 200; i++) {
        assert_int_equal(open_loader(&data, &p, 0, 1 + i % 7, &l), WEIR_OK);
        for (int k = 0; k < i % 11; k++)
            assert_int_equal(weir_loader_next(l, &batch), WEIR_OK);
        weir_loader_close(l);
    }
    assert_string_equal(weir_why_text(), "the peer is gone");
    weir_loader_close(NULL);
    weir_data_close(&data);
}

static void what_cannot_be_loaded_is_refused(void **unused)
{
    weir_data_use data = open_data(small);
    weir_sample_plan p = {.seed = 9, .count = 51, .batch = 8, .size = 1, .micro = 1};
    weir_loader *l = NULL;
    (void)unused;

    assert_int_equal(open_loader(&data, &p, 0, 2, &l), WEIR_FAILED);
    p.count = 50;
    assert_int_equal(open_loader(&data, &p, 0, 0, &l), WEIR_FAILED);
    p.micro = 0;
    assert_int_equal(open_loader(&data, &p, 0, 2, &l), WEIR_FAILED);
    p.micro = 1;
    weir_loader_from beyond = {.at = {.used = 50, .rows = 50}}, more = {.at = {.rows = 51}};
    assert_int_equal(weir_loader_open(weir_rt_threads(), &data, &p, beyond, 2, &l), WEIR_FAILED);
    assert_int_equal(weir_loader_open(weir_rt_threads(), &data, &p, more, 2, &l), WEIR_FAILED);
    assert_null(l);
    weir_data_close(&data);
}

/* Data that fail at step 5. */
static weir_err get_until(const void *self, const weir_data_pick *pick, weir_data_batch *batch)
{
    if (pick->step == 5)
        return weir_fail(WEIR_INVALID, "page %d is torn", 5);
    return weir_data_synth.get(self, pick, batch);
}

static void an_error_arrives_in_its_place_and_stays(void **unused)
{
    weir_data torn = weir_data_synth;
    weir_data_use data = open_data(small);
    weir_sample_plan p = {.seed = 9, .count = 50, .batch = 8, .size = 1, .micro = 1};
    const weir_data_batch *batch;
    weir_loader *l;
    (void)unused;

    torn.get = get_until;
    data.data = &torn;
    assert_int_equal(open_loader(&data, &p, 0, 3, &l), WEIR_OK);
    for (uint64_t step = 0; step < 5; step++) {
        assert_int_equal(weir_loader_next(l, &batch), WEIR_OK);
        expect_batch(&data, &p, step, 0, batch);
    }
    for (int i = 0; i < 3; i++) {
        weir_fail(WEIR_LOST, "something else");
        assert_int_equal(weir_loader_next(l, &batch), WEIR_INVALID);
        assert_string_equal(weir_why_text(), "page 5 is torn");
    }
    weir_loader_close(l);
    /* an error that nobody asked for */
    assert_int_equal(open_loader(&data, &p, 5, 3, &l), WEIR_OK);
    weir_loader_close(l);
    weir_data_close(&data);
}

/* ---- made-up pictures ---- */

static weir_data_batch fetch(const weir_data_use *data, weir_data_part part, uint64_t first, int n)
{
    uint64_t index[500];
    weir_data_pick pick = {.part = part, .index = index, .n = n};
    weir_data_batch batch;

    for (int i = 0; i < n; i++)
        index[i] = first + (uint64_t)i;
    assert_int_equal(weir_data_batch_new(&data->facts, n, arena, &batch), WEIR_OK);
    assert_int_equal(data->data->get(data->self, &pick, &batch), WEIR_OK);
    return batch;
}

static void synth_is_a_function_of_part_and_index(void **unused)
{
    weir_data_use a = open_data("synth:shape=1x5x5,classes=4"),
                  b = open_data("synth:shape=1x5x5,classes=4"),
                  other = open_data("synth:shape=1x5x5,classes=4,seed=2");
    weir_data_batch x = fetch(&a, WEIR_DATA_TRAIN, 100, 8), y = fetch(&b, WEIR_DATA_TRAIN, 104, 4),
                    z = fetch(&a, WEIR_DATA_TEST, 100, 8),
                    o = fetch(&other, WEIR_DATA_TRAIN, 100, 8);
    (void)unused;

    assert_memory_equal(x.x + 4 * 25, y.x, 4 * 25 * sizeof(float));
    assert_memory_not_equal(x.x, z.x, 25 * sizeof(float));
    assert_memory_not_equal(x.x, o.x, 25 * sizeof(float));
    assert_memory_not_equal(x.x, x.x + 4 * 25, 25 * sizeof(float)); /* one class, two samples */
    for (int i = 0; i < 8; i++)
        assert_true(x.label[i] >= 0 && x.label[i] < 4);
}

/* Mean 0, deviation 1, and the nearest mean of the training part's classes tells the test part's
 * apart. */
static void synth_can_be_learnt(void **unused)
{
    enum { N = 500, WIDTH = 12 * 12, CLASSES = 5 };
    weir_data_use data = open_data("synth:shape=1x12x12,classes=5,noise=2");
    weir_data_batch train = fetch(&data, WEIR_DATA_TRAIN, 0, N),
                    test = fetch(&data, WEIR_DATA_TEST, 0, N);
    static double mean[CLASSES][WIDTH];
    double sum = 0, squares = 0;
    int right = 0;
    (void)unused;

    memset(mean, 0, sizeof mean);
    for (int i = 0; i < N * WIDTH; i++) {
        mean[train.label[i / WIDTH]][i % WIDTH] += train.x[i] / (N / CLASSES);
        sum += train.x[i], squares += (double)train.x[i] * train.x[i];
    }
    /* a fifth of the variance is in the 720 numbers of the classes' pictures: their mean has a
     * deviation of sqrt(0.2 / 720) = 0.017, and their square one of 0.2 sqrt(2 / 720) = 0.011; the
     * noise, drawn 72,000 times, has a tenth of that. The seed is fixed */
    assert_float_equal(sum / (N * WIDTH), 0, 3 * 0.017);
    assert_float_equal(squares / (N * WIDTH), 1, 5 * 0.011);
    for (int i = 0; i < N; i++) {
        double best = INFINITY;
        int nearest = -1;
        for (int c = 0; c < CLASSES; c++) {
            double d = 0;
            for (int k = 0; k < WIDTH; k++)
                d += (test.x[i * WIDTH + k] - mean[c][k]) * (test.x[i * WIDTH + k] - mean[c][k]);
            if (d < best)
                best = d, nearest = c;
        }
        right += nearest == test.label[i];
    }
    assert_true(right > N * 95 / 100);
}

static void synth_shapes(void **unused)
{
    static const char *const bad[] = {"28x28",       "0x1x1",         "1x2x",   "1x2x3x4",
                                      "x",           "ax2x3",         "1x-2x3", "1x 2x3",
                                      "99999999999", "99999x99999x9", ""};
    weir_data_use use = open_data("synth:shape=784,classes=2,count=7,test=3");
    char spec[100];
    (void)unused;

    assert_true(use.facts.dims == 1 && use.facts.dim[0] == 784 && use.facts.classes == 2);
    assert_true(use.facts.count[WEIR_DATA_TRAIN] == 7 && use.facts.count[WEIR_DATA_TEST] == 3);
    use = open_data("synth:shape=3x224x200");
    assert_true(use.facts.dims == 3 && use.facts.dim[0] == 3 && use.facts.dim[1] == 224 &&
                use.facts.dim[2] == 200);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(spec, sizeof spec, "synth:shape=%s", bad[i]);
        assert_int_equal(weir_data_open(spec, &no_need, arena, &use), WEIR_USAGE);
    }
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(every_epoch_meets_every_sample_once),
        CASE(another_batch_goes_on_with_what_is_left),
        CASE(time_counts_samples),
        CASE(orders_differ_by_epoch_and_seed),
        CASE(plans_that_mean_nothing_are_refused),
        CASE(batches_come_in_order_from_any_step),
        CASE(a_rank_without_samples_gets_empty_batches),
        CASE(closing_early_never_hangs),
        CASE(what_cannot_be_loaded_is_refused),
        CASE(an_error_arrives_in_its_place_and_stays),
        CASE(synth_is_a_function_of_part_and_index),
        CASE(synth_can_be_learnt),
        CASE(synth_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
