/* test_sequence_models.c - language models: against PyTorch from the same start, state carried over
 * batches, tied weights. */
#include "core/vec.h"
#include "help_nn.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { MOST = 16, STEPS = 20 };

/* A model with its vectors, and room for a batch. */
typedef struct reader {
    weir_arena *arena;
    weir_model *model;
    const weir_tensor *tensor;
    int tensors, vocabulary, length;
    size_t params;
    float *param, *grad;
    int32_t *token, *label;
} reader;

/* What scales a norm lies around 1, all else is scaled by the fan-in; the stream is a hash of the
 * name. */
static void start_weights(reader *r)
{
    for (int i = 0; i < r->tensors; i++) {
        const weir_tensor *t = &r->tensor[i];
        size_t end = strlen(t->name);
        bool norm = t->dims == 1 && !strcmp(t->name + end - 6, "weight");
        uint32_t stream = 2166136261u;
        for (size_t k = 0; k < end; k++)
            stream = (stream ^ (uint8_t)t->name[k]) * 16777619u;
        hash_fill(r->param + t->at, t->n, stream,
                  norm ? 1 : sqrtf((float)(t->dims > 1 ? t->n / (size_t)t->dim[0] : t->n)));
        for (size_t k = 0; norm && k < t->n; k++)
            r->param[t->at + k] = 1 + r->param[t->at + k] / 4;
    }
    weir_model_refresh(r->model);
}

static void reader_open(reader *r, const char *spec, int vocabulary, int length)
{
    weir_model_input in = {.dims = 1,
                           .dim = {length},
                           .tokens = true,
                           .kind = WEIR_SCORE_TOKENS,
                           .classes = vocabulary};

    *r = (reader){.arena = weir_arena_new(), .vocabulary = vocabulary, .length = length};
    ok(weir_model_open(spec, &in, MOST, r->arena, &r->model));
    r->tensor = weir_model_tensors(r->model, &r->tensors);
    r->params = weir_model_params(r->model);
    r->param = WEIR_NEW(r->arena, float, r->params);
    r->grad = WEIR_NEW(r->arena, float, r->params);
    r->token = WEIR_NEW(r->arena, int32_t, MOST * length);
    r->label = WEIR_NEW(r->arena, int32_t, MOST * length);
    weir_model_attach(r->model, r->param, r->grad);
    start_weights(r);
}

static void reader_close(reader *r)
{
    weir_model_close(r->model);
    weir_arena_free(r->arena);
}

static void set_text(reader *r, uint32_t step, int n)
{
    hash_labels(r->token, n * r->length, HASH_STEP + 2 * step, r->vocabulary);
    hash_labels(r->label, n * r->length, HASH_STEP + 2 * step + 1, r->vocabulary);
}

static double forward(reader *r, int from, int n, weir_pass pass)
{
    weir_model_batch batch = {.n = n,
                              .token = r->token + from * r->length,
                              .label = r->label + from * r->length};
    weir_score score = {0};

    ok(weir_model_forward(r->model, &batch, &pass, &score));
    assert_true(score.count == n * r->length && score.right >= 0 && score.right <= score.count);
    return score.loss;
}

/* Forward and backward of streams from..from+n-1; returns the sum of losses. The gradient is that
 * of the mean over 8 streams. */
static double train(reader *r, int from, int n, weir_pass pass, bool add)
{
    pass.training = true;
    pass.first = (uint64_t)from;
    double loss = forward(r, from, n, pass);

    ok(weir_model_backward(r->model, 1 / (float)(8 * r->length), add, NULL, NULL));
    return loss;
}

static void step(reader *r, float rate)
{
    weir_vec_best()->sgd_plain(r->param, r->grad, r->params, rate, 0, 1);
    weir_model_commit(r->model);
    weir_model_refresh(r->model);
}

/* ---- PyTorch ---- */

static float saved(const char *model, const char *what, const char *name, int k)
{
    char full[160];
    size_t n;
    float *x, value;

    snprintf(full, sizeof full, "%s/%s%s", model, what, name);
    if (!(x = saved_numbers(full, &n)) || (size_t)k >= n)
        fail_msg("tests/torch/sequence_numbers has no %s: run sequence.py", full);
    value = x[k];
    free(x);
    return value;
}

