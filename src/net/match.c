/* match.c - operations: which message goes to which receive, the same in every world. */
#include "net/world.h"
#include <stdlib.h>
#include <string.h>

/* What a held message costs besides its bytes, so that empty ones count too. */
enum { HELD_EXTRA = 256 };

void weir_net_op_done(weir_net_op *o, weir_err err)
{
    if (o->kind != WEIR_NET_OP_LENT)
        o->kind = WEIR_NET_OP_IDLE;
    o->err = err;
    o->done = true;
    if (o->waiter)
        weir_sched_ready(o->waiter);
}

void weir_net_op_sent(weir_net *n, weir_net_op *o)
{
    /* one that has left in order may well have taken it first */
    bool lost = weir_loss_is(n, o->peer, WEIR_PEER_LOST);

    weir_net_op_done(o, lost ? weir_loss_of(n, o->generation, o->peer, &o->peer) : WEIR_OK);
}

/* What it belongs to. */
static int generation_of(const weir_net *n, uint64_t tag)
{
    uint64_t channel = tag >> 56;

    return channel == WEIR_CHANNEL_MEMBERS || channel == WEIR_CHANNEL_STATE ? WEIR_EVER
                                                                            : n->generation;
}

/* ---- messages ---- */

static void drop(weir_net *n, weir_msg *m)
{
    if (m->self)
        free(m);
    else
        n->world->drop(n, m);
}

static bool fits(const weir_net_op *o, const weir_msg *m)
{
    return o->generation == m->generation && (o->peer == WEIR_ANY || o->peer == m->from) &&
           !((o->tag ^ m->tag) & o->mask);
}

static void fetch_self(weir_net_op *o, weir_msg *m)
{
    if (!o->cap) {
        o->data = m->data;
        o->own = m;
    } else {
        if (m->len)
            memcpy(o->data, m->data, m->len);
        free(m);
    }
    weir_net_op_done(o, WEIR_OK);
}

/* `o` is on no list and `m` neither. */
static void match(weir_net *n, weir_net_op *o, weir_msg *m)
{
    o->peer = m->from;
    o->tag = m->tag;
    o->len = m->len;
    o->kind = o->cap ? WEIR_NET_OP_IDLE : WEIR_NET_OP_LENT;
    if (!m->self)
        n->count.received += m->len;
    if (o->cap && m->len > o->cap) {
        drop(n, m);
        weir_net_op_done(o, WEIR_BIG);
    } else if (m->self) {
        fetch_self(o, m);
    } else {
        n->world->fetch(n, o, m);
    }
}

static void unpost(weir_net *n, weir_net_op **at)
{
    weir_net_op *o = *at;

    if (!(*at = o->next))
        n->posted_tail = at;
    o->next = NULL;
}

/* ---- messages nobody asked for yet: on shelves by their source, so that one sender's pile does
 * not hide another's ---- */

static void hold(weir_net *n, weir_msg *m)
{
    int shelf = m->from % WEIR_SHELVES;

    m->next = NULL;
    m->number = n->arrivals++;
    *n->arrived[shelf].last = m;
    n->arrived[shelf].last = &m->next;
    if (!m->self)
        n->held += m->len + HELD_EXTRA;
}

static weir_msg *unhold(weir_net *n, int shelf, weir_msg **at)
{
    weir_msg *m = *at;

    if (!(*at = m->next))
        n->arrived[shelf].last = at;
    if (!m->self)
        n->held -= m->len + HELD_EXTRA;
    return m;
}

/* Takes the first of them that fits; NULL: none does. */
static weir_msg *find_held(weir_net *n, const weir_net_op *o)
{
    weir_msg **found = NULL, **at;
    int shelf = 0;

    for (int i = 0; i < WEIR_SHELVES; i++) {
        if (o->peer != WEIR_ANY && i != o->peer % WEIR_SHELVES)
            continue;
        for (at = &n->arrived[i].first; *at && !fits(o, *at); at = &(*at)->next)
            ;
        if (*at && (!found || (*at)->number < (*found)->number)) {
            found = at;
            shelf = i;
        }
    }
    return found ? unhold(n, shelf, found) : NULL;
}

/* Too much is held: gives up whom most of it is from. */
static void refuse_more(weir_net *n)
{
    size_t most = 0, *bytes = calloc((size_t)n->size, sizeof *bytes);
    int who = -1;

    for (int i = 0; bytes && i < WEIR_SHELVES; i++)
        for (weir_msg *m = n->arrived[i].first; m; m = m->next) {
            bytes[m->from] += m->self ? 0 : m->len + HELD_EXTRA;
            if (bytes[m->from] > most) {
                most = bytes[m->from];
                who = m->from;
            }
        }
    free(bytes);
    if (who >= 0)
        weir_liveness_give_up(n, who, WEIR_LOST,
                              "sent more than may be held of messages nobody had asked for");
}

