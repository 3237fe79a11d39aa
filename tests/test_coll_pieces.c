/* The law of the verbs whose pieces go straight from member to member, all-to-all and gather: in
 * every world and beside every collective, for lengths that differ from pair to pair, every byte
 * arrives and no other is touched; messages and bytes as coll.h says; ranks that do not agree find
 * out; and an end for everybody when one is lost. */
#include "help_coll.h"
#include "coll/direct.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const coll_world *in(void **state) { return *state; }

enum { GUARD = 3, UNTOUCHED = 255, MANY = 70 /* ranks: more than rounds go at once */ };

/* What member i has for member j: in some pairs nothing, in no two of one member the same. */
static size_t length(size_t most, int i, int j)
{
    return (i * 3 + j) % 4 == 1 ? 0 : most / 2 + most * (size_t)((i + 5 * j) % 7) / 7;
}

static unsigned char byte(int i, int j, size_t k)
{
    return (unsigned char)((k * 7 + k / 251 + (size_t)i * 31 + (size_t)j * 17) % 251);
}

/* The pieces of one rank, in memory that has not a byte too many: ASan sees who goes beyond. */
typedef struct room {
    weir_pieces out, in;
    size_t *off, *len; /* of out, then of in */
    size_t out_bytes, in_bytes;
} room;

/* Pieces lie apart, those that come in in another order. */
static weir_err make_room(room *r, const weir_group *g, size_t most, bool dry, weir_arena *a)
{
    int p = g->size;

    r->off = WEIR_NEW(a, size_t, 2 * p);
    r->len = WEIR_NEW(a, size_t, 2 * p);
    CHECK(r->off && r->len);
    r->out_bytes = r->in_bytes = GUARD;
    for (int i = 0; i < p; i++) {
        int from = p - 1 - i;
        r->off[i] = r->out_bytes;
        r->len[i] = length(most, g->me, i);
        r->off[p + from] = r->in_bytes;
        r->len[p + from] = length(most, from, g->me);
        r->out_bytes += r->len[i] + GUARD;
        r->in_bytes += r->len[p + from] + GUARD;
    }
    r->out = (weir_pieces){dry ? NULL : malloc(r->out_bytes), r->off, r->len};
    r->in = (weir_pieces){dry ? NULL : malloc(r->in_bytes), r->off + p, r->len + p};
    CHECK(dry || (r->out.buf && r->in.buf));
    return WEIR_OK;
}

/* As a gather takes them: of others than the root nothing but their own. */
typedef struct own_piece {
    size_t off[RANKS_MAX], len[RANKS_MAX];
} own_piece;

static weir_pieces for_root(const room *r, const weir_group *g, int root, own_piece *own)
{
    if (g->me == root)
        return r->in;
    own->off[g->me] = r->off[root];
    own->len[g->me] = r->len[root];
    return (weir_pieces){r->out.buf, own->off, own->len};
}

static void free_room(room *r)
{
    free(r->out.buf);
    free(r->in.buf);
}

static weir_err check_alltoall(const weir_group *g, const room *r)
{
    const unsigned char *x = r->in.buf;
    size_t touched = 0;

    for (int i = 0; i < g->size; i++)
        for (size_t k = 0; k < r->in.len[i]; k++)
            if (x[r->in.off[i] + k] != byte(i, g->me, k))
                return weir_fail(WEIR_FAILED, "%d ranks: byte %zu of rank %d is wrong", g->size, k,
                                 i);
    for (size_t k = 0; k < r->in_bytes; k++)
        touched += x[k] != UNTOUCHED;
    for (int i = 0; i < g->size; i++)
        touched -= r->in.len[i];
    CHECK(touched == 0); /* no byte of a piece is 255 */
    return WEIR_OK;
}

static weir_err alltoall_once(weir_coll_use *use, weir_group *g, size_t most, weir_arena *a)
{
    room r;
    weir_err err;

    WEIR_TRY(make_room(&r, g, most, false, a));
    memset(r.in.buf, UNTOUCHED, r.in_bytes);
    for (int i = 0; i < g->size; i++)
        for (size_t k = 0; k < r.out.len[i]; k++)
            ((unsigned char *)r.out.buf)[r.out.off[i] + k] = byte(g->me, i, k);
    if (!(err = weir_alltoall(use, g, &r.out, &r.in)))
        err = check_alltoall(g, &r);
    free_room(&r);
    return err;
}

