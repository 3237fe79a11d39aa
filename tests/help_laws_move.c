/* help_laws_move.c - messages: order, landing and lending, deadlines, cancelling, rendezvous. */
#include "help_laws.h"
#include <stdlib.h>
#include <string.h>

weir_err law_barrier(weir_net *n, uint32_t sequence)
{
    weir_net_op ops[2 * RANKS_MAX];
    int count = 0;

    for (int p = 0; p < weir_net_size(n); p++)
        if (p != weir_net_rank(n)) {
            weir_net_recv(n, p, weir_tag(WEIR_CHANNEL_COLL, sequence, 0), NULL, 0, &ops[count++]);
            weir_net_send(n, p, weir_tag(WEIR_CHANNEL_COLL, sequence, 0), NULL, 0, &ops[count++]);
        }
    weir_err err = weir_net_wait_all(n, ops, count, 0);
    for (int i = 0; i < count; i++)
        weir_net_cancel(n, &(weir_net_op *){&ops[i]}, 1);
    return err;
}

void law_fill(unsigned char *at, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        at[i] = (unsigned char)(i * 131 + i / 251 + seed);
}

bool law_filled(const unsigned char *at, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        if (at[i] != (unsigned char)(i * 131 + i / 251 + seed))
            return false;
    return true;
}

const law *const law_tables[] = {laws_move, laws_task, laws_line, laws_loss, laws_later, NULL};

const law *law_find(const char *name)
{
    for (const law *const *table = law_tables; *table; table++)
        for (const law *l = *table; l->name; l++)
            if (!strcmp(l->name, name))
                return l;
    return NULL;
}

/* ---- order ---- */

static weir_err order(weir_net *n, void *arg)
{
    int x;

    (void)arg;
    if (weir_net_rank(n) == 0)
        for (int i = 0; i < 200; i++)
            WEIR_TRY(weir_net_send_wait(n, 1, law_tag((uint32_t)i % 2, 0), &i, sizeof i));
    else
        for (uint32_t t = 2; t-- > 0;) /* the second tag first: the others wait */
            for (int i = (int)t; i < 200; i += 2) {
                WEIR_TRY(weir_net_recv_wait(n, 0, law_tag(t, 0), &x, sizeof x, NULL));
                CHECK(x == i);
            }
    return WEIR_OK;
}

static weir_err any_source(weir_net *n, void *arg)
{
    int next[4] = {0}, x;

    (void)arg;
    if (weir_net_rank(n)) {
        for (int i = 0; i < 100; i++)
            WEIR_TRY(weir_net_send_wait(n, 0, weir_tag(WEIR_CHANNEL_SERVE, (uint32_t)i, 7), &i,
                                        sizeof i));
        return weir_net_recv_wait(n, 0, law_tag(0, 0), &x, sizeof x, NULL);
    }
    for (int k = 0; k < 300; k++) {
        weir_net_op o, *p = &o;
        int which;
        weir_net_recv_masked(n,
                             &(weir_net_want){WEIR_ANY, weir_tag(WEIR_CHANNEL_SERVE, 0, 0),
                                              WEIR_TAG_CHANNEL, &x, sizeof x},
                             &o);
        WEIR_TRY(weir_net_wait(n, &p, 1, 0, &which));
        CHECK(!o.err && o.len == sizeof x && o.peer > 0 && o.peer < 4);
        CHECK(x == next[o.peer]++ && o.tag == weir_tag(WEIR_CHANNEL_SERVE, (uint32_t)x, 7));
    }
    for (int p = 1; p < 4; p++)
        WEIR_TRY(weir_net_send_wait(n, p, law_tag(0, 0), &x, sizeof x));
    return WEIR_OK;
}

