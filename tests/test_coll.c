/* The law of coll/: every collective in the list, in every world there is, on awkward numbers of
 * ranks and lengths: exact sums, the same bits on all ranks, messages and bytes as the formulas of
 * coll.h say, and an end for everybody when one is lost. */
#include "help_ranks.h"
#include "coll/coll.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* A world, and how many ranks it is asked for. */
typedef struct world {
    const char *spec;
    int ranks;
    bool simulated;
} world;

static const world *in(void **state) { return *state; }

/* Runs fn as `size` ranks; gives "" if all succeeded, else the sentence of the lowest rank whose
 * error is not the loss of another. */
static const char *run_ranks(const world *w, int size, weir_err (*fn)(weir_net *, void *),
                             void *arg)
{
    static char text[600];
    static ranks r;

    r = (ranks){.net = w->spec, .size = size, .timeout = 20, .stall = 100, .fn = fn, .arg = arg};
    ranks_run(&r);
    text[0] = 0;
    for (int lost = 0; lost < 2; lost++)
        for (int i = 0; i < size && !text[0]; i++)
            if (r.err[i] && (r.err[i] == WEIR_LOST) == lost)
                snprintf(text, sizeof text, "rank %d: %s", i, r.why[i]);
    return text;
}

static void all_well(const world *w, int size, weir_err (*fn)(weir_net *, void *), void *arg)
{
    const char *text = run_ranks(w, size, fn, arg);

    if (text[0])
        fail_msg("%s, %d ranks: %s", w->spec, size, text);
}

/* ---- what is tested: all in the list, and some with small segments and windows, "to give some
 * bugs a chance" ---- */

enum { SPECS = 40 };
static const char *spec[SPECS];
static int specs, listed;

static void make_specs(void)
{
    static const char *const more[] = {
        "ring:segment=4096,window=3",
        "ring:segment=64,window=1",
        "halving:segment=4096,window=1",
        "doubling:segment=1000,window=3",
        "blocks:segment=100,window=2",
        "tree:segment=4096,window=1",
        "tree:segment=128,window=5",
        "hier:each=2,inner=ring,outer=doubling",
        "hier:each=1",
        "hier:each=4",
        "hier:each=3,inner=[halving:segment=4096,window=2],outer=[ring:window=2,segment=100]",
        "auto:measure=yes"};

    for (weir_plugs c = weir_colls; *c; c++)
        spec[specs++] = (*c)->name;
    listed = specs;
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        spec[specs++] = more[i];
}

/* ---- the matrix ---- */

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ || \
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { SLOW = 1 }; /* a sanitizer has seen it all in less */
#else
enum { SLOW = 0 };
#endif
enum { LENGTHS = 8, LONG = 1000003, MIDDLE = 65537 };
typedef struct matrix {
    const size_t *length;
    int lengths, from, to; /* specs from .. to - 1 */
    float *want;           /* the sums of `whole` */
    uint64_t hash[SPECS][LENGTHS][RANKS_MAX];
} matrix;

/* small whole numbers, so that any order of summing is exact; and fractions, whose bits must still
 * agree on all ranks */
static float whole(int rank, size_t i) { return (float)((i * 7 + (size_t)rank * 13) % 101) - 50; }
static float broken(int rank, size_t i)
{
    return (float)((i * 2654435761u + (size_t)rank * 40503u) % 100003 + 1) / 997.0f;
}

static uint64_t fold(const float *x, size_t n)
{
    uint64_t h = 14695981039346656037ull;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], 4);
        h = (h ^ bits) * 1099511628211ull;
    }
    return h;
}

/* One collective on one rank. */
typedef struct bench {
    const char *spec;
    weir_coll_use use;
    weir_group *g;
    float *x;
    double *y;
    size_t *off, *len;
    const float *want;
} bench;

static weir_err wrong(const bench *b, const char *verb, size_t n, size_t i)
{
    return weir_fail(WEIR_FAILED, "%s %s, %d ranks, %zu units: element %zu is wrong", b->spec, verb,
                     b->g->size, n, i);
}