/* Who is not the root has room for its own piece and no more, and knows no other's length. */
static weir_err gather_once(weir_coll_use *use, weir_group *g, int root, size_t most)
{
    size_t off[MANY] = {0}, len[MANY] = {0}, end = 0;
    unsigned char *x;
    weir_err err;

    for (int i = 0; i < g->size; i++) {
        if (g->me != root && g->me != i)
            continue;
        off[i] = end;
        len[i] = length(most, i, root);
        end += len[i];
    }
    CHECK((x = malloc(end ? end : 1)));
    memset(x, UNTOUCHED, end);
    for (size_t k = 0; k < len[g->me]; k++)
        x[off[g->me] + k] = byte(g->me, root, k);
    err = weir_talk_gather_all(use, g, root, &(weir_pieces){x, off, len});
    for (int i = 0; i < g->size && !err; i++)
        for (size_t k = 0; k < len[i] && !err; k++)
            if (x[off[i] + k] != byte(i, root, k))
                err = weir_fail(WEIR_FAILED, "%d ranks, root %d: byte %zu of rank %d is wrong",
                                g->size, root, k, i);
    free(x);
    return err;
}

static weir_err arrive_with(weir_net *net, weir_arena *a)
{
    static const size_t most[] = {0, 1, 14, 1000, 100003};
    weir_group g;
    weir_coll_use use;

    WEIR_TRY(weir_group_all(net, a, &g));
    for (int s = 0; s < coll_listed; s++) {
        weir_err err = weir_coll_open(coll_spec[s], &g, a, &use);
        if (err == WEIR_MISFIT) /* not for this world */
            continue;
        for (size_t i = 0; i < (s ? 3 : sizeof most / sizeof *most) && !err; i++) {
            if (!(err = alltoall_once(&use, &g, most[i], a)) &&
                !(err = gather_once(&use, &g, 0, most[i])) &&
                !(err = gather_once(&use, &g, g.size - 1, most[i])))
                err = gather_once(&use, &g, g.size / 2, most[i]);
        }
        WEIR_TRY(err);
    }
    return WEIR_OK;
}

static weir_err arrive_rank(weir_net *net, void *arg)
{
    weir_arena *a = weir_arena_new();
    weir_err err = a ? arrive_with(net, a) : weir_fail_nomem(0);

    (void)arg;
    weir_arena_free(a);
    return err;
}

static void arrive(void **state)
{
    for (int p = 1; p <= in(state)->ranks; p++)
        coll_all_well(in(state), p, arrive_rank, NULL);
}

/* In more rounds than go at once. */
static weir_err many_rank(weir_net *net, void *arg)
{
    weir_arena *a = weir_arena_new();
    weir_group g;
    weir_coll_use use;
    weir_err err = weir_group_all(net, a, &g);

    (void)arg;
    if (!err && !(err = weir_coll_open("ring", &g, a, &use)) &&
        !(err = alltoall_once(&use, &g, 100, a)))
        err = gather_once(&use, &g, 1, 1000);
    weir_arena_free(a);
    return err;
}

static void many(void **state)
{
    weir_rank_info rank_info;

    (void)state;
    assert_true(MANY > 2 * WEIR_DIRECT_WINDOW);
    ranks_info(&rank_info, 0, MANY, "", 30);
    if (weir_net_run("sim", &rank_info, many_rank, NULL))
        fail_msg("%s", weir_why_text());
}

/* ---- messages and bytes ---- */

typedef struct counts {
    bool gather;
    weir_net_count of[RANKS_MAX];
} counts;

enum { LENGTH = 700, ROOT = 2 };

static weir_err count_rank(weir_net *net, void *arg)
{
    counts *c = arg;
    weir_arena *a = weir_arena_new();
    weir_group g;
    weir_coll_use use;
    room r = {0};
    own_piece own = {0};
    weir_pieces x;
    weir_err err = weir_group_all(net, a, &g);
    weir_net_count before = weir_net_counted(net), after;

    if (!err && !(err = weir_coll_open("ring", &g, a, &use)) &&
        !(err = make_room(&r, &g, LENGTH, weir_net_dry(net), a))) {
        x = for_root(&r, &g, ROOT, &own);
        err = c->gather ? weir_talk_gather_all(&use, &g, ROOT, &x)
                        : weir_alltoall(&use, &g, &r.out, &r.in);
    }
    after = weir_net_counted(net);
    c->of[g.me] = (weir_net_count){.sent = after.sent - before.sent,
                                   .received = after.received - before.received,
                                   .messages = after.messages - before.messages};
    free_room(&r);
    weir_arena_free(a);
    return err;
}

