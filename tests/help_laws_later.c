/* help_laws_later.c - what asynchronous training, recovery and elasticity will need of net, coll
 * and lane together, in small. */
#include "exchange/buckets.h"
#include "exchange/route.h"
#include "help_laws.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- two ranks that serve each other while both wait, with messages long enough to need a
 * rendezvous ---- */

enum { LONG = 100000, ASKS = 20 };

static weir_err serve_long(void *arg)
{
    weir_net *n = arg;
    unsigned char *answer = malloc(LONG);
    weir_net_op o, *p = &o;
    weir_err err = WEIR_OK;
    int which;

    for (int k = 0; k < ASKS && !err; k++) {
        weir_net_recv_masked(n,
                             &(weir_net_want){WEIR_ANY, weir_tag(WEIR_CHANNEL_SERVE, 0, 0),
                                              WEIR_TAG_CHANNEL, NULL, 0},
                             &o);
        if ((err = weir_net_wait(n, &p, 1, 0, &which)) || (err = weir_net_why(n, &o)))
            break;
        memcpy(answer, o.data, LONG);
        weir_net_release(n, &o);
        answer[k] ^= 0xff;
        err = weir_net_send_wait(n, o.peer, law_tag(1, (uint32_t)k), answer, LONG);
    }
    free(answer);
    return err;
}

static weir_err serve_each_other(weir_net *n, void *arg)
{
    unsigned char *ask = malloc(LONG), *answer = malloc(LONG);
    int peer = 1 - weir_net_rank(n);
    weir_net_task *server;
    weir_err err = WEIR_OK;

    (void)arg;
    law_fill(ask, LONG, (unsigned)peer);
    WEIR_TRY(weir_net_fibre(n, "serve", serve_long, n, &server));
    for (int k = 0; k < ASKS && !err; k++) {
        err = weir_net_send_wait(n, peer, weir_tag(WEIR_CHANNEL_SERVE, (uint32_t)k, 0), ask, LONG);
        if (!err)
            err = weir_net_recv_wait(n, peer, law_tag(1, (uint32_t)k), answer, LONG, NULL);
        answer[k] ^= 0xff;
        if (!err && memcmp(ask, answer, LONG))
            err = weir_fail(WEIR_FAILED, "not so: the answer is what was asked for");
    }
    free(ask);
    free(answer);
    return err ? err : weir_net_fibre_join(n, server);
}

/* ---- a small model: replicated parameters, an optimiser whose state lies with the owner of each
 * bucket ---- */

enum { ROWS = 24, COLS = 600, PARAMS = ROWS * COLS, ROOM_OF_BUCKET = 3 * COLS * 4 };

typedef struct model {
    weir_arena *arena;
    weir_tensor tensor;
    float *param, *grad;
    weir_lane *lane;
    int lanes;
    weir_group group;
    weir_coll_use coll;
    weir_route *route;
} model;

static weir_err model_open(model *m)
{
    weir_bucket *bucket;

    *m = (model){.arena = weir_arena_new()};
    m->tensor = (weir_tensor){.name = "w", .n = PARAMS, .dims = 2, .dim = {ROWS, COLS}};
    m->param = WEIR_NEW(m->arena, float, PARAMS + 64);
    m->grad = WEIR_NEW(m->arena, float, PARAMS + 64);
    for (int i = 0; i < PARAMS; i++)
        m->param[i] = (float)(i % 101) / 64;
    WEIR_TRY(weir_buckets_cut(&(weir_flat){&m->tensor, 1, m->param, m->grad},
                              &(weir_cut_rules){.bytes = ROOM_OF_BUCKET, .small = WEIR_SMALL},
                              m->arena, &bucket, &m->lanes));
    return weir_lanes_make(bucket, m->lanes, "none", "sgd:momentum=0.9", m->arena, &m->lane);
}

static weir_err model_group(model *m, weir_net *n, unsigned id, const int *members, int count)
{
    WEIR_TRY(weir_group_make(n, id, members, count, m->arena, &m->group));
    WEIR_TRY(weir_route_make(&(weir_exchange_env){.lane = m->lane,
                                                  .lanes = m->lanes,
                                                  .group_arena = m->arena,
                                                  .seed = 1},
                             &m->coll, &m->group, &m->route));
    return weir_coll_open("ring", &m->group, m->arena, &m->coll);
}

/* Whole numbers whose sum over the members is the same however many they are. */
static void backward(model *m, uint64_t step)
{
    for (size_t i = 0; i < PARAMS; i++) {
        size_t all = (i * 7 + step * 13) % 97;
        m->grad[i] = (float)(weir_coll_cut(all, m->group.size, m->group.me + 1) -
                             weir_coll_cut(all, m->group.size, m->group.me));
    }
}

