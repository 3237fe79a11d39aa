/* What is held back, in groups that change and in runs that others go on with: whoever has it,
 * nothing is lost. All in the simulated world, on gradients that are whole numbers, so that sums
 * are exact. */
#include "help_held.h"
#include "train/state_deal.h"
#include "train/refuse.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* ---- what is tried ---- */

/* Every codec that holds something back, by every exchange that can hand it over. `exact`: whole
 * numbers are sent as they are, and nothing is rounded. */
typedef struct trial {
    char codec[64];
    bool exact;
} trial;

enum { TRIALS = 40 };
static trial trials[TRIALS];
static int tried;

static void try_codec(const char *codec, bool exact)
{
    assert_true(tried < TRIALS);
    snprintf(trials[tried].codec, sizeof trials[tried].codec, "%s", codec);
    trials[tried++].exact = exact;
}

static void make_trials(void)
{
    for (weir_plugs p = weir_codecs; *p; p++) {
        const weir_codec *c = (const weir_codec *)*p;
        char spec[64];
        snprintf(spec, sizeof spec, "%s:residual=yes,warmup=0", c->plug.name);
        if (!c->raw && !c->chooses)
            try_codec(spec, !strcmp(c->plug.name, "topk") || !strcmp(c->plug.name, "dgc"));
    }
    try_codec("strom:tau=4096", true);
    try_codec("redsync:quantise=no,warmup=0", true);
    try_codec("half:bf16,residual=yes", false);
}

static const char *const exchanges[] = {"allreduce", "allreduce:hier=yes,each=2", "peers:bound=2",
                                        NULL};

/* Every exchange that can hand over stands there. */
static void all_are_tried(void **state)
{
    (void)state;
    for (weir_plugs p = weir_exchanges; *p; p++) {
        bool found = !((const weir_exchange *)*p)->hand_over;
        for (const char *const *e = exchanges; *e; e++)
            found |= !strncmp(*e, (*p)->name, strlen((*p)->name));
        if (!found)
            fail_msg("the exchange %s hands over, and is not tried", (*p)->name);
    }
}

static bool goes_together(const held_job *j)
{
    weir_settings set = {.exchange = j->exchange,
                         .codec = j->codec,
                         .optim = j->optim,
                         .net = "sim"};
    weir_arena *a = weir_arena_new();
    weir_facts facts;

    assert_int_equal(weir_facts_read(&set, a, &facts), WEIR_OK);
    bool refused = weir_refuse(&facts);
    weir_arena_free(a);
    return !refused;
}

/* What was sent and is held back is what went in. And what changes hands is as much as before: what
 * one had is cut for those who take it, rounded once, and added to what they have, of at most five
 * of them. */
static void check_whole(const held_job *j, bool exact)
{
    bool momentum = strcmp(j->optim, "sgd") != 0;
    double waits = 0;

    for (int i = 0; i < HELD_N; i++)
        waits += j->before.size[HELD_BACK][i];
    if (!(waits > 0))
        fail_msg("%s, %s: nothing is held back: nothing is tried", j->codec, j->exchange);
    for (int i = 0; i < HELD_N; i++) {
        double held = j->held.of[HELD_BACK][i];
        if (!momentum && fabs(j->sent[i] + held - j->put[i]) > (exact ? 0 : j->room[i]))
            fail_msg("%s, %s: element %d: %.9g sent and %.9g held back of %.9g", j->codec,
                     j->exchange, i, j->sent[i], held, j->put[i]);
        for (int k = 0; k < HELD_KINDS; k++)
            if (fabs(j->before.of[k][i] - j->after.of[k][i]) >
                (exact && !momentum ? 0 : 6 * held_rounding * j->before.size[k][i]))
                fail_msg("%s, %s: element %d: %s was %.9g, and is %.9g", j->codec, j->exchange, i,
                         k ? "momentum" : "what is held back", j->before.of[k][i],
                         j->after.of[k][i]);
    }
}

static void check_all(void (*check)(held_job *, bool exact))
{
    for (int t = 0; t < tried; t++)
        for (const char *const *e = exchanges; *e; e++)
            for (int momentum = 0; momentum < 2; momentum++) {
                held_job *j = calloc(1, sizeof *j);
                *j = (held_job){.codec = trials[t].codec,
                                .optim = momentum ? "sgd:momentum=0.5" : "sgd",
                                .exchange = *e,
                                .net = "sim",
                                .steps = 4,
                                .split = 1};
                if (goes_together(j))
                    check(j, trials[t].exact);
                free(j);
            }
}

/* A codec that is chosen on the way, over a link that is slow enough for one to be chosen. */
static void check_chosen(void (*check)(held_job *, bool exact))
{
    held_job *j = calloc(1, sizeof *j);

    *j = (held_job){.codec = "auto:among=[onebit+strom:tau=4096],try=1",
                    .optim = "sgd",
                    .exchange = "allreduce",
                    .net = "sim:rate=2M",
                    .steps = 20,
                    .split = 1};
    check(j, false);
    free(j);
}

