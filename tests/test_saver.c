/* test_saver.c - whole trainers that save while they go on, in the simulated world and over ZeroMQ:
 * what is written is what was then, however late it is written, and with or without a thread; from
 * the second one on nothing more is kept in memory. test_saver.py tries whole runs. */
#include "train/saver.h"
#include "core/file.h"
#include "help_ranks.h"
#include "train/checkpoint.h"
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* after those it needs */
#include <cmocka.h>

enum { RANKS = 2, AT = 3, STEPS = 12 };

static char out[64];

/* One rank of a run. */
typedef struct rank {
    weir_trainer t; /* first */
    weir_arena *arena;
    weir_settings set;
    weir_rank_info rank_info;
    weir_rundir dir; /* the leader's */
    weir_err (*test)(struct rank *);
} rank;

/* ---- a run ---- */

/* What is held back differs between workers: it is gathered. */
static weir_err open_rank(rank *x, weir_comm *comm)
{
    static const char *const option[] = {"batch",          "24",      "lr",
                                         "0.05",           "optim",   "sgd:momentum=0.9",
                                         "codec",          "strom",   "coll",
                                         "ring",           "threads", "1",
                                         "steps",          "12",      "model",
                                         "mlp:hidden=300", NULL};

    WEIR_TRY(weir_settings_init(&x->set, x->arena));
    WEIR_TRY(weir_settings_set(&x->set, "data", "synth:shape=1x28x28,classes=10,count=96,test=9"));
    for (const char *const *o = option; *o; o += 2)
        WEIR_TRY(weir_settings_set(&x->set, o[0], o[1]));
    WEIR_TRY(weir_settings_set(&x->set, "out", out));
    x->t = (weir_trainer){.set = &x->set, .rank_info = &x->rank_info, .comm = comm};
    x->dir = (weir_rundir){.set = &x->set, .host = "here", .model = &x->t.model_file};
    WEIR_TRY(weir_trainer_enter(&x->t));
    WEIR_TRY(weir_trainer_open(&x->t));
    return weir_trainer_begin(&x->t);
}

static bool leads(const rank *x) { return weir_group_leads(&x->t.mesh.all); }

static weir_err test_rank(weir_comm *comm, void *arg)
{
    rank *x = arg;

    WEIR_TRY(open_rank(x, comm));
    if (leads(x))
        WEIR_TRY(weir_rundir_fill(&x->dir, &x->t.warned));
    return x->test(x);
}

static void close_rank(void *arg)
{
    rank *x = arg;

    weir_trainer_close(&x->t);
    weir_rundir_leave(&x->dir);
}

static weir_err run_rank(weir_net *net, void *arg)
{
    rank *x = calloc(1, sizeof *x);
    weir_err err;

    if (!x || !(x->arena = weir_arena_new()))
        return free(x), weir_fail_nomem(sizeof *x);
    x->test = *(weir_err(**)(rank *))arg;
    err = weir_comm_run(net, &(weir_compute){test_rank, close_rank, x});
    weir_arena_free(x->arena);
    free(x);
    return err;
}

static void in_every_world(weir_err (*test)(rank *))
{
    static const char *const world[] = {"sim", "zmq"};

    for (int i = 0; i < 2; i++) {
        ranks all = {.net = world[i], .size = RANKS, .fn = run_rank, .arg = &test};
        snprintf(out, sizeof out, "/tmp/weir-test-XXXXXX");
        assert_non_null(mkdtemp(out));
        ranks_all_ok(&all);
        assert_int_equal(weir_tree_remove(out), WEIR_OK);
    }
}

static weir_err step_to(rank *x, uint64_t step)
{
    weir_step_report whole;

    while (x->t.step < step)
        WEIR_TRY(weir_trainer_step(&x->t, &whole));
    return WEIR_OK;
}

/* ---- as late as can be ---- */

static weir_err no_thread(weir_rt *rt, const char *name, weir_err (*fn)(void *), void *arg,
                          weir_task **task)
{
    (void)rt, (void)fn, (void)arg, (void)task;
    return weir_fail(WEIR_FAILED, "the thread '%s' cannot be started: on purpose", name);
}

static weir_err save_without_a_thread(rank *x)
{
    weir_rt before = *x->t.rt;
    weir_err err;

    x->t.rt->start = no_thread;
    err = weir_saver_save(&x->t, NULL, &x->dir);
    x->t.rt->start = before.start;
    return err;
}

/* The weights of the newest whole checkpoint, which is of step AT. */
static weir_err load(rank *x, float *param)
{
    weir_checkpoint_body body = {.param = param};
    char path[WEIR_CHECKPOINT_PATH];
    size_t left;

    WEIR_TRY(weir_checkpoint_find(out, path));
    CHECK(strstr(path, "/step-3"));
    body.tensor = weir_model_tensors(x->t.model, &body.tensors);
    return weir_checkpoint_load(path, RANKS, &body, &left);
}

static weir_err compare(rank *x, const float *then)
{
    float *now = WEIR_NEW(x->arena, float, x->t.params);

    CHECK(now);
    WEIR_TRY(load(x, now));
    CHECK(!memcmp(then, now, x->t.params * sizeof *now));
    CHECK(memcmp(then, x->t.param, x->t.params * sizeof *now)); /* it has gone on since */
    return WEIR_OK;
}

/* Nothing is written before somebody looks, steps later. */
static weir_err write_late(rank *x)
{
    size_t bytes = x->t.params * sizeof(float);
    float *then = malloc(bytes);
    weir_err err;

    CHECK(then);
    WEIR_TRY(step_to(x, AT));
    memcpy(then, x->t.param, bytes);
    WEIR_TRY(save_without_a_thread(x));
    WEIR_TRY(step_to(x, STEPS - 1));
    CHECK(!leads(x) || !weir_checkpoint_any(out));
    WEIR_TRY(weir_saver_look(&x->t, NULL, &x->dir));
    err = leads(x) ? compare(x, then) : WEIR_OK;
    free(then);
    WEIR_TRY(err);
    return weir_saver_end(&x->t, NULL, &x->dir);
}

static void what_is_written_is_what_was_then(void **state)
{
    (void)state;
    in_every_world(write_late);
}

/* ---- memory ---- */

static size_t heap(void)
{
    struct mallinfo2 m = mallinfo2();

    return m.uordblks + m.hblkhd;
}

/* A save that is whole, and the next step. */
static weir_err save_and_step(rank *x)
{
    WEIR_TRY(weir_saver_save(&x->t, NULL, &x->dir));
    WEIR_TRY(weir_saver_end(&x->t, NULL, &x->dir));
    return step_to(x, x->t.step + 1);
}

/* Of the ranks, which are in one process, those that wait have nothing to free. What libraries and
 * messages on their way keep is less than the smallest of what a snapshot copies. */
static weir_err save_often(rank *x)
{
    size_t params = x->t.params * sizeof(float), before, after;

    WEIR_TRY(step_to(x, AT));
    WEIR_TRY(save_and_step(x));
    WEIR_TRY(save_and_step(x));
    before = heap();
    while (x->t.step + 1 < STEPS)
        WEIR_TRY(save_and_step(x));
    after = heap();
    CHECK(after < before + params);
    return WEIR_OK;
}

static void nothing_more_is_kept(void **state)
{
    (void)state;
    in_every_world(save_often);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_written_is_what_was_then),
                                       cmocka_unit_test(nothing_more_is_kept)};

    mallopt(M_ARENA_MAX, 1); /* mallinfo2 knows of no other */
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
