/* Ranks that do not run the same thing are told so, all with the same sentence. */
#include "help_ranks.h"
#include "train/agree.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* Whoever has said it and left may be missed by the others before they say it: they pass on what it
 * said. */
static void all_say(const ranks *r, weir_err code, const char *says)
{
    int first = 0;

    for (int i = 0; i < r->size; i++) {
        if (r->err[i] != code)
            assert_int_equal(r->err[i], WEIR_LOST);
        first += r->err[i] == code;
        assert_says(r->why[i], says);
    }
    assert_true(first > 0);
}

/* ---- settings ---- */

typedef struct change {
    int rank;
    const char *key, *value, *more;
} change;

static weir_err settings_rank(weir_net *net, void *arg)
{
    const change *c = arg;
    weir_arena *arena = weir_arena_new();
    weir_settings *set = WEIR_NEW(arena, weir_settings, 1);
    weir_group group;
    bool mine = c->rank == weir_net_rank(net);
    weir_err err = weir_settings_init(set, arena);

    if (!err)
        err = weir_settings_set(set, "data", "idx:/here/mnist,limit=5");
    if (!err && mine && c->key)
        err = weir_settings_set(set, c->key, c->value);
    if (!err)
        err = weir_group_all(net, arena, &group);
    if (!err)
        err =
            weir_agree_settings(&group, set, mine && c->more ? c->more : "samples 60000\n", arena);
    weir_arena_free(arena);
    return err;
}

static void settings_differ(change c, const char *says)
{
    for (int p = 2; p <= 4; p++) {
        ranks r = {.size = p, .timeout = 10, .stall = 60, .fn = settings_rank, .arg = &c};
        if (!says) {
            ranks_all_ok(&r);
            continue;
        }
        ranks_run(&r);
        all_say(&r, WEIR_MISFIT, says);
    }
}

static void settings(void **state)
{
    (void)state;
    settings_differ((change){.rank = 1}, NULL);
    settings_differ((change){1, "batch", "32", NULL},
                    "--batch is '64' on rank 0 and '32' on rank 1");
    settings_differ((change){0, "seed", "7", NULL}, "--seed is '7' on rank 0 and '1' on rank 1");
    settings_differ((change){1, "coll", "ring:segment=64", NULL}, "--coll is 'auto' on rank 0");
    settings_differ((change){1, "data", "idx:/other/place/mnist,limit=5", NULL}, NULL);
    settings_differ((change){1, "data", "idx:/here/fashion,limit=5", NULL},
                    "--data is 'idx:mnist,limit=5' on rank 0 and 'idx:fashion,limit=5' on rank 1");
    settings_differ((change){1, "data", "idx:/here/mnist,limit=6", NULL}, "limit=6");
    /* a slash behind it says nothing */
    settings_differ((change){1, "data", "idx:/other/place/mnist/,limit=5", NULL}, NULL);
    settings_differ((change){1, "data", "idx:mnist//,limit=5", NULL}, NULL);
    settings_differ((change){1, "data", "idx:dir=/other/mnist/,limit=5", NULL}, NULL);
    settings_differ((change){1, "data", "idx:/here/fashion/,limit=5", NULL},
                    "--data is 'idx:mnist,limit=5' on rank 0 and 'idx:fashion,limit=5' on rank 1");
    settings_differ((change){1, "resume", "/other/run1/", NULL},
                    "--resume is '' on rank 0 and 'run1' on rank 1");
    settings_differ((change){1, "threads", "3", NULL}, NULL);
    settings_differ((change){1, NULL, NULL, "samples 59999\n"},
                    "samples is '60000' on rank 0 and '59999' on rank 1");
}

/* ---- contents ---- */

typedef struct other {
    int size, rank[2], content; /* ranks that hold something else of it */
    bool alike;                 /* both the same */
} other;

static weir_err contents_rank(weir_net *net, void *arg)
{
    const other *o = arg;
    weir_content content[] = {{"model file", 7}, {"training part", 8}, {"test part", 9}};
    weir_arena *arena = weir_arena_new();
    weir_group group;
    weir_err err = weir_group_all(net, arena, &group);

    for (int i = 0; i < 2; i++)
        if (weir_net_rank(net) == o->rank[i])
            content[o->content].hash ^= 1ull << (o->alike ? 63 : 63 - i);
    if (!err)
        err = weir_agree_contents(&group, content, 3, arena);
    weir_arena_free(arena);
    return err;
}

static void contents_differ(other o, const char *says)
{
    ranks r = {.size = o.size, .timeout = 10, .stall = 60, .fn = contents_rank, .arg = &o};

    if (!says) {
        ranks_all_ok(&r);
        return;
    }
    ranks_run(&r);
    all_say(&r, WEIR_MISFIT, says);
}

static void contents(void **state)
{
    (void)state;
    for (int p = 2; p <= 4; p++)
        contents_differ((other){p, {-1, -1}, 0, false}, NULL);
    contents_differ((other){2, {1, -1}, 0, false},
                    "the model file of rank 0 and that of rank 1 differ in content");
    contents_differ((other){3, {0, -1}, 1, false},
                    "the training part of rank 0 differs in content from");
    contents_differ((other){4, {3, -1}, 2, false},
                    "the test part of rank 3 differs in content from that");
    /* nobody stands alone: three camps, then two against two, two against three, three against
     * two */
    contents_differ((other){3, {1, 2}, 2, false},
                    "the test part of rank 0 and that of rank 1 differ in content");
    contents_differ((other){4, {1, 3}, 1, true},
                    "the training part of rank 0 and that of rank 1 differ in content");
    contents_differ((other){5, {0, 1}, 1, true},
                    "the training part of rank 0 and that of rank 2 differ in content");
    contents_differ((other){5, {2, 4}, 0, true},
                    "the model file of rank 0 and that of rank 2 differ in content");
}

