/* help_laws_loss.c - peers that fail, leave, stall or send too much: what ends, with which code,
 * and who is blamed. */
#include "help_laws.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* All but `gone` have come here before any goes on: one that left earlier might be missed by those
 * who have not heard of the loss yet. */
static weir_err meet_without(weir_net *n, int gone)
{
    weir_net_strict(n, false);
    for (int p = 0; p < weir_net_size(n); p++)
        if (p != weir_net_rank(n) && p != gone)
            WEIR_TRY(weir_net_send_wait(n, p, weir_tag(WEIR_CHANNEL_MEMBERS, 1, 0), NULL, 0));
    for (int p = 0; p < weir_net_size(n); p++)
        if (p != weir_net_rank(n) && p != gone)
            WEIR_TRY(weir_net_recv_wait(n, p, weir_tag(WEIR_CHANNEL_MEMBERS, 1, 0), NULL, 0, NULL));
    return WEIR_OK;
}

/* ---- a rank that fails tells why ---- */

static weir_err one_fails(weir_net *n, void *arg)
{
    weir_fault f;
    weir_net_op o, here, *p = &o, *ph = &here;
    int which, other = weir_net_rank(n) ? 0 : 2;

    (void)arg;
    if (weir_net_rank(n) == 1) {
        for (int q = 0; q < 3; q += 2) /* both have met all */
            WEIR_TRY(weir_net_recv_wait(n, q, law_tag(9, 0), NULL, 0, NULL));
        weir_net_phase(n, WEIR_PHASE_LOAD, 3);
        return weir_fail(WEIR_INVALID, "the file is bad");
    }
    weir_net_send(n, 1, law_tag(9, 0), NULL, 0, &here);
    /* names another: strict ends it all the same */
    weir_net_recv(n, other, law_tag(0, 0), NULL, 0, &o);
    WEIR_TRY(weir_net_wait(n, &p, 1, 0, &which));
    CHECK(o.err == WEIR_LOST && o.peer == 1);
    weir_net_fault(n, &f);
    CHECK(f.code == WEIR_LOST && f.rank == 1 && f.phase == WEIR_PHASE_LOAD && f.step == 3 &&
          f.cause == WEIR_INVALID && f.pid > 0);
    CHECK(!weir_net_alive(n, 1) && weir_net_alive(n, weir_net_rank(n)));
    weir_net_cancel(n, &ph, 1);
    weir_net_send(n, other, law_tag(0, 0), NULL, 0, &o);
    CHECK(o.done && o.err == WEIR_LOST && o.peer == 1 && weir_net_why(n, &o) == WEIR_LOST);
    CHECK(strstr(weir_why_text(), "rank 1 (host ") &&
          strstr(weir_why_text(), ") left with an error in phase load of step 3: the file is bad"));
    return meet_without(n, 1);
}

/* ---- in the middle of everything: the last rank goes while the others send, receive, wait for one
 * and for all ---- */

typedef struct rest {
    weir_net_op ops[8], *p[8];
    char *big, *in[4];
    int count;
} rest;

static void start_all(weir_net *n, rest *r, size_t len, uint32_t sequence)
{
    r->count = 0;
    for (int q = 0; q < weir_net_size(n); q++)
        if (q != weir_net_rank(n)) {
            weir_net_recv(n, q, law_tag(sequence, 0), sequence % 2 ? NULL : r->in[q],
                          sequence % 2 ? 0 : len, &r->ops[r->count++]);
            weir_net_send(n, q, law_tag(sequence, 0), r->big, len, &r->ops[r->count++]);
        }
    for (int i = 0; i < r->count; i++)
        r->p[i] = &r->ops[i];
}

