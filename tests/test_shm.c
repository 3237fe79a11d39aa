/* test_shm.c - the collective in shared memory: sums bit for bit wherever buffers lie, what it
 * counts, and that nothing stays behind. Who is blamed when something goes wrong:
 * test_shm_faults.c. */
#include "help_shm.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
/* after those it needs */
#include <cmocka.h>

/* As in test_net_loss.c: libzmq forgets half a message for each link that was cut. */
const char *__lsan_default_suppressions(void) __attribute__((visibility("default")));
const char *__lsan_default_suppressions(void) { return "leak:libzmq.so\n"; }

/* ---- the matrix ---- */

/* Where the buffers lie. */
enum { INSIDE, SHIFTED, OUTSIDE, MIXED, PLACES };
static const char *const place_name[PLACES] = {"inside", "at unlike places inside", "outside",
                                               "inside and outside"};

static char *place(const room *r, int where)
{
    bool out = where == OUTSIDE || (where == MIXED && r->g.me % 2);

    return out ? r->out : where == SHIFTED ? r->in + 24 * (1 + r->g.me) : r->in + 64;
}

static weir_err try_sums(room *r, const shm_kind *k, size_t n, int where)
{
    char *buf = place(r, where);
    int p = r->g.size, me = r->g.me;

    shm_fill(k, buf, n, me);
    WEIR_TRY(weir_allreduce(&r->use, &r->g, buf, n, k->sum));
    WEIR_TRY(shm_check(k, buf, 0, n, p, "all-reduce", place_name[where]));
    shm_fill(k, buf, n, me);
    WEIR_TRY(weir_reduce_scatter(&r->use, &r->g, buf, n, k->sum));
    return shm_check(k, buf, weir_coll_cut(n, p, me), weir_coll_cut(n, p, me + 1), p,
                     "reduce-scatter", place_name[where]);
}

static char letter(int rank, size_t i) { return (char)(i * 31 + (size_t)rank * 7 + 1); }

/* Pieces of unlike lengths in another order than the ranks', with gaps that nobody may touch. */
static weir_err try_gather(room *r, size_t n, int where)
{
    size_t off[RANKS_MAX], len[RANKS_MAX], at = 0;
    char *buf = place(r, where);

    for (int i = r->g.size - 1; i >= 0; i--) {
        len[i] = i == 1 ? 0 : n / (size_t)(1 + i);
        off[i] = at + 3;
        at = off[i] + len[i];
    }
    CHECK(at + 256 < r->bytes);
    memset(buf, 99, at + 1);
    for (size_t i = 0; i < len[r->g.me]; i++)
        buf[off[r->g.me] + i] = letter(r->g.me, i);
    WEIR_TRY(weir_allgather(&r->use, &r->g, buf, off, len));
    for (int k = 0; k < r->g.size; k++) {
        CHECK(buf[off[k] - 1] == 99 && buf[off[k] - 3] == 99);
        for (size_t i = 0; i < len[k]; i++)
            CHECK(buf[off[k] + i] == letter(k, i));
    }
    CHECK(buf[at] == 99);
    return WEIR_OK;
}

static weir_err try_spread(room *r, size_t n, int where)
{
    char *buf = place(r, where);

    for (int root = 0; root < r->g.size; root += 2) {
        for (size_t i = 0; i < n; i++)
            buf[i] = r->g.me == root ? letter(root, i) : 0;
        buf[n] = 99;
        WEIR_TRY(weir_broadcast(&r->use, &r->g, root, buf, n));
        for (size_t i = 0; i < n; i++)
            CHECK(buf[i] == letter(root, i));
        CHECK(buf[n] == 99);
    }
    return weir_barrier(&r->use, &r->g);
}

typedef struct plan {
    const char *spec;
    size_t longest;
} plan;

