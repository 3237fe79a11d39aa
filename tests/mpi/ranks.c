/* ranks.c - the law of a world, under MPI: run by mpirun (see test_mpi.py) as `ranks TEST...`; rank
 * 0 prints "ok TEST" for each.
 *
 * It starts MPI itself, as a program that embeds us may: so one process can have several runs, one
 * after the other. */
#include "coll/coll.h"
#include "net/rank_info.h"
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                                                        \
    do {                                                                                        \
        if (!(condition))                                                                       \
            return weir_fail(WEIR_FAILED, "%s:%d: not so: %s", __FILE__, __LINE__, #condition); \
    } while (0)

enum { MANY = 40 };

static uint64_t tag(unsigned sequence, unsigned part)
{
    return weir_tag(WEIR_CHANNEL_TEST, sequence, part);
}

static void fill(unsigned char *at, size_t n, int from, int to)
{
    for (size_t i = 0; i < n; i++)
        at[i] = (unsigned char)(i * 7 + i / 251 + (size_t)from * 31 + (size_t)to * 17);
}

static bool filled(const unsigned char *at, size_t n, int from, int to)
{
    for (size_t i = 0; i < n; i++)
        if (at[i] != (unsigned char)(i * 7 + i / 251 + (size_t)from * 31 + (size_t)to * 17))
            return false;
    return true;
}

/* Everybody sends to everybody before anybody receives; then lent and landed receives by turns. */
static weir_err exchange(weir_net *n, size_t len)
{
    int p = weir_net_size(n), me = weir_net_rank(n);
    weir_net_op *out = calloc((size_t)p, sizeof *out), in;
    unsigned char *bytes = malloc((size_t)p * len + 1), *land = malloc(len + 1);

    CHECK(out && bytes && land);
    for (int q = 0; q < p; q++) {
        fill(bytes + (size_t)q * len, len, me, q);
        weir_net_send(n, q, tag(1, (unsigned)me), bytes + (size_t)q * len, len, &out[q]);
    }
    for (int q = 0; q < p; q++) {
        bool lent = (q + me) % 2 || !len;
        weir_net_recv(n, q, tag(1, (unsigned)q), lent ? NULL : land, lent ? 0 : len, &in);
        WEIR_TRY(weir_net_wait_all(n, &in, 1, 0));
        CHECK(in.len == len && in.peer == q && filled(in.data, len, q, me));
        CHECK(!lent || !len || !((uintptr_t)in.data & 7));
        weir_net_release(n, &in);
    }
    WEIR_TRY(weir_net_wait_all(n, out, p, 0));
    free(out);
    free(bytes);
    free(land);
    return WEIR_OK;
}

static weir_err both_ways(weir_net *n, void *arg)
{
    static const size_t len[] = {0, 1, 8, 3975, 3976, 3977, 4096, 65536, 100003, 1 << 20};

    (void)arg;
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < sizeof len / sizeof *len; i++)
            WEIR_TRY(exchange(n, len[i]));
    return WEIR_OK;
}

static weir_err large(weir_net *n, void *arg)
{
    (void)arg;
    return exchange(n, 40 << 20);
}

/* Short and long messages of one sender come in the order sent, to receives from anybody. */
static weir_err any_source(weir_net *n, void *arg)
{
    int p = weir_net_size(n), *next = calloc((size_t)p, sizeof *next);
    weir_net_op out[MANY], in;
    static unsigned bytes[MANY][2000];

    (void)arg;
    CHECK(next);
    if (weir_net_rank(n)) {
        for (unsigned i = 0; i < MANY; i++) {
            bytes[i][0] = i;
            weir_net_send(n, 0, weir_tag(WEIR_CHANNEL_SERVE, i, 0), bytes[i],
                          i % 3 ? sizeof bytes[i] : 4, &out[i]);
        }
        WEIR_TRY(weir_net_wait_all(n, out, MANY, 0));
    } else {
        for (int i = 0; i < MANY * (p - 1); i++) {
            weir_net_recv_masked(n,
                                 &(weir_net_want){WEIR_ANY, weir_tag(WEIR_CHANNEL_SERVE, 0, 0),
                                                  WEIR_TAG_CHANNEL, NULL, 0},
                                 &in);
            WEIR_TRY(weir_net_wait_all(n, &in, 1, 0));
            CHECK(*(unsigned *)in.data == (unsigned)next[in.peer] &&
                  in.tag == weir_tag(WEIR_CHANNEL_SERVE, (uint32_t)next[in.peer], 0));
            next[in.peer]++;
            weir_net_release(n, &in);
        }
    }
    free(next);
    return exchange(n, 10);
}

