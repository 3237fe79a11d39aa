/* A thousand times one of four workers goes, hands over what it holds back, and comes back: 4 to 3
 * to 4. Each generation of groups does an all-reduce and a step; none leaves anything behind. In
 * the simulated world and among real peers (ranks as threads of this process, over sockets and
 * common memory). Once more with a step of the three that one of them gives up after its first
 * bucket: the others end the generation when they hear of it, in the middle of a collective.
 *
 * EVERY_CASE (`make fault` sets it) breaks steps off in one more world.
 *
 * Conserved: what was put in is, to the last bit, what moved the weights and what is held back.
 * Gradients are whole numbers and the rate is a power of two, so no sum is rounded.
 *
 * Arenas: a generation takes as many bytes as the last one with the same members; what is for life
 * does not grow at all.
 *
 * Heap: grows by less than the least that malloc gives (32 bytes), once a regrouping of a rank.
 * Among real peers also by what ZeroMQ puts aside: a queue begins with a chunk of 256 messages of
 * 64 bytes, takes a second one when its 256th message comes, and keeps both, in turn, for good. So
 * each queue takes one chunk at most; there are as many as two ways, two paths and both ends of six
 * links make. When that is depends on how many messages a link has had: signs of life are few.
 * Hence the run is cut into windows, so many that half of them are followed by one in which no
 * queue takes any: that half must grow by less than 32 bytes a regrouping. (Queues of commands, 16
 * a chunk, are used up before the first window where they are used in every cycle, and not used
 * where not.)
 *
 * Resident: grows by less than a page a regrouping; one arena alone takes sixteen.
 *
 * In common: of each rank at most one generation's memory is mapped, in two pieces: a room and a
 * region for the gradient, or two rooms, inside and outside of its machine.
 *
 * Descriptors: grow by at most the one that each rank may be passing on at the time. */
#include "help_member.h"
#include "help_ranks.h"
#include <dirent.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
/* what is freed stays resident there, and is looked after by them */
enum { CYCLES = 40, WATCHED = 0 };
#else
enum { CYCLES = 1000, WATCHED = 1 };
#endif
enum { RANKS = 4, N = MEMBER_N, LEAST = 32, PAGE = 4096, OWN_MAPPINGS = 2, WATCHER = 1 };
enum { LINKS = RANKS * (RANKS - 1) / 2, QUEUES = 2 * 2 * 2 * LINKS, ASIDE = 256 * 64 + 64 };
/* a window: each of them goes twice */
enum { WINDOW = 2 * RANKS, STEPS = 2 * QUEUES, WINDOWS = STEPS + 1 };
enum { FIRST = CYCLES - WINDOWS * WINDOW }; /* cycle that is watched */
/* of a rank, which is not in one of them when it goes: from one window to the next, and from the
 * first to the last */
enum { REGROUPINGS = 2 * WINDOW - WINDOW / RANKS, ALL_REGROUPINGS = STEPS * REGROUPINGS };
static const float RATE = 1.0f / 128;

/* What one of them sees of the whole process: the least of some cycles, as messages come and go. */
typedef struct sight {
    size_t heap, resident, mapped, descriptors;
} sight;

typedef struct job {
    const char *exchange, *codec, *coll;
    bool breaks; /* the generation of three ends in the middle of a step */
    sight seen[WINDOWS];
    atomic_int most_mapped;
    float param[N];
    double put[RANKS][N], held[RANKS][N];
} job;

typedef struct rank {
    job *j;
    int me; /* in the net */
    member m;
    uint64_t step;
    size_t life_bytes, bytes[RANKS][2]; /* of a generation: who is about to go, or has gone */
} rank;

/* ---- what the process holds ---- */

static size_t descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    size_t n = 0;

    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

/* Pieces of common memory: a piece stands in several lines, one of which is its beginning. */
static size_t mapped(void)
{
    FILE *f = fopen("/proc/self/maps", "re");
    char line[512];
    size_t n = 0;

    while (f && fgets(line, sizeof line, f))
        n += strstr(line, " 00000000 ") && strstr(line, "/memfd:");
    if (f)
        fclose(f);
    return n;
}

