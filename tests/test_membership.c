/* test_membership.c - who is in the next generation (net/membership.h): whatever dies, pauses or is
 * cut off, and when, all that go on have agreed on the same lists; each list was made by a quorum
 * of the one before; whoever has a quorum and lives goes on; nobody waits for ever. */
#include "core/rng.h"
#include "help_ranks.h"
#include "net/launch.h"
#include "net/membership.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { RANKS = 5, GENERATIONS = 32 };

typedef struct record {
    int generation, count, member[RANKS], source;
    uint64_t step;
} record;

typedef struct job {
    double until;         /* seconds: when all leave */
    double fails[RANKS];  /* when a rank leaves with an error; 0: never */
    double leaves[RANKS]; /* when it wishes to leave; 0: never */
    double late[RANKS];   /* it does not come to rest before that */
    weir_board
        *board; /* of a launcher that reaps whoever ends with an error; NULL: there is none */
    /* out */
    record list[RANKS][GENERATIONS];
    int lists[RANKS];
    uint64_t step[RANKS][GENERATIONS]; /* what it offered for the next */
    weir_err err[RANKS];               /* of agreeing; WEIR_OK: none */
    bool gone[RANKS];                  /* it left by wish */
} job;

static weir_err keep(job *j, int me, const weir_members *m)
{
    record *r = &j->list[me][j->lists[me]];

    CHECK(j->lists[me] < GENERATIONS && m->count <= RANKS && !m->joined);
    *r = (record){m->generation, m->count, {0}, m->source, m->step};
    memcpy(r->member, m->member, (size_t)m->count * sizeof *m->member);
    j->lists[me]++;
    return WEIR_OK;
}

/* At rest: agrees with the others, and follows. */
static weir_err go_on(weir_net *n, weir_membership *m, job *j, bool leaves)
{
    int me = weir_net_rank(n);
    weir_offer offer = {.step = (uint64_t)(10 * weir_net_generation(n) + me % 2), .leaves = leaves};
    const weir_members *next;

    j->step[me][weir_net_generation(n)] = offer.step;
    WEIR_TRY(weir_membership_agree(m, &offer, &next));
    WEIR_TRY(keep(j, me, next));
    j->gone[me] = leaves && !weir_members_has(next, me);
    if (!j->gone[me])
        weir_net_renew(n, next->generation, next->member, next->count);
    return WEIR_OK;
}

static weir_err work(weir_net *n, weir_membership *m, job *j)
{
    int me = weir_net_rank(n);
    double begun = weir_net_now(n), now;

    while ((now = weir_net_now(n) - begun) < j->until && !j->gone[me]) {
        bool leaves = j->leaves[me] > 0 && now >= j->leaves[me];
        if (j->fails[me] > 0 && now >= j->fails[me])
            return weir_fail(WEIR_FAILED, "as planned");
        if (leaves || (weir_net_over(n) && now >= j->late[me])) {
            WEIR_TRY(j->err[me] = go_on(n, m, j, leaves));
            continue;
        }
        WEIR_TRY(weir_net_spend(n, 1e-3));
    }
    return WEIR_OK;
}

static weir_err one_rank(weir_net *n, void *arg)
{
    const job *j = arg;
    weir_membership *m = NULL;
    char why[WEIR_WHY_MAX];
    weir_err err = weir_membership_open(n, RANKS, NULL, &m);

    if (!err)
        err = work(n, m, arg);
    snprintf(why, sizeof why, "%s", weir_why_text());
    weir_membership_close(m);
    if (j->board && err)
        atomic_store(&j->board->slot[weir_net_rank(n)].reaped, true);
    return err ? weir_fail(err, "%s", why) : WEIR_OK;
}

/* ---- the laws ---- */

static bool has(const record *r, int rank)
{
    for (int i = 0; i < r->count; i++)
        if (r->member[i] == rank)
            return true;
    return false;
}

static bool equal(const record *a, const record *b)
{
    return a->generation == b->generation && a->count == b->count && a->source == b->source &&
           a->step == b->step && !memcmp(a->member, b->member, sizeof a->member);
}