static int owner(const model *m, int lane)
{
    int k = 0;

    while (weir_coll_cut((size_t)m->lanes, m->group.size, k + 1) <= (size_t)lane)
        k++;
    return k;
}

static void step_lane(weir_lane *l, uint64_t step)
{
    l->optim->step(l->stepper, l->bucket, step, 0.01, 1);
}

/* Sums all buckets, then steps one's own and tells the others: until every sum is there nothing has
 * changed. */
static weir_err train_step(model *m, uint64_t step)
{
    size_t off[8], len[8];

    backward(m, step);
    for (int i = 0; i < m->lanes; i++)
        WEIR_TRY(weir_route_sum(m->route, &m->lane[i], (weir_when){.step = step}, 1));
    for (int i = 0; i < m->lanes; i++)
        if (owner(m, i) == m->group.me)
            step_lane(&m->lane[i], step);
    for (int k = 0; k < m->group.size; k++) {
        size_t first = weir_coll_cut((size_t)m->lanes, m->group.size, k),
               end = weir_coll_cut((size_t)m->lanes, m->group.size, k + 1);
        off[k] = first < (size_t)m->lanes ? m->lane[first].bucket->at * sizeof(float) : 0;
        len[k] = 0;
        for (size_t i = first; i < end; i++)
            len[k] += m->lane[i].bucket->n * sizeof(float);
    }
    return weir_allgather(&m->coll, &m->group, m->param, off, len);
}

/* What an undisturbed rank alone comes to. */
static weir_err model_alone(model *m, uint64_t steps)
{
    WEIR_TRY(model_open(m));
    for (uint64_t s = 0; s < steps; s++) {
        for (size_t i = 0; i < PARAMS; i++)
            m->grad[i] = (float)((i * 7 + s * 13) % 97);
        for (int i = 0; i < m->lanes; i++)
            step_lane(&m->lane[i], s);
    }
    return WEIR_OK;
}

static weir_err same_as_alone(const model *m, uint64_t steps)
{
    model alone;
    weir_err err = model_alone(&alone, steps);

    if (!err && memcmp(m->param, alone.param, PARAMS * sizeof(float)))
        err = weir_fail(WEIR_FAILED, "not so: the parameters are those of an undisturbed run");
    weir_arena_free(alone.arena);
    return err;
}

/* ---- a rank goes in the middle of a step; the others renew and repeat it ---- */

enum { STEPS = 6, FATAL = 3 };

/* Survivors agree on the step to repeat: the earliest that anybody has not committed. */
static weir_err agree(weir_net *n, const int *members, int count, uint64_t *step)
{
    uint64_t theirs[8], mine = *step;
    weir_net_op ops[16];
    int k = 0;

    weir_net_strict(n, false);
    for (int i = 0; i < count; i++)
        if (members[i] != weir_net_rank(n)) {
            weir_net_recv(n, members[i], weir_tag(WEIR_CHANNEL_MEMBERS, 1, 0), &theirs[i],
                          sizeof theirs[i], &ops[k++]);
            weir_net_send(n, members[i], weir_tag(WEIR_CHANNEL_MEMBERS, 1, 0), &mine, sizeof mine,
                          &ops[k++]);
        }
    WEIR_TRY(weir_net_wait_all(n, ops, k, 0));
    for (int i = 0; i < count; i++)
        if (members[i] != weir_net_rank(n) && theirs[i] < *step)
            *step = theirs[i];
    weir_net_renew(n, 1, members, count);
    weir_net_strict(n, true);
    return WEIR_OK;
}

/* How rank 2 goes: by an error of its own, by a signal, or by the world's order (it only notes
 * when). */
static weir_err go_away(weir_net *n, double *how)
{
    if (*how == LAW_BY_ERROR)
        return weir_fail(WEIR_DISK, "in the middle of a step");
    if (*how == LAW_BY_SIGNAL)
        raise(SIGKILL);
    else if (*how == LAW_TELLS_WHEN)
        *how = weir_net_now(n);
    return WEIR_OK;
}

/* Replicated this time: each rank steps all buckets, so that the one who goes takes nothing with
 * it. */
