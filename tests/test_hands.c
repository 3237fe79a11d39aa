/* What is held back, in machines with several workers and in groups that change: whoever has it,
 * nothing is lost. All in the simulated world, on gradients that are whole numbers, so that sums
 * are exact. */
#include "help_ranks.h"
#include "exchange/exchange.h"
#include "train/gather.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { N = 6100, MOST = 6 };

/* A rank's model, and what all of them came to. */
typedef struct model {
    weir_tensor t[3];
    float param[N], grad[N + WEIR_NOTES];
    weir_lane *lane;
    int lanes;
    weir_group g;
    weir_coll_use coll;
    void *self;
} model;

typedef struct job {
    const char *codec, *optim, *exchange;
    double clip;
    int steps, split; /* split: each machine's gradient comes in so many parts */
    uint64_t hash[MOST], fields[MOST];
    uint64_t bytes;
    float param[MOST][N];
    /* over all ranks; before and after: held and momentum */
    double put[N], sent[N], held[N], before[2][N], after[2][N];
    double idle; /* held by those who lead no machine */
} job;

static const weir_exchange *const x = &weir_exchange_allreduce;

static uint64_t fold(uint64_t h, const void *data, size_t n)
{
    const unsigned char *c = data;

    for (size_t i = 0; i < n; i++)
        h = (h ^ c[i]) * 1099511628211ull;
    return h;
}

static weir_exchange_env env(model *m, const job *j, weir_arena *a)
{
    return (weir_exchange_env){.same = &m->g,
                               .all = &m->g,
                               .coll = &m->coll,
                               .lane = m->lane,
                               .lanes = m->lanes,
                               .arena = a,
                               .seed = 7,
                               .clip = j->clip};
}

static weir_err open_model(model *m, const job *j, weir_arena *a)
{
    weir_bucket *b;
    weir_exchange_env e;

    m->t[0] = (weir_tensor){"u", 0, 4000, 2, {40, 100}, true, 0};
    m->t[1] = (weir_tensor){"w", 4000, 2000, 2, {20, 100}, true, 1};
    m->t[2] = (weir_tensor){"b", 6000, 100, 1, {100}, false, 1};
    for (int i = 0; i < N; i++)
        m->param[i] = (float)(i % 31) / 32;
    WEIR_TRY(weir_buckets_cut(m->t, 3, &(weir_cut_rules){.bytes = 8192, .small = WEIR_SMALL},
                              m->param, m->grad, a, &b, &m->lanes));
    WEIR_TRY(weir_lanes_make(b, m->lanes, j->codec, j->optim, a, &m->lane));
    m->lane[m->lanes - 1].notes = WEIR_NOTES;
    WEIR_TRY(weir_plug_make(&x->plug, "exchange", j->exchange, a, &m->self));
    e = env(m, j, a);
    return x->init(m->self, &e);
}

/* What a machine puts in; its workers' parts add up to it. */
static float whole(int machine, uint64_t step, int i)
{
    return (float)((i * 7 + machine * 5 + (int)step * 3 + i * i % 11) % 15 - 7);
}

static float part(int machine, int member, int split, uint64_t step, int i)
{
    float other = (float)(i % 3);

    if (split == 1)
        return whole(machine, step, i);
    return member ? other : whole(machine, step, i) - (float)(split - 1) * other;
}

static weir_err one_step(model *m, job *j, int machine, int member, uint64_t step)
{
    weir_commit c = {.turn = {.step = step, .epochs = 10},
                     .rate = 0.125,
                     .clip = j->clip,
                     .keep = true};

    for (int i = 0; i < N + WEIR_NOTES; i++)
        m->grad[i] = part(machine, member, j->split, step, i);
    for (int i = 0; i < N; i++)
        j->put[i] += (double)m->grad[i];
    for (int i = 0; i < m->lanes; i++)
        WEIR_TRY(x->bucket(m->self, &m->lane[i], c.turn));
    return x->finish(m->self, &c);
}