/* Waits for all of them, or for one after the other. */
static weir_err wait_some(weir_net *n, rest *r, bool one_by_one)
{
    int which;

    if (!one_by_one)
        return weir_net_wait_all(n, r->ops, r->count, 0);
    for (int left = r->count; left > 0; left--) {
        WEIR_TRY(weir_net_wait(n, r->p, r->count, 0, &which));
        WEIR_TRY(weir_net_why(n, r->p[which]));
        r->p[which] = NULL;
    }
    return WEIR_OK;
}

static weir_err rounds(weir_net *n, rest *r, int mine)
{
    const size_t lengths[] = {16, 40000, 300000};
    bool last = weir_net_rank(n) == weir_net_size(n) - 1;
    weir_err err = WEIR_OK;

    for (uint32_t sequence = 0; !err; sequence++) {
        weir_net_phase(n, WEIR_PHASE_EXCHANGE, sequence + 1);
        start_all(n, r, lengths[sequence % 3], sequence);
        if (last && (int)sequence == mine)
            err = weir_fail(WEIR_DISK, "enough");
        else
            err = wait_some(n, r, sequence % 4 < 2);
        for (int i = 0; i < r->count; i++) {
            r->p[i] = &r->ops[i];
            weir_net_release(n, &r->ops[i]);
        }
    }
    weir_net_cancel(n, r->p, r->count);
    for (int i = 0; i < r->count; i++)
        CHECK(r->ops[i].done);
    return err;
}

static weir_err in_the_middle(weir_net *n, void *arg)
{
    rest *r = calloc(1, sizeof *r);
    int last = weir_net_size(n) - 1;
    weir_fault f;
    weir_err err;

    r->big = calloc(1, 300000);
    for (int i = 0; i < 4; i++)
        r->in[i] = malloc(300000);
    err = rounds(n, r, (int)*(double *)arg);
    for (int i = 0; i < 4; i++)
        free(r->in[i]);
    free(r->big);
    free(r);
    if (weir_net_rank(n) == last)
        return err;
    weir_net_fault(n, &f);
    CHECK(err == WEIR_LOST && f.code == WEIR_LOST && f.rank == last &&
          f.phase == WEIR_PHASE_EXCHANGE);
    CHECK(f.cause == WEIR_DISK && strstr(f.what, "enough"));
    return meet_without(n, last);
}

/* ---- servers are told of each loss once ---- */

static weir_err loose_client(weir_net *n)
{
    WEIR_TRY(weir_net_send_wait(n, 0, weir_tag(WEIR_CHANNEL_SERVE, 0, 0), &(int){weir_net_rank(n)},
                                sizeof(int)));
    WEIR_TRY(weir_net_recv_wait(n, 0, law_tag(0, 0), NULL, 0, NULL));
    return weir_net_rank(n) == 3 ? WEIR_OK : weir_fail(WEIR_NAN, "one of two");
}

static weir_err loose(weir_net *n, void *arg)
{
    weir_net_op o, *p = &o;
    int which, lost = 0, data = 0, x;
    unsigned seen = 0;

    (void)arg;
    weir_net_strict(n, false);
    if (weir_net_rank(n))
        return loose_client(n);
    for (int k = 0; k < 5; k++) {
        weir_net_recv_masked(n,
                             &(weir_net_want){WEIR_ANY, weir_tag(WEIR_CHANNEL_SERVE, 0, 0),
                                              WEIR_TAG_CHANNEL, &x, sizeof x},
                             &o);
        WEIR_TRY(weir_net_wait(n, &p, 1, 0, &which));
        if (o.err) {
            CHECK(o.err == WEIR_LOST && (o.peer == 1 || o.peer == 2) && !(seen >> o.peer & 1));
            seen |= 1u << o.peer;
            lost++;
        } else if (++data == 3) {
            for (int q = 1; q < 4; q++)
                WEIR_TRY(weir_net_send_wait(n, q, law_tag(0, 0), NULL, 0));
        }
    }
    CHECK(lost == 2 && data == 3);
    weir_net_recv_masked(n,
                         &(weir_net_want){WEIR_ANY, weir_tag(WEIR_CHANNEL_SERVE, 0, 0),
                                          WEIR_TAG_CHANNEL, &x, sizeof x},
                         &o);
    /* no more of it; goodbye is none */
    CHECK(weir_net_wait(n, &p, 1, weir_net_now(n) + 0.05, &which) == WEIR_LATE);
    weir_net_cancel(n, &p, 1);
    weir_net_recv(n, 1, law_tag(0, 0), &x, sizeof x, &o);
    CHECK(o.done && o.err == WEIR_LOST && o.peer == 1);
    return WEIR_OK;
}