/* ---- groups that change ---- */

enum { PHASES = 3, STAYS = 1 };
/* 4 -> 3 -> 5: one leaves, two others come, one of them before all; STAYS is there all the time */
static const int first[] = {0, 1, 2, 3}, last[PHASES][5] = {{0}, {1, 2, 3}, {4, 1, 2, 3, 5}},
                 count[] = {4, 3, 5};

static int place(const int *ranks, int n, int rank)
{
    int i = 0;

    while (i < n && ranks[i] != rank)
        i++;
    return i < n ? i : -1;
}

/* Who comes takes the parameters of who stays. */
static weir_err take_parameters(held_model *m, weir_net *net, bool comes)
{
    uint64_t tag = weir_tag(WEIR_CHANNEL_MEMBERS, 1, 0);

    for (int to = 4; to < 6 && !comes && weir_net_rank(net) == STAYS; to++)
        WEIR_TRY(weir_net_send_wait(net, to, tag, m->param, sizeof m->param));
    return comes ? weir_net_recv_wait(net, STAYS, tag, m->param, sizeof m->param, NULL) : WEIR_OK;
}

static weir_err enter(held_model *m, const held_job *j, weir_net *net, int phase, const int *ranks,
                      weir_arena *a)
{
    bool comes = !m->self;
    weir_exchange_env e;

    WEIR_TRY(weir_group_make(net, (unsigned)phase, ranks, count[phase], a, &m->g));
    WEIR_TRY(weir_coll_open("ring", &m->g, a, &m->coll));
    if (comes)
        WEIR_TRY(held_open(m, j, a));
    if (phase == PHASES - 1)
        WEIR_TRY(take_parameters(m, net, comes));
    if (comes)
        return WEIR_OK;
    e = held_env(m, j, a);
    return held_exchange(j)->regroup(m->self, &e);
}

static void note_end(held_model *m, held_job *j)
{
    static held_sum mine;

    memset(&mine, 0, sizeof mine);
    held_add(m, &mine);
    held_add(m, &j->held);
    for (int i = 0; i < HELD_N; i++)
        j->idle += m->g.me % 2 ? mine.size[HELD_BACK][i] + mine.size[HELD_SPEED][i] : 0;
    if (weir_net_rank(m->g.net) == STAYS)
        held_take_sent(m, j);
}

/* Of who leaves: all that it had is with the others. */
static weir_err has_nothing(const held_model *m)
{
    static held_sum left;

    memset(&left, 0, sizeof left);
    held_add(m, &left);
    for (int i = 0; i < HELD_N; i++)
        CHECK(left.size[HELD_BACK][i] == 0 && left.size[HELD_SPEED][i] == 0);
    return WEIR_OK;
}

static weir_err phase_of(held_model *m, held_job *j, weir_net *net, int phase, weir_arena *a)
{
    const weir_exchange *x = held_exchange(j);
    const int *ranks = phase ? last[phase] : first;
    int me = weir_net_rank(net);
    uint64_t each = (uint64_t)j->steps, end = (uint64_t)(phase + 1) * each;

    if (place(ranks, count[phase], me) < 0)
        return WEIR_OK;
    WEIR_TRY(enter(m, j, net, phase, ranks, a));
    for (uint64_t step = end - each; step < end; step++)
        WEIR_TRY(held_step(m, j, me, 0, step));
    if (x->settle)
        WEIR_TRY(x->settle(m->self, (weir_when){.step = end}));
    if (phase == PHASES - 1) {
        note_end(m, j);
        return WEIR_OK;
    }
    held_add(m, &j->before);
    WEIR_TRY(x->hand_over(m->self, phase ? ranks : last[1], 3));
    held_add(m, &j->after);
    return place(last[1], 3, me) < 0 ? has_nothing(m) : WEIR_OK;
}

static weir_err changing_rank(weir_net *net, void *arg)
{
    held_job *j = arg;
    weir_arena *a = weir_arena_new();
    held_model *m = WEIR_NEW(a, held_model, 1);
    weir_err err = WEIR_OK;

    for (int phase = 0; phase < PHASES && !err; phase++)
        err = phase_of(m, j, net, phase, a);
    if (m->self && held_exchange(j)->close)
        held_exchange(j)->close(m->self);
    weir_arena_free(a);
    return err;
}

static void check_changing(held_job *j, bool exact)
{
    ranks r = {.net = j->net, .size = 6, .fn = changing_rank, .arg = j};

    ranks_all_ok(&r);
    if (strstr(j->exchange, "each=2") && j->idle > 0)
        fail_msg("%s, %s: one that does not lead holds something back", j->codec, j->exchange);
    check_whole(j, exact);
}

static void changing(void **state)
{
    (void)state;
    check_all(check_changing);
}