static void add_pair(const model *m, double *held, double *speed)
{
    for (const weir_lane *l = m->lane; l < m->lane + m->lanes; l++) {
        const weir_stripe *s = l->owned.now ? &l->stripe[l->mine] : NULL;
        for (size_t i = 0; i < l->bucket->n; i++) {
            held[l->bucket->at + i] += l->held.now ? (double)l->held.now[i] : 0;
            speed[l->bucket->at + i] += l->speed.now ? (double)l->speed.now[i] : 0;
        }
        for (size_t i = 0; s && i < s->bucket.n; i++)
            held[l->bucket->at + s->at + i] += (double)l->owned.now[i];
    }
}

static void add_sent(const model *m, job *j)
{
    for (int i = 0; i < N; i++)
        j->sent[i] += (double)m->grad[i];
}

/* The fields of a checkpoint, by name, length and rule. */
typedef struct lister {
    weir_io io;
    uint64_t hash;
} lister;

static weir_err list_range(weir_io *io, const char *name, float *p, size_t at, size_t n, size_t all,
                           weir_keep keep)
{
    lister *l = (lister *)io;

    (void)p, (void)at, (void)n;
    l->hash = fold(l->hash, name, strlen(name));
    l->hash = fold(l->hash, &all, sizeof all);
    l->hash = fold(l->hash, &keep, sizeof keep);
    return WEIR_OK;
}

static weir_err list_u64(weir_io *io, const char *name, uint64_t *p, size_t n, weir_keep keep)
{
    (void)p;
    return list_range(io, name, NULL, 0, n, n, keep);
}

static weir_err finish_rank(model *m, job *j, int me)
{
    lister l = {.io = {.range = list_range, .u64 = list_u64}};

    j->hash[me] = fold(1, m->param, sizeof m->param);
    memcpy(j->param[me], m->param, sizeof m->param);
    for (int i = 0; i < m->lanes; i++)
        WEIR_TRY(weir_lane_state(&m->lane[i], &l.io));
    j->fields[me] = l.hash;
    return WEIR_OK;
}

/* ---- two levels ---- */

static weir_err level_rank(weir_net *net, void *arg)
{
    job *j = arg;
    weir_arena *a = weir_arena_new();
    model *m = WEIR_NEW(a, model, 1);
    double *mine = WEIR_NEW(a, double, 2 * N);
    int me = weir_net_rank(net);
    weir_err err = weir_group_all(net, a, &m->g);

    if (!err)
        err = weir_coll_open("auto", &m->g, a, &m->coll);
    if (!err)
        err = open_model(m, j, a);
    for (uint64_t step = 0; step < (uint64_t)j->steps && !err; step++) {
        err = one_step(m, j, me / j->split, me % j->split, step);
        if (!me && !err)
            add_sent(m, j);
    }
    if (!err)
        err = finish_rank(m, j, me);
    add_pair(m, mine, mine + N);
    for (int i = 0; i < N; i++) {
        j->held[i] += mine[i];
        j->idle += me % j->split ? fabs(mine[i]) + fabs(mine[N + i]) : 0;
    }
    j->bytes += weir_net_counted(net).sent;
    weir_arena_free(a);
    return err;
}

static job *level(const char *net, int size, int split, const char *codec, const char *optim,
                  const char *exchange, double clip)
{
    job *j = calloc(1, sizeof *j);
    ranks r = {.net = net, .size = size, .fn = level_rank, .arg = j};

    j->codec = codec;
    j->optim = optim;
    j->exchange = exchange;
    j->clip = clip;
    j->split = split;
    j->steps = 6;
    ranks_all_ok(&r);
    for (int i = 1; i < size; i++)
        if (j->hash[i] != j->hash[0] || j->fields[i] != j->fields[0])
            fail_msg("%s: rank %d has other %s than rank 0", codec, i,
                     j->hash[i] != j->hash[0] ? "parameters" : "fields to save");
    return j;
}

/* Two machines of two are to the codec what two ranks are: the same parameters to the last bit, the
 * same bytes between them. */
