/* What collectives cost, in every world: messages and bytes as the formulas of coll.h say; and that
 * `auto` takes the one that is cheapest by them. */
#include "help_coll.h"
#include <stdio.h>
#include <string.h>

static const coll_world *in(void **state) { return *state; }

/* ---- messages and bytes ---- */

static int lg(int n) { return n > 1 ? 1 + lg(n / 2) : 0; }

/* The formulas of coll.h: what member i of p sends in an all-reduce of `bytes`; false: told
 * otherwise. */
static bool formula(const char *name, int p, int i, uint64_t bytes, uint64_t *messages,
                    uint64_t *sent)
{
    uint64_t q = (uint64_t)1 << lg(p), r = (uint64_t)p - q, l = (uint64_t)lg(p),
             halves = 2 * (q - 1) * bytes / q;
    bool folds = (uint64_t)i < 2 * r, away = folds && i % 2 == 0;

    if (!strcmp(name, "ring")) {
        *messages = 2 * (uint64_t)(p - 1);
        *sent = 2 * (uint64_t)(p - 1) * bytes / (uint64_t)p;
    } else if (!strcmp(name, "halving")) {
        *messages = away ? 1 : 2 * l + folds;
        *sent = away ? bytes : halves + folds * bytes;
    } else if (!strcmp(name, "doubling")) {
        *messages = away ? 1 : l + folds;
        *sent = *messages * bytes;
    } else if (!strcmp(name, "blocks")) {
        int first = 0, c = (int)q, larger = 0;
        while (i >= first + c) {
            larger = c;
            first += c;
            c = 1 << lg(p - first);
        }
        int smaller = first + c < p;
        *messages = 2 * (uint64_t)lg(c) + (uint64_t)(larger / c + smaller);
        *sent = (2 * (uint64_t)(c - 1) + (larger > 0) + (uint64_t)smaller) * bytes / (uint64_t)c;
    } else {
        return false;
    }
    return true;
}

typedef struct counts {
    const char *name;
    size_t units;
    uint64_t messages[RANKS_MAX], sent[RANKS_MAX];
} counts;

static weir_err count_rank(weir_net *net, void *arg)
{
    counts *c = arg;
    weir_arena *a = weir_arena_new();
    float *x = WEIR_NEW(a, float, c->units);
    char one[64];
    weir_group g;
    weir_coll_use use;
    weir_err err = weir_group_all(net, a, &g);
    weir_net_count before = weir_net_counted(net), after;

    snprintf(one, sizeof one, "%s:segment=1073741824", c->name);
    if (!err)
        err = weir_coll_open(one, &g, a, &use);
    if (!err)
        err = weir_allreduce(&use, &g, x, c->units, &weir_sum_f32);
    after = weir_net_counted(net);
    c->messages[g.me] = after.messages - before.messages;
    c->sent[g.me] = after.sent - before.sent;
    weir_arena_free(a);
    return err;
}

static void costs(void **state)
{
    static const char *const names[] = {"ring", "halving", "doubling", "blocks", "tree"};

    for (int p = 1; p <= in(state)->ranks; p++)
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            /* pieces of p, of q and of 2 are equal */
            counts c = {.name = names[k], .units = (size_t)p << (lg(p) + 4)};
            uint64_t bytes = 4 * c.units, messages, sent, all_messages = 0, all_sent = 0;
            coll_all_well(in(state), p, count_rank, &c);
            for (int i = 0; i < p; i++) {
                all_messages += c.messages[i];
                all_sent += c.sent[i];
                if (p == 1) {
                    assert_int_equal(c.messages[i], 0);
                } else if (formula(names[k], p, i, bytes, &messages, &sent)) {
                    assert_int_equal(c.messages[i], messages);
                    assert_int_equal(c.sent[i], sent);
                } else { /* trees */
                    assert_true(c.messages[i] <= 4 && c.sent[i] <= 2 * bytes);
                }
            }
            if (!strcmp(names[k], "tree"))
                assert_int_equal(all_messages, 4 * (p - 1));
            if (strcmp(names[k], "doubling"))
                assert_int_equal(all_sent, 2 * (uint64_t)(p - 1) * bytes);
        }
}

/* ---- what auto takes ---- */

/* The fixed table: fewest steps for little, fewest bytes for much, something that fits for all. */
static weir_err pick_rank(weir_net *net, void *arg)
{
    weir_arena *a = weir_arena_new();
    weir_group g;
    weir_err err = weir_group_all(net, a, &g);
    weir_coll_form form = weir_coll_look(&g);
    const weir_plug *plug;

    (void)arg;
    form.shm = false;
    for (int bit = 0; bit < 34 && !err; bit++)
        err = weir_plug_find(weir_colls, "collective", weir_coll_pick(&g, &form, (size_t)1 << bit),
                             &plug);
    if (!err && strcmp(weir_coll_pick(&g, &form, 64), "doubling"))
        err = weir_fail(WEIR_FAILED, "%d ranks: %s for 64 bytes", g.size,
                        weir_coll_pick(&g, &form, 64));
    if (!err && strcmp(weir_coll_pick(&g, &form, 1 << 30), "ring"))
        err = weir_fail(WEIR_FAILED, "%d ranks: %s for a GiB", g.size,
                        weir_coll_pick(&g, &form, 1 << 30));
    form.apart = form.shared = true;
    if (!err && strcmp(weir_coll_pick(&g, &form, 1 << 20), "hier"))
        err = weir_fail(WEIR_FAILED, "%d ranks on some machines: %s", g.size,
                        weir_coll_pick(&g, &form, 1 << 20));
    weir_arena_free(a);
    return err;
}

static void picks(void **state)
{
    for (int p = 2; p <= in(state)->ranks; p++)
        coll_all_well(in(state), p, pick_rank, NULL);
}

int main(int argc, char **argv)
{
    static const coll_test tests[] = {{"costs", costs}, {"picks", picks}};

    return coll_tests_run(tests, sizeof tests / sizeof *tests, argc > 1 ? argv[1] : NULL);
}