static void compare(const reader *r, const char *model, const char *what, const float *x,
                    bool bounds)
{
    for (int i = 0; i < r->tensors; i++) {
        const weir_tensor *t = &r->tensor[i];
        char name[160];
        double apart, most = bounds ? (double)saved(model, "bound/", t->name, 0) : 1e-4;
        snprintf(name, sizeof name, "%s/%s/%s", model, what, t->name);
        if (!((apart = apart_from(name, x + t->at, t->n)) <= most))
            fail_msg("%s is %g from PyTorch's; %g are allowed", name, apart, most);
    }
}

static void gradients_are_pytorchs(reader *r, const char *model)
{
    double first = saved(model, "first", "", 0), loss;

    set_text(r, 0, 8);
    loss = train(r, 0, 8, (weir_pass){.fresh = true}, false) / (8 * r->length);
    if (!(fabs(loss - first) <= 1e-5 * first))
        fail_msg("%s: the loss is %.8g, PyTorch's %.8g", model, loss, first);
    compare(r, model, "grad", r->grad, true);
}

/* The state is carried from step to step. */
static void trains_as_pytorch(reader *r, const char *model)
{
    for (uint32_t s = 0; s < STEPS; s++) {
        double theirs = saved(model, "losses", "", (int)s), loss;
        set_text(r, s, 8);
        loss = train(r, 0, 8, (weir_pass){.fresh = s == 0, .step = s}, false) / (8 * r->length);
        if (!(fabs(loss - theirs) <= 1e-5 * theirs))
            fail_msg("%s: the loss of step %u is %.8g, PyTorch's %.8g", model, s, loss, theirs);
        step(r, 0.01f);
    }
    compare(r, model, "end", r->param, false);
}

static void lstm_is_pytorchs(void **state)
{
    reader r;

    (void)state;
    reader_open(&r, "lstm", 10000, 35);
    /* one bias vector a layer where PyTorch has two */
    assert_int_equal(r.params, 19780400 - 2 * 4 * 650);
    gradients_are_pytorchs(&r, "lstm");
    reader_close(&r);
}

static void lstm_small_is_pytorchs(void **state)
{
    reader r;

    (void)state;
    reader_open(&r, "lstm-small", 10000, 35);
    assert_int_equal(r.params, 2000000 + 2 * (2 * 800 * 200 + 800) + 2000000 + 10000);
    gradients_are_pytorchs(&r, "lstm-small");
    trains_as_pytorch(&r, "lstm-small");
    reader_close(&r);
}

static void gpt_is_pytorchs(void **state)
{
    reader r;

    (void)state;
    reader_open(&r, "gpt", 256, 128);
    assert_int_equal(r.params, 4903168);
    gradients_are_pytorchs(&r, "gpt");
    trains_as_pytorch(&r, "gpt");
    reader_close(&r);
}

/* ---- tied weights ---- */

static void write_tied(char *path)
{
    static const char text[] = "# tied\nembedding embed out=6\nlstm rnn1 out=6\ndense out "
                               "out=classes weight=embed\nsoftmax\n";
    int fd = mkstemps(path, 4);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
    close(fd);
}

static void note_ready(void *arg, int k)
{
    const reader *r = ((void **)arg)[0];
    int *last = ((void **)arg)[1];

    assert_true(k == *last + 1);
    *last = k;
    (void)r;
}

static void tied_weights_are_one_tensor(void **state)
{
    char path[] = "/tmp/weir-tied-XXXXXX.net";
    int last = -1, most = 0;
    reader r;

    (void)state;
    write_tied(path);
    reader_open(&r, path, 11, 5);
    unlink(path);
    assert_int_equal(r.tensors, 5);
    assert_int_equal(r.params, 11 * 6 + 2 * 24 * 6 + 24 + 11);
    for (int i = 0; i < r.tensors; i++)
        most = r.tensor[i].ready > most ? r.tensor[i].ready : most;
    for (int i = 0; i < r.tensors; i++)
        assert_true(strcmp(r.tensor[i].name, "embed.weight") || r.tensor[i].ready == most);
    gradients_are_pytorchs(&r, "tied");
    trains_as_pytorch(&r, "tied");
    forward(&r, 0, 8, (weir_pass){.training = true});
    ok(weir_model_backward(r.model, 1, false, note_ready, (void *[]){&r, &last}));
    assert_int_equal(last, most);
    reader_close(&r);
}