static weir_err replica_step(weir_net *n, model *m, uint64_t step, double *how)
{
    backward(m, step);
    for (int i = 0; i < m->lanes; i++) {
        if (how && i == m->lanes / 2)
            WEIR_TRY(go_away(n, how));
        WEIR_TRY(weir_route_sum(m->route, &m->lane[i], (weir_when){.step = step}, 1));
    }
    WEIR_TRY(weir_barrier(&m->coll, &m->group)); /* nobody commits what another could not */
    for (int i = 0; i < m->lanes; i++)
        step_lane(&m->lane[i], step);
    weir_net_phase(n, WEIR_PHASE_UPDATE, step);
    return WEIR_OK;
}

static weir_err repeat_steps(weir_net *n, model *m, double *how)
{
    int members[4] = {0, 1, 2, 3}, count = 4;
    uint64_t step = 0, was;
    weir_fault f;

    WEIR_TRY(model_group(m, n, 0, members, count));
    while (step < STEPS) {
        weir_err err =
            replica_step(n, m, step, step == FATAL && weir_net_rank(n) == 2 ? how : NULL);
        if (!err) {
            step++;
            continue;
        }
        weir_net_fault(n, &f);
        if (err != WEIR_LOST || f.rank != 2 || count < 4)
            return err;
        members[2] = 3;
        count = 3;
        was = step;
        WEIR_TRY(agree(n, members, count, &step));
        CHECK(step == FATAL && was == step);
        WEIR_TRY(model_group(m, n, 1, members, count));
    }
    return same_as_alone(m, STEPS);
}

static weir_err kill_and_repeat(weir_net *n, void *arg)
{
    model m;
    weir_err err = model_open(&m);

    if (!err)
        err = repeat_steps(n, &m, arg);
    weir_arena_free(m.arena);
    return err;
}

/* ---- 4 -> 3 -> 5: every bucket has one owner, and its optimiser's state goes with it ---- */

/* A lane's state to and from memory, in the order in which it lists itself. */
typedef struct memory_io {
    weir_io io; /* first */
    float at[4 * COLS];
    size_t used;
} memory_io;

static weir_err move_range(weir_io *io, const char *name, const weir_io_piece *piece)
{
    memory_io *m = (memory_io *)io;

    (void)name;
    CHECK(m->used + piece->n <= 4 * COLS);
    memcpy(io->loading ? piece->x : m->at + m->used, io->loading ? m->at + m->used : piece->x,
           piece->n * sizeof *piece->x);
    m->used += piece->n;
    return WEIR_OK;
}

static weir_err move_u64(weir_io *io, const char *name, uint64_t *x, size_t n, weir_keep keep)
{
    (void)io, (void)name, (void)x, (void)n, (void)keep;
    return weir_fail(WEIR_FAILED, "not so: this optimiser has no counters");
}

static weir_err hand_over(weir_net *n, weir_lane *l, int from, int to)
{
    memory_io *m = calloc(1, sizeof *m);
    uint64_t tag = law_tag(7, (uint32_t)l->bucket->id);
    weir_err err = WEIR_OK;

    m->io = (weir_io){.range = move_range, .u64 = move_u64, .loading = weir_net_rank(n) == to};
    if (m->io.loading)
        err = weir_net_recv_wait(n, from, tag, m->at, sizeof m->at, NULL);
    if (!err)
        err = weir_lane_state(l, &m->io);
    if (!err && !m->io.loading)
        err = weir_net_send_wait(n, to, tag, m->at, m->used * sizeof(float));
    free(m);
    return err;
}

static int owner_among(int lanes, int count, int lane)
{
    model m = {.lanes = lanes, .group = {.size = count}};
    return owner(&m, lane);
}

/* All who were in the old set or are in the new one; ranks 0..old-1 and 0..new-1. Newcomers get the
 * parameters by broadcast. */
static weir_err regroup(weir_net *n, model *m, int generation, int old, int new)
{
    const int everybody[] = {0, 1, 2, 3, 4};
    int me = weir_net_rank(n);

    weir_net_renew(n, generation, everybody, 5);
    for (int i = 0; i < m->lanes; i++) {
        int from = owner_among(m->lanes, old, i), to = owner_among(m->lanes, new, i);
        if (from != to && (me == from || me == to))
            WEIR_TRY(hand_over(n, &m->lane[i], from, to));
    }
    if (me >= new)
        return WEIR_OK;
    WEIR_TRY(model_group(m, n, (unsigned)generation, everybody, new));
    return weir_broadcast(&m->coll, &m->group, 0, m->param, PARAMS * sizeof(float));
}

static weir_err owned_once(model *m)
{
    float *owners = WEIR_NEW(m->arena, float, m->lanes);

    for (int i = 0; i < m->lanes; i++)
        owners[i] = owner(m, i) == m->group.me;
    WEIR_TRY(weir_allreduce(&m->coll, &m->group, owners, (size_t)m->lanes, &weir_sum_f32));
    for (int i = 0; i < m->lanes; i++)
        CHECK(owners[i] == 1);
    return WEIR_OK;
}