static void changing_by_choice(void **state)
{
    (void)state;
    check_chosen(check_changing);
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
        held_add(m, &j->before);
        err = held_exchange(j)->hand_over(m->self, stay, 2);
    }
    if (!err) {
        held_sum *mine = WEIR_NEW(a, held_sum, 1);
        held_add(m, &j->after);
        held_add(m, mine);
        for (int i = 0; i < HELD_N && me != 4 && me != 1; i++)
            j->idle += mine->size[HELD_BACK][i] + mine->size[HELD_SPEED][i];
    }
    weir_arena_free(a);
    return err;
}

/* Four share what they had among two: rounded once where it is cut, and once at each of the four
 * additions. */
static void most_leave(void **state)
{
    static const char *const codec[] = {"strom:tau=4096", "onebit"};

    (void)state;
    for (size_t i = 0; i < sizeof codec / sizeof *codec; i++) {
        held_job *j = calloc(1, sizeof *j);
        ranks r = {.net = "sim:nodes=6", .size = HELD_RANKS, .fn = leaving_rank, .arg = j};
        *j = (held_job){.codec = codec[i],
                        .optim = "sgd:momentum=0.5",
                        .exchange = "allreduce",
                        .split = 1};
        ranks_all_ok(&r);
        check_whole(j, false);
        assert_true(j->idle == 0);
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

static weir_err shelf_range(weir_io *io, const char *name, const weir_io_piece *piece)
{
    shelf *s = (shelf *)io;
    bool each = !io->loading && (piece->keep == WEIR_KEEP_SUM || piece->keep == WEIR_KEEP_MEAN);
    size_t all = each ? piece->whole * (size_t)s->size : piece->whole;
    int k = 0;

    while (k < s->fields && strcmp(s->field[k].name, name))
        k++;
    CHECK(k < FIELDS && (k < s->fields || !io->loading));
    if (k == s->fields) {
        snprintf(s->field[k].name, sizeof s->field[k].name, "%s", name);
        s->field[k].x = calloc(all + 1, sizeof *piece->x);
        s->field[k].n = all;
        s->fields++;
    }
    CHECK(s->field[k].x && s->field[k].n == all);
    size_t at = piece->at + (each ? (size_t)s->me * piece->whole : 0);
    if (piece->n)
        memcpy(io->loading ? piece->x : s->field[k].x + at,
               io->loading ? s->field[k].x + at : piece->x, piece->n * sizeof *piece->x);
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

static weir_err go_on(const saving *s, held_model *m)
{
    held_job *j = s->j;
    uint64_t each = (uint64_t)j->steps, end = (uint64_t)(s->phase + 1) * each;

    if (s->from) {
        memcpy(m->param, j->param[0], sizeof m->param);
        WEIR_TRY(weir_state_dealt_read(&(weir_state_dealt){s->before, m->g.size, m->g.me,
                                                           lanes_state, m},
                                       &s->from->io));
        held_add(m, &j->after);
    }
    for (uint64_t step = end - each; step < end; step++)
        WEIR_TRY(held_step(m, j, m->g.me, 0, step));
    if (held_exchange(j)->settle)
        WEIR_TRY(held_exchange(j)->settle(m->self, (weir_when){.step = end}));
    held_add(m, s->phase < PHASES - 1 ? &j->before : &j->held);
    held_take_sent(m, j);
    s->to->me = m->g.me;
    return lanes_state(m, &s->to->io);
}

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
    if (!err)
        err = go_on(s, m);
    if (!err)
        memcpy(s->j->param[m->g.me ? 1 : 0], m->param, sizeof m->param);
    if (m->self && held_exchange(s->j)->close)
        held_exchange(s->j)->close(m->self);
    weir_arena_free(a);
    return err;
}

static void shelf_free(shelf *s)
{
    for (int k = 0; s && k < s->fields; k++)
        free(s->field[k].x);
    free(s);
}

static void check_saved(held_job *j, bool exact)
{
    shelf *from = NULL;

    for (int phase = 0; phase < PHASES; phase++) {
        shelf *to = calloc(1, sizeof *to);
        saving s = {j, from, to, phase, phase ? count[phase - 1] : 0};
        to->io = (weir_io){.range = shelf_range, .u64 = shelf_u64};
        to->size = count[phase];
        ranks_all_ok(&(ranks){.net = j->net, .size = count[phase], .fn = saving_rank, .arg = &s});
        to->io.loading = true;
        shelf_free(from);
        from = to;
    }
    shelf_free(from);
    check_whole(j, exact);
}

/* 4, then 3, then 5 workers. */
static void saved(void **state)
{
    (void)state;
    check_all(check_saved);
}

static void saved_by_choice(void **state)
{
    (void)state;
    check_chosen(check_saved);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_tried),
        cmocka_unit_test(changing),
        cmocka_unit_test(changing_by_choice),
        cmocka_unit_test(most_leave),
        cmocka_unit_test(saved),
        cmocka_unit_test(saved_by_choice),
    };

    make_trials();
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