static void tied_gradients_add_up(void **state)
{
    char path[] = "/tmp/weir-tied-XXXXXX.net";
    reader r;

    (void)state;
    write_tied(path);
    reader_open(&r, path, 11, 5);
    unlink(path);
    set_text(&r, 3, 8);
    train(&r, 0, 8, (weir_pass){.fresh = true}, false);
    float *whole = malloc(r.params * sizeof *whole);
    memcpy(whole, r.grad, r.params * sizeof *whole);
    train(&r, 0, 3, (weir_pass){.fresh = true}, false);
    train(&r, 3, 5, (weir_pass){.fresh = true, .micro = 1}, true);
    for (int i = 0; i < r.tensors; i++)
        assert_true(relative(r.grad + r.tensor[i].at, whole + r.tensor[i].at, r.tensor[i].n) <
                    2e-6);
    train(&r, 0, 8, (weir_pass){.fresh = true}, false);
    assert_memory_equal(r.grad, whole, r.params * sizeof *whole);
    free(whole);
    reader_close(&r);
}

/* ---- carried state ---- */

static const char small[] = "lstm-small:width=20";

/* Losses of two windows after each other, the second with the state that the first left. */
static void read_two(reader *r, double loss[2])
{
    for (uint32_t s = 0; s < 2; s++) {
        set_text(r, s, 8);
        loss[s] = train(r, 0, 8, (weir_pass){.fresh = s == 0, .step = s}, false);
        weir_model_commit(r->model);
    }
}

static void interrupted_steps_change_nothing(void **state)
{
    reader r;
    double plain[2], loss, again;

    (void)state;
    reader_open(&r, small, 50, 6);
    read_two(&r, plain);
    set_text(&r, 0, 8);
    assert_true(train(&r, 0, 8, (weir_pass){.fresh = true}, false) == plain[0]);
    weir_model_commit(r.model);
    set_text(&r, 7, 8);
    /* a step that is abandoned, whole or half done */
    loss = train(&r, 0, 8, (weir_pass){.step = 1}, false);
    train(&r, 0, 3, (weir_pass){.step = 1}, false);
    again = train(&r, 0, 8, (weir_pass){.step = 1}, false);
    assert_true(loss == again);
    set_text(&r, 1, 8);
    assert_true(train(&r, 0, 8, (weir_pass){.step = 1}, false) == plain[1]);
    assert_true(train(&r, 0, 8, (weir_pass){.step = 1, .fresh = true}, false) != plain[1]);
    reader_close(&r);
}

/* What a half-done step left is not committed with the step that follows it. */
static void only_the_last_try_is_committed(void **state)
{
    reader r;
    double want, got;

    (void)state;
    reader_open(&r, small, 50, 6);
    set_text(&r, 0, 8);
    train(&r, 0, 8, (weir_pass){.fresh = true}, false);
    weir_model_commit(r.model);
    set_text(&r, 1, 8);
    want = train(&r, 4, 4, (weir_pass){.step = 1}, false);
    train(&r, 0, 4, (weir_pass){.step = 1}, false); /* streams 0..3 alone are committed */
    weir_model_commit(r.model);
    got = train(&r, 4, 4, (weir_pass){.step = 2}, false);
    assert_true(want == got);
    reader_close(&r);
}