static weir_err try_all(room *r, size_t longest)
{
    size_t p = (size_t)r->g.size, length[] = {0, 1, p - 1, p, p + 1, 1000, 65537, 1000003};

    for (size_t i = 0; i < sizeof length / sizeof *length && length[i] <= longest; i++)
        for (int where = 0; where < PLACES; where++) {
            bool longest_of_all = length[i] > 100000; /* takes its time: one kind, two places */
            if (longest_of_all && where != INSIDE && where != OUTSIDE)
                continue;
            for (size_t k = 0; k < SHM_KINDS; k++)
                if (!longest_of_all || k == 1)
                    WEIR_TRY(try_sums(r, &shm_kinds[k], length[i], where));
            WEIR_TRY(try_gather(r, length[i], where));
            WEIR_TRY(try_spread(r, length[i], where));
        }
    return WEIR_OK;
}

static weir_err matrix_rank(weir_net *net, void *arg)
{
    const plan *m = arg;
    weir_arena *a = weir_arena_new();
    room r;
    weir_err err = room_open(net, m->spec, m->longest * 12 + 4096, a, &r);

    if (!err)
        err = try_all(&r, m->longest);
    weir_arena_free(a);
    return err;
}

static void sums_are_right_everywhere(void **state)
{
    const char *spec[] = {"shm", "shm:small=0", "shm:small=64,stage=4096"};
    int fds = shm_entries("/proc/self/fd", "");

    (void)state;
    for (int size = 1; size <= 8; size++)
        for (int s = 0; s < 3; s++) {
            /* the long ones, which take their time, not for all */
            plan m = {spec[s], s == 0 && (size == 2 || size == 4 || size == 8) ? 1000003
                               : size == 3                                     ? 65537
                                                                               : 1000};
            ranks r = {.size = size, .fn = matrix_rank, .arg = &m};
            ranks_all_ok(&r);
            assert_int_equal(shm_held("memfd:weir"), 0);
        }
    assert_int_equal(shm_entries("/dev/shm", "weir"), 0);
    assert_int_equal(shm_entries("/proc/self/fd", ""), fds);
}

/* ---- buckets of one region, one after the other; two regions; two groups ---- */

static weir_err buckets_rank(weir_net *net, void *arg)
{
    weir_arena *a = weir_arena_new();
    weir_group pair;
    room r;
    void *more = NULL;
    int two[] = {weir_net_rank(net) / 2 * 2, weir_net_rank(net) / 2 * 2 + 1};
    weir_err err = room_open(net, "shm", 400000, a, &r);
    const shm_kind *k = &shm_kinds[SHM_F32];

    (void)arg;
    if (!err)
        err = weir_coll_memory(&r.use, &r.g, 100000, a, &more);
    if (!err)
        err = weir_group_make(net, 1 + (unsigned)two[0], two, 2, a, &pair);
    for (size_t round = 0; round < 20 && !err; round++) {
        size_t at = 0;
        shm_fill(k, more, 25000, r.g.me);
        for (size_t n = 1; at + n < 100000 && !err; at += n, n = n * 3 / 2 + 5) {
            shm_fill(k, r.in + at * 4, n, r.g.me);
            if (!(err = weir_allreduce(&r.use, &r.g, r.in + at * 4, n, k->sum)))
                err = shm_check(k, r.in + at * 4, 0, n, 4, "a bucket", "inside");
        }
        if (!err && !(err = weir_allreduce(&r.use, &r.g, more, 25000, k->sum)))
            err = shm_check(k, more, 0, 25000, 4, "all-reduce", "in another region");
        float mine[3000];
        for (int i = 0; i < 3000; i++)
            mine[i] = (float)(r.g.me * i);
        if (!err)
            err = weir_allreduce(&r.use, &pair, mine, 3000, &weir_sum_f32);
        for (int i = 0; i < 3000 && !err; i++)
            if (mine[i] != (float)((two[0] + two[1]) * i))
                err = weir_fail(WEIR_FAILED, "a pair's sum is wrong");
    }
    weir_arena_free(a);
    return err;
}

static void buckets_regions_and_groups(void **state)
{
    ranks r = {.size = 4, .fn = buckets_rank};

    (void)state;
    ranks_all_ok(&r);
}

/* ---- it counts as the ring would ---- */

