/* The law of coll/: every collective in the list, in every world there is, on awkward numbers of
 * ranks and lengths: exact sums, the same bits on all ranks. What they cost is in test_coll_cost.c,
 * what happens when something goes wrong in test_coll_faults.c. */
#include "help_coll.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const coll_world *in(void **state) { return *state; }

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
    int lengths, from, to; /* of coll_spec: from .. to - 1 */
    float *want;           /* the sums of `whole` */
    uint64_t hash[COLL_SPECS][LENGTHS][RANKS_MAX];
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
    size_t lo = weir_coll_cut(n, p, b->g->me), hi = weir_coll_cut(n, p, b->g->me + 1);

    for (size_t i = 0; i < n; i++)
        b->x[i] = broken(b->g->me, i);
    WEIR_TRY(weir_reduce_scatter(&b->use, b->g, b->x, n, &weir_sum_f32));
    for (int r = 0; r < p; r++) {
        b->off[r] = weir_coll_cut(n, p, r) * 4;
        b->len[r] = weir_coll_cut(n, p, r + 1) * 4 - b->off[r];
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
        weir_err err = weir_coll_open(b.spec = coll_spec[s], &g, a, &b.use);
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

static void check_matrix(const coll_world *w, int p, const size_t *length, int lengths, int from,
                         int to)
{
    static matrix m;

    m = (matrix){.length = length, .lengths = lengths, .from = from, .to = to};
    m.want = calloc(longest(&m) + 1, sizeof *m.want);
    assert_non_null(m.want);
    for (int r = 0; r < p; r++)
        for (size_t i = 0; i < longest(&m); i++)
            m.want[i] += whole(r, i);
    coll_all_well(w, p, matrix_rank, &m);
    for (int s = from; s < to; s++)
        for (int i = 0; i < m.lengths; i++)
            for (int r = 1; r < p; r++)
                if (m.hash[s][i][r] != m.hash[s][i][0])
                    fail_msg("%s, %d ranks, %zu units: rank %d has other bits than rank 0",
                             coll_spec[s], p, length[i], r);
    free(m.want);
}

static void sums(void **state)
{
    for (int p = 1; p <= in(state)->ranks; p++) {
        size_t n = (size_t)p, length[] = {0, 1, n - 1, n, n + 1, 1000, MIDDLE};
        check_matrix(in(state), p, length, 7, 0, coll_listed);
    }
}

static void small_segments(void **state)
{
    for (int p = 2; p <= in(state)->ranks; p++) {
        size_t n = (size_t)p, length[] = {0, n - 1, n + 1, 9973};
        check_matrix(in(state), p, length, 4, coll_listed, coll_specs);
    }
}

static void long_sums(void **state)
{
    const size_t length[] = {LONG};

    /* one, a pair, an odd one, a power of two, the most; small_segments has every number */
    static const int some[] = {1, 2, 3, 5, 8, 17};

    for (size_t i = 0; i < sizeof some / sizeof *some && some[i] <= in(state)->ranks; i++)
        if (!SLOW || some[i] == 2 || some[i] == 3)
            check_matrix(in(state), some[i], length, 1, 0, coll_listed);
}

/* ---- groups ---- */

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
    for (int s = 0; s < coll_specs && !err; s++) {
        weir_coll_use use, with_all;
        float x[3] = {(float)me, 1, (float)(me * me)}, y = (float)me;
        if ((err = weir_coll_open(coll_spec[s], &g, a, &use)) == WEIR_MISFIT && !(err = WEIR_OK))
            continue;
        if (!err)
            err = weir_coll_open(coll_spec[s], &all, a, &with_all);
        if (!err)
            err = weir_allreduce(&use, &g, x, 3, &weir_sum_f32);
        if (!err)
            err = weir_allreduce(&with_all, &all, &y, 1, &weir_sum_f32);
        if (!err && (x[0] != (mine ? 8 : 7) || x[1] != 3 || x[2] != (mine ? 34 : 21) || y != 15))
            err = weir_fail(WEIR_FAILED, "%s: %g %g %g %g", coll_spec[s], x[0], x[1], x[2], y);
    }
    weir_arena_free(a);
    return err;
}

static void groups(void **state) { coll_all_well(in(state), 6, group_rank, NULL); }
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
        off[i] = weir_coll_cut(100000, g.size, i);
        len[i] = weir_coll_cut(100000, g.size, i + 1) - off[i];
    }
    for (int s = 0; s < coll_specs && !err; s++) {
        weir_coll_use use;
        if ((err = weir_coll_open(coll_spec[s], &g, a, &use)) == WEIR_MISFIT && !(err = WEIR_OK))
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
        coll_all_well(&(coll_world){"sim:dry=yes", p, true}, p, dry_rank, NULL);
}

/* Machines as the world has them, with equally many ranks and not. */
static void machines(void **state)
{
    for (int p = 2; p <= in(state)->ranks; p += 3)
        for (int each = 2; each <= 6; each += 2) {
            char text[64];
            size_t length[] = {0, 1, 1000, MIDDLE};
            snprintf(text, sizeof text, "sim:machine=%d", each);
            check_matrix(&(coll_world){text, p, true}, p, length, 4, 0, coll_listed);
        }
}

int main(int argc, char **argv)
{
    static const coll_test tests[] = {
        {"groups", groups},       {"sums", sums},     {"small_segments", small_segments},
        {"long_sums", long_sums}, {"dry", dry, true}, {"machines", machines, true}};

    return coll_tests_run(tests, sizeof tests / sizeof *tests, argc > 1 ? argv[1] : NULL);
}