/* One list a generation, on whatever rank it is found. */
static void one_history(const job *j, int size, record *history, int *count)
{
    *count = 0;
    for (int r = 0; r < size; r++)
        for (int i = 0; i < j->lists[r]; i++) {
            const record *l = &j->list[r][i];
            assert_int_equal(l->generation, i + 1);
            if (i >= *count)
                history[(*count)++] = *l;
            else if (!equal(l, &history[i]))
                fail_msg("rank %d has another list of generation %d than others", r, i + 1);
        }
}

/* Those of the list before who are in this one, or left by wish, are a quorum of it; and nobody is
 * in it who was not. */
static void by_a_quorum(const job *j, const record *before, const record *now)
{
    int part = 0;
    bool lowest = false;

    for (int i = 0; i < before->count; i++) {
        bool in = has(now, before->member[i]) || j->gone[before->member[i]];
        part += in;
        lowest |= !i && in;
    }
    if (!(2 * part > before->count || (2 * part == before->count && lowest)))
        fail_msg("generation %d was made by %d of %d", now->generation, part, before->count);
    for (int i = 0; i < now->count; i++)
        assert_true(has(before, now->member[i]));
}

/* The source has the step that the list names, and nobody in it has a newer one. */
static void newest_step(const job *j, const record *l)
{
    assert_true(has(l, l->source));
    assert_int_equal(j->step[l->source][l->generation - 1], l->step);
    for (int i = 0; i < l->count; i++)
        if (j->step[l->member[i]][l->generation - 1] > l->step)
            fail_msg("generation %d begins at step %d of rank %d, and rank %d has %d",
                     l->generation, (int)l->step, l->source, l->member[i],
                     (int)j->step[l->member[i]][l->generation - 1]);
}

static int check_history(const job *j, int size, record *last)
{
    record history[GENERATIONS], first = {.count = size};
    int count;

    for (int i = 0; i < size; i++)
        first.member[i] = i;
    one_history(j, size, history, &count);
    for (int g = 0; g < count; g++) {
        by_a_quorum(j, g ? &history[g - 1] : &first, &history[g]);
        newest_step(j, &history[g]);
    }
    *last = count ? history[count - 1] : first;
    return count;
}

static job *run(const char *net, int size, double timeout, job *j)
{
    ranks r = {
        .net = net, .size = size, .timeout = timeout, .board = j->board, .fn = one_rank, .arg = j};

    ranks_run(&r);
    if (getenv("SHOW"))
        for (int i = 0; i < size; i++)
            print_message("%s rank %d: %s, %d lists\n", net, i, r.why[i], j->lists[i]);
    return j;
}

/* ---- deaths ---- */

static void expect(const record *last, const int *member, int count)
{
    assert_int_equal(last->count, count);
    assert_memory_equal(last->member, member, (size_t)count * sizeof *member);
}

/* One dies, then another, the first and the last among them: the rest go on each time. */
static void one_after_the_other(void **state)
{
    static const char *const nets[] = {"sim", "zmq"};
    record last;

    (void)state;
    for (int k = 0; k < 2; k++)
        for (int who = 0; who < 4; who++) {
            int stay[3], n = 0;
            job j = {.until = 1};
            j.fails[who] = 0.1;
            for (int i = 0; i < 4; i++)
                if (i != who)
                    stay[n++] = i;
            run(nets[k], 4, 30, &j);
            assert_int_equal(check_history(&j, 4, &last), 1);
            expect(&last, stay, 3);
        }
    job j = {.until = 1.2, .fails = {0.2, 0, 0.4, 0, 0.6}};
    run("zmq", 5, 30, &j);
    assert_int_equal(check_history(&j, 5, &last), 3);
    expect(&last, (int[]){1, 3}, 2);
}

/* Of three two die at once: the one that is left is too few, and says so; of four the half with the
 * lowest goes on, the other half does not. */
static void too_few(void **state)
{
    job three = {.until = 1, .fails = {0, 0.1, 0.1}}, low = {.until = 1, .fails = {0, 0, 0.1, 0.1}},
        high = {.until = 1, .fails = {0.1, 0.1}};
    record last;

    (void)state;
    run("sim", 3, 30, &three);
    assert_int_equal(three.err[0], WEIR_LOST);
    assert_int_equal(check_history(&three, 3, &last), 0);
    run("sim", 4, 30, &low);
    assert_int_equal(check_history(&low, 4, &last), 1);
    expect(&last, (int[]){0, 1}, 2);
    run("sim", 4, 30, &high);
    assert_int_equal(check_history(&high, 4, &last), 0);
    assert_true(high.err[2] == WEIR_LOST && high.err[3] == WEIR_LOST);
}

