/* What each worker has of its own comes back to other numbers of workers: sums are conserved, means
 * are means. */
#include "train/state_deal.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { N = 7, MOST = 8 };

/* A file with one field of each kind, one worker behind the other. */
typedef struct store {
    weir_io io;
    float sum[MOST * N], mean[MOST], same;
} store;

static weir_err read_range(weir_io *io, const char *name, const weir_io_piece *piece)
{
    store *s = (store *)io;
    const float *from = !strcmp(name, "sum") ? s->sum : !strcmp(name, "mean") ? s->mean : &s->same;

    assert_true(piece->at + piece->n <= piece->whole && piece->whole <= MOST * N);
    memcpy(piece->x, from + piece->at, piece->n * sizeof *piece->x);
    return WEIR_OK;
}

typedef struct worker {
    float sum[N], mean, same;
} worker;

/* In two pieces, as a tensor that two buckets share. */
static weir_err state(void *arg, weir_io *io)
{
    worker *w = arg;

    WEIR_TRY(weir_io_range(io, "sum", &(weir_io_piece){w->sum, 0, 3, N, WEIR_KEEP_SUM}));
    WEIR_TRY(weir_io_range(io, "sum", &(weir_io_piece){w->sum + 3, 3, N - 3, N, WEIR_KEEP_SUM}));
    WEIR_TRY(weir_io_floats(io, "mean", &w->mean, 1, WEIR_KEEP_MEAN));
    return weir_io_floats(io, "same", &w->same, 1, WEIR_KEEP_SAME);
}

static void check(int saved, int now)
{
    store s = {.io = {.loading = true, .range = read_range}, .same = 42};
    float before[N] = {0}, after[N] = {0}, mean = 0;

    for (int i = 0; i < saved; i++) {
        for (int k = 0; k < N; k++)
            before[k] += s.sum[i * N + k] = (float)(i * 31 + k * 7 % 13);
        mean += s.mean[i] = (float)(1 + i);
    }
    for (int me = 0; me < now; me++) {
        worker w = {0};
        weir_state_dealt d = {saved, now, me, state, &w};
        assert_int_equal(weir_state_dealt_read(&d, &s.io), WEIR_OK);
        for (int k = 0; k < N; k++)
            after[k] += w.sum[k];
        assert_true(w.same == 42);
        if (saved == now) {
            assert_memory_equal(w.sum, s.sum + me * N, sizeof w.sum);
            assert_true(w.mean == s.mean[me]);
        } else
            assert_float_equal(w.mean, mean / (float)saved, 1e-6);
    }
    assert_memory_equal(before, after, sizeof before);
}

static void conserved(void **unused)
{
    (void)unused;
    for (int saved = 1; saved <= MOST; saved++)
        for (int now = 1; now <= MOST; now++)
            check(saved, now);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(conserved)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