/* ---- going on with two of three ---- */

/* Rank 2 goes when both others have got as far as their receive; they hear of it in no certain
 * order. */
static weir_err third_goes(weir_net *n)
{
    WEIR_TRY(weir_net_recv_wait(n, 0, law_tag(9, 0), NULL, 0, NULL));
    WEIR_TRY(weir_net_recv_wait(n, 1, law_tag(9, 0), NULL, 0, NULL));
    return weir_fail(WEIR_DISK, "gone");
}

static weir_err renewal(weir_net *n, void *arg)
{
    int me = weir_net_rank(n), peer = 1 - me, x = 0, which;
    weir_net_op old, o, *p = &old;

    (void)arg;
    if (me == 2)
        return third_goes(n);
    /* of generation 0, never asked for */
    WEIR_TRY(weir_net_send_wait(n, peer, law_tag(5, 0), &(int){55}, sizeof(int)));
    WEIR_TRY(weir_net_send_wait(n, peer, law_tag(9, 0), NULL, 0));
    WEIR_TRY(weir_net_recv_wait(n, peer, law_tag(9, 0), NULL, 0, NULL));
    weir_net_recv(n, peer, law_tag(0, 0), &x, sizeof x, &old);
    WEIR_TRY(weir_net_send_wait(n, 2, law_tag(9, 0), NULL, 0));
    WEIR_TRY(weir_net_wait(n, &p, 1, 0, &which));
    CHECK(old.err == WEIR_LOST && old.peer == 2);

    weir_net_strict(n, false); /* to agree with those that are left */
    weir_net_send(n, peer, weir_tag(WEIR_CHANNEL_MEMBERS, 1, 0), &me, sizeof me, &o);
    WEIR_TRY(weir_net_recv_wait(n, peer, weir_tag(WEIR_CHANNEL_MEMBERS, 1, 0), &x, sizeof x, NULL));
    CHECK(x == peer);
    weir_net_recv(n, peer, law_tag(1, 0), &x, sizeof x, &old);
    if (me == 1) /* rank 0 is ahead: its message of the new generation is kept until we follow */
        WEIR_TRY(weir_net_spend(n, 0.05));
    weir_net_renew(n, 1, (int[]){0, 1}, 2);
    weir_net_strict(n, true);
    CHECK(weir_net_generation(n) == 1 && old.done && old.err == WEIR_STALE);
    WEIR_TRY(weir_net_send_wait(n, peer, law_tag(5, 0), &(int){66}, sizeof(int)));
    WEIR_TRY(weir_net_recv_wait(n, peer, law_tag(5, 0), &x, sizeof x, NULL));
    CHECK(x == 66); /* not 55 */
    weir_net_recv(n, 2, law_tag(5, 0), &x, sizeof x, &o);
    CHECK(o.done && o.err == WEIR_LOST);
    return WEIR_OK;
}