static void check_levels(const char *codec, double clip)
{
    const char *optim = "sgd:momentum=0.5";
    job *two = level("sim:nodes=2", 2, 1, codec, optim, "allreduce", clip);
    job *four = level("sim:nodes=4,machine=2", 4, 2, codec, optim, "allreduce:hier=yes", clip);
    job *one = level("sim:nodes=2,machine=2", 2, 2, codec, optim, "allreduce:hier=yes", clip);
    job *said = level("sim:nodes=4", 4, 2, codec, optim, "allreduce:hier=yes,each=2", clip);

    if (four->hash[0] != two->hash[0] || said->hash[0] != two->hash[0])
        fail_msg("%s: two machines of two are not as two ranks", codec);
    if (four->bytes != two->bytes + 2 * one->bytes)
        fail_msg("%s: %llu bytes between machines, %llu between two ranks", codec,
                 (unsigned long long)(four->bytes - 2 * one->bytes),
                 (unsigned long long)two->bytes);
    if (four->idle > 0)
        fail_msg("%s: one that does not lead holds something back", codec);
    for (int i = 0; i < N; i++)
        if (four->held[i] != two->held[i])
            fail_msg("%s: element %d: leaders hold back %g, two ranks %g", codec, i, four->held[i],
                     two->held[i]);
    free(two);
    free(four);
    free(one);
    free(said);
}

static void levels(void **state)
{
    (void)state;
    for (weir_plugs p = weir_codecs; *p; p++)
        if (!((const weir_codec *)*p)->raw && !((const weir_codec *)*p)->chooses)
            check_levels((*p)->name, 0);
    check_levels("strom:tau=4,pack=none", 0);
    check_levels("int8:residual=yes", 0);
}

/* Workers of a machine sum, then their sum is clipped, as if it were one worker's. */
static void clipped(void **state)
{
    (void)state;
    check_levels("strom", 100);
    check_levels("onebit", 100);
}

static void check_kept(const char *codec)
{
    job *j = level("sim:nodes=4,machine=2", 4, 2, codec, "sgd", "allreduce:hier=yes", 0);

    for (int i = 0; i < N; i++)
        if (j->sent[i] + j->held[i] != j->put[i])
            fail_msg("%s: element %d: %g sent and %g held back of %g", codec, i, j->sent[i],
                     j->held[i], j->put[i]);
    free(j);
}

static void kept(void **state)
{
    (void)state;
    check_kept("strom:tau=4");
    check_kept("topk");
    check_kept("redsync:quantise=no,warmup=0");
}

/* On one machine nothing is compressed. */
static void check_one(const char *codec, double clip)
{
    job *coded =
        level("sim:nodes=3,machine=3", 3, 3, codec, "sgd:momentum=0.9", "allreduce:hier=yes", clip);
    job *dense =
        level("sim:nodes=3,machine=3", 3, 3, "none", "sgd:momentum=0.9", "allreduce", clip);

    for (int i = 0; i < N; i++)
        if (!(fabsf(coded->param[0][i] - dense->param[0][i]) <=
              1e-5f * fmaxf(1, fabsf(dense->param[0][i]))))
            fail_msg("%s: element %d is %g, dense %g", codec, i, (double)coded->param[0][i],
                     (double)dense->param[0][i]);
    free(coded);
    free(dense);
}

static void one_machine(void **state)
{
    (void)state;
    for (int clip = 0; clip < 2; clip++) {
        check_one("strom", clip * 50);
        check_one("onebit", clip * 50);
        check_one("powersgd", clip * 50);
    }
}

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

static weir_err enter(model *m, const job *j, weir_net *net, int phase, const int *ranks, bool open,
                      weir_arena *a)
{
    weir_exchange_env e;

    WEIR_TRY(weir_group_make(net, (unsigned)phase, ranks, count[phase], a, &m->g));
    WEIR_TRY(weir_coll_open("ring", &m->g, a, &m->coll));
    if (!open)
        return open_model(m, j, a);
    e = env(m, j, a);
    return x->regroup(m->self, &e);
}