static void evaluation_has_a_state_of_its_own(void **state)
{
    reader r;
    double plain[2], first, second;

    (void)state;
    reader_open(&r, small, 50, 6);
    read_two(&r, plain);
    set_text(&r, 0, 8);
    train(&r, 0, 8, (weir_pass){.fresh = true}, false);
    weir_model_commit(r.model);
    first = forward(&r, 0, 8, (weir_pass){.fresh = true});
    assert_true(fabs(first - plain[0]) <= 1e-6 * first);
    set_text(&r, 1, 8);
    second = forward(&r, 0, 8, (weir_pass){0});
    assert_true(fabs(second - plain[1]) <= 1e-6 * second);
    forward(&r, 0, 5, (weir_pass){0});
    assert_true(train(&r, 0, 8, (weir_pass){.step = 1}, false) == plain[1]);
    reader_close(&r);
}

/* Streams cut into micro-batches, and over workers, are the same streams. */
static void streams_may_be_shared_out(void **state)
{
    reader r;
    double plain[2], sum;

    (void)state;
    reader_open(&r, small, 50, 6);
    read_two(&r, plain);
    ok(weir_model_streams(r.model, 0, 8, 8));
    for (uint32_t s = 0; s < 2; s++) {
        set_text(&r, s, 8);
        sum = train(&r, 0, 3, (weir_pass){.fresh = s == 0, .step = s}, false);
        sum += train(&r, 3, 5, (weir_pass){.fresh = s == 0, .step = s, .micro = 1}, true);
        assert_true(fabs(sum - plain[s]) <= 1e-6 * sum);
        weir_model_commit(r.model);
    }
    sum = 0;
    for (int from = 0; from < 8; from += 4) {
        ok(weir_model_streams(r.model, (uint64_t)from, 4, 8));
        for (uint32_t s = 0; s < 2; s++) {
            set_text(&r, s, 8);
            sum += train(&r, from, 4, (weir_pass){.fresh = s == 0, .step = s}, false);
            weir_model_commit(r.model);
        }
    }
    assert_true(fabs(sum - plain[0] - plain[1]) <= 1e-6 * sum);
    weir_model_batch batch = {.n = 4, .token = r.token, .label = r.label};
    weir_score score = {0};
    assert_int_not_equal(weir_model_forward(r.model, &batch,
                                            &(weir_pass){.training = true, .first = 5}, &score),
                         WEIR_OK);
    assert_int_not_equal(weir_model_forward(r.model, &batch,
                                            &(weir_pass){.training = true, .first = 3}, &score),
                         WEIR_OK);
    assert_int_not_equal(weir_model_streams(r.model, 5, 4, 8), WEIR_OK);
    reader_close(&r);
}

/* Samples that stand alone begin anew wherever they stand in a step. */
static void samples_alone_need_no_streams(void **state)
{
    weir_model_batch batch = {.n = 4};
    weir_score score = {0};
    double loss;
    reader r;

    (void)state;
    reader_open(&r, small, 50, 6);
    set_text(&r, 0, 4);
    loss = forward(&r, 0, 4, (weir_pass){.training = true, .fresh = true});
    weir_model_commit(r.model);
    assert_true(forward(&r, 0, 4, (weir_pass){.training = true, .fresh = true, .first = 1000}) ==
                loss);
    weir_model_commit(r.model);
    batch.token = r.token;
    batch.label = r.label;
    assert_int_not_equal(weir_model_forward(r.model, &batch,
                                            &(weir_pass){.training = true, .first = 1000}, &score),
                         WEIR_OK);
    reader_close(&r);
}

/* ---- saving ---- */

/* An io that keeps the ranges of each field in memory. */
typedef struct shelf {
    weir_io io;
    int fields;
    char name[8][64];
    float x[8][4096];
} shelf;

static weir_err keep_range(weir_io *io, const char *name, const weir_io_piece *piece)
{
    shelf *s = (shelf *)io;
    int i = 0;

    assert_int_equal(piece->keep, WEIR_KEEP_STREAM);
    assert_true(piece->whole <= 4096);
    while (i < s->fields && strcmp(s->name[i], name))
        i++;
    assert_true(i < 8);
    if (i == s->fields)
        snprintf(s->name[s->fields++], sizeof s->name[0], "%s", name);
    memcpy(io->loading ? piece->x : s->x[i] + piece->at,
           io->loading ? s->x[i] + piece->at : piece->x, piece->n * sizeof *piece->x);
    return WEIR_OK;
}