/* Three steps with each number of ranks. Who is out waits for the generation that has it again. */
static weir_err regroups(weir_net *n, model *m)
{
    const int sizes[] = {4, 3, 5}, everybody[] = {0, 1, 2, 3, 4};
    int me = weir_net_rank(n);

    if (me < 4)
        WEIR_TRY(model_group(m, n, 0, everybody, 4));
    for (int phase = 0; phase < 3; phase++) {
        if (phase && (me < sizes[phase] || me < sizes[phase - 1]))
            WEIR_TRY(regroup(n, m, phase, sizes[phase - 1], sizes[phase]));
        else if (phase)
            weir_net_renew(n, phase, everybody, 5);
        if (me >= sizes[phase])
            continue;
        WEIR_TRY(owned_once(m));
        for (uint64_t step = (uint64_t)phase * 3; step < (uint64_t)phase * 3 + 3; step++)
            WEIR_TRY(train_step(m, step));
        WEIR_TRY(same_as_alone(m, (uint64_t)phase * 3 + 3));
    }
    return WEIR_OK;
}

static weir_err regroup_4_3_5(weir_net *n, void *arg)
{
    model m;
    weir_err err = model_open(&m);

    (void)arg;
    if (!err && m.lanes < 7)
        err = weir_fail(WEIR_FAILED, "not so: there are more buckets than ranks");
    if (!err)
        err = regroups(n, &m);
    weir_arena_free(m.arena);
    return err;
}

/* ---- an order of wildcard receives, recorded and replayed ---- */

enum { CLIENTS = 3, EACH = 20 };

/* Floats whose sum depends on the order in which they are added. */
static float gift(int rank, int i)
{
    return 1.0f / (float)(1 + rank * 37 + i * i) * (i % 3 ? 1e4f : 1e-3f);
}

static weir_err give(weir_net *n, uint32_t round)
{
    for (int i = 0; i < EACH; i++) {
        float x = gift(weir_net_rank(n), i);
        WEIR_TRY(weir_net_spend(n, 1e-4 * ((weir_net_rank(n) * 7 + i * 5 + (int)round * 3) % 11)));
        WEIR_TRY(weir_net_send_wait(n, 0, weir_tag(WEIR_CHANNEL_SERVE, round, 0), &x, sizeof x));
    }
    return WEIR_OK;
}

/* Sums by recorded sources, or (record) as they come, and records them. */
static weir_err gather(weir_net *n, uint32_t round, bool record, int *source, float *sum)
{
    float x;

    *sum = 0;
    for (int k = 0; k < CLIENTS * EACH; k++) {
        weir_net_op o, *p = &o;
        int which;
        weir_net_recv(n, record ? WEIR_ANY : source[k], weir_tag(WEIR_CHANNEL_SERVE, round, 0), &x,
                      sizeof x, &o);
        WEIR_TRY(weir_net_wait(n, &p, 1, 0, &which));
        WEIR_TRY(weir_net_why(n, &o));
        source[k] = o.peer;
        *sum += x;
    }
    return WEIR_OK;
}

static weir_err record_and_replay(weir_net *n, void *arg)
{
    int source[CLIENTS * EACH], count[CLIENTS + 1] = {0};
    float recorded, replayed;

    (void)arg;
    if (weir_net_rank(n)) {
        WEIR_TRY(give(n, 0));
        WEIR_TRY(law_barrier(n, 0));
        WEIR_TRY(give(n, 1)); /* in another rhythm */
        return law_barrier(n, 1);
    }
    WEIR_TRY(gather(n, 0, true, source, &recorded));
    for (int k = 0; k < CLIENTS * EACH; k++)
        count[source[k]]++;
    CHECK(count[0] == 0 && count[1] == EACH && count[2] == EACH && count[3] == EACH);
    WEIR_TRY(law_barrier(n, 0));
    WEIR_TRY(gather(n, 1, false, source, &replayed));
    CHECK(!memcmp(&recorded, &replayed, sizeof recorded));
    return law_barrier(n, 1);
}

const law laws_later[] = {
    {"serve_each_other", 2, serve_each_other},
    {"kill_and_repeat", 4, kill_and_repeat, .leaves = 1 << 2},
    {"regroup_4_3_5", 5, regroup_4_3_5},
    {"record_and_replay", 4, record_and_replay},
    {0},
};
