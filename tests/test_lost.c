/* test_lost.c - workers die, and the others go on (exchange.h): what was given and what is held
 * back is conserved, every sample counts, replicas are one; whoever dies, at whatever instant of a
 * step, of agreeing and of coming to one state. In the simulated world, for every exchange that
 * can. */
#include "core/rng.h"
#include "help_lost.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

typedef struct setting {
    const char *exchange, *codec;
    int back;
    bool rounds;
} setting;

static const setting settings[] = {
    {"allreduce", "none", 0, false},
    {"allreduce", "strom:tau=2,warmup=0", 0, false},
    {"peers:0", "none", 0, false},
    {"peers:0", "strom:tau=2,warmup=0", 0, false},
    {"peers:0", "onebit:warmup=0", 0, true},
    {"peers:1", "none", 1, false},
    {"peers:1", "strom:tau=2,warmup=0", 1, false},
    {"peers:4", "none", 4, false},
    {"peers:4", "strom:tau=2,warmup=0", 4, false},
    {"peers:4", "onebit:warmup=0", 4, true},
};
enum { SETTINGS = sizeof settings / sizeof *settings };

typedef struct totals {
    int runs, generations, again, back, repeats, partly, kept;
} totals;

static int alive(const lost_job *j)
{
    int n = 0;

    for (int r = 0; r < j->size; r++)
        n += j->lives[r];
    return n;
}

/* From `least` to `most` of them come to the end. */
typedef struct ends {
    int least, most;
} ends;

static void run(const setting *s, const char *net, int size, ends left, totals *all)
{
    lost_job *j = calloc(1, sizeof *j);

    *j = (lost_job){.net = net,
                    .exchange = s->exchange,
                    .codec = s->codec,
                    .size = size,
                    .timeout = 0.1,
                    .back = (uint64_t)s->back,
                    .rounds = s->rounds};
    lost_run(j);
    if (alive(j) < left.least || alive(j) > left.most) {
        for (int i = 0; i < size; i++)
            print_message("rank %d: %s\n", i, j->why[i]);
        fail_msg("%s, %s, %s: %d of %d came to the end, and %d were to", net, s->exchange, s->codec,
                 alive(j), size, left.least);
    }
    all->runs++;
    all->generations += j->generations;
    all->again += j->again;
    all->back += (int)j->gone_back;
    all->repeats += j->repeated > 0;
    all->partly += j->partly;
    all->kept += j->kept;
    free(j);
}

static void tell(const char *what, const totals *t)
{
    print_message("%s: %d runs, %d generations, broken off on %d ranks, %d steps back, repeats in "
                  "%d; %d broken-off steps count; %d ranks had settled\n",
                  what, t->runs, t->generations, t->again, t->back, t->repeats, t->partly, t->kept);
}

/* One dies, at every instant of two steps. Work takes as long as it is drawn, so that workers are
 * apart. */
static void at_any_instant(void **state)
{
    (void)state;
    for (const setting *s = settings; s < settings + SETTINGS; s++) {
        totals all = {0};
        for (int size = 3; size <= 5; size++)
            for (int who = 0; who < size; who++)
                for (int k = 0; k < 24; k++) {
                    char net[120];
                    snprintf(net, sizeof net, "sim:seed=%d,draw=lognormal,cv=0.7,kill=%d@%.9g",
                             k + 1, who, 4e-3 + k * 0.1e-3);
                    run(s, net, size, (ends){size - 1, size - 1}, &all);
                }
        tell(s->exchange, &all);
        assert_int_equal(all.generations, all.runs);
        assert_true(!s->back == !all.repeats);
    }
}

/* A second one dies while the first one's death is agreed on and a state goes round, at every
 * instant of that. The link is slow enough for the state to take a step's time. */
static void another_meanwhile(void **state)
{
    int between = getenv("EVERY_CASE") ? 1 : 3;

    (void)state;
    for (const setting *s = settings; s < settings + SETTINGS; s++) {
        totals all = {0};
        for (int pair = 0; pair < 20; pair++)
            for (int k = 0; k < 40; k += between) {
                int a = pair / 4, b = (a + 1 + pair % 4) % 5;
                char net[160];
                snprintf(net, sizeof net,
                         "sim:seed=%d,rate=200M,draw=lognormal,cv=0.7,kill=%d@6ms/%d@%.9g", k + 1,
                         a, b, 6.9e-3 + k * 0.1e-3);
                run(s, net, 5, (ends){3, 3}, &all);
            }
        tell(s->exchange, &all);
        /* some in one generation, some in two; and some of the first came to nothing */
        assert_true(all.generations > all.runs && all.generations < 2 * all.runs && all.again);
    }
}

