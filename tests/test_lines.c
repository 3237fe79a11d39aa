/* test_lines.c - whole trainers on the lines of the comm task, in the simulated world and over
 * ZeroMQ: a step that failed before it was committed is as if it had never been; a thread of an
 * embedding program computes what ours would; reports come whole and in order. */
#include "help_ranks.h"
#include "train/host.h"
#include "train/trainer.h"
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>
/* after those it needs */
#include <cmocka.h>

enum { RANKS = 2, STEPS = 6, FATAL = 3 /* which of them fails, if one does */ };

/* How a step fails, on all ranks alike and before anything is committed. */
typedef enum {
    NEVER,
    AT_A_JOB,    /* posted before the step's own: nothing is exchanged */
    AT_A_BUCKET, /* the second one, when the first is through */
    AT_THE_END,  /* the sum is not finite */
    FAULTS
} fault;

typedef struct run {
    const char *const *option; /* pairs, ended by NULL */
    fault fault;
    /* out */
    uint64_t hash[RANKS], reports[RANKS];
    double sent[RANKS];
} run;

/* One rank of it. */
typedef struct rank {
    weir_trainer t; /* first */
    weir_exchange faulty;
    const weir_exchange *real;
    run *r;
    weir_arena *arena;
    weir_settings set;
    weir_rank_info rank_info;
    int buckets; /* of the step that is to fail */
} rank;

/* ---- faults ---- */

static weir_err fail_job(void *arg)
{
    (void)arg;
    return weir_fail(WEIR_DISK, "on purpose");
}

static weir_err faulty_bucket(void *self, weir_lane *lane, weir_when when)
{
    rank *x = lane->owner;

    if (x->buckets++ == 1)
        return weir_fail(WEIR_DISK, "on purpose");
    return x->real->bucket(self, lane, when);
}

static void set_weight(rank *x, float w)
{
    x->t.param[0] = w;
    weir_model_refresh(x->t.model);
}

static weir_err make_fault(rank *x, float *weight)
{
    x->real = x->t.exchange;
    *weight = x->t.param[0];
    x->buckets = 0;
    x->faulty = *x->real;
    x->faulty.bucket = faulty_bucket;
    if (x->r->fault == AT_A_JOB)
        return weir_line_post(x->t.line, fail_job, NULL);
    if (x->r->fault == AT_A_BUCKET)
        x->t.exchange = &x->faulty;
    if (x->r->fault == AT_THE_END)
        set_weight(x, NAN);
    return WEIR_OK;
}

/* A step that fails, twice; then all is as it was before. */
static weir_err fail_step(rank *x)
{
    weir_step_report report;
    uint64_t before = weir_trainer_hash(&x->t);
    float weight;

    for (int k = 0; k < 2; k++) {
        WEIR_TRY(make_fault(x, &weight));
        weir_err err = weir_trainer_step(&x->t, &report);
        CHECK(err == (x->r->fault == AT_THE_END ? WEIR_NAN : WEIR_DISK));
        CHECK(weir_trainer_step(&x->t, &report) == err); /* nothing goes on until it is cleared */
        x->t.exchange = x->real;
        if (x->r->fault == AT_THE_END)
            set_weight(x, weight);
        CHECK(weir_trainer_hash(&x->t) == before && x->t.step == FATAL);
        WEIR_TRY(weir_trainer_rewind(&x->t));
    }
    return WEIR_OK;
}

/* ---- a run ---- */

static weir_err take_report(rank *x, const weir_step_report *whole)
{
    int me = x->t.mesh.all.me;

    if (!whole->step)
        return WEIR_OK;
    CHECK(whole->step == ++x->r->reports[me]);
    CHECK(whole->samples > 0 && isfinite(whole->loss) && whole->sent > 0 && whole->received > 0);
    x->r->sent[me] += whole->sent;
    return WEIR_OK;
}

static weir_err make_steps(rank *x)
{
    weir_trainer *t = &x->t;
    weir_step_report whole;

    while (t->step < STEPS) {
        if (t->step == FATAL && x->r->fault)
            WEIR_TRY(fail_step(x));
        WEIR_TRY(weir_trainer_step(t, &whole));
        WEIR_TRY(take_report(x, &whole));
        CHECK(x->r->reports[t->mesh.all.me] + 1 == t->step && t->pending.step == t->step);
    }
    WEIR_TRY(weir_trainer_flush(t, &whole));
    WEIR_TRY(take_report(x, &whole));
    CHECK(x->r->reports[t->mesh.all.me] == STEPS && !t->pending.step);
    WEIR_TRY(weir_trainer_flush(t, &whole)); /* there is none any more */
    CHECK(!whole.step);
    x->r->hash[t->mesh.all.me] = weir_trainer_hash(t);
    return weir_trainer_check(t);
}