static weir_err check_sums(bench *b, size_t n, uint64_t *hash)
{
    for (size_t i = 0; i < n; i++)
        b->x[i] = whole(b->g->me, i);
    WEIR_TRY(weir_allreduce(&b->use, b->g, b->x, n, &weir_sum_f32));
    for (size_t i = 0; i < n; i++)
        if (b->x[i] != b->want[i])
            return wrong(b, "all-reduce", n, i);
    for (size_t i = 0; i < n; i++)
        b->x[i] = broken(b->g->me, i);
    WEIR_TRY(weir_allreduce(&b->use, b->g, b->x, n, &weir_sum_f32));
    *hash = fold(b->x, n);
    return WEIR_OK;
}

static weir_err check_doubles(bench *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        b->y[i] = (double)whole(b->g->me, i) * 1e9;
    WEIR_TRY(weir_allreduce(&b->use, b->g, b->y, n, &weir_sum_f64));
    for (size_t i = 0; i < n; i++)
        if (b->y[i] != (double)b->want[i] * 1e9)
            return wrong(b, "all-reduce of doubles", n, i);
    return WEIR_OK;
}

/* Reduce-scatter leaves the all-reduce's own bits, piece by piece; all-gather brings them
 * together. */
static weir_err check_halves(bench *b, size_t n, uint64_t hash)
{
    int p = b->g->size;
    size_t lo = weir_cut(n, p, b->g->me), hi = weir_cut(n, p, b->g->me + 1);

    for (size_t i = 0; i < n; i++)
        b->x[i] = broken(b->g->me, i);
    WEIR_TRY(weir_reduce_scatter(&b->use, b->g, b->x, n, &weir_sum_f32));
    for (int r = 0; r < p; r++) {
        b->off[r] = weir_cut(n, p, r) * 4;
        b->len[r] = weir_cut(n, p, r + 1) * 4 - b->off[r];
    }
    for (size_t i = 0; i < n; i++)
        if (i < lo || i >= hi)
            b->x[i] = -1e30f;
    WEIR_TRY(weir_allgather(&b->use, b->g, b->x, b->off, b->len));
    if (fold(b->x, n) != hash)
        return weir_fail(
            WEIR_FAILED,
            "%s, %d ranks, %zu units: reduce-scatter and all-gather are not all-reduce", b->spec, p,
            n);
    return WEIR_OK;
}

/* Lengths as unequal as can be, some of nothing, bytes that no unit divides; in a row, or apart and
 * in another order. */
static weir_err check_gather(bench *b, size_t most, bool apart)
{
    int p = b->g->size;
    unsigned char *all = (unsigned char *)b->x;
    size_t end = 0;

    for (int k = 0; k < p; k++) {
        int r = apart ? p - 1 - k : k;
        b->len[r] = r % 3 == 1 ? 0 : most * (size_t)(r % 5 + 1) / 5 / (size_t)p;
        b->off[r] = end + (apart ? 3 : 0);
        end = b->off[r] + b->len[r];
    }
    memset(all, 255, end);
    for (size_t i = 0; i < b->len[b->g->me]; i++)
        all[b->off[b->g->me] + i] = (unsigned char)((i + (size_t)b->g->me * 31) % 251);
    WEIR_TRY(weir_allgather(&b->use, b->g, all, b->off, b->len));
    for (int r = 0; r < p; r++)
        for (size_t i = 0; i < b->len[r]; i++)
            if (all[b->off[r] + i] != (i + (size_t)r * 31) % 251)
                return wrong(b, apart ? "all-gather apart" : "all-gather", most, b->off[r] + i);
    for (size_t i = 0; apart && i < 3; i++)
        if (all[i] != 255)
            return wrong(b, "all-gather: between the pieces", most, i);
    return WEIR_OK;
}

static weir_err check_spread(bench *b, size_t n, int root)
{
    for (size_t i = 0; i < n; i++)
        b->x[i] = b->g->me == root ? whole(root, i) : 0;
    WEIR_TRY(weir_broadcast(&b->use, b->g, root, b->x, n * 4));
    for (size_t i = 0; i < n; i++)
        if (b->x[i] != whole(root, i))
            return wrong(b, "broadcast", n, i);
    return WEIR_OK;
}

