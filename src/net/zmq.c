/* zmq.c - real processes over ZeroMQ, on one machine or many: messages out, and progress. No file
 * but the zmq*.c includes zmq.h.
 *
 *   rank a                                     rank b
 *   DEALER to b  ---- DATA, HELLO, DONE ---->  ROUTER
 *   DEALER to b  <--- all other words -------  ROUTER      (and the same the other way round)
 *
 * A rank binds one ROUTER and connects a DEALER to every peer. Data leave by the DEALER; words come
 * back by the same link, from the peer's ROUTER. So words never queue behind data, and the DEALER's
 * monitor reports the end of exactly the link by which the peer's last word came. Any disconnect is
 * a loss to us: ZeroMQ's own reconnection is for the first meeting only. Ranks that share a machine
 * are linked by ipc, in a directory that is theirs alone; others by tcp, with the cluster's key.
 *
 * Pitfalls seen to: a monitor is stopped before its PAIR closes (else closing hangs); a link is
 * closed with no linger to get lent buffers back (a disconnect keeps them); small messages arrive
 * at any alignment; water marks are off; ZMQ_FD tells of changes only, so a socket that was written
 * to is read before we sleep. */
#include "net/zmq_link.h"
#include <string.h>
#include <time.h>
#include <zmq.h>

enum {
    COPY_MAX = 8192, /* longer ones are lent to ZeroMQ */
    BURST = 64       /* messages taken before fibres get their turn */
};
/* seconds between looks at every socket when there is always something to do */
static const double LOOK = 1e-2;

/* ---- sending ---- */

static void on_free(weir_wake *w)
{
    weir_net_op *o = (weir_net_op *)((char *)w - offsetof(weir_net_op, wake));

    weir_net_op_sent(o->own, o);
}

/* ZeroMQ is done with lent bytes: sent, or thrown away with the link. On any thread. Its own locks
 * order this after the send; the release and acquire of `own` say so again to TSan, which cannot
 * see into it. */
static void lent_back(void *data, void *hint)
{
    weir_net_op *o = hint;
    weir_net *n = __atomic_load_n(&o->own, __ATOMIC_ACQUIRE);

    (void)data;
    weir_sched_remote(n->sched, &o->wake);
}

static int put_bytes(void *socket, const void *bytes, size_t len, int flags)
{
    return zmq_send(socket, bytes, len, flags | ZMQ_DONTWAIT);
}

static void send_body(weir_net *n, weir_net_op *o, void *socket)
{
    zmq_msg_t body;

    if (o->len <= COPY_MAX || !o->data) {
        if (zmq_msg_init_size(&body, o->len)) {
            weir_net_op_done(o, WEIR_FAILED);
            weir_liveness_gone(
                n, o->peer); /* half a message is out: this link is of no use any more */
            return;
        }
        if (o->data)
            memcpy(zmq_msg_data(&body), o->data, o->len);
        else
            memset(zmq_msg_data(&body), 0, o->len);
        n->count.copied += o->len;
        weir_net_op_done(o, WEIR_OK);
    } else {
        o->wake.fn = on_free;
        __atomic_store_n(&o->own, n, __ATOMIC_RELEASE);
        zmq_msg_init_data(&body, o->data, o->len, lent_back, o);
    }
    if (zmq_msg_send(&body, socket, ZMQ_DONTWAIT) < 0) {
        zmq_msg_close(&body); /* gives lent bytes back */
        weir_liveness_gone(n, o->peer);
    }
}

static void send_data(weir_net *n, weir_net_op *o)
{
    sockets *z = n->link;
    void *socket = z->peer[o->peer].dealer;
    weir_frame head;

    weir_frame_make(&head, WEIR_FRAME_DATA, n, o->tag, o->len);
    if (!socket || put_bytes(socket, &head, sizeof head, o->len ? ZMQ_SNDMORE : 0) < 0) {
        weir_net_op_done(o, WEIR_LOST);
        weir_liveness_gone(n, o->peer);
        return;
    }
    z->peer[o->peer].written = true;
    if (o->len)
        send_body(n, o, socket);
    else
        weir_net_op_done(o, WEIR_OK);
}

static void tell(weir_net *n, int peer, weir_frame_kind kind, const void *body, size_t len)
{
    sockets *z = n->link;
    bool by_dealer = kind == WEIR_FRAME_HELLO || kind == WEIR_FRAME_DONE;
    void *socket = by_dealer ? z->peer[peer].dealer : z->router;
    unsigned char name[WEIR_ZMQ_NAME];
    weir_frame head;

    weir_frame_make(&head, kind, n, 0, len);
    weir_zmq_name(z, peer, name);
    if (!socket || (!by_dealer && put_bytes(socket, name, sizeof name, ZMQ_SNDMORE) < 0))
        return; /* it is gone */
    if (put_bytes(socket, &head, sizeof head, len ? ZMQ_SNDMORE : 0) >= 0 && len)
        put_bytes(socket, body, len, 0);
    z->peer[peer].written |= by_dealer;
}