void weir_match_arrive(weir_net *n, weir_msg *m)
{
    if (generation_of(n, m->tag) == WEIR_EVER)
        m->generation = WEIR_EVER;
    if (m->generation < n->generation || weir_loss_is(n, m->from, WEIR_PEER_LOST) || n->closing) {
        drop(n, m);
        return;
    }
    for (weir_net_op **at = &n->posted; *at; at = &(*at)->next)
        if (fits(*at, m)) {
            weir_net_op *o = *at;
            unpost(n, at);
            match(n, o, m);
            return;
        }
    hold(n, m);
    if (n->held > n->hold)
        refuse_more(n);
}

void weir_match_drop(weir_net *n, int before)
{
#ifdef WEIR_BUG_STALE /* tests/check_storm: what is held of the last generation counts in this */
    for (int i = 0; i < WEIR_SHELVES; i++)
        for (weir_msg *m = n->arrived[i].first; m; m = m->next)
            m->generation = m->generation < before ? before : m->generation;
#endif
    for (int i = 0; i < WEIR_SHELVES; i++)
        for (weir_msg **at = &n->arrived[i].first; *at;)
            if ((*at)->generation < before)
                drop(n, unhold(n, i, at));
            else
                at = &(*at)->next;
}

/* ---- verbs ---- */

/* Ends what can never come to pass. */
static bool refused(weir_net_op *o, weir_err err, int who)
{
    if (!err)
        return false;
    o->peer = who;
    weir_net_op_done(o, err);
    return true;
}

static bool no_such_rank(weir_net *n, weir_net_op *o, int peer, int least)
{
    return refused(o, peer < least || peer >= n->size ? WEIR_USAGE : WEIR_OK, peer);
}

static void send_self(weir_net *n, weir_net_op *o)
{
    size_t head = (sizeof(weir_msg) + 15) / 16 * 16;
    weir_msg *m = malloc(head + o->len);

    if (!m) {
        weir_net_op_done(o, WEIR_FAILED);
        return;
    }
    *m = (weir_msg){.from = n->rank,
                    .generation = o->generation,
                    .tag = o->tag,
                    .len = o->len,
                    .data = (char *)m + head,
                    .self = true};
    if (o->data && o->len)
        memcpy(m->data, o->data, o->len);
    else
        memset(m->data, 0, o->len);
    n->count.copied += o->len;
    weir_net_op_done(o, WEIR_OK);
    weir_match_arrive(n, m);
}

void weir_net_send(weir_net *n, int peer, uint64_t tag, const void *data, size_t len,
                   weir_net_op *o)
{
    int who = peer;
    weir_err err;

    *o = (weir_net_op){.peer = peer,
                       .tag = tag,
                       .data = (void *)(uintptr_t)data,
                       .len = len,
                       .generation = generation_of(n, tag),
                       .kind = WEIR_NET_OP_SENDING};
    if (no_such_rank(n, o, peer, 0))
        return;
    err = weir_loss_all(n, o->generation, &who);
    if (!err)
        err = weir_loss_of(n, o->generation, peer, &who);
    if (refused(o, err, who))
        return;
    if (peer == n->rank) {
        send_self(n, o);
        return;
    }
    n->count.sent += len;
    n->count.messages++;
    n->world->send(n, o);
}

void weir_net_recv(weir_net *n, int peer, uint64_t tag, void *buf, size_t cap, weir_net_op *o)
{
    weir_net_recv_masked(n, &(weir_net_want){peer, tag, UINT64_MAX, buf, cap}, o);
}

void weir_net_recv_masked(weir_net *n, const weir_net_want *want, weir_net_op *o)
{
    int peer = want->peer, who = peer;
    weir_err err;
    weir_msg *m;

    *o = (weir_net_op){.peer = peer,
                       .tag = want->tag,
                       .mask = want->mask,
                       .data = want->buf,
                       .cap = want->cap,
                       .generation = generation_of(n, want->tag),
                       .kind = WEIR_NET_OP_POSTED};
    if (no_such_rank(n, o, peer, WEIR_ANY))
        return;
    err = weir_loss_all(n, o->generation, &who);
    if (refused(o, err, who))
        return;
    if ((m = find_held(n, o))) {
        match(n, o, m);
        return;
    }
    err = weir_loss_of(n, o->generation, peer, &who);
    if (refused(o, err, who))
        return;
    *n->posted_tail = o;
    n->posted_tail = &o->next;
}

void weir_net_release(weir_net *n, weir_net_op *o)
{
    if (!o->done || o->kind != WEIR_NET_OP_LENT)
        return;
    drop(n, o->own);
    o->kind = WEIR_NET_OP_IDLE;
    o->own = o->data = NULL;
}

void weir_match_unpost(weir_net *n, weir_net_op *o)
{
    for (weir_net_op **at = &n->posted; *at; at = &(*at)->next)
        if (*at == o) {
            unpost(n, at);
            break;
        }
    weir_net_op_done(o, WEIR_STALE);
}

void weir_match_judge(weir_net *n, weir_err (*judge)(weir_net *, weir_net_op *, int *who))
{
    for (weir_net_op **at = &n->posted; *at;) {
        weir_net_op *o = *at;
        int who = o->peer;
        weir_err err = judge(n, o, &who);
        if (!err) {
            at = &o->next;
            continue;
        }
        unpost(n, at);
        o->peer = who;
        weir_net_op_done(o, err);
    }
}