static weir_err check_length(bench *b, size_t n, uint64_t *hash)
{
    int p = b->g->size;

    WEIR_TRY(check_sums(b, n, hash));
    WEIR_TRY(check_halves(b, n, *hash));
    if (n <= MIDDLE) {
        WEIR_TRY(check_doubles(b, n));
        WEIR_TRY(check_gather(b, n * 4, false));
        WEIR_TRY(check_gather(b, n * 4, true));
    }
    WEIR_TRY(check_spread(b, n, p / 2));
    if (n <= MIDDLE) {
        WEIR_TRY(check_spread(b, n, 0));
        WEIR_TRY(check_spread(b, n, p - 1));
    }
    return weir_barrier(&b->use, b->g);
}

static size_t longest(const matrix *m)
{
    size_t n = 0;

    for (int i = 0; i < m->lengths; i++)
        n = m->length[i] > n ? m->length[i] : n;
    return n;
}

static weir_err matrix_with(weir_net *net, matrix *m, weir_arena *a)
{
    weir_group g;
    bench b = {.g = &g, .want = m->want};

    WEIR_TRY(weir_group_all(net, a, &g));
    b.x = WEIR_NEW(a, float, longest(m) + 100);
    b.y = WEIR_NEW(a, double, MIDDLE);
    b.off = WEIR_NEW(a, size_t, g.size);
    b.len = WEIR_NEW(a, size_t, g.size);
    CHECK(b.x && b.y && b.off && b.len);
    for (int s = m->from; s < m->to; s++) {
        weir_err err = weir_coll_open(b.spec = spec[s], &g, a, &b.use);
        if (err == WEIR_MISFIT) /* not for this world */
            continue;
        for (int i = 0; i < m->lengths && !err; i++)
            err = check_length(&b, m->length[i], &m->hash[s][i][g.me]);
        WEIR_TRY(err);
    }
    return WEIR_OK;
}

static weir_err matrix_rank(weir_net *net, void *arg)
{
    weir_arena *a = weir_arena_new();
    weir_err err = a ? matrix_with(net, arg, a) : weir_fail_nomem(0);

    weir_arena_free(a);
    return err;
}

static void check_matrix(const world *w, int p, const size_t *length, int lengths, int from, int to)
{
    static matrix m;

    m = (matrix){.length = length, .lengths = lengths, .from = from, .to = to};
    m.want = calloc(longest(&m) + 1, sizeof *m.want);
    assert_non_null(m.want);
    for (int r = 0; r < p; r++)
        for (size_t i = 0; i < longest(&m); i++)
            m.want[i] += whole(r, i);
    all_well(w, p, matrix_rank, &m);
    for (int s = from; s < to; s++)
        for (int i = 0; i < m.lengths; i++)
            for (int r = 1; r < p; r++)
                if (m.hash[s][i][r] != m.hash[s][i][0])
                    fail_msg("%s, %d ranks, %zu units: rank %d has other bits than rank 0", spec[s],
                             p, length[i], r);
    free(m.want);
}

static void sums(void **state)
{
    for (int p = 1; p <= in(state)->ranks; p++) {
        size_t n = (size_t)p, length[] = {0, 1, n - 1, n, n + 1, 1000, MIDDLE};
        check_matrix(in(state), p, length, 7, 0, listed);
    }
}

static void small_segments(void **state)
{
    for (int p = 2; p <= in(state)->ranks; p++) {
        size_t n = (size_t)p, length[] = {0, n - 1, n + 1, 9973};
        check_matrix(in(state), p, length, 4, listed, specs);
    }
}

static void long_sums(void **state)
{
    const size_t length[] = {LONG};

    for (int p = 1; p <= in(state)->ranks; p++)
        if (!SLOW || p == 2 || p == 3)
            check_matrix(in(state), p, length, 1, 0, listed);
}

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
            all_well(in(state), p, count_rank, &c);
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

/* ---- a rank is lost in the middle ---- */

static weir_net *doomed; /* set by the rank that will be lost, read by its own sum */
static int fuse;

static void add_and_die(void *to, const void *from, size_t n)
{
    weir_sum_f32.add(to, from, n);
    if (!--fuse)
        weir_net_abort(doomed, WEIR_FAILED);
}
static const weir_sum last_sum = {sizeof(float), add_and_die};