static void check_counts(const coll_world *w, bool gather)
{
    enum { P = 6 };
    counts c = {.gather = gather};

    coll_all_well(w, P, count_rank, &c);
    for (int i = 0; i < P; i++) {
        uint64_t messages = 0, sent = 0, received = 0;
        for (int j = 0; j < P; j++) {
            size_t out = i != j && (!gather || j == ROOT) ? length(LENGTH, i, j) : 0;
            messages += out > 0;
            sent += out;
            received += i != j && (!gather || i == ROOT) ? length(LENGTH, j, i) : 0;
        }
        assert_int_equal(c.of[i].messages, messages);
        assert_int_equal(c.of[i].sent, sent);
        assert_int_equal(c.of[i].received, received);
    }
}

static void costs(void **state)
{
    for (int gather = 0; gather < 2; gather++)
        check_counts(in(state), gather);
}

/* Sizes without content: no buffer is there to be touched, and they count as bytes would. */
static void dry(void **state)
{
    (void)state;
    for (int gather = 0; gather < 2; gather++)
        check_counts(&(coll_world){"sim:dry=yes", 6, true}, gather);
}

/* ---- a rank is lost; ranks that do not agree ---- */

enum { VICTIM = 1, RANKS = 5, LONG = 400000 };

typedef struct trouble {
    bool gather, leaves; /* the victim leaves; or its pieces are a byte too long */
} trouble;

static weir_err trouble_with(const trouble *t, weir_group *g, weir_coll_use *use, room *r)
{
    own_piece own = {0};
    weir_pieces x;

    if (g->me == VICTIM && t->leaves)
        return weir_fail(WEIR_FAILED, "left");
    for (int i = 0; i < g->size && g->me == VICTIM; i++)
        r->len[i] += i != VICTIM && r->len[i];
    if (!t->gather)
        return weir_alltoall(use, g, &r->out, &r->in);
    /* nobody hears from the root: who has sent waits for its word */
    x = for_root(r, g, 0, &own);
    WEIR_TRY(weir_talk_gather_all(use, g, 0, &x));
    return weir_barrier(use, g);
}

static weir_err trouble_rank(weir_net *net, void *arg)
{
    weir_arena *a = weir_arena_new();
    weir_group g;
    weir_coll_use use;
    room r = {0};
    weir_err err = weir_group_all(net, a, &g);

    if (!err && !(err = weir_coll_open("ring", &g, a, &use)) &&
        !(err = make_room(&r, &g, LONG, false, a)))
        err = trouble_with(arg, &g, &use, &r);
    free_room(&r); /* whoever still holds a piece of it is found out by ASan */
    weir_arena_free(a);
    return err;
}

static ranks run_trouble(const coll_world *w, trouble t)
{
    ranks r = {
        .net = w->spec, .size = RANKS, .timeout = 20, .stall = 100, .fn = trouble_rank, .arg = &t};

    ranks_run(&r);
    return r;
}

static void losses(void **state)
{
    for (int gather = 0; gather < 2; gather++) {
        ranks r = run_trouble(in(state), (trouble){.gather = gather, .leaves = true});
        for (int i = 0; i < r.size; i++)
            if (r.err[i] != (i == VICTIM ? WEIR_FAILED : WEIR_LOST))
                fail_msg("%s: rank %d ended with %s: %s", gather ? "gather" : "all-to-all", i,
                         weir_err_name(r.err[i]), r.why[i]);
    }
}

static void misfits(void **state)
{
    for (int gather = 0; gather < 2; gather++) {
        ranks r = run_trouble(in(state), (trouble){.gather = gather});
        int told = 0;
        for (int i = 0; i < r.size; i++) {
            told += r.err[i] == WEIR_MISFIT;
            if (r.err[i] == WEIR_MISFIT)
                assert_says(r.why[i], "rank 1 sent");
        }
        if (!told)
            fail_msg("%s: nobody found out; rank 0 says %s", gather ? "gather" : "all-to-all",
                     r.why[0]);
    }
}

int main(int argc, char **argv)
{
    static const coll_test tests[] = {{"arrive", arrive},   {"costs", costs},
                                      {"losses", losses},   {"misfits", misfits},
                                      {"many", many, true}, {"dry", dry, true}};

    return coll_tests_run(tests, sizeof tests / sizeof *tests, argc > 1 ? argv[1] : NULL);
}