/* A long send of the old generation that nobody takes any more comes back all the same. */
static weir_err old_send(weir_net *n, void *arg)
{
    size_t len = 1 << 20;
    char *big = calloc(1, len);
    weir_net_op o, *p = &o;
    int peer = 1 - weir_net_rank(n), which, x = 0;

    (void)arg;
    weir_net_send(n, peer, law_tag(0, 0), big, len, &o);
    weir_net_renew(n, 1, (int[]){0, 1}, 2);
    WEIR_TRY(weir_net_wait(n, &p, 1, 0, &which));
    free(big);
    weir_net_send(n, peer, law_tag(0, 0), &(int){9}, sizeof(int), &o);
    WEIR_TRY(weir_net_recv_wait(n, peer, law_tag(0, 0), &x, sizeof x, NULL));
    CHECK(x == 9);
    WEIR_TRY(weir_net_wait(n, &p, 1, 0, &which));
    return law_barrier(n, 0);
}

/* A member that is lost before the renewal is not forgotten by it. */
static weir_err renewed_with_the_lost(weir_net *n, void *arg)
{
    weir_net_op o, *p = &o;
    int which;

    (void)arg;
    if (weir_net_rank(n) == 1)
        return weir_fail(WEIR_DISK, "gone");
    weir_net_recv(n, 1, law_tag(0, 0), NULL, 0, &o);
    WEIR_TRY(weir_net_wait(n, &p, 1, 0, &which));
    weir_net_renew(n, 1, (int[]){0, 1}, 2);
    weir_net_recv(n, WEIR_ANY, law_tag(0, 0), NULL, 0, &o);
    CHECK(o.done && o.err == WEIR_LOST && o.peer == 1);
    return WEIR_OK;
}

/* ---- giving up from another task ---- */

static weir_err give_up(void *arg)
{
    weir_err err = weir_net_spend(arg, 0.03);

    weir_net_abort(arg, WEIR_NAN);
    weir_net_abort(arg, WEIR_DISK); /* the first counts */
    return err;
}

static weir_err aborted(weir_net *n, void *arg)
{
    weir_task *t;
    weir_err err;

    (void)arg;
    if (weir_net_rank(n)) {
        CHECK(weir_net_recv_wait(n, 0, law_tag(0, 0), NULL, 0, NULL) == WEIR_LOST);
        CHECK(strstr(weir_why_text(), "rank 0 ") &&
              strstr(weir_why_text(), "the loss is not a number"));
        return WEIR_OK;
    }
    WEIR_TRY(weir_task_start(weir_net_rt(n), "give up", give_up, n, &t));
    err = weir_net_recv_wait(n, 1, law_tag(0, 0), NULL, 0, NULL);
    CHECK(err == WEIR_NAN);
    CHECK(weir_net_send_wait(n, 1, law_tag(0, 0), NULL, 0) == WEIR_NAN);
    WEIR_TRY(weir_task_join(t));
    return weir_fail(WEIR_NAN, "the loss is not a number");
}

/* ---- goodbye is no loss ---- */

static weir_err goodbye(weir_net *n, void *arg)
{
    int me = weir_net_rank(n), x;
    weir_err err;

    (void)arg;
    if (me == 1) /* leaves at once, its words behind it */
        return weir_net_send_wait(n, 0, law_tag(7, 0), &(int){77}, sizeof(int));
    for (int k = 0; k < 20; k++) {
        WEIR_TRY(weir_net_send_wait(n, 2 - me, law_tag(0, 0), &k, sizeof k));
        WEIR_TRY(weir_net_recv_wait(n, 2 - me, law_tag(0, 0), &x, sizeof x, NULL));
        WEIR_TRY(weir_net_spend(n, 0.15)); /* in all longer than rank 1 waits for our goodbye */
    }
    if (me == 2)
        return WEIR_OK;
    WEIR_TRY(weir_net_recv_wait(n, 1, law_tag(7, 0), &x, sizeof x, NULL));
    CHECK(x == 77);
    /* will never come: not waited for */
    err = weir_net_recv_wait(n, 1, law_tag(8, 0), &x, sizeof x, NULL);
    CHECK(err == WEIR_LOST && strstr(weir_why_text(), "rank 1 has left"));
    CHECK(!weir_net_alive(n, 1) && weir_net_alive(n, 0));
    return WEIR_OK;
}