/* ---- progress ---- */

static double now(weir_sched *s)
{
    struct timespec t;

    (void)s;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* What can be done without sleeping; was there any. */
static bool progress(weir_net *n)
{
    sockets *z = n->link;
    bool any = weir_sched_drain(n->sched);

    for (int i = 0; z && i < BURST && weir_zmq_take(n, z->router, -1); i++)
        any = true;
    for (int p = 0; z && p < n->size; p++) {
        if (z->peer[p].written)
            any |= weir_zmq_take_control(n, p);
        if (z->peer[p].unseen)
            weir_zmq_look(n, p);
    }
    return any;
}

static void sleep_until(weir_sched *s, struct pollfd *set, nfds_t count, double until)
{
    double left = until > 0 ? until - now(s) : 0;
    struct timespec t;

    if (left <= 0 || !weir_sched_sleep(s))
        left = 0;
    left = left < 3600 ? left : 3600;
    t.tv_sec = (time_t)left;
    t.tv_nsec = (long)((left - (double)t.tv_sec) * 1e9);
    if (ppoll(set, count, &t, NULL) < 0)
        for (nfds_t i = 0; i < count; i++)
            set[i].revents = 0; /* a signal: look again */
    weir_sched_woken(s, set[WEIR_ZMQ_BELL].revents != 0);
}

static void look_at_all(weir_net *n, double until)
{
    sockets *z = n->link;

    sleep_until(n->sched, z->poll, (nfds_t)(WEIR_ZMQ_PEERS + 2 * n->size), until);
    z->looked = now(n->sched);
    if (z->poll[WEIR_ZMQ_GUARD].revents)
        weir_zmq_guard_serve(z);
    if (z->poll[WEIR_ZMQ_DOOR].revents || z->poll[WEIR_ZMQ_DOOR_EVENTS].revents)
        weir_zmq_door_look(n);
    if (z->poll[WEIR_ZMQ_ROUTER_EVENTS].revents)
        weir_crowd_look(z);
    for (int p = 0; p < n->size; p++) {
        if (z->poll[WEIR_ZMQ_PEERS + 2 * p].revents)
            weir_zmq_take_control(n, p);
        if (z->poll[WEIR_ZMQ_PEERS + 2 * p + 1].revents)
            weir_zmq_look(n, p);
    }
    progress(n);
}

static void idle(weir_sched *s, double until)
{
    weir_net *n = s->state;
    sockets *z = n->link;
    struct pollfd bell = {.fd = s->bell, .events = POLLIN};
    bool busy = progress(n) || until <= 0;
    double next = weir_liveness_tick(n);

    busy = busy || s->ready;
    if (z && (!busy || now(s) - z->looked > LOOK))
        look_at_all(n, busy ? 0 : until < next ? until : next);
    else if (!z && !busy)
        sleep_until(s, &bell, 1, until);
}

static const weir_opt options[] = {
    WEIR_WORLD_OPTIONS,
    {"ipc", WEIR_OPT_BOOL, offsetof(weir_zmq_self, ipc), "yes",
     "ranks that met at a rendezvous and share a machine are not linked by tcp"},
    {"congestion", WEIR_OPT_TEXT, offsetof(weir_zmq_self, congestion), "auto",
     .help = "TCP's congestion control, by its name; `system`: as it is set up; auto: so, but reno "
             "for bbr on short links"},
    {0}};

const weir_world weir_net_zmq = {
    .plug = {"zmq", "processes on this machine or on many, over ZeroMQ", sizeof(weir_zmq_self),
             options},
    .facts = {.loses = true, .joins = true, .encrypts = true, .shares = true},
    .stack = 1 << 20,
    .open = weir_zmq_open,
    .met = weir_zmq_met,
    .close = weir_zmq_close,
    .send = send_data,
    .tell = tell,
    .fetch = weir_zmq_fetch,
    .drop = weir_zmq_drop,
    .cut = weir_zmq_cut,
    .idle = idle,
    .now = now,
    .silence = weir_zmq_silence,
    .invite = weir_zmq_invite,
    .grow = weir_zmq_grow,
    .link = weir_zmq_link,
    .tell_guests = weir_zmq_tell_guests,
    .knock = weir_zmq_knock,
    .doors = weir_zmq_doors,
    .wait_in = weir_zmq_wait_in,
};