static size_t resident(void)
{
    FILE *f = fopen("/proc/self/statm", "re");
    size_t size = 0, pages = 0;

    if (f && fscanf(f, "%zu %zu", &size, &pages) != 2)
        pages = 0;
    if (f)
        fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static size_t least(size_t seen, size_t now) { return seen && seen < now ? seen : now; }

static void look(sight *s)
{
    struct mallinfo2 m = mallinfo2();

    s->heap = least(s->heap, m.uordblks + m.hblkhd);
    s->resident = least(s->resident, resident());
    s->descriptors = least(s->descriptors, descriptors());
    s->mapped = least(s->mapped, mapped());
}

/* ---- one rank ---- */

/* Groups are new: so are the collective, and the memory in which it sums gradients. */
static weir_err enter(rank *r, int from)
{
    weir_exchange_env e;
    void *grad;
    bool first = !r->m.self;

    WEIR_TRY(weir_coll_open(r->j->coll, &r->m.mesh.all, r->m.mesh.arena, &r->m.coll));
    WEIR_TRY(weir_coll_memory(&r->m.coll, &r->m.mesh.all, (N + WEIR_EXCHANGE_NOTES) * sizeof(float),
                              r->m.mesh.arena, &grad));
    r->m.grad = grad;
    if (first)
        WEIR_TRY(member_make(&r->m, (member_specs){r->j->exchange, r->j->codec, "sgd"}));
    for (int i = 0; i < r->m.lanes; i++)
        r->m.bucket[i].grad = r->m.grad + r->m.bucket[i].at;
    e = member_env(&r->m);
    WEIR_TRY((first ? r->m.x->init : r->m.x->regroup)(r->m.self, &e));
    /* who comes back has old weights */
    return weir_broadcast(&r->m.coll, &r->m.mesh.all, from, r->m.param, sizeof r->m.param);
}

/* Of every 15 steps in a row they come to 0, so that weights stay small. */
static float gradient(int rank, uint64_t step, int i)
{
    return (float)((i * 7 + rank * 5 + (int)(step % 15) * 4 + i * i % 11) % 15 - 7);
}

static weir_commit commit(const rank *r)
{
    return (weir_commit){.when = {.step = r->step, .epochs = 10, .rate = (double)RATE},
                         .rate = (double)RATE,
                         .keep = true};
}

/* The gradient is made; so many of its buckets leave. */
static weir_err send_buckets(rank *r, int count)
{
    if (r->m.x->settle)
        WEIR_TRY(r->m.x->settle(r->m.self, commit(r).when));
    for (int i = 0; i < N + WEIR_EXCHANGE_NOTES; i++)
        r->m.grad[i] = gradient(r->me, r->step, i);
    for (int i = 0; i < count; i++)
        WEIR_TRY(r->m.x->bucket(r->m.self, &r->m.lane[i], commit(r).when));
    return WEIR_OK;
}

static weir_err one_step(void *rank_)
{
    rank *r = rank_;
    weir_commit c = commit(r);

    WEIR_TRY(send_buckets(r, r->m.lanes));
    WEIR_TRY(r->m.x->finish(r->m.self, &c));
    for (int i = 0; i < N; i++)
        r->j->put[r->me][i] += (double)gradient(r->me, r->step, i);
    c.when.step++;
    return r->m.x->settle ? r->m.x->settle(r->m.self, c.when) : WEIR_OK;
}

static weir_err sum_up(rank *r)
{
    float x[5] = {1, 2, 3, (float)r->me, (float)r->step};
    float who = 0, size = (float)r->m.mesh.all.size;

    for (int i = 0; i < r->m.mesh.all.size; i++)
        who += (float)r->m.mesh.all.member[i];
    WEIR_TRY(weir_allreduce(&r->m.coll, &r->m.mesh.all, x, 5, &weir_sum_f32));
    CHECK(x[0] == size && x[1] == 2 * size && x[2] == 3 * size && x[3] == who);
    CHECK(x[4] == size * (float)r->step);
    return WEIR_OK;
}

/* Arenas hold what they held when the same one went. */
static weir_err check_bytes(rank *r, int goes, bool gone)
{
    size_t *bytes = &r->bytes[goes][gone], now = weir_arena_bytes(r->m.mesh.arena);

    if (!*bytes)
        *bytes = now;
    if (!r->life_bytes)
        r->life_bytes = weir_arena_bytes(r->m.life);
    CHECK(now == *bytes);
    CHECK(weir_arena_bytes(r->m.life) == r->life_bytes);
    return WEIR_OK;
}

static void watch(rank *r, int cycle)
{
    int now = (int)mapped();

    if (WATCHED && cycle >= FIRST)
        look(&r->j->seen[(cycle - FIRST) / WINDOW]);
    if (now > atomic_load(&r->j->most_mapped))
        atomic_store(&r->j->most_mapped, now);
}

/* ---- generations ---- */

static weir_err generation(rank *r, int goes, bool gone)
{
    WEIR_TRY(sum_up(r));
    WEIR_TRY(one_step(r));
    r->step++;
    return check_bytes(r, goes, gone);
}

/* Who goes has given away all that it held back. */
static weir_err check_empty(const rank *r)
{
    for (const weir_lane *l = r->m.lane; l < r->m.lane + r->m.lanes; l++)
        for (size_t i = 0; l->held.now && i < l->bucket->n; i++)
            CHECK(l->held.now[i] == 0);
    return WEIR_OK;
}

static int others(int goes, int *stay)
{
    int n = 0;

    for (int i = 0; i < RANKS; i++)
        if (i != goes)
            stay[n++] = i;
    return n;
}

/* One gives its step up after the first bucket, and says so; the others wait for it, in vain. */
static weir_err break_off(rank *r, const int *stay, int n, int ill)
{
    static const uint64_t word = (uint64_t)WEIR_CHANNEL_MEMBERS << 56;
    weir_net *net = r->m.mesh.net;
    weir_net_task *step;
    char text[4];

    if (r->me == ill) {
        WEIR_TRY(send_buckets(r, 1));
        for (int i = 0; i < n; i++)
            if (stay[i] != ill)
                WEIR_TRY(weir_net_send_wait(net, stay[i], word, "ill", 4));
        return WEIR_OK;
    }
    WEIR_TRY(weir_net_fibre(net, "step", one_step, r, &step));
    WEIR_TRY(weir_net_recv_wait(net, ill, word, text, sizeof text, NULL));
    weir_net_end(net, weir_net_generation(net));
    CHECK(weir_net_fibre_join(net, step) == WEIR_STALE);
    return WEIR_OK;
}

static weir_err cycle(rank *r, int c)
{
    static const int all[] = {0, 1, 2, 3};
    int goes = c % RANKS, stay[RANKS], n = others(goes, stay);

    WEIR_TRY(generation(r, goes, false));
    if (r->me == WATCHER)
        watch(r, c);
    WEIR_TRY(r->m.x->hand_over(r->m.self, stay, n));
    r->m.x->close(r->m.self);
    if (r->me == goes) {
        WEIR_TRY(check_empty(r));
        weir_mesh_close(&r->m.mesh);
        r->step++; /* as the others do */
    } else {
        WEIR_TRY(weir_mesh_renew(&r->m.mesh, 2 * c + 1, stay, n));
        WEIR_TRY(enter(r, 0));
        WEIR_TRY(generation(r, goes, true));
        WEIR_TRY(r->m.x->hand_over(r->m.self, stay, n)); /* nobody goes: nothing is handed over */
        if (r->j->breaks)
            WEIR_TRY(break_off(r, stay, n, stay[c % n]));
        r->m.x->close(r->m.self);
    }
    WEIR_TRY(weir_mesh_renew(&r->m.mesh, 2 * c + 2, all, RANKS));
    return enter(r, stay[0]);
}

static weir_err work(rank *r)
{
    WEIR_TRY(enter(r, 0));
    for (int c = 0; c < CYCLES; c++)
        WEIR_TRY(cycle(r, c));
    WEIR_TRY(sum_up(r)); /* who has left would be missed by one that still waits in the last step */
    for (const weir_lane *l = r->m.lane; l < r->m.lane + r->m.lanes; l++)
        for (size_t i = 0; i < l->bucket->n; i++)
            r->j->held[r->me][l->bucket->at + i] = l->held.now ? (double)l->held.now[i] : 0;
    if (r->me == 0)
        memcpy(r->j->param, r->m.param, sizeof r->m.param);
    return WEIR_OK;
}

static weir_err run_rank(weir_net *net, void *arg)
{
    weir_arena *life = weir_arena_new();
    rank *r = WEIR_NEW(life, rank, 1);
    char why[WEIR_WHY_MAX];
    weir_err err;

    *r = (rank){.j = arg, .me = weir_net_rank(net), .m.life = life};
    err = weir_mesh_open(&r->m.mesh, net);
    if (!err)
        err = work(r);
    snprintf(why, sizeof why, "%s", weir_why_text());
    if (r->m.self)
        r->m.x->close(r->m.self);
    weir_mesh_close(&r->m.mesh);
    weir_arena_free(life);
    return err ? weir_fail(err, "%s", why) : WEIR_OK;
}

/* ---- the laws ---- */

static void check_conserved(const job *j)
{
    for (int i = 0; i < N; i++) {
        double put = 0, held = 0, moved = -(double)j->param[i] / (double)RATE;
        for (int m = 0; m < RANKS; m++) {
            put += j->put[m][i];
            held += j->held[m][i];
        }
        if (moved + held != put)
            fail_msg("element %d: %g was put in, %g has moved the weights, %g is held back", i, put,
                     moved, held);
    }
}

static int order(const void *a, const void *b)
{
    long x = *(const long *)a, y = *(const long *)b;

    return (x > y) - (x < y);
}

/* By how much, at most, the heap grew from one window to the next, in that half in which it grew
 * least. */
static long growth(const job *j)
{
    long step[STEPS];

    for (int i = 0; i < STEPS; i++)
        step[i] = (long)j->seen[i + 1].heap - (long)j->seen[i].heap;
    qsort(step, STEPS, sizeof *step, order);
    return step[STEPS / 2 - 1];
}

static void check_memory(const job *j, size_t before, bool real)
{
    const sight *a = &j->seen[0], *b = &j->seen[WINDOWS - 1];

    if (growth(j) >= LEAST * REGROUPINGS)
        fail_msg("the heap grows by %ld bytes in %d regroupings", growth(j), REGROUPINGS);
    if (b->heap >= a->heap + LEAST * ALL_REGROUPINGS + (real ? QUEUES * ASIDE : 0))
        fail_msg("the heap had %zu bytes, and has %zu", a->heap, b->heap);
    if (b->resident >= a->resident + PAGE * ALL_REGROUPINGS)
        fail_msg("%zu bytes were resident, %zu are", a->resident, b->resident);
    if (b->descriptors > a->descriptors + RANKS)
        fail_msg("there were %zu descriptors, there are %zu", a->descriptors, b->descriptors);
    if (descriptors() != before)
        fail_msg("there were %zu descriptors before, there are %zu after", before, descriptors());
}

typedef struct setting {
    const char *net, *exchange, *codec, *coll;
    bool exact;  /* the codec sends whole numbers: nothing is rounded */
    bool common; /* some of it goes through memory that several see */
    bool breaks;
} setting;

static void check(setting s)
{
    job *j = calloc(1, sizeof *j);
    size_t before = descriptors();

    j->exchange = s.exchange;
    j->codec = s.codec;
    j->coll = s.coll;
    j->breaks = s.breaks;
    ranks_all_ok(&(ranks){.net = s.net, .size = RANKS, .fn = run_rank, .arg = j});
    if (s.exact)
        check_conserved(j);
    if (WATCHED)
        check_memory(j, before, !ranks_simulated(s.net));
    assert_true(s.common ? j->most_mapped >= OWN_MAPPINGS : j->most_mapped == 0);
    if (j->most_mapped > OWN_MAPPINGS * RANKS)
        fail_msg("%d pieces of common memory were mapped at once", j->most_mapped);
    assert_true(mapped() == 0);
    free(j);
}

#define WHOLE "strom:tau=4,warmup=0"

static void simulated(void **state)
{
    (void)state;
    for (weir_plugs x = weir_exchanges; *x; x++)
        if (((const weir_exchange *)*x)->regroup)
            check((setting){"sim", (*x)->name, WHOLE, "ring", true, false});
    check((setting){"sim:machine=2", "allreduce:hier=yes", WHOLE, "hier", true, false});
    check((setting){"sim", "allreduce", "onebit:warmup=0", "auto", false, false});
}

static void among_peers(void **state)
{
    (void)state;
    for (weir_plugs x = weir_exchanges; *x; x++)
        if (((const weir_exchange *)*x)->regroup)
            check((setting){"zmq", (*x)->name, WHOLE, "shm", true, true});
    check((setting){"zmq", "allreduce:hier=yes,each=2", WHOLE, "ring", true, true});
}

/* Not where replicas drift: what was sent is sent there, and no step can be given up. */
static void broken_off(void **state)
{
    (void)state;
    check((setting){"sim", "allreduce", WHOLE, "ring", true, false, true});
    if (getenv("EVERY_CASE"))
        check((setting){"zmq", "allreduce", WHOLE, "ring", true, false, true});
    check((setting){"zmq", "allreduce", WHOLE, "shm", true, true, true});
}

/* What a thread keeps of what it has freed counts as used: none shall keep anything. The C library
 * reads this when a program begins. */
static void begin_without_caches(char **argv)
{
    static const char wanted[] = "glibc.malloc.tcache_count=0";
    const char *is = getenv("GLIBC_TUNABLES");

    if (!WATCHED || (is && strstr(is, wanted)))
        return;
    setenv("GLIBC_TUNABLES", wanted, 1);
    execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(simulated), cmocka_unit_test(among_peers),
                                       cmocka_unit_test(broken_off)};

    begin_without_caches(argv);
    mallopt(M_ARENA_MAX, 1); /* mallinfo2 knows of no other */
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