/* Too long for its buffer: consumed, and said so; the next one is whole. A deadline that passes
 * leaves the receive as it was. */
static weir_err big_and_late(weir_net *n, void *arg)
{
    int p = weir_net_size(n), me = weir_net_rank(n), left = (me + p - 1) % p, which;
    static char bytes[100000], land[100000];
    weir_net_op out[3], in[2], *late = &in[1];

    (void)arg;
    weir_net_recv(n, left, tag(9, 0), land, 10, &in[1]);
    CHECK(weir_net_wait(n, &late, 1, weir_net_now(n) + 0.05, &which) == WEIR_LATE);
    WEIR_TRY(exchange(n, 1)); /* nobody sends below before all have been late */
    for (unsigned i = 0; i < 3; i++)
        weir_net_send(n, (me + 1) % p, tag(i == 2 ? 9 : 2, 0), bytes, i == 2 ? 10 : sizeof bytes,
                      &out[i]);
    weir_net_recv(n, left, tag(2, 0), land, 99999, &in[0]);
    CHECK(!weir_net_wait(n, (weir_net_op *[]){&in[0]}, 1, 0, &which) && in[0].err == WEIR_BIG &&
          in[0].len == sizeof bytes);
    weir_net_recv(n, left, tag(2, 0), land, sizeof land, &in[0]);
    WEIR_TRY(weir_net_wait_all(n, in, 2, 0));
    CHECK(in[1].len == 10 && in[0].len == sizeof bytes);
    return weir_net_wait_all(n, out, 3, 0);
}

/* A long message that nobody has asked for yet is let out on cancel, its receiver is not to blame,
 * and still gets it. */
static weir_err cancel(weir_net *n, void *arg)
{
    size_t len = 1 << 20;
    unsigned char *bytes = malloc(len);
    weir_net_op o, *ops = &o, posted, *also = &posted;

    (void)arg;
    CHECK(bytes);
    if (weir_net_rank(n) == 1) {
        fill(bytes, len, 1, 0);
        weir_net_send(n, 0, tag(3, 0), bytes, len, &o);
        weir_net_recv(n, 0, tag(4, 4), bytes, 1, &posted);
        weir_net_cancel(n, &also, 1);
        CHECK(posted.done && posted.err == WEIR_STALE);
        weir_net_cancel(n, &ops, 1);
        CHECK(o.done && weir_net_alive(n, 0));
        memset(bytes, 0, len);
    }
    WEIR_TRY(exchange(n, 5000));
    if (weir_net_rank(n) == 0) {
        weir_net_recv(n, 1, tag(3, 0), bytes, len, &o);
        WEIR_TRY(weir_net_wait_all(n, &o, 1, 0));
        CHECK(filled(bytes, len, 1, 0));
    }
    if (weir_net_rank(n) == 2) { /* two more, that nobody ever asks for */
        WEIR_TRY(weir_net_send_wait(n, 0, tag(5, 0), bytes, len));
        weir_net_send(n, 0, tag(5, 1), bytes, len, &o);
        weir_net_cancel(n, &ops, 1);
        CHECK(o.done);
    }
    free(bytes);
    return exchange(n, 3);
}

/* Messages of an older generation are dropped, a newer one's are kept. */
static weir_err renew(weir_net *n, void *arg)
{
    int p = weir_net_size(n), all[64], me = weir_net_rank(n);
    static char old[9000], land[9000];
    weir_net_op out, in;

    (void)arg;
    for (int i = 0; i < p; i++)
        all[i] = i;
    weir_net_send(n, (me + 1) % p, tag(6, 0), old, sizeof old, &out);
    weir_net_recv(n, (me + p - 1) % p, tag(7, 0), land, sizeof land, &in);
    weir_net_renew(n, 1, all, p);
    CHECK(in.done && in.err == WEIR_STALE);
    WEIR_TRY(exchange(n, 20000));
    weir_net_recv(n, (me + p - 1) % p, tag(6, 0), land, sizeof land, &in);
    weir_net_cancel(n, (weir_net_op *[]){&in}, 1);
    return weir_net_wait_all(n, &out, 1, 0);
}

/* ---- collectives ---- */

static void add_pairs(void *to, const void *from, size_t units) /* of unsigned char [3] */
{
    for (size_t i = 0; i < 3 * units; i++)
        ((unsigned char *)to)[i] =
            (unsigned char)(((unsigned char *)to)[i] + ((const unsigned char *)from)[i]);
}