static weir_err train_rank(weir_comm *comm, void *arg)
{
    static const char *const common[] = {"batch", "24",    "lr",
                                         "0.05",  "optim", "sgd:momentum=0.9",
                                         "coll",  "ring",  "threads",
                                         "1",     "steps", "6",
                                         NULL};
    rank *x = arg;

    WEIR_TRY(weir_settings_init(&x->set, x->arena));
    for (const char *const *o = common; *o; o += 2)
        WEIR_TRY(weir_settings_set(&x->set, o[0], o[1]));
    for (const char *const *o = x->r->option; *o; o += 2)
        WEIR_TRY(weir_settings_set(&x->set, o[0], o[1]));
    x->t = (weir_trainer){.set = &x->set, .rank_info = &x->rank_info, .comm = comm};
    WEIR_TRY(weir_trainer_enter(&x->t));
    WEIR_TRY(weir_trainer_open(&x->t));
    WEIR_TRY(weir_trainer_begin(&x->t));
    return make_steps(x);
}

static void close_rank(void *arg) { weir_trainer_close(&((rank *)arg)->t); }

static rank *new_rank(run *r)
{
    rank *x = calloc(1, sizeof *x);

    x->r = r;
    x->arena = weir_arena_new();
    return x;
}

static void free_rank(rank *x)
{
    weir_arena_free(x->arena);
    free(x);
}

static weir_err on_our_thread(weir_net *net, void *arg)
{
    rank *x = new_rank(arg);
    weir_err err = weir_comm_run(net, &(weir_compute){train_rank, close_rank, x});

    free_rank(x);
    return err;
}

/* ---- a step that failed ---- */

static const char *world;

static void train(run *r)
{
    ranks all = {.net = world, .size = RANKS, .fn = on_our_thread, .arg = r};

    ranks_all_ok(&all);
    assert_int_equal(r->hash[0], r->hash[1]);
}

#define PICTURES "data", "synth:shape=1x28x28,classes=10,count=96,test=9"
#define TOKENS "data", "synth:tokens=50,length=8,count=400,test=48"

static const char *const settings[][16] = {
    {PICTURES, "model", "lenet"},
    {PICTURES, "model", "lenet", "codec", "topk:warmup=0,ramp=0"},
    {PICTURES, "model", "lenet", "codec", "strom:warmup=0,ramp=0"},
    {PICTURES, "model", "lenet", "codec", "dgc:warmup=0,ramp=1"},
    {PICTURES, "model", "lenet", "codec", "redsync:warmup=0,ramp=0"},
    {PICTURES, "model", "lenet", "codec", "onebit:warmup=0"},
    {PICTURES, "model", "lenet", "codec", "int8:warmup=0"},
    {PICTURES, "model", "lenet", "codec", "powersgd:warmup=0"},
    {PICTURES, "model", "lenet", "codec", "qsgd:warmup=0", "clip", "0.5"},
    {PICTURES, "model", "lenet", "exact", "yes", "accumulate", "3"},
    {PICTURES, "model", "lenet", "optim", "adam", "lr", "1e-3"},
    {"data", "synth:shape=3x32x32,classes=10,count=96,test=9", "model", "resnet20:width=4"},
    {TOKENS, "model", "lstm-small:width=32", "accumulate", "2"},
    {TOKENS, "model", "gpt:width=32,depth=2,heads=2"},
};
enum { SETTINGS = sizeof settings / sizeof *settings };

static void a_failed_step_is_as_if_it_had_never_been(void **state)
{
    (void)state;
    for (int i = 0; i < SETTINGS; i++) {
        run whole = {.option = settings[i]};
        train(&whole);
        for (fault f = NEVER + 1; f < FAULTS; f++) {
            run broken = {.option = settings[i], .fault = f};
            train(&broken);
            if (broken.hash[0] != whole.hash[0] || broken.sent[0] != whole.sent[0])
                fail_msg("setting %d, fault %d: other parameters, or bytes", i, (int)f);
        }
    }
}

/* What has left for the others cannot be taken back where nobody waits. */
static weir_err rewind_peers(weir_comm *comm, void *arg)
{
    rank *x = arg;

    WEIR_TRY(train_rank(comm, arg));
    CHECK(weir_trainer_rewind(&x->t) == WEIR_MISFIT && strstr(weir_why_text(), "peers"));
    return WEIR_OK;
}

static weir_err with_peers(weir_net *net, void *arg)
{
    rank *x = new_rank(arg);
    weir_err err = weir_comm_run(net, &(weir_compute){rewind_peers, close_rank, x});

    free_rank(x);
    return err;
}

static void what_has_left_cannot_be_repeated(void **state)
{
    const char *const option[] = {PICTURES, "model", "lenet",    "optim",         "sgd",
                                  "codec",  "strom", "exchange", "peers:bound=0", NULL};
    run r = {.option = option};
    ranks all = {.net = world, .size = RANKS, .fn = with_peers, .arg = &r};

    (void)state;
    ranks_all_ok(&all);
}

/* ---- a thread that we did not start ---- */