static weir_err phase_of(model *m, job *j, weir_net *net, int phase, weir_arena *a)
{
    const int *ranks = phase ? last[phase] : first;
    int me = weir_net_rank(net);
    bool open = m->self != NULL;

    if (place(ranks, count[phase], me) < 0)
        return WEIR_OK;
    WEIR_TRY(enter(m, j, net, phase, ranks, open, a));
    for (uint64_t step = 0; step < EACH; step++) {
        WEIR_TRY(one_step(m, j, me, 0, (uint64_t)phase * EACH + step));
        if (!m->g.me)
            add_sent(m, j);
    }
    if (phase == PHASES - 1) {
        double *mine = WEIR_NEW(a, double, 2 * N);
        add_pair(m, mine, mine + N);
        for (int i = 0; i < N; i++) {
            j->held[i] += mine[i];
            j->idle += m->g.me % 2 ? fabs(mine[i]) + fabs(mine[N + i]) : 0;
        }
        return WEIR_OK;
    }
    add_pair(m, j->before[0], j->before[1]);
    WEIR_TRY(x->hand_over(m->self, phase ? ranks : last[1], 3));
    add_pair(m, j->after[0], j->after[1]);
    return WEIR_OK;
}

static weir_err changing_rank(weir_net *net, void *arg)
{
    job *j = arg;
    weir_arena *a = weir_arena_new();
    model *m = WEIR_NEW(a, model, 1);
    weir_err err = WEIR_OK;

    for (int phase = 0; phase < PHASES && !err; phase++)
        err = phase_of(m, j, net, phase, a);
    weir_arena_free(a);
    return err;
}

/* `off`: how far apart sums may be, of what codecs round. */
static void check_whole(const job *j, double off)
{
    for (int i = 0; i < N; i++) {
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
    job *j = calloc(1, sizeof *j);
    ranks r = {.net = "sim:nodes=6", .size = 6, .fn = changing_rank, .arg = j};

    *j = (job){.codec = codec, .optim = optim, .exchange = exchange, .split = 1};
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
    model *m = arg;

    for (int i = 0; i < m->lanes; i++)
        WEIR_TRY(weir_lane_state(&m->lane[i], io));
    return WEIR_OK;
}

typedef struct saving {
    job *j;
    shelf *from, *to;
    int phase, before;
} saving;

/* A run of its own, by so many workers, from what others have left. */
static weir_err saving_rank(weir_net *net, void *arg)
{
    saving *s = arg;
    weir_arena *a = weir_arena_new();
    model *m = WEIR_NEW(a, model, 1);
    weir_err err = weir_group_all(net, a, &m->g);

    if (!err)
        err = weir_coll_open("ring", &m->g, a, &m->coll);
    if (!err)
        err = open_model(m, s->j, a);
    if (!err && s->from)
        err = weir_dealt_state(&(weir_dealt){s->before, m->g.size, m->g.me, lanes_state, m},
                               &s->from->io);
    if (!err && s->from)
        add_pair(m, s->j->after[0], s->j->after[1]);
    for (uint64_t step = 0; step < EACH && !err; step++) {
        err = one_step(m, s->j, m->g.me, 0, (uint64_t)s->phase * EACH + step);
        if (!err && !m->g.me)
            add_sent(m, s->j);
    }
    if (!err && s->phase < PHASES - 1)
        add_pair(m, s->j->before[0], s->j->before[1]);
    else if (!err)
        add_pair(m, s->j->held, WEIR_NEW(a, double, N));
    s->to->me = m->g.me;
    if (!err)
        err = lanes_state(m, &s->to->io);
    weir_arena_free(a);
    return err;
}

static void check_saved(const char *codec, const char *optim, const char *exchange, double off)
{
    job *j = calloc(1, sizeof *j);
    shelf *from = NULL;

    *j = (job){.codec = codec, .optim = optim, .exchange = exchange, .split = 1};
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(levels),   cmocka_unit_test(clipped),
                                       cmocka_unit_test(kept),     cmocka_unit_test(one_machine),
                                       cmocka_unit_test(changing), cmocka_unit_test(saved)};

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
