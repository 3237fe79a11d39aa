/* What is held back, in groups that change and in runs that others go on with: whoever has it,
 * nothing is lost. All in the simulated world, on gradients that are whole numbers, so that sums
 * are exact. */
#include "help_held.h"
#include "train/gather.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* ---- groups that change ---- */

enum { PHASES = 3, EACH = 4 };
/* 4 -> 3 -> 5: one leaves, two others come, one of them before all */
static const int first[] = {0, 1, 2, 3}, last[PHASES][5] = {{0}, {1, 2, 3}, {4, 1, 2, 3, 5}},
                 count[] = {4, 3, 5};

static int place(const int *ranks, int n, int rank)
{
    int i = 0;

    while (i < n && ranks[i] != rank)
        i++;
    return i < n ? i : -1;
}

static weir_err enter(held_model *m, const held_job *j, weir_net *net, int phase, const int *ranks,
                      bool open, weir_arena *a)
{
    weir_exchange_env e;

    WEIR_TRY(weir_group_make(net, (unsigned)phase, ranks, count[phase], a, &m->g));
    WEIR_TRY(weir_coll_open("ring", &m->g, a, &m->coll));
    if (!open)
        return held_open(m, j, a);
    e = held_env(m, j, a);
    return held_exchange->regroup(m->self, &e);
}

static weir_err phase_of(held_model *m, held_job *j, weir_net *net, int phase, weir_arena *a)
{
    const int *ranks = phase ? last[phase] : first;
    int me = weir_net_rank(net);
    bool open = m->self != NULL;

    if (place(ranks, count[phase], me) < 0)
        return WEIR_OK;
    WEIR_TRY(enter(m, j, net, phase, ranks, open, a));
    for (uint64_t step = 0; step < EACH; step++) {
        WEIR_TRY(held_step(m, j, me, 0, (uint64_t)phase * EACH + step));
        if (!m->g.me)
            held_add_sent(m, j);
    }
    if (phase == PHASES - 1) {
        double *mine = WEIR_NEW(a, double, 2 * HELD_N);
        held_add(m, mine, mine + HELD_N);
        for (int i = 0; i < HELD_N; i++) {
            j->held[i] += mine[i];
            j->idle += m->g.me % 2 ? fabs(mine[i]) + fabs(mine[HELD_N + i]) : 0;
        }
        return WEIR_OK;
    }
    held_add(m, j->before[0], j->before[1]);
    WEIR_TRY(held_exchange->hand_over(m->self, phase ? ranks : last[1], 3));
    held_add(m, j->after[0], j->after[1]);
    return WEIR_OK;
}

static weir_err changing_rank(weir_net *net, void *arg)
{
    held_job *j = arg;
    weir_arena *a = weir_arena_new();
    held_model *m = WEIR_NEW(a, held_model, 1);
    weir_err err = WEIR_OK;

    for (int phase = 0; phase < PHASES && !err; phase++)
        err = phase_of(m, j, net, phase, a);
    weir_arena_free(a);
    return err;
}

/* `off`: how far apart sums may be, of what codecs round. */
static void check_whole(const held_job *j, double off)
{
    for (int i = 0; i < HELD_N; i++) {
        if (fabs(j->sent[i] + j->held[i] - j->put[i]) > off && !strcmp(j->optim, "sgd"))
            fail_msg("%s, %s: element %d: %g sent and %g held back of %g", j->codec, j->exchange, i,
                     j->sent[i], j->held[i], j->put[i]);
        for (int k = 0; k < 2; k++)
            if (fabs(j->before[k][i] - j->after[k][i]) > off)
                fail_msg("%s, %s: element %d: %s was %g, and is %g", j->codec, j->exchange, i,
                         k ? "momentum" : "what is held back", j->before[k][i], j->after[k][i]);
    }
}

static void check_changing(const char *codec, const char *optim, const char *exchange, double off)
{
    held_job *j = calloc(1, sizeof *j);
    ranks r = {.net = "sim:nodes=6", .size = 6, .fn = changing_rank, .arg = j};

    *j = (held_job){.codec = codec, .optim = optim, .exchange = exchange, .split = 1};
    ranks_all_ok(&r);
    if (strstr(exchange, "each=2") && j->idle > 0)
        fail_msg("%s, %s: one that does not lead holds something back", codec, exchange);
    check_whole(j, off);
    free(j);
}