/* ---- parameters ---- */

enum { FLOATS = 300, TENSORS = 3 };
typedef struct damage {
    int rank, at, tensors;
    bool next; /* the rank behind it is damaged alike */
} damage;

static weir_err params_rank(weir_net *net, void *arg)
{
    static const weir_tensor tensor[TENSORS] = {{.name = "one", .at = 0, .n = 100},
                                                {.name = "two", .at = 100, .n = 150},
                                                {.name = "three", .at = 250, .n = 50}};
    const damage *d = arg;
    weir_arena *arena = weir_arena_new();
    float *param = WEIR_NEW(arena, float, FLOATS);
    weir_coll_use coll;
    weir_group group;
    weir_replica replica = {.coll = &coll,
                            .group = &group,
                            .tensor = tensor,
                            .tensors = TENSORS,
                            .param = param,
                            .step = 41};
    weir_err err = weir_group_all(net, arena, &group);

    if (!err)
        err = weir_coll_open("auto", &group, arena, &coll);
    for (int i = 0; i < FLOATS; i++)
        param[i] = (float)i;
    if (d->rank == group.me && d->tensors)
        replica.tensors = d->tensors;
    if (!err && !(err = weir_replica_open(&replica, arena)))
        err = weir_replica_check(&replica);
    replica.step++;
    if ((d->rank == group.me || (d->next && d->rank + 1 == group.me)) && d->at >= 0)
        ((uint32_t *)(void *)param)[d->at] ^= 1;
    if (!err)
        err = weir_replica_check(&replica);
    weir_arena_free(arena);
    return err;
}

static void params_differ(int p, damage d, const char *says)
{
    ranks r = {.size = p, .timeout = 10, .stall = 60, .fn = params_rank, .arg = &d};

    if (!says) {
        ranks_all_ok(&r);
        return;
    }
    ranks_run(&r);
    all_say(&r, WEIR_DIVERGED, says);
}

static void parameters(void **state)
{
    (void)state;
    for (int p = 1; p <= 4; p++)
        params_differ(p, (damage){.rank = -1}, NULL);
    params_differ(3, (damage){2, 0, 0, false},
                  "after step 42 rank 2 holds other values of one than");
    params_differ(3, (damage){0, 249, 0, false},
                  "after step 42 rank 0 holds other values of two than");
    params_differ(4, (damage){1, 250, 0, false},
                  "after step 42 rank 1 holds other values of three than");
    params_differ(2, (damage){1, 299, 0, false},
                  "after step 42 ranks 0 and 1 hold different values of three");
    params_differ(5, (damage){3, 100, 0, true},
                  "after step 42 ranks 0 and 3 hold different values of two");
    params_differ(5, (damage){0, 100, 0, true},
                  "after step 42 ranks 0 and 2 hold different values of two");
    params_differ(3, (damage){1, -1, 2, false}, "rank 0 has a model of 3 tensors, rank 1 one of 2");
}

/* ---- who differs ---- */

/* The last rank and rank 1, in this order: what differs is told by their ranks, not by their places
 * in the group. */
static weir_err named_rank(weir_net *net, void *arg)
{
    static const weir_tensor tensor = {.name = "one", .n = 10};
    const int *what = arg;
    int me = weir_net_rank(net);
    float param[10] = {me == 1 ? 1.0f : 0.0f};
    weir_arena *arena = weir_arena_new();
    weir_settings *set = WEIR_NEW(arena, weir_settings, 1);
    weir_coll_use coll;
    weir_group group;
    weir_replica replica = {.coll = &coll, .group = &group, .tensor = &tensor, .tensors = 1};
    weir_err err = me ? weir_group_make(net, 0, (int[]){2, 1}, 2, arena, &group) : WEIR_OK;

    replica.param = param;
    if (!err)
        err = weir_settings_init(set, arena);
    if (me && !err && *what == 0)
        err = weir_agree_settings(&group, set, me == 1 ? "samples 5\n" : "samples 6\n", arena);
    if (me && !err && *what == 1)
        err = weir_agree_contents(&group, &(weir_content){"test part", (uint64_t)me}, 1, arena);
    if (me && !err && *what == 2)
        err = weir_coll_open("ring", &group, arena, &coll);
    if (me && !err && *what == 2 && !(err = weir_replica_open(&replica, arena)))
        err = weir_replica_check(&replica);
    weir_arena_free(arena);
    return err;
}

static void ranks_are_named(void **state)
{
    static const char *const says[] = {"samples is '6' on rank 2 and '5' on rank 1",
                                       "the test part of rank 2 and that of rank 1 differ",
                                       "ranks 2 and 1 hold different values of one"};

    (void)state;
    for (int what = 0; what < 3; what++) {
        ranks r = {.size = 3, .timeout = 10, .stall = 60, .fn = named_rank, .arg = &what};
        ranks_run(&r);
        assert_int_equal(r.err[0], WEIR_OK);
        for (int i = 1; i < 3; i++)
            assert_says(r.why[i], says[what]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(settings), cmocka_unit_test(contents),
                                       cmocka_unit_test(parameters),
                                       cmocka_unit_test(ranks_are_named)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