enum { VICTIM = 1, LOST_UNITS = 400000 };
typedef struct losing {
    const char *spec;
    int verb;
} losing;

static weir_err lose_with(const losing *l, weir_group *g, weir_coll_use *use, float *x)
{
    size_t off[RANKS_MAX], len[RANKS_MAX];
    bool dies = g->me == VICTIM;

    for (int i = 0; i < g->size; i++) {
        off[i] = weir_cut(LOST_UNITS, g->size, i) * 4;
        len[i] = weir_cut(LOST_UNITS, g->size, i + 1) * 4 - off[i];
    }
    WEIR_TRY(weir_allreduce(use, g, x, LOST_UNITS, &weir_sum_f32)); /* all is well */
    if (dies) {
        doomed = g->net;
        fuse = 2;
    }
    if (l->verb == 0)
        return weir_allreduce(use, g, x, LOST_UNITS, dies ? &last_sum : &weir_sum_f32);
    if (l->verb == 1)
        return weir_reduce_scatter(use, g, x, LOST_UNITS, dies ? &last_sum : &weir_sum_f32);
    if (dies)
        return WEIR_FAILED;
    return l->verb == 2 ? weir_allgather(use, g, x, off, len)
                        : weir_broadcast(use, g, VICTIM, x, LOST_UNITS * 4);
}

static weir_err lose_rank(weir_net *net, void *arg)
{
    losing *l = arg;
    weir_arena *a = weir_arena_new();
    float *x = WEIR_NEW(a, float, LOST_UNITS);
    weir_group g;
    weir_coll_use use;
    weir_err err = weir_group_all(net, a, &g);

    if (!err)
        err = weir_coll_open(l->spec, &g, a, &use);
    if (!err)
        err = lose_with(l, &g, &use, x);
    weir_arena_free(a); /* whoever still holds a piece of x is found out by ASan */
    return err == WEIR_FAILED ? weir_fail(WEIR_FAILED, "left") : err;
}

static void losses(void **state)
{
    static const char *const some[] = {
        "ring:segment=4096,window=4",
        "halving:segment=4096",
        "doubling:segment=4096",
        "blocks:segment=4096",
        "tree:segment=4096",
        "hier:each=2,inner=[ring:segment=4096],outer=[halving:segment=4096]"}; /* shm, and auto that
                                                                                  takes it:
                                                                                  test_shm.c */
    static ranks r;

    for (size_t s = 0; s < sizeof some / sizeof *some; s++)
        for (int verb = 0; verb < 4; verb++) {
            losing l = {some[s], verb};
            r = (ranks){.net = in(state)->spec,
                        .size = 5,
                        .timeout = 20,
                        .stall = 100,
                        .fn = lose_rank,
                        .arg = &l};
            ranks_run(&r);
            for (int i = 0; i < r.size; i++)
                if (r.err[i] != (i == VICTIM ? WEIR_FAILED : WEIR_LOST))
                    fail_msg("%s, verb %d: rank %d ended with %s: %s", some[s], verb, i,
                             weir_err_name(r.err[i]), r.why[i]);
        }
}

/* ---- ranks that do not agree ---- */

static weir_err misfit_rank(weir_net *net, void *arg)
{
    losing *l = arg;
    weir_arena *a = weir_arena_new();
    float *x = WEIR_NEW(a, float, 70000);
    weir_group g;
    weir_coll_use use;
    size_t n = 50000 + (weir_net_rank(net) == VICTIM);
    weir_err err = weir_group_all(net, a, &g);

    if (!err)
        err = weir_coll_open(l->spec, &g, a, &use);
    if (!err && l->verb == 0)
        err = weir_allreduce(&use, &g, x, n, &weir_sum_f32);
    if (!err && l->verb == 1)
        err = weir_reduce_scatter(&use, &g, x, n, &weir_sum_f32);
    if (!err && l->verb == 2)
        err = weir_broadcast(&use, &g, VICTIM, x, n);
    weir_arena_free(a);
    return err;
}