/* While the death of one is being agreed on, another dies, at every instant of that. */
static void one_more_while_agreeing(void **state)
{
    record last;
    char spec[100];
    int two = 0;

    (void)state;
    for (int who = 0; who < 4; who++)
        for (int k = 0; k < 60; k++) {
            job j = {.until = 3};
            snprintf(spec, sizeof spec, "sim:kill=4@0.1/%d@%.9g", who, 0.1005 + k * 25e-6);
            run(spec, 5, 30, &j);
            two += check_history(&j, 5, &last) == 2;
            int stay[3], n = 0;
            for (int i = 0; i < 4; i++)
                if (i != who)
                    stay[n++] = i;
            expect(&last, stay, 3);
        }
    assert_true(two > 20 && two < 220); /* some in one generation, some in two: both are met */
}

/* The lowest promises another, dies, and the one that leads is the last to hear of it: it is the
 * dead one that stays behind, not a living one that knew. */
static void one_that_had_promised(void **state)
{
    job j = {.until = 8, .late = {1.8, 0, 2.7}};
    record last;

    (void)state;
    run("sim:kill=4@0.1/0@2.2,cut=0-1@2.1+5", 5, 30, &j);
    assert_int_equal(check_history(&j, 5, &last), 1);
    expect(&last, (int[]){1, 2, 3}, 3);
}

/* ---- pauses and cuts ---- */

static void pauses(void **state)
{
    job brief = {.until = 20}, longer = {.until = 40};
    record last;

    (void)state;
    run("sim:pause=1@0.1+5", 4, 10, &brief);
    assert_int_equal(check_history(&brief, 4, &last), 0);
    run("sim:pause=1@0.1+15", 4, 10, &longer);
    assert_int_equal(check_history(&longer, 4, &last), 1);
    expect(&last, (int[]){0, 2, 3}, 3);
    assert_int_not_equal(longer.err[1], WEIR_OK); /* it came back, and is not one of them */
}

static void cuts(void **state)
{
    static const char halves[] = "sim:cut=0-2@1+60/0-3@1+60/1-2@1+60/1-3@1+60",
                      one[] = "sim:cut=0-1@1+60/0-2@1+60/0-3@1+60";
    job a = {.until = 100}, b = {.until = 100};
    record last;

    (void)state;
    run(halves, 4, 5, &a);
    assert_int_equal(check_history(&a, 4, &last), 1);
    expect(&last, (int[]){0, 1}, 2);
    assert_true(a.err[2] == WEIR_LOST && a.err[3] == WEIR_LOST);
    run(one, 4, 5, &b);
    assert_int_equal(check_history(&b, 4, &last), 1);
    expect(&last, (int[]){1, 2, 3}, 3);
    assert_int_equal(b.err[0], WEIR_LOST);
}

/* Two that have lost each other ask the same one, which is not at rest yet: it promises the higher
 * one, and says so to the other, which would wait for it else. */
static void asked_by_two(void **state)
{
    job j = {.until = 8, .late = {2, 0, 0.3}};
    record last;

    (void)state;
    run("sim:kill=4@0.1,cut=1-2@0.05+60", 5, 1, &j);
    assert_int_equal(check_history(&j, 5, &last), 1);
    expect(&last, (int[]){0, 2, 3}, 3);
    assert_int_equal(j.err[1], WEIR_STALE);
}

/* ---- leaving by wish ---- */

static void leaving(void **state)
{
    static const char *const nets[] = {"sim", "zmq"};
    record last;

    (void)state;
    for (int k = 0; k < 2; k++) {
        job j = {.until = 1, .leaves = {0.1, 0, 0.3}};
        run(nets[k], 4, 30, &j);
        assert_int_equal(check_history(&j, 4, &last), 2);
        expect(&last, (int[]){1, 3}, 2);
        for (int r = 0; r < 4; r++)
            assert_int_equal(j.err[r], WEIR_OK);
    }
}

/* ---- on one machine ---- */

static weir_board *new_board(int size)
{
    size_t bytes = sizeof(weir_board) + (size_t)size * sizeof(weir_board_slot);
    weir_board *board = aligned_alloc(64, bytes);

    memset(board, 0, bytes);
    board->ranks = (uint64_t)size;
    for (int i = 0; i < size; i++)
        board->slot[i].pid = 1;
    return board;
}