/* A wildcard receive takes nothing from other channels, whichever was posted first. */
static weir_err own_channel(weir_net *n, void *arg)
{
    weir_net_op any, own, *ops[] = {&any, &own};
    int a = 1, b = 2, which;

    (void)arg;
    if (weir_net_rank(n)) {
        WEIR_TRY(weir_net_send_wait(n, 0, law_tag(3, 0), &b, sizeof b));
        WEIR_TRY(weir_net_recv_wait(n, 0, law_tag(4, 0), NULL, 0, NULL));
        return weir_net_send_wait(n, 0, weir_tag(WEIR_CHANNEL_SERVE, 0, 0), &a, sizeof a);
    }
    a = b = 0;
    weir_net_recv_masked(n,
                         &(weir_net_want){WEIR_ANY, weir_tag(WEIR_CHANNEL_SERVE, 0, 0),
                                          WEIR_TAG_CHANNEL, &a, sizeof a},
                         &any);
    weir_net_recv(n, 1, law_tag(3, 0), &b, sizeof b, &own);
    WEIR_TRY(weir_net_wait(n, ops, 2, 0, &which));
    CHECK(which == 1 && b == 2 && !any.done);
    WEIR_TRY(weir_net_send_wait(n, 1, law_tag(4, 0), NULL, 0));
    ops[1] = NULL;
    WEIR_TRY(weir_net_wait(n, ops, 2, 0, &which));
    CHECK(which == 0 && a == 1);
    return WEIR_OK;
}

/* ---- receives, lent and landed ---- */

static const size_t lengths[] = {0, 1, 7, 8, 33, 100, 4095, 8191, 8192, 8193, 70000, 1 << 20};
enum { LENGTHS = sizeof lengths / sizeof lengths[0] };

static weir_err lent_and_landed(weir_net *n, void *arg)
{
    const size_t most = 1 << 20;
    unsigned char *out = malloc(most), *landed = malloc(most);
    int peer = weir_net_size(n) == 1 ? 0 : 1 - weir_net_rank(n); /* alone: to itself */
    weir_net_op ops[2];

    (void)arg;
    for (uint32_t i = 0; i < 2 * LENGTHS; i++) {
        size_t len = lengths[i / 2];
        bool lent = i % 2;
        law_fill(out, len, i);
        weir_net_send(n, peer, law_tag(i, 1), out, len, &ops[0]);
        weir_net_recv(n, peer, law_tag(i, 1), lent ? NULL : landed, lent ? 0 : most, &ops[1]);
        WEIR_TRY(weir_net_wait_all(n, ops, 2, 0));
        memset(out, 0, len); /* done: ours again, whatever has become of it */
        CHECK(ops[1].len == len && ops[1].peer == peer && law_filled(ops[1].data, len, i));
        CHECK(!lent || !((uintptr_t)ops[1].data & 7));
        weir_net_release(n, &ops[1]);
        weir_net_release(n, &ops[1]); /* harmless */
    }
    free(out);
    free(landed);
    return WEIR_OK;
}

/* The sender gets its bytes back and spoils them while the message is still lent to the receiver:
 * that one sees what was sent. */
static weir_err lent_stays(weir_net *n, void *arg)
{
    size_t len = 300000;
    unsigned char *out = malloc(len);
    weir_net_op o, *p = &o;
    int which;

    (void)arg;
    if (weir_net_rank(n) == 0) {
        law_fill(out, len, 5);
        WEIR_TRY(weir_net_send_wait(n, 1, law_tag(0, 0), out, len));
        memset(out, 0xee, len);
        WEIR_TRY(weir_net_send_wait(n, 1, law_tag(1, 0), NULL, 0));
    } else {
        weir_net_recv(n, 0, law_tag(0, 0), NULL, 0, &o);
        WEIR_TRY(weir_net_wait(n, &p, 1, 0, &which));
        WEIR_TRY(weir_net_recv_wait(n, 0, law_tag(1, 0), NULL, 0, NULL));
        CHECK(!o.err && o.len == len && law_filled(o.data, len, 5));
        weir_net_release(n, &o);
    }
    free(out);
    return law_barrier(n, 0);
}