static void misfits(void **state)
{
    static ranks r;

    for (int s = 0; s < specs; s++)
        for (int verb = 0; verb < 3; verb++) {
            losing l = {spec[s], verb};
            int told = 0;
            if (!strcmp(spec[s], "mpi")) /* MPI does not tell */
                continue;
            r = (ranks){.net = in(state)->spec,
                        .size = 4,
                        .timeout = 20,
                        .stall = 100,
                        .fn = misfit_rank,
                        .arg = &l};
            ranks_run(&r);
            for (int i = 0; i < r.size; i++)
                told += r.err[i] == WEIR_MISFIT;
            if (!told)
                fail_msg("%s, verb %d: nobody found out; rank 0 says %s", spec[s], verb, r.why[0]);
        }
}

/* ---- groups, opening ---- */

/* Some ranks, in an order of their own, beside the others. */
static weir_err group_rank(weir_net *net, void *arg)
{
    const int some[] = {5, 0, 3}, rest[] = {4, 2, 1};
    int me = weir_net_rank(net);
    bool mine = me == 5 || me == 0 || me == 3;
    weir_arena *a = weir_arena_new();
    weir_group g, all;
    weir_err err = weir_group_make(net, mine ? 1 : 2, mine ? some : rest, 3, a, &g);

    (void)arg;
    if (!err)
        err = weir_group_all(net, a, &all);
    for (int s = 0; s < specs && !err; s++) {
        weir_coll_use use, with_all;
        float x[3] = {(float)me, 1, (float)(me * me)}, y = (float)me;
        if ((err = weir_coll_open(spec[s], &g, a, &use)) == WEIR_MISFIT && !(err = WEIR_OK))
            continue;
        if (!err)
            err = weir_coll_open(spec[s], &all, a, &with_all);
        if (!err)
            err = weir_allreduce(&use, &g, x, 3, &weir_sum_f32);
        if (!err)
            err = weir_allreduce(&with_all, &all, &y, 1, &weir_sum_f32);
        if (!err && (x[0] != (mine ? 8 : 7) || x[1] != 3 || x[2] != (mine ? 34 : 21) || y != 15))
            err = weir_fail(WEIR_FAILED, "%s: %g %g %g %g", spec[s], x[0], x[1], x[2], y);
    }
    weir_arena_free(a);
    return err;
}

static void groups(void **state) { all_well(in(state), 6, group_rank, NULL); }

static weir_err fails(const char *wrong_spec, const weir_group *g, weir_arena *a, weir_err code,
                      const char *says)
{
    weir_coll_use use;

    CHECK(weir_coll_open(wrong_spec, g, a, &use) == code);
    return strstr(weir_why_text(), says)
               ? WEIR_OK
               : weir_fail(WEIR_FAILED, "%s: \"%s\" was not said", wrong_spec, says);
}

static weir_err open_rank(weir_net *net, void *arg)
{
    weir_arena *a = arg;
    weir_group g, one;
    weir_coll_use use;
    float x[2] = {1, 2};

    WEIR_TRY(weir_group_all(net, a, &g));
    WEIR_TRY(weir_group_make(net, 1, &(int){weir_net_rank(net)}, 1, a, &one));
    WEIR_TRY(
        fails("star", &g, a, WEIR_USAGE, "there is no collective 'star'; there is auto, ring"));
    WEIR_TRY(fails("hier:inner=star", &g, a, WEIR_USAGE, "'star'"));
    WEIR_TRY(fails("hier:outer=[ring:segmnt=4,window=2]", &g, a, WEIR_USAGE, "'segmnt'"));
    WEIR_TRY(fails("hier:inner=[ring", &g, a, WEIR_USAGE, "'[ring'"));
    WEIR_TRY(fails("tree:window=0", &g, a, WEIR_USAGE, "window=0"));
    /* what was opened for one group does not quietly serve another */
    WEIR_TRY(weir_coll_open("hier", &one, a, &use));
    CHECK(weir_allreduce(&use, &g, x, 2, &weir_sum_f32) == WEIR_MISFIT &&
          strstr(weir_why_text(), "open it anew"));
    WEIR_TRY(weir_coll_open("auto", &one, a, &use));
    CHECK(weir_allreduce(&use, &g, x, 2, &weir_sum_f32) == WEIR_MISFIT &&
          strstr(weir_why_text(), "open it anew"));
    return WEIR_OK;
}