typedef struct guest {
    run *r;
    weir_host *host;
    int k; /* which of the host's ranks */
    weir_err err;
    char why[512];
    pthread_t thread;
} guest;

/* As an embedding program would do it. */
static void *compute_as_guest(void *arg)
{
    guest *g = arg;
    rank *x = new_rank(g->r);
    weir_comm *comm = weir_host_enter(g->host, g->k);

    g->err = train_rank(comm, x);
    if (g->err) {
        snprintf(g->why, sizeof g->why, "%s", weir_why_text());
        weir_comm_give_up(comm, g->err);
    }
    close_rank(x);
    weir_host_leave(g->host, g->k);
    free_rank(x);
    return NULL;
}

static void start_guest(guest *g) { pthread_create(&g->thread, NULL, compute_as_guest, g); }

static void end_guest(guest *g)
{
    pthread_join(g->thread, NULL);
    if (g->err)
        fail_msg("%s", g->why);
}

/* All ranks are in one host. */
static void guests_of_one_host(run *r)
{
    guest g[RANKS];
    weir_host *host;
    weir_rank_info rank_info;

    ranks_info(&rank_info, 0, RANKS, "", 30);
    assert_int_equal(weir_host_open(world, &rank_info, &host), WEIR_OK);
    assert_int_equal(weir_host_ranks(host), RANKS);
    for (int k = RANKS; k-- > 0;) { /* in whatever order they come */
        g[k] = (guest){.r = r, .host = host, .k = k};
        start_guest(&g[k]);
    }
    for (int k = 0; k < RANKS; k++)
        end_guest(&g[k]);
    assert_int_equal(weir_host_close(host), WEIR_OK);
}

/* A host for each, as processes would have it: opened and closed on the thread that computes. */
typedef struct household {
    guest g; /* first */
    weir_rank_info rank_info;
    weir_err closed;
} household;

static void *live_alone(void *arg)
{
    household *h = arg;

    if (!(h->g.err = weir_host_open(world, &h->rank_info, &h->g.host))) {
        compute_as_guest(h);
        h->closed = weir_host_close(h->g.host);
    }
    return NULL;
}

static void guests_of_many_hosts(run *r)
{
    household h[RANKS];
    char dir[64];

    ranks_dir(dir);
    for (int k = 0; k < RANKS; k++) {
        h[k] = (household){.g = {.r = r}};
        ranks_info(&h[k].rank_info, k, RANKS, dir, 30);
        pthread_create(&h[k].g.thread, NULL, live_alone, &h[k]);
    }
    for (int k = 0; k < RANKS; k++) {
        end_guest(&h[k].g);
        assert_int_equal(h[k].closed, WEIR_OK);
    }
}

static void a_thread_of_the_embedding_program_computes(void **state)
{
    (void)state;
    for (int i = 0; i < SETTINGS; i += 4)
        for (fault f = NEVER; f < FAULTS; f++) {
            run ours = {.option = settings[i]}, theirs = {.option = settings[i], .fault = f};
            train(&ours);
            if (ranks_simulated(world))
                guests_of_one_host(&theirs);
            else
                guests_of_many_hosts(&theirs);
            for (int k = 0; k < RANKS; k++)
                assert_int_equal(theirs.hash[k], ours.hash[0]);
            assert_true(theirs.sent[0] == ours.sent[0]);
        }
}

/* A world that cannot be opened, and a guest that gives up: both are told. */
static void a_host_says_what_went_wrong(void **state)
{
    weir_rank_info rank_info;
    weir_host *host;

    (void)state;
    ranks_info(&rank_info, 0, 1, "", 30);
    assert_int_equal(weir_host_open("nosuch", &rank_info, &host), WEIR_USAGE);
    assert_says(weir_why_text(), "nosuch");
    rank_info.rank = 3;
    assert_true(weir_host_open(world, &rank_info, &host) != WEIR_OK);
    assert_says(weir_why_text(), "rank 3");
    rank_info.rank = 0;
    assert_int_equal(weir_host_open(world, &rank_info, &host), WEIR_OK);
    weir_comm *comm = weir_host_enter(host, 0);
    weir_comm_give_up(comm, weir_fail(WEIR_NAN, "the guest is ill"));
    weir_host_leave(host, 0);
    assert_int_equal(weir_host_close(host), WEIR_NAN);
    assert_says(weir_why_text(), "the guest is ill");
}

static int in_world(const char *name)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failed_step_is_as_if_it_had_never_been),
        cmocka_unit_test(what_has_left_cannot_be_repeated),
        cmocka_unit_test(a_thread_of_the_embedding_program_computes),
        cmocka_unit_test(a_host_says_what_went_wrong),
    };

    world = name;
    return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    void *keep = zmq_ctx_new(); /* libzmq's own set-up happens here once */
    int failed = 0;

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    failed += in_world("sim");
    failed += in_world("zmq");
    zmq_ctx_term(keep);
    return failed;
}