static void carried_state_is_saved_by_stream(void **state)
{
    static shelf s;
    reader r;
    double plain[2], loss;

    (void)state;
    s.io.range = keep_range;
    reader_open(&r, small, 50, 6);
    read_two(&r, plain);
    set_text(&r, 0, 8);
    for (int from = 0; from < 8; from += 3) { /* as three workers would */
        int n = from + 3 < 8 ? 3 : 8 - from;
        ok(weir_model_streams(r.model, (uint64_t)from, (uint64_t)n, 8));
        train(&r, from, n, (weir_pass){.fresh = true}, false);
        weir_model_commit(r.model);
        ok(weir_model_state(r.model, &s.io));
    }
    assert_int_equal(s.fields, 2);
    assert_string_equal(s.name[0], "rnn1.carried");
    s.io.loading = true;
    set_text(&r, 1, 8);
    loss = 0;
    for (int from = 0; from < 8; from += 5) { /* and two go on */
        int n = from + 5 < 8 ? 5 : 3;
        ok(weir_model_streams(r.model, (uint64_t)from, (uint64_t)n, 8));
        ok(weir_model_state(r.model, &s.io));
        loss += train(&r, from, n, (weir_pass){.step = 1}, false);
    }
    assert_true(fabs(loss - plain[1]) <= 1e-6 * loss);
    reader_close(&r);
}

/* ---- initial weights ---- */

static const weir_tensor *tensor(const reader *r, const char *name)
{
    for (int i = 0; i < r->tensors; i++)
        if (!strcmp(r->tensor[i].name, name))
            return &r->tensor[i];
    fail_msg("there is no %s", name);
    return NULL;
}

/* Mean 0, and this deviation; none further out than `most`. */
static void check_spread(const reader *r, const char *name, double deviation, double most)
{
    const weir_tensor *t = tensor(r, name);
    double sum = 0, squares = 0;

    for (size_t i = 0; i < t->n; i++) {
        double x = r->param[t->at + i];
        sum += x;
        squares += x * x;
        assert_true(fabs(x) <= most);
    }
    double error = deviation / sqrt((double)t->n);
    assert_true(fabs(sum / (double)t->n) <= 5 * error + 1e-9);
    assert_true(fabs(sqrt(squares / (double)t->n) - deviation) <= 5 * error + 1e-9);
}

static void initial_weights_are_pytorchs(void **state)
{
    double bound = 1 / sqrt(200);
    reader r;

    (void)state;
    reader_open(&r, "lstm-small", 1000, 5);
    weir_model_init(r.model, 7);
    check_spread(&r, "embed.weight", 1, 7);
    check_spread(&r, "rnn1.weight_ih_l0", bound / sqrt(3), bound * 1.0001);
    check_spread(&r, "rnn2.weight_hh_l0", bound / sqrt(3), bound * 1.0001);
    /* as the sum of two */
    check_spread(&r, "rnn2.bias_l0", bound * sqrt(2. / 3), bound * sqrt(2) * 1.0001);
    reader_close(&r);
    reader_open(&r, "gpt:width=16,depth=1,heads=2", 100, 5);
    weir_model_init(r.model, 7);
    check_spread(&r, "place.weight", 0, 0);
    reader_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lstm_is_pytorchs),
        cmocka_unit_test(lstm_small_is_pytorchs),
        cmocka_unit_test(gpt_is_pytorchs),
        cmocka_unit_test(tied_weights_are_one_tensor),
        cmocka_unit_test(tied_gradients_add_up),
        cmocka_unit_test(interrupted_steps_change_nothing),
        cmocka_unit_test(only_the_last_try_is_committed),
        cmocka_unit_test(evaluation_has_a_state_of_its_own),
        cmocka_unit_test(streams_may_be_shared_out),
        cmocka_unit_test(samples_alone_need_no_streams),
        cmocka_unit_test(carried_state_is_saved_by_stream),
        cmocka_unit_test(initial_weights_are_pytorchs),
    };

    weir_model_threads(1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