static weir_err sums(weir_coll_use *use, weir_group *g, size_t n, float *x, double *y,
                     unsigned char *z)
{
    const weir_sum three = {3, add_pairs};
    int p = g->size, me = g->me;

    for (int scatter = 0; scatter < 2; scatter++) {
        size_t from = scatter ? weir_coll_cut(n, p, me) : 0,
               to = scatter ? weir_coll_cut(n, p, me + 1) : n;
        for (size_t i = 0; i < n; i++) {
            x[i] = (float)((i + (size_t)me) % 1000);
            y[i] = (double)((i * 3 + (size_t)me) % 100000);
            z[3 * i] = z[3 * i + 1] = (unsigned char)(i + (size_t)me), z[3 * i + 2] = 1;
        }
        WEIR_TRY((scatter ? weir_reduce_scatter : weir_allreduce)(use, g, x, n, &weir_sum_f32));
        WEIR_TRY((scatter ? weir_reduce_scatter : weir_allreduce)(use, g, y, n, &weir_sum_f64));
        WEIR_TRY((scatter ? weir_reduce_scatter : weir_allreduce)(use, g, z, n, &three));
        for (size_t i = from; i < to; i++) {
            float a = 0;
            double b = 0;
            size_t c = 0;
            for (size_t r = 0; r < (size_t)p; r++)
                a += (float)((i + r) % 1000), b += (double)((i * 3 + r) % 100000), c += i + r;
            CHECK(x[i] == a && y[i] == b && z[3 * i] == (unsigned char)c && z[3 * i + 2] == p);
        }
    }
    return WEIR_OK;
}

static weir_err moves(weir_coll_use *use, weir_group *g, size_t n, unsigned char *z)
{
    size_t off[64], len[64], at = 0;

    for (int i = 0; i < g->size; i++) {
        len[i] = n / (size_t)(i + 1) + (size_t)(i == 1);
        off[i] = at;
        at += len[i] + 5;
    }
    memset(z, 0, at);
    fill(z + off[g->me], len[g->me], g->me, 0);
    WEIR_TRY(weir_allgather(use, g, z, off, len));
    for (int i = 0; i < g->size; i++)
        CHECK(filled(z + off[i], len[i], i, 0));
    for (int root = 0; root < g->size; root++) {
        fill(z, n, g->me, root);
        WEIR_TRY(weir_broadcast(use, g, root, z, n));
        CHECK(filled(z, n, root, root));
    }
    return weir_barrier(use, g);
}

/* Straight from each to each; then all to the last one. Pieces lie one behind the other. */
static weir_err deals(weir_coll_use *use, weir_group *g, size_t n, unsigned char *z)
{
    size_t off[2][64], len[2][64], out = 0, in = 0;
    unsigned char *to = z, *from = z + 2000000;
    int root = g->size - 1;

    n = n < 65537 ? n : 65537;
    for (int i = 0; i < g->size; i++) {
        off[0][i] = out, off[1][i] = in;
        len[0][i] = n / (size_t)(g->me + 2 * i + 1), len[1][i] = n / (size_t)(i + 2 * g->me + 1);
        out += len[0][i], in += len[1][i];
        fill(to + off[0][i], len[0][i], g->me, i);
    }
    WEIR_TRY(weir_alltoall(use, g, &(weir_pieces){to, off[0], len[0]},
                           &(weir_pieces){from, off[1], len[1]}));
    for (int i = 0; i < g->size; i++)
        CHECK(filled(from + off[1][i], len[1][i], i, g->me));
    for (int i = 0; i < g->size; i++) {
        off[0][i] = (size_t)i * n, len[0][i] = n / (size_t)(i + 1);
        fill(to + off[0][i], i == g->me ? len[0][i] : 0, g->me, root);
    }
    WEIR_TRY(weir_talk_gather_all(use, g, root, &(weir_pieces){to, off[0], len[0]}));
    for (int i = 0; i < g->size && g->me == root; i++)
        CHECK(filled(to + off[0][i], len[0][i], i, root));
    return WEIR_OK;
}

static weir_err collectives(weir_net *n, void *arg)
{
    static const size_t len[] = {0, 1, 3, 4, 5, 1000, 65537, 1000003};
    weir_arena *arena = weir_arena_new();
    float *x = malloc(1000003 * sizeof *x);
    double *y = malloc(1000003 * sizeof *y);
    unsigned char *z = malloc(4 * 1000003);
    weir_coll_use use;
    weir_group g, few;

    CHECK(arena && x && y && z);
    WEIR_TRY(weir_group_all(n, arena, &g));
    WEIR_TRY(weir_coll_open(arg, &g, arena, &use));
    for (size_t i = 0; i < sizeof len / sizeof *len; i++) {
        WEIR_TRY(sums(&use, &g, len[i], x, y, z));
        WEIR_TRY(moves(&use, &g, len[i], z));
        WEIR_TRY(deals(&use, &g, len[i], z));
    }
    WEIR_TRY(weir_group_make(n, 1, (int[]){weir_net_rank(n)}, 1, arena, &few));
    CHECK(strcmp(arg, "mpi") || weir_coll_open(arg, &few, arena, &use) == WEIR_MISFIT);
    free(x);
    free(y);
    free(z);
    weir_arena_free(arena);
    return WEIR_OK;
}