static weir_err open_in_arena(weir_net *net, void *arg)
{
    weir_arena *a = weir_arena_new();
    weir_err err = open_rank(net, a);

    (void)arg;
    weir_arena_free(a);
    return err;
}

static void opening(void **state) { all_well(in(state), 2, open_in_arena, NULL); }

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
        all_well(in(state), p, pick_rank, NULL);
}

/* ---- only in a simulated world ---- */

/* Sizes without content: no buffer is there to be touched. */
static weir_err dry_rank(weir_net *net, void *arg)
{
    weir_arena *a = weir_arena_new();
    size_t off[RANKS_MAX], len[RANKS_MAX];
    weir_group g;
    weir_err err = weir_group_all(net, a, &g);

    (void)arg;
    for (int i = 0; i < g.size; i++) {
        off[i] = weir_cut(100000, g.size, i);
        len[i] = weir_cut(100000, g.size, i + 1) - off[i];
    }
    for (int s = 0; s < specs && !err; s++) {
        weir_coll_use use;
        if ((err = weir_coll_open(spec[s], &g, a, &use)) == WEIR_MISFIT && !(err = WEIR_OK))
            continue;
        if (!err && !(err = weir_allreduce(&use, &g, NULL, 100000, &weir_sum_f32)) &&
            !(err = weir_reduce_scatter(&use, &g, NULL, 100000, &weir_sum_f32)) &&
            !(err = weir_allgather(&use, &g, NULL, off, len)) &&
            !(err = weir_broadcast(&use, &g, g.size - 1, NULL, 100000)))
            err = weir_barrier(&use, &g);
    }
    weir_arena_free(a);
    return err;
}

static void dry(void **state)
{
    for (int p = 1; p <= in(state)->ranks; p++)
        all_well(&(world){"sim:dry=yes", p, true}, p, dry_rank, NULL);
}

/* Machines as the world has them, with equally many ranks and not. */
static void machines(void **state)
{
    for (int p = 2; p <= in(state)->ranks; p += 3)
        for (int each = 2; each <= 6; each += 2) {
            char text[64];
            size_t length[] = {0, 1, 1000, MIDDLE};
            snprintf(text, sizeof text, "sim:machine=%d", each);
            check_matrix(&(world){text, p, true}, p, length, 4, 0, listed);
        }
}

/* Every test in every world there is: `test_coll [FILTER]`. */
int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        CMUnitTestFunction fn;
        bool simulated;
    } kinds[] = {{"opening", opening},
                 {"picks", picks},
                 {"costs", costs},
                 {"groups", groups},
                 {"misfits", misfits},
                 {"losses", losses},
                 {"sums", sums},
                 {"small_segments", small_segments},
                 {"long_sums", long_sums},
                 {"dry", dry, true},
                 {"machines", machines, true}};
    enum { KINDS = sizeof kinds / sizeof *kinds };
    static world worlds[] = {{"zmq", 8, false}, {"sim", 17, true}};
    static struct CMUnitTest tests[2 * KINDS];
    static char names[2 * KINDS][40];
    weir_net_facts facts;
    size_t n = 0;

    make_specs();
#if defined __SANITIZE_THREAD__ || __has_feature(thread_sanitizer)
    const size_t some =
        1; /* a simulated world is one thread: there is nothing to race, and much to wait for */
#else
    const size_t some = 2;
#endif
    for (size_t w = 0; w < some; w++)
        for (size_t k = 0; k < KINDS && !weir_net_check(worlds[w].spec, &facts); k++) {
            if (kinds[k].simulated && !worlds[w].simulated)
                continue;
            snprintf(names[n], sizeof names[n], "%s_%s", worlds[w].spec, kinds[k].name);
            tests[n] = (struct CMUnitTest){.name = names[n],
                                           .test_func = kinds[k].fn,
                                           .initial_state = &worlds[w]};
            n++;
        }
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return _cmocka_run_group_tests("coll", tests, n, NULL, NULL);
}