/* Deaths that a launcher has reaped leave the count: one of four is enough. */
static void reaped(void **state)
{
    job j = {.until = 2, .fails = {0.1, 0.1, 0, 0.1}, .board = new_board(4)};

    (void)state;
    run("sim", 4, 30, &j);
    assert_int_equal(j.err[2], WEIR_OK);
    assert_true(j.lists[2] >= 1 && j.list[2][j.lists[2] - 1].count == 1);
    assert_int_equal(atomic_load(&j.board->list) >> 32, j.lists[2]);
    free(j.board);
}

/* A quorum has accepted, and then dies at once: the one that has not heard of that list goes on. */
static void left_alone(void **state)
{
    job j = {.until = 5, .late = {0, 0.5}, .board = new_board(4)};

    (void)state;
    run("sim:kill=3@0.1/0@0.7/1@0.7,cut=0-2@0.3+2", 4, 30, &j);
    assert_int_equal(j.err[2], WEIR_OK);
    assert_int_equal(j.lists[2], 1);
    expect(&j.list[2][0], (int[]){2}, 1);
    free(j.board);
}

/* ---- storms ---- */

typedef struct counts {
    int generations, evicted, few;
} counts;

/* Three faults of any kind at any time, close together. */
static void storm(uint64_t seed, counts *all)
{
    weir_rng rng = weir_rng_at(seed, WEIR_RNG_SIM, 77, 0);
    char spec[300];
    job j = {.until = 60};
    record last;
    int n = snprintf(spec, sizeof spec, "sim:seed=%d,jitter=0.5,drop=0.05,rto=2ms", (int)seed);
    const char *const fault[] = {"kill=any@1~1.01", "pause=any@1~1.01+%g",
                                 "cut=%d-%d@1~1.01+%g/%d-%d@1~1.01+%g"};
    bool kinds[3] = {weir_rng_below(&rng, 4) > 0, weir_rng_below(&rng, 2) > 0,
                     weir_rng_below(&rng, 2) > 0};

    if (kinds[0])
        n += snprintf(spec + n, sizeof spec - (size_t)n, ",%s%s", fault[0],
                      weir_rng_below(&rng, 2) ? "/any@1~1.01" : "");
    if (kinds[1]) {
        n += snprintf(spec + n, sizeof spec - (size_t)n, ",pause=any@1~1.01+%g",
                      weir_rng_below(&rng, 2) ? 0.02 : 9.0);
    }
    if (kinds[2]) {
        int a = (int)weir_rng_below(&rng, RANKS), b = (a + 1) % RANKS, c = (a + 2) % RANKS;
        double length = weir_rng_below(&rng, 2) ? 0.05 : 30;
        snprintf(spec + n, sizeof spec - (size_t)n, ",cut=%d-%d@1~1.01+%g/%d-%d@1~1.01+%g", a, b,
                 length, a, c, length);
    }
    if (getenv("SHOW"))
        print_message("%s\n", spec);
    run(spec, RANKS, 4, &j);
    all->generations += check_history(&j, RANKS, &last);
    for (int r = 0; r < RANKS; r++) {
        all->evicted += j.err[r] == WEIR_STALE;
        all->few += j.err[r] == WEIR_LOST;
    }
}

static void storms(void **state)
{
    counts all = {0};
    int seeds = getenv("SEEDS") ? atoi(getenv("SEEDS")) : 300;

    (void)state;
    for (int s = 1; s <= seeds; s++)
        storm((uint64_t)s, &all);
    print_message("%d storms: %d generations, %d evicted, %d too few\n", seeds, all.generations,
                  all.evicted, all.few);
    assert_true(all.generations > seeds / 2 && all.few > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_after_the_other),
                                       cmocka_unit_test(too_few),
                                       cmocka_unit_test(one_more_while_agreeing),
                                       cmocka_unit_test(one_that_had_promised),
                                       cmocka_unit_test(pauses),
                                       cmocka_unit_test(cuts),
                                       cmocka_unit_test(asked_by_two),
                                       cmocka_unit_test(leaving),
                                       cmocka_unit_test(reaped),
                                       cmocka_unit_test(left_alone),
                                       cmocka_unit_test(storms)};

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
