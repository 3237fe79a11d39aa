/* sim_msg.c - messages under way, and whose their bytes are.
 *
 * A short message is copied when it is sent, and its send is done. A long one (above `eager`) lies
 * in the sender's memory until the receiver has matched it, and its send is done a latency after
 * that, as with a rendezvous; with rendezvous=no, when its last byte has left. Where lent bytes go
 * back earlier (a cancelled send, a rank that ends) the message goes on as a copy. */
#include "net/sim.h"
#include <stdlib.h>
#include <string.h>

/* ---- a parcel's life ---- */

static weir_sim_parcel *get_parcel(weir_sim *s)
{
    weir_sim_parcel *m = s->spare_parcel;

    if (m)
        s->spare_parcel = m->next;
    else
        m = malloc(sizeof *m);
    return m;
}

static void link_out(weir_sim_node *a, weir_sim_parcel *m)
{
    m->before = NULL;
    m->after = a->out;
    if (a->out)
        a->out->before = m;
    a->out = m;
}

/* Frees it, or takes it off its sender's list, as soon as that may be. */
static void complete(weir_sim *s, weir_sim_parcel *m)
{
    weir_sim_node *a = &s->node[m->from];

    if (m->op || m->holds & WEIR_SIM_FLYING)
        return;
    if (m->before || m->after || a->out == m) {
        *(m->before ? &m->before->after : &a->out) = m->after;
        if (m->after)
            m->after->before = m->before;
        m->before = m->after = NULL;
    }
    if (m->holds)
        return;
    free(m->bytes);
    m->next = s->spare_parcel;
    s->spare_parcel = m;
}

/* A copy of the sender's bytes (or zeros, where a size has content all the same), in memory of our
 * own. */
static bool keep_copy(weir_sim *s, weir_sim_parcel *m, const void *from)
{
    if (!m->msg.len || m->bytes)
        return true;
    if (!(m->bytes = malloc(m->msg.len)))
        return s->nomem = true, false;
    if (from)
        memcpy(m->bytes, from, m->msg.len);
    else
        memset(m->bytes, 0, m->msg.len);
    m->msg.data = m->bytes;
    return true;
}

void weir_sim_lent_back(weir_sim *s, weir_sim_parcel *m)
{
    weir_net_op *o = m->op;
    weir_sim_node *a = &s->node[m->from];

    if (!o)
        return;
    if (!m->taken && o->data && !(a->dead && m->sent < m->msg.len))
        keep_copy(s, m, o->data);
    if (!m->bytes)
        m->msg.data = NULL;
    m->op = NULL;
    weir_net_op_sent(&a->net, o);
    complete(s, m);
}

/* ---- sending ---- */

void weir_sim_send(weir_net *n, weir_net_op *o)
{
    weir_sim *s = weir_sim_of(n);
    weir_sim_node *a = weir_sim_node_of(n);
    weir_sim_node *b = weir_sim_at(s, o->peer);
    weir_sim_parcel *m = b ? get_parcel(s) : NULL;
    bool eager = o->len <= (size_t)s->o->eager;

    if (!m) {
        weir_net_op_done(o, b ? WEIR_FAILED : WEIR_LOST);
        return;
    }
    memset(m, 0, offsetof(weir_sim_parcel, only));
    m->msg = (weir_msg){.from = n->rank,
                        .generation = o->generation,
                        .tag = o->tag,
                        .len = o->len,
                        .data = o->data};
    m->from = weir_sim_index(n);
    m->to = weir_sim_index(&b->net);
    m->holds = WEIR_SIM_FLYING;
    if (!eager)
        m->op = o;
    a->moved = s->now;
    link_out(a, m);
    if (eager && o->data && o->len)
        n->count.copied += keep_copy(s, m, o->data) ? o->len : 0;
    if (eager)
        weir_net_op_done(o, WEIR_OK);
    weir_sim_wire_send(s, m);
}

/* ---- receiving ---- */

void weir_sim_deliver(weir_sim *s, weir_sim_parcel *m, bool put_off)
{
    weir_sim_node *a = &s->node[m->from], *b = &s->node[m->to];

    if (weir_sim_put_off(s, &(weir_sim_event){.kind = WEIR_SIM_DELIVER,
                                              .node = m->to,
                                              .thing = m,
                                              .put_off = put_off || b->dead}))
        return;
    m->holds = (m->holds & ~WEIR_SIM_FLYING) | WEIR_SIM_HERE;
    /* nobody takes it: a lent one comes back when the loss is noticed */
    if (b->dead || m->closed) {
        m->holds &= ~WEIR_SIM_HERE;
        complete(s, m);
    } else {
        complete(s, m);
        weir_match_arrive(&b->net, &m->msg);
    }
    weir_sim_look_left(s, a);
}