/* Both start a long send before either posts a receive; neither waits for it before it has. */
static weir_err rendezvous(weir_net *n, void *arg)
{
    size_t len = 3 << 20;
    unsigned char *out = malloc(len), *in = malloc(len);
    int peer = 1 - weir_net_rank(n), which;
    weir_net_op send[2], recv[2], *all[] = {&send[0], &send[1], &recv[0], &recv[1]};

    (void)arg;
    law_fill(out, len, 7);
    weir_net_send(n, peer, law_tag(0, 0), out, len, &send[0]);
    weir_net_send(n, peer, law_tag(1, 0), out, len, &send[1]); /* one buffer, lent twice */
    WEIR_TRY(weir_net_spend(n, 0.01));
    for (uint32_t i = 2; i-- > 0;) { /* the second first */
        weir_net_recv(n, peer, law_tag(i, 0), in, len, &recv[i]);
        WEIR_TRY(weir_net_wait(n, (weir_net_op *[]){&recv[i]}, 1, 0, &which));
        CHECK(!recv[i].err && recv[i].len == len && law_filled(in, len, 7));
        memset(in, 0, len);
    }
    for (int left = 4; left > 0; left--) {
        WEIR_TRY(weir_net_wait(n, all, 4, 0, &which));
        CHECK(!all[which]->err);
        all[which] = NULL;
    }
    free(out);
    free(in);
    return WEIR_OK;
}

/* Wildcard receives take the messages of all in the order in which they came, receives in the order
 * posted. */
static weir_err posted_order(weir_net *n, void *arg)
{
    weir_net_op ops[8];
    int x[8];

    (void)arg;
    if (weir_net_rank(n)) {
        WEIR_TRY(weir_net_recv_wait(n, 0, law_tag(0, 0), NULL, 0, NULL));
        for (int i = 0; i < 4; i++)
            WEIR_TRY(weir_net_send_wait(n, 0, weir_tag(WEIR_CHANNEL_SERVE, 0, 0), &i, sizeof i));
        return law_barrier(n, 0);
    }
    for (int i = 0; i < 8; i++)
        weir_net_recv_masked(n,
                             &(weir_net_want){WEIR_ANY, weir_tag(WEIR_CHANNEL_SERVE, 0, 0),
                                              WEIR_TAG_CHANNEL, &x[i], sizeof x[i]},
                             &ops[i]);
    for (int p = 1; p < 3; p++) { /* all of one's, then all of the other's */
        WEIR_TRY(weir_net_send_wait(n, p, law_tag(0, 0), NULL, 0));
        WEIR_TRY(weir_net_wait_all(n, ops, 4 * p, 0));
    }
    for (int i = 0; i < 8; i++)
        CHECK(ops[i].peer == 1 + i / 4 && x[i] == i % 4);
    return law_barrier(n, 0);
}

static weir_err too_big(weir_net *n, void *arg)
{
    char text[20] = "nineteen characters", small[8];
    size_t len = 0;

    (void)arg;
    if (weir_net_rank(n))
        return weir_net_send_wait(n, 0, law_tag(0, 0), text, 20),
               weir_net_send_wait(n, 0, law_tag(0, 0), text, 4);
    CHECK(weir_net_recv_wait(n, 1, law_tag(0, 0), small, sizeof small, &len) == WEIR_BIG);
    CHECK(strstr(weir_why_text(), "20 bytes from rank 1"));
    /* the long one was consumed */
    WEIR_TRY(weir_net_recv_wait(n, 1, law_tag(0, 0), small, sizeof small, &len));
    CHECK(len == 4 && !memcmp(small, "nine", 4));
    CHECK(weir_net_send_wait(n, 2, law_tag(0, 0), text, 1) == WEIR_USAGE);
    return WEIR_OK;
}

/* ---- deadlines and cancelling ---- */

static weir_err deadlines(weir_net *n, void *arg)
{
    weir_net_op o, *p = &o;
    int x = 5, which;
    double t = weir_net_now(n);

    (void)arg;
    if (weir_net_rank(n)) {
        WEIR_TRY(weir_net_recv_wait(n, 0, law_tag(1, 0), &x, sizeof x, NULL));
        return weir_net_send_wait(n, 0, law_tag(0, 0), &x, sizeof x);
    }
    weir_net_recv(n, 1, law_tag(0, 0), &x, sizeof x, &o);
    /* now, even if the clock has only just begun */
    CHECK(weir_net_wait(n, &p, 1, t, &which) == WEIR_LATE && !o.done);
    CHECK(weir_net_wait(n, &p, 1, t + 0.05, &which) == WEIR_LATE && !o.done);
    CHECK(weir_net_now(n) >= t + 0.05 && weir_net_now(n) < t + 5);
    CHECK(weir_net_wait(n, &p, 1, t + 0.04, &which) == WEIR_LATE); /* has passed: a look, no more */
    WEIR_TRY(weir_net_send_wait(n, 1, law_tag(1, 0), &(int){9}, sizeof(int)));
    WEIR_TRY(weir_net_wait(n, &p, 1, t + 20, &which)); /* it stayed in flight */
    CHECK(!o.err && x == 9);
    return WEIR_OK;
}

