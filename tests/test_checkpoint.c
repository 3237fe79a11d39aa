/* Checkpoints: what is saved is what is loaded, bit for bit; what does not fit is refused by
 * name. */
#include "help_ckpt.h"
#include <sys/stat.h>

static const char *latest(void)
{
    static char text[64];
    ssize_t n = readlink(in_out("latest"), text, sizeof text - 1);

    text[n < 0 ? 0 : n] = 0;
    return text;
}

/* ---- what is saved is what is loaded ---- */

static void round_trip(void **state)
{
    weir_arena *a = weir_arena_new();
    weir_checkpoint_saved saved;
    weir_checkpoint_info info;
    char path[WEIR_CHECKPOINT_PATH];
    struct stat model, rest;

    (void)state;
    assert_int_equal(save_with(out, 120, 3, 2, &saved), WEIR_OK);
    assert_string_equal(saved.path, in_out("step-120"));
    assert_string_equal(names(saved.path), "model.safetensors state.safetensors");
    assert_int_equal(stat(in_out("step-120/model.safetensors"), &model), 0);
    assert_int_equal(stat(in_out("step-120/state.safetensors"), &rest), 0);
    assert_int_equal(saved.bytes, model.st_size + rest.st_size);
    assert_true(saved.seconds == 1);
    assert_true(holds(saved.path, 120));
    assert_int_equal(weir_checkpoint_peek(saved.path, a, &info), WEIR_OK);
    assert_int_equal(info.step, 120);
    assert_int_equal(info.seed, UINT64_MAX);
    assert_int_equal(info.samples, 64 * 120);
    assert_int_equal(info.workers, 2);
    assert_string_equal(info.model, "mlp:hidden=4");
    assert_string_equal(info.data, "idx:/data");
    assert_string_equal(info.settings, "lr = 0.1\nbatch = 64\n");
    assert_string_equal(info.lessons, "{\"vocabulary\":[\"\\\"\"]}");
    const char *ways[] = {out, saved.path, in_out("latest"), in_out("step-120/")};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(weir_checkpoint_find(ways[i], path), WEIR_OK);
        assert_true(holds(path, 120));
    }
    assert_int_equal(save_with(out, 121, 3, 2, &saved), WEIR_OK);
    assert_int_equal(weir_checkpoint_peek(saved.path, a, &info), WEIR_OK);
    assert_null(info.lessons); /* as in those of an older weir */
    weir_arena_free(a);
}

static void keeps_the_newest(void **state)
{
    weir_checkpoint_saved saved;

    (void)state;
    for (uint64_t step = 8; step <= 11; step++)
        assert_int_equal(save(out, step), WEIR_OK);
    assert_string_equal(names(out), "latest step-10 step-11 step-9");
    assert_string_equal(latest(), "step-11");
    assert_int_equal(save_with(out, 12, 1, 2, &saved), WEIR_OK);
    assert_string_equal(names(out), "latest step-12");
    /* back to an earlier step: the future that was given up goes first, whatever its number */
    assert_int_equal(save(out, 3), WEIR_OK);
    assert_int_equal(save_with(out, 4, 2, 2, &saved), WEIR_OK);
    assert_string_equal(names(out), "latest step-3 step-4");
    assert_string_equal(latest(), "step-4");
    assert_int_equal(found(out), 4);
}