/* ---- too much that nobody asked for ---- */

static weir_err hoard(weir_net *n, void *arg)
{
    char *block = calloc(1, 10000);
    int me = weir_net_rank(n), which;
    weir_net_op o, *p = &o;
    weir_fault f;

    (void)arg;
    for (int i = 0; me == 1 && i < 100; i++) /* until it is told that it was given up */
        if (weir_net_send_wait(n, 0, law_tag(0, 0), block, 10000))
            break;
    free(block);
    weir_net_recv(n, me == 0 ? 2 : 0, law_tag(1, 0), NULL, 0, &o);
    WEIR_TRY(weir_net_wait(n, &p, 1, 0, &which));
    weir_net_fault(n, &f);
    CHECK(f.code == WEIR_LOST && f.rank == 1 && weir_net_why(n, &o) == WEIR_LOST);
    CHECK(strstr(weir_why_text(), "rank 1 (host ") &&
          strstr(weir_why_text(), "sent more than may be held"));
    return weir_fail(WEIR_LOST, "as it must be");
}

/* What nobody asked for in one generation is let go by the next: it does not count against what may
 * be held, however many generations there are. (One is a generation ahead of the other at most, so
 * that twice 60,000 bytes may wait at once.) */
static weir_err old_is_let_go(weir_net *n, void *arg)
{
    char *block = calloc(1, 10000);
    weir_err err = block ? WEIR_OK : weir_fail_nomem(10000);

    (void)arg;
    for (int generation = 1; generation <= 30 && !err; generation++) {
        for (uint32_t i = 0; weir_net_rank(n) == 1 && i < 6 && !err; i++)
            err = weir_net_send_wait(n, 0, law_tag(0, i), block, 10000);
        if (!err)
            err = law_barrier(n, 1); /* behind them: they have come */
        weir_net_renew(n, generation, (int[]){0, 1}, 2);
    }
    free(block);
    return err ? err : law_barrier(n, 2);
}

/* ---- alive but busy ---- */

static weir_err stalled(weir_net *n, void *arg)
{
    (void)arg;
    weir_net_phase(n, WEIR_PHASE_EVAL, 12);
    if (weir_net_rank(n))
        return weir_net_spend(n, 2);
    CHECK(weir_net_recv_wait(n, 1, law_tag(0, 0), NULL, 0, NULL) == WEIR_SILENT);
    CHECK(strstr(weir_why_text(), "rank 1 (host ") &&
          strstr(weir_why_text(), "busy in phase eval of step 12"));
    return WEIR_OK;
}

const law laws_loss[] = {
    {"one_fails", 3, one_fails, .leaves = 1 << 1},
    {"in_the_middle_3", 4, in_the_middle, .leaves = 1 << 3, .worth = 3},
    {"in_the_middle_1", 4, in_the_middle, .leaves = 1 << 3, .worth = 1},
    {"in_the_middle_2", 4, in_the_middle, .leaves = 1 << 3, .worth = 2},
    {"in_the_middle_5", 3, in_the_middle, .leaves = 1 << 2, .worth = 5},
    {"in_the_middle_7", 2, in_the_middle, .leaves = 1 << 1, .worth = 7},
    {"loose", 4, loose, .leaves = 1 << 1 | 1 << 2},
    {"renewal", 3, renewal, .leaves = 1 << 2},
    {"old_send", 2, old_send},
    {"renewed_with_the_lost", 2, renewed_with_the_lost, .leaves = 1 << 1},
    {"aborted", 2, aborted, .leaves = 1 << 0},
    {"goodbye", 3, goodbye},
    {"hoard", 3, hoard, .leaves = 7, .options = "hold=200000"},
    {"old_is_let_go", 2, old_is_let_go, .options = "hold=200000"},
    {"stalled", 2, stalled, .timeout = 1, .stall = 0.5},
    {0},
};
