/* test_shm.c - the collective in shared memory: sums bit for bit wherever buffers lie, what it
 * counts, who is blamed when a rank dies, stops, fails or leaves in the middle, and that nothing
 * stays behind.
 *
 *   test_shm rank RANK SIZE DIR TIMEOUT   is one rank of those tests that need processes */
#include "coll/coll.h"
#include "core/vec.h"
#include "help_ranks.h"
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>
/* after those it needs */
#include <cmocka.h>

/* As in test_net_loss.c: libzmq forgets half a message for each link that was cut. */
const char *__lsan_default_suppressions(void) __attribute__((visibility("default")));
const char *__lsan_default_suppressions(void) { return "leak:libzmq.so\n"; }

/* ---- what is summed ---- */

/* Three kinds of units: floats and doubles, which have a kernel for all at once, and one of an
 * awkward size, which has not. */
typedef struct odd {
    float a;
    int32_t b, c;
} odd;
static void add_odd(void *to, const void *from, size_t n)
{
    odd *y = to;
    const odd *x = from;

    for (size_t i = 0; i < n; i++)
        y[i] = (odd){y[i].a + x[i].a, y[i].b + x[i].b, y[i].c ^ x[i].c};
}
static const weir_sum sum_odd = {sizeof(odd), add_odd, NULL};

typedef struct kind {
    const char *name;
    const weir_sum *sum;
    void (*value)(void *at, int rank, size_t i);
    size_t period; /* of i; 0: none */
} kind;

/* fractions: the order of adding shows in the bits */
static double fraction(int rank, size_t i)
{
    return 1.0 / (double)(1 + (i * 7 + (size_t)rank * 13) % 97);
}
static void f32_value(void *at, int rank, size_t i) { *(float *)at = (float)fraction(rank, i); }
static void whole_value(void *at, int rank, size_t i)
{
    *(float *)at = (float)((i * 7 + (size_t)rank * 13) % 101) - 50;
}
static void f64_value(void *at, int rank, size_t i) { *(double *)at = fraction(rank, i); }
static void odd_value(void *at, int rank, size_t i)
{
    *(odd *)at = (odd){(float)fraction(rank, i), (int32_t)i * rank, (int32_t)i << rank};
}
static const kind kinds[] = {{"whole numbers", &weir_sum_f32, whole_value, 101},
                             {"f32", &weir_sum_f32, f32_value, 97},
                             {"f64", &weir_sum_f64, f64_value, 97},
                             {"odd units", &sum_odd, odd_value, 0}};

static void fill(const kind *k, char *buf, size_t n, int rank)
{
    for (size_t i = 0; i < n; i++)
        k->value(buf + i * k->sum->unit, rank, i);
}

/* Units [lo, hi) are the sum in the order of the ranks, bit for bit. */
static weir_err check(const kind *k, const char *buf, size_t lo, size_t hi, int ranks,
                      const char *verb, const char *where)
{
    _Alignas(16) char sum[101][16], one[16];
    size_t known = 0;

    for (size_t i = lo; i < hi; i++) {
        char *want = sum[k->period ? i % k->period : 0];
        if (!k->period || known < k->period) {
            k->value(want, 0, i);
            for (int r = 1; r < ranks; r++) {
                k->value(one, r, i);
                k->sum->add(want, one, 1);
            }
            known++;
        }
        if (memcmp(buf + i * k->sum->unit, want, k->sum->unit))
            return weir_fail(WEIR_FAILED, "%s of %s, buffers %s, %d ranks: unit %zu is wrong", verb,
                             k->name, where, ranks, i);
    }
    return WEIR_OK;
}

/* ---- the matrix ---- */

/* Where the buffers lie. */
enum { INSIDE, SHIFTED, OUTSIDE, MIXED, PLACES };
static const char *const place_name[PLACES] = {"inside", "at unlike places inside", "outside",
                                               "inside and outside"};