static weir_err cancels(weir_net *n, void *arg)
{
    size_t len = 8 << 20;
    char *big = calloc(1, len);
    weir_net_op ops[3], *p[] = {&ops[0], NULL, &ops[1], &ops[2]};
    int x = 0, peer = 1 - weir_net_rank(n);

    (void)arg;
    weir_net_recv(n, peer, law_tag(0, 0), &x, sizeof x, &ops[0]);
    weir_net_recv(n, WEIR_ANY, law_tag(0, 1), NULL, 0, &ops[1]);
    weir_net_send(n, peer, law_tag(0, 2), big, len, &ops[2]);
    weir_net_cancel(n, p, 4);
    memset(big, 1, len); /* ours again */
    CHECK(ops[0].done && ops[0].err == WEIR_STALE && ops[1].done && ops[1].err == WEIR_STALE &&
          ops[2].done);
    WEIR_TRY(weir_net_send_wait(n, peer, law_tag(0, 0), &(int){3}, sizeof(int)));
    /* goes to the new receive */
    WEIR_TRY(weir_net_recv_wait(n, peer, law_tag(0, 0), &x, sizeof x, NULL));
    CHECK(x == 3);
    free(big);
    return law_barrier(n, 0);
}

/* ---- much ---- */

enum { MANY = 10000 };

static weir_err many_small(weir_net *n, void *arg)
{
    int me = weir_net_rank(n), size = weir_net_size(n), x;
    weir_net_count c;

    (void)arg;
    for (int i = 0; i < MANY; i++)
        for (int p = 0; p < size; p++)
            WEIR_TRY(weir_net_send_wait(n, p, law_tag(0, (uint32_t)me), &i, sizeof i));
    for (int p = 0; p < size; p++)
        for (int i = 0; i < MANY; i++) {
            WEIR_TRY(weir_net_recv_wait(n, p, law_tag(0, (uint32_t)p), &x, sizeof x, NULL));
            CHECK(x == i);
        }
    c = weir_net_counted(n);
    CHECK(c.sent == (uint64_t)(size - 1) * MANY * sizeof x && c.received == c.sent);
    return WEIR_OK;
}

static weir_err both_ways(weir_net *n, void *arg)
{
    size_t len = 16 << 20;
    unsigned char *out = malloc(len), *in = malloc(len);
    int peer = 1 - weir_net_rank(n);
    weir_net_op ops[2];

    (void)arg;
    for (uint32_t k = 0; k < 3; k++) {
        law_fill(out, len, k);
        weir_net_send(n, peer, law_tag(k, 0), out, len, &ops[0]);
        weir_net_recv(n, peer, law_tag(k, 0), in, len, &ops[1]);
        WEIR_TRY(weir_net_wait_all(n, ops, 2, 0));
        CHECK(ops[1].len == len && law_filled(in, len, k));
    }
    free(out);
    free(in);
    return WEIR_OK;
}

/* Time goes on while a rank computes, by as much as it says. */
static weir_err spends(weir_net *n, void *arg)
{
    double t = weir_net_now(n);

    (void)arg;
    WEIR_TRY(weir_net_spend(n, 0.03));
    CHECK(weir_net_now(n) >= t + 0.03 && weir_net_now(n) < t + 5);
    CHECK(weir_net_cost(n, 0.5) == 0.5);
    return law_barrier(n, 0);
}

const law laws_move[] = {
    {"order", 2, order},
    {"any_source", 4, any_source},
    {"posted_order", 3, posted_order},
    {"own_channel", 2, own_channel},
    {"lent_and_landed", 2, lent_and_landed},
    {"lent_and_landed_alone", 1, lent_and_landed},
    {"lent_stays", 2, lent_stays},
    {"rendezvous", 2, rendezvous},
    {"too_big", 2, too_big},
    {"deadlines", 2, deadlines},
    {"cancels", 2, cancels},
    {"many_small", 3, many_small},
    {"both_ways", 2, both_ways},
    {"spends", 3, spends},
    {0},
};