/* A link is cut for good meanwhile: one of the two whose it is stays behind, and may be the one
 * whose state has begun to go round, or one that it has not come to. */
static void cut_meanwhile(void **state)
{
    (void)state;
    for (const setting *s = settings; s < settings + SETTINGS; s++) {
        totals all = {0};
        for (int pair = 0; pair < 20; pair++)
            for (int k = 0; k < 16; k++) {
                int a = pair / 4, b = (a + 1 + pair % 4) % 5, dead = (a + 1 + (pair + 1) % 4) % 5;
                char net[160];
                snprintf(net, sizeof net,
                         "sim:seed=%d,rate=200M,draw=lognormal,cv=0.7,kill=%d@6ms,cut=%d-%d@%.9g",
                         k + 1, dead, a, b, 6.9e-3 + k * 0.2e-3);
                run(s, net, 5, (ends){3, 4}, &all); /* 4: they did without that link */
            }
        tell(s->exchange, &all);
        assert_true(all.generations > all.runs);
    }
}

/* ---- storms ---- */

typedef struct storm_totals {
    int runs, nobody, all_left, generations, again, repeats, kills, pauses, cuts;
} storm_totals;

/* Up to two deaths, a pause that is forgiven or not, and links that are cut for a while, close
 * together; packets are late, dropped and doubled. */
static void order_faults(uint64_t seed, char *net, size_t room, storm_totals *all)
{
    weir_rng rng = weir_rng_at(seed, WEIR_RNG_SIM, 78, 0);
    int kills = (int)weir_rng_below(&rng, 3), a = (int)weir_rng_below(&rng, LOST_RANKS),
        b = (a + 1 + (int)weir_rng_below(&rng, LOST_RANKS - 1)) % LOST_RANKS;
    bool pauses = !weir_rng_below(&rng, 3), cuts = !weir_rng_below(&rng, 3),
         longer = weir_rng_below(&rng, 2);
    int n = snprintf(net, room,
                     "sim:seed=%d,rate=200M,jitter=0.5,drop=0.02,duplicate=0.02,rto=2ms,"
                     "draw=lognormal,cv=0.7",
                     (int)seed);

    if (kills)
        n += snprintf(net + n, room - (size_t)n, ",kill=any@4ms~9ms%s",
                      kills > 1 ? "/any@6ms~9ms" : "");
    if (pauses)
        n += snprintf(net + n, room - (size_t)n, ",pause=any@4ms~9ms+%s", longer ? "400ms" : "5ms");
    if (cuts)
        snprintf(net + n, room - (size_t)n, ",cut=%d-%d@4ms~9ms+%s", a, b,
                 longer ? "5ms" : "400ms");
    all->kills += kills;
    all->pauses += pauses;
    all->cuts += cuts;
}

static void storm(uint64_t seed, storm_totals *all)
{
    const setting *s = &settings[seed % SETTINGS];
    lost_job *j = calloc(1, sizeof *j);
    char net[400];

    order_faults(seed, net, sizeof net, all);
    if (getenv("SHOW"))
        print_message("%s %s %s\n", net, s->exchange, s->codec);
    *j = (lost_job){.net = net,
                    .exchange = s->exchange,
                    .codec = s->codec,
                    .size = LOST_RANKS,
                    .timeout = 0.1,
                    .back = (uint64_t)s->back,
                    .rounds = s->rounds};
    lost_run(j);
    all->runs++;
    all->nobody += !alive(j);
    all->all_left += alive(j) == LOST_RANKS;
    all->generations += j->generations;
    all->again += j->again;
    all->repeats += j->repeated > 0;
    free(j);
}

static void storms(void **state)
{
    storm_totals t = {0};
    uint64_t first = getenv("SEED") ? strtoull(getenv("SEED"), NULL, 10) : 1,
             seeds = getenv("SEEDS") ? strtoull(getenv("SEEDS"), NULL, 10) : 600;

    (void)state;
    for (uint64_t s = first; s < first + seeds; s++)
        storm(s, &t);
    print_message(
        "%d storms: %d kills, %d pauses, %d cuts: %d generations, broken off on %d ranks, "
        "repeats in %d; all came to the end in %d, nobody in %d\n",
        t.runs, t.kills, t.pauses, t.cuts, t.generations, t.again, t.repeats, t.all_left, t.nobody);
    if (seeds >= 600)
        assert_true(t.generations > t.runs / 2 && t.again && t.repeats && t.nobody < t.runs / 5);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(at_any_instant),
                                       cmocka_unit_test(another_meanwhile),
                                       cmocka_unit_test(cut_meanwhile), cmocka_unit_test(storms)};

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