/* The receiver has what it wants of the sender's bytes. */
static void take(weir_sim *s, weir_sim_parcel *m)
{
    if (!m->op || m->taken)
        return;
    m->taken = true;
    if (m->holds & WEIR_SIM_ACKING || s->over)
        return;
    m->holds |= WEIR_SIM_ACKING;
    weir_sim_push(s, s->now + weir_sim_latency(s, m->to, m->from), WEIR_SIM_ACK, m->from, m);
}

void weir_sim_on_ack(weir_sim *s, weir_sim_parcel *m)
{
    m->holds &= ~WEIR_SIM_ACKING;
    if (m->op)
        weir_sim_lent_back(s, m);
    else
        complete(s, m);
}

void weir_sim_no_ack(weir_sim *s, weir_sim_parcel *m)
{
    m->holds &= ~WEIR_SIM_ACKING;
    complete(s, m);
}

void weir_sim_drop(weir_net *n, weir_msg *msg)
{
    weir_sim *s = weir_sim_of(n);
    weir_sim_parcel *m = (weir_sim_parcel *)msg;

    take(s, m);
    m->holds &= ~WEIR_SIM_HERE;
    complete(s, m);
}

static void land(weir_net *n, weir_net_op *o, weir_sim_parcel *m)
{
    if (m->msg.data)
        memcpy(o->data, m->msg.data, m->msg.len);
    else if (m->msg.len && !n->dry)
        memset(o->data, 0, m->msg.len);
    n->count.copied += n->dry ? 0 : m->msg.len;
    weir_sim_drop(n, &m->msg);
    weir_net_op_done(o, WEIR_OK);
}

void weir_sim_fetch(weir_net *n, weir_net_op *o, weir_msg *msg)
{
    weir_sim *s = weir_sim_of(n);
    weir_sim_parcel *m = (weir_sim_parcel *)msg;

    if (o->cap) {
        land(n, o, m);
        return;
    }
    if (m->msg.data || !n->dry)
        keep_copy(s, m, m->msg.data);
    take(s, m);
    o->data = m->msg.data;
    o->own = m;
    weir_net_op_done(o, WEIR_OK);
}

/* ---- taking back ---- */

void weir_sim_cut_peer(weir_net *n, int peer)
{
    weir_sim *s = weir_sim_of(n);

    for (weir_sim_parcel *m = weir_sim_node_of(n)->out, *next; m; m = next) {
        next = m->after;
        if (&s->node[m->to] == weir_sim_at(s, peer) &&
            m->op) { /* the link is closed on what has not come yet */
            m->closed = m->taken = true;
            weir_sim_lent_back(s, m);
        }
    }
}

void weir_sim_let(weir_net *n, weir_net_op *o)
{
    weir_sim *s = weir_sim_of(n);

    for (weir_sim_parcel *m = weir_sim_node_of(n)->out, *next; m; m = next) {
        next = m->after;
        if (m->op && (!o || m->op == o))
            weir_sim_lent_back(s, m);
    }
}

/* ---- the end ---- */

void weir_sim_parcels_close(weir_sim *s)
{
    weir_sim_parcel *m, *next;

    for (size_t i = 0; i < s->events; i++) {
        weir_sim_packet *k = s->heap[i].thing;
        if (s->heap[i].kind == WEIR_SIM_PACKET && k != &k->parcel->only)
            free(k);
    }
    /* given back, and no longer on a list: only the event knows it */
    for (size_t i = 0; i < s->events; i++)
        if (s->heap[i].kind == WEIR_SIM_ACK) {
            m = s->heap[i].thing;
            m->holds &= ~WEIR_SIM_ACKING;
            m->op = NULL;
            complete(s, m);
        }
    for (int r = 0; r < s->nodes; r++)
        for (m = s->node[r].out; m; m = next) {
            next = m->after;
            free(m->bytes);
            free(m);
        }
    for (m = s->spare_parcel; m; m = next) {
        next = m->next;
        free(m);
    }
}
