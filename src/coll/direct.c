/* direct.c - see direct.h. */
#include "coll/direct.h"
#include <string.h>

/* One of them under way on this member. */
typedef struct trip {
    weir_group *group;
    uint64_t tag;
    const weir_pieces *out, *in; /* in NULL: nothing comes */
    int root;                    /* our own piece goes to it alone; -1: each gets one of its own */
    bool dry;
    int posted, sent; /* rounds */
    weir_net_op get[WEIR_DIRECT_WINDOW], put[WEIR_DIRECT_WINDOW];
} trip;

/* One message: from or to this member; of nothing: none. */
typedef struct parcel {
    int peer; /* a rank of the net */
    char *at; /* NULL: dry */
    size_t bytes;
} parcel;

static parcel parcel_of(const trip *t, int member, const weir_pieces *x, int i)
{
    return (parcel){.peer = t->group->member[member],
                    .at = t->dry ? NULL : (char *)x->buf + x->off[i],
                    .bytes = x->len[i]};
}

static parcel outgoing(const trip *t, int k)
{
    int me = t->group->me, to = (me + k) % t->group->size;

    if (t->root < 0)
        return parcel_of(t, to, t->out, to);
    return to == t->root ? parcel_of(t, to, t->out, me) : (parcel){0};
}

static parcel incoming(const trip *t, int k)
{
    int p = t->group->size, from = (t->group->me - k + p) % p;

    return t->in ? parcel_of(t, from, t->in, from) : (parcel){0};
}

static void post(trip *t, int k)
{
    weir_net_op *op = &t->get[k % WEIR_DIRECT_WINDOW];
    parcel a = incoming(t, k);

    if (a.bytes)
        weir_net_recv(t->group->net, a.peer, t->tag, a.at, a.at ? a.bytes : 0, op);
}

static weir_err send(trip *t, int k)
{
    weir_net_op *op = &t->put[k % WEIR_DIRECT_WINDOW];
    parcel a = outgoing(t, k);

    if (!a.bytes)
        return WEIR_OK;
    WEIR_TRY(weir_net_wait_all(t->group->net, op, 1, 0)); /* of a round before */
    weir_net_send(t->group->net, a.peer, t->tag, a.at, a.bytes, op);
    return WEIR_OK;
}

static weir_err take(trip *t, int k)
{
    weir_net_op *op = &t->get[k % WEIR_DIRECT_WINDOW];
    parcel a = incoming(t, k);
    weir_err err;

    if (!a.bytes)
        return WEIR_OK;
    err = weir_net_wait_all(t->group->net, op, 1, 0);
    if (err == WEIR_BIG || (!err && op->len != a.bytes))
        return weir_fail(WEIR_MISFIT,
                         "rank %d sent %zu bytes where %zu were expected: the ranks do not run the "
                         "same collective",
                         op->peer, op->len, a.bytes);
    weir_net_release(t->group->net, op);
    return err;
}

/* What a member has for itself. */
static void copy_own(const trip *t)
{
    int me = t->group->me;
    size_t n = t->root < 0 ? t->out->len[me] : 0;

    if (n && !t->dry)
        memcpy((char *)t->in->buf + t->in->off[me], (const char *)t->out->buf + t->out->off[me], n);
}

/* The rounds before `end` are under way: nobody waits before what its peers need is posted. */
static weir_err begin_rounds(trip *t, int end)
{
    end = end < t->group->size ? end : t->group->size;
    for (; t->posted < end; t->posted++)
        post(t, t->posted);
    for (; t->sent < end; t->sent++)
        WEIR_TRY(send(t, t->sent));
    return WEIR_OK;
}

static weir_err go(trip *t)
{
    WEIR_TRY(begin_rounds(t, 1 + WEIR_DIRECT_WINDOW));
    copy_own(t); /* while the others' are on their way */
    for (int k = 1; k < t->group->size; k++) {
        WEIR_TRY(take(t, k));
        WEIR_TRY(begin_rounds(t, k + 1 + WEIR_DIRECT_WINDOW));
    }
    return weir_net_wait_all(t->group->net, t->put, WEIR_DIRECT_WINDOW, 0);
}

/* An operation that was never begun is one that is over. */
static weir_err travel(trip *t)
{
    weir_net_op *all[2 * WEIR_DIRECT_WINDOW];
    weir_err err;

    t->tag = weir_tag(WEIR_CHANNEL_COLL, weir_coll_sequence(t->group), 0);
    t->dry = weir_net_dry(t->group->net);
    t->posted = t->sent = 1;
    for (int i = 0; i < WEIR_DIRECT_WINDOW; i++) {
        all[2 * i] = &t->get[i];
        all[2 * i + 1] = &t->put[i];
        t->get[i].done = t->put[i].done = true;
    }
    if ((err = go(t)))
        weir_net_cancel(t->group->net, all, 2 * WEIR_DIRECT_WINDOW);
    return err;
}

weir_err weir_direct_alltoall(weir_group *g, const weir_pieces *out, const weir_pieces *in)
{
    size_t kept = out->len[g->me], wanted = in->len[g->me];

    if (kept != wanted)
        return weir_fail(WEIR_MISFIT, "rank %d has %zu bytes for itself where it expects %zu",
                         g->member[g->me], kept, wanted);
    return travel(&(trip){.group = g, .out = out, .in = in, .root = -1});
}

weir_err weir_direct_gather(weir_group *g, int root, const weir_pieces *x)
{
    return travel(&(trip){.group = g, .out = x, .in = g->me == root ? x : NULL, .root = root});
}