typedef struct room {
    weir_coll_use use;
    weir_group g;
    char *in, *out;
    size_t bytes;
} room;

static char *place(const room *r, int where)
{
    bool out = where == OUTSIDE || (where == MIXED && r->g.me % 2);

    return out ? r->out : where == SHIFTED ? r->in + 24 * (1 + r->g.me) : r->in + 64;
}

static weir_err try_sums(room *r, const kind *k, size_t n, int where)
{
    char *buf = place(r, where);
    int p = r->g.size, me = r->g.me;

    fill(k, buf, n, me);
    WEIR_TRY(weir_allreduce(&r->use, &r->g, buf, n, k->sum));
    WEIR_TRY(check(k, buf, 0, n, p, "all-reduce", place_name[where]));
    fill(k, buf, n, me);
    WEIR_TRY(weir_reduce_scatter(&r->use, &r->g, buf, n, k->sum));
    return check(k, buf, weir_cut(n, p, me), weir_cut(n, p, me + 1), p, "reduce-scatter",
                 place_name[where]);
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
            for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
                if (!longest_of_all || k == 1)
                    WEIR_TRY(try_sums(r, &kinds[k], length[i], where));
            WEIR_TRY(try_gather(r, length[i], where));
            WEIR_TRY(try_spread(r, length[i], where));
        }
    return WEIR_OK;
}

static weir_err open_room(weir_net *net, const char *spec, size_t bytes, weir_arena *a, room *r)
{
    void *in;

    *r = (room){.bytes = bytes, .out = weir_alloc(a, bytes)};
    CHECK(r->out);
    WEIR_TRY(weir_group_all(net, a, &r->g));
    WEIR_TRY(weir_coll_open(spec, &r->g, a, &r->use));
    WEIR_TRY(weir_coll_memory(&r->use, &r->g, bytes, a, &in));
    CHECK((uintptr_t)in % 64 == 0);
    r->in = in;
    for (size_t i = 0; i < bytes; i++)
        CHECK(!r->in[i]);
    return WEIR_OK;
}

static weir_err matrix_rank(weir_net *net, void *arg)
{
    const plan *m = arg;
    weir_arena *a = weir_arena_new();
    room r;
    weir_err err = open_room(net, m->spec, m->longest * 12 + 4096, a, &r);

    if (!err)
        err = try_all(&r, m->longest);
    weir_arena_free(a);
    return err;
}

/* What the process holds: mappings of ours, and descriptors. */
static int held(const char *what)
{
    char line[4096];
    int n = 0;
    FILE *f = fopen("/proc/self/maps", "r");

    while (f && fgets(line, sizeof line, f))
        n += strstr(line, what) != NULL;
    if (f)
        fclose(f);
    return f ? n : -1;
}

/* Files there whose name holds `part`. */
static int entries(const char *dir, const char *part)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    int n = 0;

    while (d && (e = readdir(d)))
        n += strstr(e->d_name, part) != NULL;
    if (d)
        closedir(d);
    return n;
}

static void sums_are_right_everywhere(void **state)
{
    const char *spec[] = {"shm", "shm:small=0", "shm:small=64,stage=4096"};
    int fds = entries("/proc/self/fd", "");

    (void)state;
    for (int size = 1; size <= 8; size++)
        for (int s = 0; s < 3; s++) {
            /* the long ones, which take their time, not for all */
            plan m = {spec[s], s == 0 && (size == 2 || size == 4 || size == 8) ? 1000003
                               : size == 3                                     ? 65537
                                                                               : 1000};
            ranks r = {.size = size, .fn = matrix_rank, .arg = &m};
            ranks_all_ok(&r);
            assert_int_equal(held("memfd:weir"), 0);
        }
    assert_int_equal(entries("/dev/shm", "weir"), 0);
    assert_int_equal(entries("/proc/self/fd", ""), fds);
}