static void changing(void **state)
{
    static const struct {
        const char *codec;
        double off;
    } codec[] = {{"strom:tau=4", 0},
                 {"topk", 0},
                 {"redsync:quantise=no,warmup=0", 0},
                 {"strom", 1e-3},
                 {"onebit", 1e-3},
                 {"int8:residual=yes", 1e-3},
                 {"sign", 1e-3},
                 {"dgc", 0},
                 {"half:residual=yes", 1e-3},
                 {"half:bf16,residual=yes", 1e-3},
                 {"redsync:warmup=0", 1e-3},
                 {"qsgd:residual=yes", 1e-2},
                 {"terngrad:residual=yes", 1e-2},
                 {"powersgd", 1e-2}};

    (void)state;
    for (size_t i = 0; i < sizeof codec / sizeof *codec; i++)
        for (int hier = 0; hier < 2; hier++) {
            check_changing(codec[i].codec, "sgd", hier ? "allreduce:hier=yes,each=2" : "allreduce",
                           codec[i].off);
            check_changing(codec[i].codec, "sgd:momentum=0.5",
                           hier ? "allreduce:hier=yes,each=2" : "allreduce",
                           fmax(codec[i].off, 1e-3));
        }
    check_changing("auto:among=[onebit+strom:tau=4],try=1", "sgd", "allreduce", 1e-3);
}

/* More leave than stay: those who stay take from several, one after the other. */
static weir_err leaving_rank(weir_net *net, void *arg)
{
    static const int stay[] = {4, 1}, all[] = {0, 1, 2, 3, 4, 5};
    held_job *j = arg;
    weir_arena *a = weir_arena_new();
    held_model *m = WEIR_NEW(a, held_model, 1);
    int me = weir_net_rank(net);
    weir_err err = weir_group_make(net, 0, all, HELD_RANKS, a, &m->g);

    if (!err)
        err = weir_coll_open("ring", &m->g, a, &m->coll);
    if (!err)
        err = held_open(m, j, a);
    for (uint64_t step = 0; step < 2 && !err; step++)
        err = held_step(m, j, me, 0, step);
    if (!err) {
        held_add(m, j->before[0], j->before[1]);
        err = held_exchange->hand_over(m->self, stay, 2);
    }
    if (!err) {
        double *mine = WEIR_NEW(a, double, 2 * HELD_N);
        held_add(m, j->after[0], j->after[1]);
        held_add(m, mine, mine + HELD_N);
        for (int i = 0; i < 2 * HELD_N; i++)
            j->idle += me != 4 && me != 1 ? fabs(mine[i]) : 0;
    }
    weir_arena_free(a);
    return err;
}

static void most_leave(void **state)
{
    static const char *const codec[] = {"strom:tau=4", "onebit"};

    (void)state;
    for (size_t i = 0; i < sizeof codec / sizeof *codec; i++) {
        held_job *j = calloc(1, sizeof *j);
        ranks r = {.net = "sim:nodes=6", .size = HELD_RANKS, .fn = leaving_rank, .arg = j};
        double held = 0;
        *j = (held_job){.codec = codec[i],
                        .optim = "sgd:momentum=0.5",
                        .exchange = "allreduce",
                        .split = 1};
        ranks_all_ok(&r);
        for (int k = 0; k < HELD_N; k++) {
            assert_float_equal(j->before[0][k], j->after[0][k], 1e-3);
            assert_float_equal(j->before[1][k], j->after[1][k], 1e-3);
            held += fabs(j->before[0][k]);
        }
        assert_true(held > 0 && j->idle == 0);
        free(j);
    }
}

/* ---- saved, and taken up by others ---- */

/* A checkpoint as docs/WIRE.md has it: what each worker has of its own stands one worker behind the
 * other, by the tensor's name. */
enum { FIELDS = 64 };
/* io first */
typedef struct shelf {
    weir_io io;
    int fields, me, size;
    struct {
        char name[128];
        float *x;
        size_t n;
    } field[FIELDS];
} shelf;

static weir_err shelf_range(weir_io *io, const char *name, float *p, size_t at, size_t n,
                            size_t whole, weir_keep keep)
{
    shelf *s = (shelf *)io;
    bool each = !io->loading && (keep == WEIR_KEEP_SUM || keep == WEIR_KEEP_MEAN);
    size_t all = each ? whole * (size_t)s->size : whole;
    int k = 0;

    while (k < s->fields && strcmp(s->field[k].name, name))
        k++;
    CHECK(k < FIELDS && (k < s->fields || !io->loading));
    if (k == s->fields) {
        snprintf(s->field[k].name, sizeof s->field[k].name, "%s", name);
        s->field[k].x = calloc(all + 1, sizeof *p);
        s->field[k].n = all;
        s->fields++;
    }
    CHECK(s->field[k].x && s->field[k].n == all);
    at += each ? (size_t)s->me * whole : 0;
    if (n)
        memcpy(io->loading ? p : s->field[k].x + at, io->loading ? s->field[k].x + at : p,
               n * sizeof *p);
    return WEIR_OK;
}

