/* help_ckpt.h - a run so small that every byte of its checkpoints can be tried, and a directory of
 * its own for every test. */
#ifndef WEIR_TESTS_HELP_CKPT_H
#define WEIR_TESTS_HELP_CKPT_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants those first */
#include "core/file.h"
#include "core/rng.h"
#include "train/checkpoint.h"
#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- a run that can be saved ---- */

enum { PARAMS = 17, MOMENTA = 12 };
typedef struct run {
    float param[PARAMS], momentum[MOMENTA];
    uint64_t steps;
    float scratch[2];
    weir_keep keep; /* of the scratch */
} run;

static const weir_tensor tensors[] = {
    {.name = "fc1.weight", .at = 0, .n = 12, .dims = 2, .dim = {4, 3}},
    {.name = "fc1.bias", .at = 12, .n = 4, .dims = 1, .dim = {4}},
    {.name = "scale", .at = 16, .n = 1},
};

/* One tensor over two buckets, the later first; a scalar that lives on the stack. */
static inline weir_err list_state(void *arg, weir_io *io)
{
    run *r = arg;
    uint64_t steps = r->steps;
    size_t mark = weir_io_in(io, "optim");

    WEIR_TRY(weir_io_range(io, "fc1.weight.momentum",
                           &(weir_io_piece){r->momentum + 5, 5, 7, MOMENTA, WEIR_KEEP_SAME}));
    WEIR_TRY(weir_io_range(io, "fc1.weight.momentum",
                           &(weir_io_piece){r->momentum, 0, 5, MOMENTA, WEIR_KEEP_SAME}));
    WEIR_TRY(weir_io_u64(io, "steps", &steps, WEIR_KEEP_SAME));
    weir_io_out(io, mark);
    r->steps = steps;
    return weir_io_floats(io, "scratch", r->scratch, 2, r->keep);
}

static inline weir_checkpoint_body body_of(run *r)
{
    return (weir_checkpoint_body){
        .tensor = tensors, .tensors = 3, .param = r->param, .state = list_state, .arg = r};
}

/* Everything a function of the step, any bits: the numbers need not be numbers. */
static inline void fill(run *r, uint64_t step)
{
    weir_rng rng = weir_rng_at(3, WEIR_RNG_TEST, step, 0);
    uint32_t bits;

    memset(r, 0, sizeof *r);
    for (int i = 0; i < PARAMS; i++)
        bits = weir_rng_u32(&rng), memcpy(&r->param[i], &bits, 4);
    for (int i = 0; i < MOMENTA; i++)
        bits = weir_rng_u32(&rng), memcpy(&r->momentum[i], &bits, 4);
    r->steps = step;
    r->scratch[0] = 1, r->scratch[1] = 2;
    r->keep = WEIR_KEEP_DROP;
}

static inline double tick(weir_rt *rt)
{
    static double now;

    (void)rt;
    return now += 1;
}
static weir_rt clock_rt = {.now = tick};

static inline weir_err save_at(const weir_checkpoint_place *place, uint64_t step, int workers,
                               weir_checkpoint_saved *saved)
{
    weir_checkpoint_info info = {.step = step,
                                 .seed = UINT64_MAX,
                                 .samples = 64 * step,
                                 .workers = workers,
                                 .model = "mlp:hidden=4",
                                 .data = "idx:/data",
                                 .settings = "lr = 0.1\nbatch = 64\n",
                                 .lessons = step % 2 ? NULL : "{\"vocabulary\":[\"\\\"\"]}"};
    weir_checkpoint_body body;
    run r;

    fill(&r, step);
    body = body_of(&r);
    return weir_checkpoint_save(&clock_rt, place, &info, &body, saved);
}

static inline weir_err save_with(const char *out, uint64_t step, int keep, int workers,
                                 weir_checkpoint_saved *saved)
{
    return save_at(&(weir_checkpoint_place){.out = out, .keep = keep}, step, workers, saved);
}

static inline weir_err save(const char *out, uint64_t step)
{
    weir_checkpoint_saved saved;

    return save_with(out, step, 3, 2, &saved);
}

/* Is it whole, and what was saved at this step? */
static inline bool holds(const char *path, uint64_t step)
{
    weir_checkpoint_body body;
    run want, got = {.keep = WEIR_KEEP_DROP};
    size_t left;

    fill(&want, step);
    body = body_of(&got);
    return !weir_checkpoint_load(path, 2, &body, &left) && left == 0 &&
           !memcmp(&want, &got, sizeof got);
}

/* The step of what is found, having checked that it is what was saved then; -1: nothing. */
static inline long found(const char *out)
{
    char path[WEIR_CHECKPOINT_PATH];
    uint64_t step;

    if (weir_checkpoint_find(out, path))
        return -1;
    step = strtoull(strrchr(path, '-') + 1, NULL, 10);
    return holds(path, step) ? (long)step : -1;
}

/* ---- a directory of its own for every test ---- */

static char out[64];

static inline int begin(void **state)
{
    (void)state;
    strcpy(out, "/tmp/weir-ckpt-XXXXXX");
    return mkdtemp(out) ? 0 : -1;
}

static inline int end(void **state)
{
    (void)state;
    return (int)weir_tree_remove(out);
}

/* The names in a directory, sorted, with blanks between. */
static inline const char *names(const char *dir)
{
    static char text[4096];
    struct dirent **list;
    int n = scandir(dir, &list, NULL, alphasort);

    text[0] = 0;
    for (int i = 0; i < n; i++) {
        if (strcmp(list[i]->d_name, ".") && strcmp(list[i]->d_name, ".."))
            strcat(strcat(text, text[0] ? " " : ""), list[i]->d_name);
        free(list[i]);
    }
    if (n >= 0)
        free(list);
    return text;
}

static inline const char *in_out(const char *name)
{
    static char text[4][512];
    static int next;

    next = (next + 1) % 4;
    snprintf(text[next], sizeof text[next], "%s/%s", out, name);
    return text[next];
}

static inline char *slurp(const char *path, size_t *n)
{
    char *bytes;

    assert_int_equal(weir_file_read(path, 1 << 20, &bytes, n), WEIR_OK);
    return bytes;
}

static inline void spill(const char *path, const char *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)
#endif