static weir_err count_verbs(weir_net *net, const char *spec, weir_arena *a, weir_net_count *got)
{
    size_t off[RANKS_MAX], len[RANKS_MAX], at = 0, lengths[] = {0, 3, 1001, 40007};
    weir_net_count before;
    room r;

    WEIR_TRY(room_open(net, spec, 1 << 20, a, &r));
    /* whatever it must say before it can start has been said */
    WEIR_TRY(weir_barrier(&r.use, &r.g));
    for (int i = 0; i < r.g.size; i++) {
        len[i] = (size_t)(i * 5000 + 1);
        off[i] = at;
        at += len[i];
    }
    before = weir_net_counted(net);
    for (int i = 0; i < 4; i++) {
        WEIR_TRY(weir_allreduce(&r.use, &r.g, r.in, lengths[i], &weir_sum_f32));
        WEIR_TRY(weir_reduce_scatter(&r.use, &r.g, r.out, lengths[i], &weir_sum_f64));
        WEIR_TRY(weir_broadcast(&r.use, &r.g, 1, r.in, lengths[i]));
    }
    WEIR_TRY(weir_allgather(&r.use, &r.g, r.in, off, len));
    *got = weir_net_counted(net);
    got->sent -= before.sent;
    got->received -= before.received;
    return WEIR_OK;
}

static weir_err count_rank(weir_net *net, void *arg)
{
    weir_arena *a = weir_arena_new();
    weir_net_count ring, shm;
    weir_err err = count_verbs(net, "ring", a, &ring);

    (void)arg;
    if (!err)
        err = count_verbs(net, "shm", a, &shm);
    weir_arena_free(a);
    WEIR_TRY(err);
    CHECK(ring.sent == shm.sent && ring.received == shm.received && ring.sent > 0);
    return WEIR_OK;
}

static void bytes_count_as_the_rings(void **state)
{
    (void)state;
    for (int size = 2; size <= 5; size++) {
        ranks r = {.size = size, .fn = count_rank};
        ranks_all_ok(&r);
    }
}

/* ---- while one waits, its other fibres get on ---- */

static weir_err serve(void *arg)
{
    weir_net *n = arg;
    int x;

    for (int i = 0; i < 20; i++) {
        WEIR_TRY(weir_net_recv_wait(n, 1, weir_tag(WEIR_CHANNEL_TEST, 0, 0), &x, sizeof x, NULL));
        x *= 2;
        WEIR_TRY(weir_net_send_wait(n, 1, weir_tag(WEIR_CHANNEL_TEST, 0, 1), &x, sizeof x));
    }
    return WEIR_OK;
}

static weir_err served_rank(weir_net *n, void *arg)
{
    weir_arena *a = weir_arena_new();
    weir_net_task *t = NULL;
    room r;
    weir_err err = room_open(n, "shm", 65536, a, &r);

    (void)arg;
    if (!err && r.g.me == 0)
        err = weir_net_fibre(n, "server", serve, n, &t);
    /* before it comes to the barrier where the other waits */
    for (int i = 0; i < 20 && !err && r.g.me; i++) {
        int x = i;
        err = weir_net_send_wait(n, 0, weir_tag(WEIR_CHANNEL_TEST, 0, 0), &x, sizeof x);
        if (!err)
            err = weir_net_recv_wait(n, 0, weir_tag(WEIR_CHANNEL_TEST, 0, 1), &x, sizeof x, NULL);
        if (!err && x != 2 * i)
            err = weir_fail(WEIR_FAILED, "a wrong answer");
    }
    if (!err)
        err = weir_barrier(&r.use, &r.g);
    if (t && !err)
        err = weir_net_fibre_join(n, t);
    weir_arena_free(a);
    return err;
}

static void servers_get_their_turn(void **state)
{
    ranks r = {.size = 2, .fn = served_rank};

    (void)state;
    ranks_all_ok(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_right_everywhere),
        cmocka_unit_test(buckets_regions_and_groups),
        cmocka_unit_test(bytes_count_as_the_rings),
        cmocka_unit_test(servers_get_their_turn),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