static weir_err shelf_u64(weir_io *io, const char *name, uint64_t *p, size_t n, weir_keep keep)
{
    (void)io, (void)name, (void)p, (void)n, (void)keep;
    return WEIR_OK;
}

static weir_err lanes_state(void *arg, weir_io *io)
{
    held_model *m = arg;

    for (int i = 0; i < m->lanes; i++)
        WEIR_TRY(weir_lane_state(&m->lane[i], io));
    return WEIR_OK;
}

typedef struct saving {
    held_job *j;
    shelf *from, *to;
    int phase, before;
} saving;

/* A run of its own, by so many workers, from what others have left. */
static weir_err saving_rank(weir_net *net, void *arg)
{
    saving *s = arg;
    weir_arena *a = weir_arena_new();
    held_model *m = WEIR_NEW(a, held_model, 1);
    weir_err err = weir_group_all(net, a, &m->g);

    if (!err)
        err = weir_coll_open("ring", &m->g, a, &m->coll);
    if (!err)
        err = held_open(m, s->j, a);
    if (!err && s->from)
        err = weir_dealt_state(&(weir_dealt){s->before, m->g.size, m->g.me, lanes_state, m},
                               &s->from->io);
    if (!err && s->from)
        held_add(m, s->j->after[0], s->j->after[1]);
    for (uint64_t step = 0; step < EACH && !err; step++) {
        err = held_step(m, s->j, m->g.me, 0, (uint64_t)s->phase * EACH + step);
        if (!err && !m->g.me)
            held_add_sent(m, s->j);
    }
    if (!err && s->phase < PHASES - 1)
        held_add(m, s->j->before[0], s->j->before[1]);
    else if (!err)
        held_add(m, s->j->held, WEIR_NEW(a, double, HELD_N));
    s->to->me = m->g.me;
    if (!err)
        err = lanes_state(m, &s->to->io);
    weir_arena_free(a);
    return err;
}

static void check_saved(const char *codec, const char *optim, const char *exchange, double off)
{
    held_job *j = calloc(1, sizeof *j);
    shelf *from = NULL;

    *j = (held_job){.codec = codec, .optim = optim, .exchange = exchange, .split = 1};
    for (int phase = 0; phase < PHASES; phase++) {
        shelf *to = calloc(1, sizeof *to);
        saving s = {j, from, to, phase, phase ? count[phase - 1] : 0};
        to->io = (weir_io){.range = shelf_range, .u64 = shelf_u64};
        to->size = count[phase];
        ranks_all_ok(&(ranks){.net = "sim", .size = count[phase], .fn = saving_rank, .arg = &s});
        to->io.loading = true;
        for (int k = 0; from && k < from->fields; k++)
            free(from->field[k].x);
        free(from);
        from = to;
    }
    for (int k = 0; k < from->fields; k++)
        free(from->field[k].x);
    free(from);
    check_whole(j, off);
    free(j);
}

/* 4, then 3, then 5 workers. */
static void saved(void **state)
{
    static const struct {
        const char *codec;
        double off;
    } codec[] = {{"strom:tau=4", 0},
                 {"topk", 0},
                 {"dgc", 0},
                 {"redsync:quantise=no,warmup=0", 0},
                 {"strom", 1e-3},
                 {"redsync:warmup=0", 1e-3},
                 {"onebit", 1e-3},
                 {"sign", 1e-3},
                 {"half:residual=yes", 1e-3},
                 {"int8:residual=yes", 1e-3},
                 {"qsgd:residual=yes", 1e-2},
                 {"terngrad:residual=yes", 1e-2},
                 {"powersgd", 1e-2},
                 {"auto:among=[onebit+strom:tau=4],try=1", 1e-3}};

    (void)state;
    for (size_t i = 0; i < sizeof codec / sizeof *codec; i++)
        for (int hier = 0; hier < 2 && !(hier && !strncmp(codec[i].codec, "auto", 4)); hier++) {
            check_saved(codec[i].codec, "sgd", hier ? "allreduce:hier=yes,each=2" : "allreduce",
                        codec[i].off);
            check_saved(codec[i].codec, "sgd:momentum=0.5",
                        hier ? "allreduce:hier=yes,each=2" : "allreduce", fmax(codec[i].off, 1e-3));
        }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(changing), cmocka_unit_test(most_leave),
                                       cmocka_unit_test(saved)};

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