/* ---- buckets of one region, one after the other; two regions; two groups ---- */

static weir_err buckets_rank(weir_net *net, void *arg)
{
    weir_arena *a = weir_arena_new();
    weir_group pair;
    room r;
    void *more = NULL;
    int two[] = {weir_net_rank(net) / 2 * 2, weir_net_rank(net) / 2 * 2 + 1};
    weir_err err = open_room(net, "shm", 400000, a, &r);
    const kind *k = &kinds[1];

    (void)arg;
    if (!err)
        err = weir_coll_memory(&r.use, &r.g, 100000, a, &more);
    if (!err)
        err = weir_group_make(net, 1 + (unsigned)two[0], two, 2, a, &pair);
    for (size_t round = 0; round < 20 && !err; round++) {
        size_t at = 0;
        fill(k, more, 25000, r.g.me);
        for (size_t n = 1; at + n < 100000 && !err; at += n, n = n * 3 / 2 + 5) {
            fill(k, r.in + at * 4, n, r.g.me);
            if (!(err = weir_allreduce(&r.use, &r.g, r.in + at * 4, n, k->sum)))
                err = check(k, r.in + at * 4, 0, n, 4, "a bucket", "inside");
        }
        if (!err && !(err = weir_allreduce(&r.use, &r.g, more, 25000, k->sum)))
            err = check(k, more, 0, 25000, 4, "all-reduce", "in another region");
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

    WEIR_TRY(open_room(net, spec, 1 << 20, a, &r));
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

/* ---- ranks that do not do the same ---- */

static weir_err unlike_rank(weir_net *net, void *arg)
{
    weir_arena *a = weir_arena_new();
    room r;
    int how = *(int *)arg;
    bool odd = weir_net_rank(net) == 1;
    weir_err err = open_room(net, "shm", 1 << 20, a, &r);

    if (!err && how == 0)
        err = weir_allreduce(&r.use, &r.g, r.in, odd ? 20 : 21, &weir_sum_f32);
    else if (!err && how == 1)
        err = weir_allreduce(&r.use, &r.g, r.in, odd ? 20 : 200000, &weir_sum_f32);
    else if (!err && how == 2)
        err = odd ? weir_broadcast(&r.use, &r.g, 0, r.in, 80000)
                  : weir_allreduce(&r.use, &r.g, r.in, 20000, &weir_sum_f32);
    else if (!err && how == 3) {
        void *more;
        err = weir_coll_memory(&r.use, &r.g, odd ? 1000000 : 2000000, a, &more);
    }
    weir_arena_free(a);
    return err;
}

static void unlike_collectives_are_refused(void **state)
{
    (void)state;
    for (int how = 0; how < 4; how++) {
        ranks r = {.size = 3, .fn = unlike_rank, .arg = &how};
        ranks_run(&r);
        for (int i = 0; i < 3; i++)
            if (r.err[i] != WEIR_MISFIT &&
                r.err[i] != WEIR_LOST) /* lost: another one said why, and left first */
                fail_msg("way %d, rank %d: %s (%s)", how, i, r.why[i], weir_err_name(r.err[i]));
        assert_true(r.err[0] == WEIR_MISFIT || r.err[1] == WEIR_MISFIT || r.err[2] == WEIR_MISFIT);
        assert_says(r.why[1], how == 3 ? "bytes are wanted here" : "collective");
        assert_int_equal(held("memfd:weir"), 0);
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
    weir_fibre_task *t = NULL;
    room r;
    weir_err err = open_room(n, "shm", 65536, a, &r);

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

/* ---- failure among threads: one fails, one leaves, one's compute gives up, one is only slow
 * ---- */

enum { FAILS, LEAVES, ABORTS, STALLS };

static weir_err give_up(void *net)
{
    WEIR_TRY(weir_net_spend(net, 0.05));
    weir_net_abort(net, WEIR_NAN);
    return WEIR_OK;
}

static weir_err ends_rank(weir_net *n, void *arg)
{
    int how = *(int *)arg;
    weir_arena *a = weir_arena_new();
    weir_task *t = NULL;
    room r;
    weir_err err = open_room(n, "shm", 1 << 20, a, &r);

    for (int i = 0; i < 5 && !err; i++)
        err = weir_allreduce(&r.use, &r.g, r.in, 100000, &weir_sum_f32);
    if (!err && r.g.me == 1 && how == FAILS)
        err = weir_fail(WEIR_INVALID, "the file is bad");
    else if (!err && r.g.me == 1 && how == ABORTS)
        err = weir_task_start(weir_net_rt(n), "gives up", give_up, n, &t);
    else if (!err && r.g.me == 1 && how == STALLS)
        err = weir_net_spend(n, 1.5);
    if (!err && r.g.me != 1 && how == ABORTS) /* nobody else comes to the sum */
        err = weir_net_recv_wait(n, 1, weir_tag(WEIR_CHANNEL_TEST, 0, 0), NULL, 0, NULL);
    else if (!err && (r.g.me != 1 || how == ABORTS))
        err = weir_allreduce(&r.use, &r.g, r.in, 100000, &weir_sum_f32);
    if (t)
        weir_task_join(t);
    weir_arena_free(a);
    return err;
}

static void a_rank_that_ends_is_named(void **state)
{
    (void)state;
    for (int how = FAILS; how <= STALLS; how++) {
        ranks r = {.size = 3, .fn = ends_rank, .arg = &how, .stall = how == STALLS ? 0.4 : 0};
        ranks_run(&r);
        assert_int_equal(r.err[1], how == FAILS    ? WEIR_INVALID
                                   : how == ABORTS ? WEIR_NAN
                                   : how == LEAVES ? WEIR_OK
                                                   : r.err[1]);
        for (int i = 0; i < 3; i += 2) {
            assert_int_equal(r.err[i], how == STALLS ? WEIR_SILENT : WEIR_LOST);
            assert_says(r.why[i], "rank 1");
        }
        if (how == FAILS)
            assert_says(r.why[0], "the file is bad");
        if (how == STALLS)
            assert_says(r.why[0], "alive but busy");
        assert_int_equal(held("memfd:weir"), 0);
    }
}

/* ---- the survivors go on ---- */

static weir_err survivors(weir_net *n, room *r, weir_arena *a)
{
    const kind *k = &kinds[1];
    weir_group g;
    void *in;

    weir_net_renew(n, 1, (int[]){0, 1}, 2);
    WEIR_TRY(weir_group_make(n, 0, (int[]){0, 1}, 2, a, &g));
    fill(k, r->in, 50000, g.me); /* memory of the old room is as good as any other */
    WEIR_TRY(weir_allreduce(&r->use, &g, r->in, 50000, k->sum));
    WEIR_TRY(check(k, r->in, 0, 50000, 2, "all-reduce", "of old"));
    WEIR_TRY(weir_coll_memory(&r->use, &g, 200000, a, &in));
    fill(k, in, 50000, g.me);
    WEIR_TRY(weir_allreduce(&r->use, &g, in, 50000, k->sum));
    return check(k, in, 0, 50000, 2, "all-reduce", "renewed");
}

static weir_err renew_rank(weir_net *n, void *arg)
{
    weir_arena *a = weir_arena_new();
    room r;
    weir_err err = open_room(n, "shm", 1 << 20, a, &r);

    (void)arg;
    for (int i = 0; i < 3 && !err; i++)
        err = weir_allreduce(&r.use, &r.g, r.in, 100000, &weir_sum_f32);
    if (!err && r.g.me == 2)
        err = weir_fail(WEIR_INVALID, "gone");
    else if (!err)
        err = weir_allreduce(&r.use, &r.g, r.in, 100000, &weir_sum_f32) == WEIR_LOST
                  ? survivors(n, &r, a)
                  : weir_fail(WEIR_FAILED, "nobody was lost");
    weir_arena_free(a);
    return err;
}

static void survivors_go_on(void **state)
{
    ranks r = {.size = 3, .fn = renew_rank};

    (void)state;
    ranks_run(&r);
    for (int i = 0; i < 2; i++)
        if (r.err[i])
            fail_msg("rank %d: %s (%s)", i, r.why[i], weir_err_name(r.err[i]));
}

/* ---- processes: killed, stopped, shut out ---- */

/* Sums for ever; says so now and then. */
static weir_err endless_rank(weir_net *n, void *arg)
{
    weir_arena *a = weir_arena_new();
    room r;
    weir_err err = open_room(n, "shm", 4 << 20, a, &r);

    (void)arg;
    for (int i = 0; !err; i++) {
        size_t n_floats = i % 3 ? 1000000 : 100;
        weir_net_phase(n, WEIR_PHASE_EXCHANGE, (uint64_t)i);
        err = weir_allreduce(&r.use, &r.g, i % 5 ? r.in : r.out, n_floats, &weir_sum_f32);
        if (i == 20) {
            printf("going\n");
            fflush(stdout);
        }
    }
    weir_arena_free(a);
    return err;
}

static int rank_main(char **argv)
{
    weir_place place;
    weir_err err;

    ranks_place(&place, atoi(argv[0]), atoi(argv[1]), argv[2], atof(argv[3]));
    err = weir_net_run("zmq", &place, endless_rank, NULL);
    printf("%s\n", weir_why_text());
    fflush(stdout); /* a forked one leaves without */
    return weir_err_exit(err);
}

/* `sig` hits rank 1 of three in the middle of things: the others leave with `code`, all naming
 * it. */
static void hit(int sig, double timeout, double patience, weir_err code)
{
    char dir[64], rank[3][16], limit[32];
    child c[3];

    ranks_dir(dir);
    snprintf(limit, sizeof limit, "%g", timeout);
    for (int i = 0; i < 3; i++) {
        snprintf(rank[i], sizeof rank[i], "%d", i);
        child_start(&c[i], (char *[]){"rank", rank[i], "3", dir, limit, NULL});
    }
    for (int i = 0; i < 3; i++)
        assert_true(child_says(&c[i], "going", 60));
    kill(c[1].pid, sig);
    for (int i = 0; i < 3; i += 2) {
        int status = child_end(&c[i], patience);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) != weir_err_exit(code))
            fail_msg("rank %d left with %d: %s", i, WEXITSTATUS(status), c[i].text);
        assert_says(c[i].text, "rank 1 (host here");
    }
    kill(c[1].pid, SIGKILL);
    child_end(&c[1], 10);
    assert_int_equal(entries("/dev/shm", "weir"), 0);
    assert_true(access(dir, F_OK));
}

static void a_killed_rank_is_lost_at_once(void **state)
{
    (void)state;
    for (int k = 0; k < 5; k++)
        hit(SIGKILL, 30, 2, WEIR_LOST);
}

static void a_stopped_rank_is_given_up(void **state)
{
    (void)state;
    hit(SIGSTOP, 2, 6, WEIR_SILENT);
}

static int shut_out_main(char **argv)
{
    pid_t pid;
    int status;

    if (unshare(CLONE_NEWPID))
        return 77;
    pid = fork();
    if (!pid)
        _exit(rank_main(argv));
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* The first member calls itself process 1: the other finds somebody else under that number. */
static void another_container_is_refused(void **state)
{
    char dir[64];
    child c[2];
    int first;

    (void)state;
    ranks_dir(dir);
    child_start(&c[0], (char *[]){"shut-out", "0", "2", dir, "30", NULL});
    child_start(&c[1], (char *[]){"rank", "1", "2", dir, "30", NULL});
    first = child_end(&c[0], 30);
    if (WIFEXITED(first) && WEXITSTATUS(first) == 77) { /* not allowed here */
        kill(c[1].pid, SIGKILL);
        child_end(&c[1], 10);
        rmdir(dir);
        skip();
    }
    assert_int_not_equal(first, 0); /* its code, or that of LSan, which cannot work there */
    assert_says(c[0].text, "rank 1 cannot use the memory of rank 0");
    assert_int_not_equal(child_end(&c[1], 30), 0);
}

/* ---- the parts it is made of ---- */

static void all_at_once_has_the_bits_of_one_by_one(void **state)
{
    enum { N = 5000, K = 9 };
    static float x[K][N + 8];
    static double d[K][N + 8];

    (void)state;
    for (const weir_vec *const *v = weir_vec_all(); *v; v++)
        for (int k = 1; k <= K; k++)
            for (size_t n = 0, shift = 0; n <= N; n = n * 7 / 4 + 1, shift = (shift + 1) % 7) {
                void *p[K], *pd[K];
                for (int i = 0; i < K; i++) {
                    p[i] = x[i] + (shift + (size_t)i) % 8, pd[i] = d[i] + (shift + (size_t)i) % 8;
                    for (size_t j = 0; j < N + 8; j++)
                        x[i][j] = d[i][j] = -1;
                    for (size_t j = 0; j < n; j++)
                        ((float *)p[i])[j] = (float)fraction(i, j),
                                ((double *)pd[i])[j] = fraction(i, j);
                }
                (*v)->add_all(p, k, n);
                (*v)->add_all_f64(pd, k, n);
                for (size_t j = 0; j < n; j++) {
                    float s = (float)fraction(0, j);
                    double sd = fraction(0, j);
                    for (int i = 1; i < k; i++)
                        s += (float)fraction(i, j), sd += fraction(i, j);
                    for (int i = 0; i < k; i++)
                        assert_true(((float *)p[i])[j] == s && ((double *)pd[i])[j] == sd);
                }
                for (int i = 0; i < k; i++)
                    assert_true(n > N - 8 ||
                                (((float *)p[i])[n] == -1 && ((double *)pd[i])[n] == -1));
            }
}

/* Two notes, the later one first. */
typedef struct wish {
    int *seen, when;
} wish;
static void seen(void *arg)
{
    wish *w = arg;

    w->when = ++*w->seen;
}

static void arenas_call_back_the_latest_first(void **state)
{
    int calls = 0;
    wish early = {&calls, 0}, late = {&calls, 0};
    weir_arena *a = weir_arena_new();

    (void)state;
    assert_non_null(a);
    assert_true(weir_arena_later(a, seen, &early));
    assert_true(weir_arena_later(a, seen, &late));
    assert_int_equal(calls, 0);
    weir_arena_free(a);
    assert_int_equal(late.when, 1);
    assert_int_equal(early.when, 2);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_at_once_has_the_bits_of_one_by_one),
        cmocka_unit_test(arenas_call_back_the_latest_first),
        cmocka_unit_test(sums_are_right_everywhere),
        cmocka_unit_test(buckets_regions_and_groups),
        cmocka_unit_test(bytes_count_as_the_rings),
        cmocka_unit_test(unlike_collectives_are_refused),
        cmocka_unit_test(servers_get_their_turn),
        cmocka_unit_test(a_rank_that_ends_is_named),
        cmocka_unit_test(survivors_go_on),
        cmocka_unit_test(a_killed_rank_is_lost_at_once),
        cmocka_unit_test(a_stopped_rank_is_given_up),
        cmocka_unit_test(another_container_is_refused),
    };

    if (argc == 6 && !strcmp(argv[1], "rank"))
        return rank_main(argv + 2);
    if (argc == 6 && !strcmp(argv[1], "shut-out"))
        return shut_out_main(argv + 2);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