/* ---- loss ---- */

/* The last rank is killed, or leaves with an error; the others wait in every way there is. */
static weir_err wait_for_the_dead(weir_net *n, const char *how)
{
    int p = weir_net_size(n), dead = p - 1, me = weir_net_rank(n);
    weir_arena *arena = weir_arena_new();
    unsigned char *bytes = malloc(1 << 20);
    float x[100] = {0};
    weir_coll_use use;
    weir_group g;
    weir_net_op o, *ops = &o;
    weir_err err;

    CHECK(arena && bytes);
    WEIR_TRY(weir_group_all(n, arena, &g));
    WEIR_TRY(weir_coll_open(me == 0 ? "ring" : "mpi", &g, arena, &use));
    WEIR_TRY(exchange(n, 100000));
    weir_net_phase(n, WEIR_PHASE_EXCHANGE, 7);
    if (me == dead) {
        weir_net_spend(n, 0.3);
        if (strcmp(how, "error"))
            kill(getpid(), SIGKILL);
        return weir_fail(WEIR_INVALID, "its data are damaged");
    }
    if (me == 1) {
        weir_net_spend(n, 0.2); /* so that it is on its way to one who takes nothing any more */
        weir_net_send(n, dead, tag(8, 0), bytes, 1 << 20, &o);
        err = weir_net_recv_wait(n, dead, tag(8, 1), bytes, 1, NULL);
        weir_net_cancel(n, &ops, 1);
        CHECK(o.done);
    } else {
        err = weir_allreduce(&use, &g, x, 100, &weir_sum_f32);
    }
    return err ? err : weir_fail(WEIR_FAILED, "nothing was noticed");
}

static weir_err killed(weir_net *n, void *arg) { return (void)arg, wait_for_the_dead(n, "kill"); }
static weir_err fails(weir_net *n, void *arg) { return (void)arg, wait_for_the_dead(n, "error"); }

/* ---- */

typedef struct test {
    const char *name, *net;
    weir_err (*fn)(weir_net *, void *);
    void *arg;
} test;

static const test tests[] = {
    {"both_ways", "mpi", both_ways, NULL},
    {"chunks", "mpi:chunk=5000", both_ways, NULL},
    {"large", "auto", large, NULL},
    {"any_source", "mpi", any_source, NULL},
    {"big_and_late", "mpi", big_and_late, NULL},
    {"cancel", "mpi", cancel, NULL},
    {"renew", "mpi", renew, NULL},
    {"ring", "mpi", collectives, "ring:segment=5000"},
    {"mpi", "mpi", collectives, "mpi"},
    {"halving", "mpi", collectives, "halving"},
    {"doubling", "mpi", collectives, "doubling"},
    {"blocks", "mpi", collectives, "blocks"},
    {"tree", "mpi", collectives, "tree"},
    {"hier", "mpi", collectives, "hier"},
    {"shm", "mpi", collectives, "shm"},
    {"auto", "auto", collectives, "auto"},
    {"killed", "mpi", killed, NULL},
    {"fails", "mpi", fails, NULL},
};

static int run(const test *t)
{
    weir_rank_info rank_info;
    weir_err err = weir_rank_info_find(-1, 0, NULL, &rank_info);

    rank_info.timeout = 10;
    rank_info.stall = 60;
    if (!err)
        err = weir_net_run(t->net, &rank_info, t->fn, t->arg);
    if (err)
        printf("%s: rank %d: %s (exit %d)\n", t->name, rank_info.rank, weir_why_text(),
               weir_err_exit(err));
    else if (rank_info.rank == 0)
        printf("ok %s\n", t->name);
    fflush(stdout);
    return weir_err_exit(err);
}

int main(int argc, char **argv)
{
    int level;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    for (int i = 1; i < argc; i++)
        for (size_t k = 0; k < sizeof tests / sizeof *tests; k++)
            if (!strcmp(tests[k].name, argv[i])) {
                int code = run(&tests[k]);
                if (code)
                    return code; /* without MPI_Finalize, which would wait for those who are gone */
            }
    MPI_Finalize();
    return 0;
}