static void saves_a_step_again(void **state)
{
    struct stat before, after;
    weir_checkpoint_saved saved;

    (void)state;
    assert_int_equal(save(out, 5), WEIR_OK);
    assert_int_equal(stat(in_out("step-5/model.safetensors"), &before), 0);
    assert_int_equal(save(out, 5), WEIR_OK); /* the same: not touched */
    assert_int_equal(stat(in_out("step-5/model.safetensors"), &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_int_equal(save_with(out, 5, 3, 1, &saved), WEIR_OK); /* another number of workers */
    assert_int_equal(found(out), -1);                           /* the scratch was dropped */
    assert_string_equal(names(out), "latest step-5");
    assert_int_equal(truncate(in_out("step-5/state.safetensors"), 30), 0);
    assert_int_equal(save(out, 5), WEIR_OK);
    assert_int_equal(found(out), 5);
}

static void cleans_up_what_others_left(void **state)
{
    (void)state;
    assert_int_equal(save(out, 1), WEIR_OK);
    assert_int_equal(mkdir(in_out("step-2"), 0777), 0);
    assert_int_equal(rename(in_out("step-1/model.safetensors"), in_out("step-2/model.safetensors")),
                     0);
    assert_int_equal(symlink("step-9", in_out(".weir-1-0")), 0);
    assert_int_equal(mkdir(in_out("step-02"), 0777), 0);
    assert_int_equal(mkdir(in_out("step-3"), 0777), 0);
    spill(in_out("step-3/mine"), "x", 1);
    assert_int_equal(save(out, 4), WEIR_OK);
    assert_string_equal(names(out), "latest step-02 step-3 step-4");
    assert_string_equal(names(in_out("step-3")), "mine");
}

static void nothing_to_find(void **state)
{
    char path[WEIR_CHECKPOINT_PATH];

    (void)state;
    assert_int_equal(weir_checkpoint_find(out, path), WEIR_USAGE);
    assert_non_null(strstr(weir_why_text(), out));
    assert_int_equal(weir_checkpoint_find(in_out("nowhere"), path), WEIR_USAGE);
    assert_int_equal(mkdir(in_out("step-7"), 0777), 0);
    assert_int_equal(weir_checkpoint_find(out, path), WEIR_DAMAGED);
    assert_non_null(strstr(weir_why_text(), "step-7/model.safetensors is missing"));
    assert_int_equal(weir_checkpoint_find(in_out("step-7"), path), WEIR_DAMAGED);
    assert_int_equal(weir_checkpoint_find(in_out("step-8"), path), WEIR_USAGE);
}

/* ---- another run than was saved ---- */

static void another_model_is_refused(void **state)
{
    weir_tensor other[4];
    weir_checkpoint_body body;
    size_t left;
    run r = {0};

    (void)state;
    assert_int_equal(save(out, 1), WEIR_OK);
    body = body_of(&r);
    body.tensor = other;
    memcpy(other, tensors, sizeof tensors);
    other[0].dim[0] = 3, other[0].dim[1] = 4;
    assert_int_equal(weir_checkpoint_load(in_out("step-1"), 2, &body, &left), WEIR_MISFIT);
    assert_non_null(strstr(weir_why_text(), "'fc1.weight' is 4x3 there and 3x4 here"));
    memcpy(other, tensors, sizeof tensors);
    body.tensors = 2;
    assert_int_equal(weir_checkpoint_load(in_out("step-1"), 2, &body, &left), WEIR_MISFIT);
    assert_non_null(strstr(weir_why_text(), "'scale' is 1 there and not here"));
    body.tensors = 3;
    other[1].name = "fc2.bias";
    assert_int_equal(weir_checkpoint_load(in_out("step-1"), 2, &body, &left), WEIR_MISFIT);
    assert_non_null(strstr(weir_why_text(), "'fc2.bias' is not there and 4 here"));
    assert_true(r.param[0] == 0 && r.steps == 0);
}

static weir_err other_size(void *arg, weir_io *io)
{
    return weir_io_floats(io, "scratch", arg, 3, WEIR_KEEP_SAME);
}
static weir_err missing(void *arg, weir_io *io)
{
    return weir_io_floats(io, "nothing", arg, 3, WEIR_KEEP_SAME);
}
static weir_err may_miss(void *arg, weir_io *io)
{
    return weir_io_floats(io, "nothing", arg, 3, WEIR_KEEP_DROP);
}
static weir_err wrong_type(void *arg, weir_io *io)
{
    return weir_io_u64(io, "scratch", arg, WEIR_KEEP_SAME);
}
static weir_err summed(void *arg, weir_io *io)
{
    return weir_io_floats(io, "scratch", arg, 2, WEIR_KEEP_SUM);
}
static weir_err twice(void *arg, weir_io *io)
{
    WEIR_TRY(weir_io_floats(io, "a", arg, 2, WEIR_KEEP_SAME));
    return weir_io_floats(io, "a", arg, 2, WEIR_KEEP_SAME);
}

static void other_fields_are_refused(void **state)
{
    const struct {
        weir_err (*state)(void *, weir_io *);
        weir_err loading, saving;
    } cases[] = {{other_size, WEIR_MISFIT, WEIR_OK}, {missing, WEIR_MISFIT, WEIR_OK},
                 {may_miss, WEIR_OK, WEIR_OK},       {wrong_type, WEIR_MISFIT, WEIR_OK},
                 {summed, WEIR_MISFIT, WEIR_MISFIT}, {twice, WEIR_MISFIT, WEIR_FAILED}};
    weir_checkpoint_place place = {.out = out, .keep = 9};
    weir_checkpoint_info info = {.step = 2, .workers = 2};
    weir_checkpoint_saved saved;
    weir_checkpoint_body body;
    size_t left = 99;
    run r;

    (void)state;
    assert_int_equal(save(out, 1), WEIR_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        float x[4] = {5, 5, 5, 5};
        body = body_of(&r);
        body.state = cases[i].state, body.arg = x;
        assert_int_equal(weir_checkpoint_load(in_out("step-1"), 2, &body, &left), cases[i].loading);
        assert_true(x[0] == 5 && x[2] == 5);
        assert_int_equal(weir_checkpoint_save(&clock_rt, &place, &info, &body, &saved),
                         cases[i].saving);
    }
    assert_int_equal(left, 3); /* of may_miss */
}

static void scratch_is_dropped_with_other_workers(void **state)
{
    weir_checkpoint_body body;
    size_t left;
    run r = {.scratch = {5, 6}, .keep = WEIR_KEEP_DROP};

    (void)state;
    assert_int_equal(save(out, 1), WEIR_OK);
    body = body_of(&r);
    assert_int_equal(weir_checkpoint_load(in_out("step-1"), 3, &body, &left), WEIR_OK);
    assert_true(r.scratch[0] == 5 && r.scratch[1] == 6 && r.steps == 1 && left == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(round_trip),
        CASE(keeps_the_newest),
        CASE(saves_a_step_again),
        CASE(cleans_up_what_others_left),
        CASE(nothing_to_find),
        CASE(another_model_is_refused),
        CASE(other_fields_are_refused),
        CASE(scratch_is_dropped_with_other_workers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
