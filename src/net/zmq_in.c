/* zmq_in.c - what arrives over ZeroMQ, and what becomes of links. */
#include "core/log.h"
#include "net/zmq_link.h"
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <zmq.h>

enum { WARNINGS = 10, REFUSALS = 5 };

typedef struct parcel { /* a message as ZeroMQ holds it */
    weir_msg msg;       /* first */
    zmq_msg_t body;
    struct parcel *next;
} parcel;

/* ---- messages ---- */

static void warn_foreign(weir_net *n)
{
    sockets *z = n->link;

    if (z->warned++ < WARNINGS)
        weir_log(WEIR_LOG_WARN, "net", "rank %d dropped a message that is not of this run",
                 n->rank);
}

static parcel *get_parcel(sockets *z)
{
    parcel *p = z->spare;

    if (p)
        z->spare = p->next;
    else
        p = malloc(sizeof *p);
    if (p)
        zmq_msg_init(&p->body);
    return p;
}

void weir_zmq_free_spare(sockets *z)
{
    for (parcel *next; z->spare; z->spare = next) {
        next = z->spare->next;
        free(z->spare);
    }
}

void weir_zmq_drop(weir_net *n, weir_msg *m)
{
    sockets *z = n->link;
    parcel *p = (parcel *)m;

    zmq_msg_close(&p->body);
    p->next = z->spare;
    z->spare = p;
}

void weir_zmq_fetch(weir_net *n, weir_net_op *o, weir_msg *m)
{
    parcel *p = (parcel *)m;
    zmq_msg_t copy;

    if (o->cap) {
        if (m->len)
            memcpy(o->data, m->data, m->len);
        n->count.copied += m->len;
        weir_zmq_drop(n, m);
        weir_net_op_done(o, WEIR_OK);
        return;
    }
    if ((uintptr_t)m->data & 7 && !zmq_msg_init_size(&copy, m->len)) {
        memcpy(zmq_msg_data(&copy), m->data, m->len);
        n->count.copied += m->len;
        zmq_msg_move(&p->body, &copy);
        zmq_msg_close(&copy);
        m->data = zmq_msg_data(&p->body);
    }
    o->data = m->data;
    o->own = m;
    weir_net_op_done(o, WEIR_OK);
}

/* Reads one part; false if there is none. *more: others follow. */
static bool part(void *socket, zmq_msg_t *m, bool *more)
{
    if (zmq_msg_recv(m, socket, ZMQ_DONTWAIT) < 0)
        return false;
    *more = zmq_msg_more(m);
    return true;
}

/* Whom a ROUTER's first part names; -1: nobody of this run. */
static int named(const sockets *z, zmq_msg_t *m)
{
    unsigned char ours[WEIR_ZMQ_NAME];
    const unsigned char *at = zmq_msg_data(m);
    uint32_t rank;

    if (zmq_msg_size(m) != WEIR_ZMQ_NAME)
        return -1;
    memcpy(&rank, at + 1, 4);
    weir_zmq_name(z, (int)rank, ours);
    return memcmp(at, ours, sizeof ours) ? -1 : (int)rank;
}

static void deliver(weir_net *n, parcel *p, const weir_frame *head)
{
    int from = (int)head->from;
    void *body = zmq_msg_data(&p->body);

    weir_liveness_heard(n, from, (weir_frame_kind)head->kind, head->doing, body, head->len);
    if (head->kind != WEIR_FRAME_DATA) {
        weir_zmq_drop(n, &p->msg);
        return;
    }
    p->msg = (weir_msg){.from = from,
                        .generation = head->generation,
                        .tag = head->tag,
                        .len = head->len,
                        .data = body};
    weir_match_arrive(n, &p->msg);
}

/* Takes one message from the ROUTER (from -1) or from a peer's DEALER; false if there is none. */
bool weir_zmq_take(weir_net *n, void *socket, int from)
{
    parcel *p = get_parcel(n->link);
    weir_frame head;
    bool more = true, ours, early;

    if (!p) {
        weir_net_abort(n, WEIR_FAILED);
        return false;
    }
    if (from < 0) {
        if (!part(socket, &p->body, &more))
            return weir_zmq_drop(n, &p->msg), false;
        from = named(n->link, &p->body);
        if (!more || !part(socket, &p->body, &more))
            return warn_foreign(n), weir_zmq_drop(n, &p->msg), true;
    } else if (!part(socket, &p->body, &more)) {
        return weir_zmq_drop(n, &p->msg), false;
    }
    /* of this run, but not known here yet, or we are no rank yet: it says so again */
    early = from >= n->size || weir_net_outside(n);
    ours = !early &&
           weir_frame_read(zmq_msg_data(&p->body), zmq_msg_size(&p->body), n->size, &head) &&
           head.from == (uint32_t)from;
    ours = ours && more == (head.len > 0);
    if (more)
        ours = part(socket, &p->body, &more) && ours && zmq_msg_size(&p->body) == head.len && !more;
    if (ours) {
        deliver(n, p, &head);
        return true;
    }
    while (more && part(socket, &p->body, &more))
        ;
    if (!early)
        warn_foreign(n);
    return weir_zmq_drop(n, &p->msg), true;
}

bool weir_zmq_take_control(weir_net *n, int peer)
{
    sockets *z = n->link;
    bool any = false;

    z->peer[peer].written = false;
    while (z->peer[peer].dealer && weir_zmq_take(n, z->peer[peer].dealer, peer))
        any = true;
    return any;
}

/* ---- links ---- */

/* Before they met: a rank listens before it says where, so a machine that refuses to connect to it
 * tells that its process is gone. Not by the first refusal, which may be the network's; nor over
 * ipc, where ranks may well come before the file. */
static bool refused(remote *r) { return r->tcp && r->fd < 0 && ++r->refusals >= REFUSALS; }

/* The link to a peer has ended if its monitor says so. What came before is read first: its last
 * word, and what others may have told of the reason why. */
void weir_zmq_look(weir_net *n, int peer)
{
    sockets *z = n->link;
    remote *r = &z->peer[peer];
    bool ended = false;
    uint32_t value;

    r->unseen = false;
    for (int event; r->monitor && (event = weir_zmq_event(r->monitor, &value));) {
        if (event == ZMQ_EVENT_CONNECTED && r->tcp)
            weir_zmq_pace(n, r->fd = (int)value);
        ended |= event == ZMQ_EVENT_DISCONNECTED || (event == ZMQ_EVENT_CLOSED && refused(r));
    }
    if (!ended)
        return;
    for (int p = 0; p < n->size; p++)
        weir_zmq_take_control(n, p);
    weir_liveness_gone(n, peer);
}

/* The kernel of a stopped process still answers for it, to data and to keep-alive probes alike;
 * that of one behind a cut link does not. */
const char *weir_zmq_silence(weir_net *n, int peer, double seconds)
{
    const remote *r = &((sockets *)n->link)->peer[peer];
    struct tcp_info info;
    socklen_t len = sizeof info;

    if (!r->tcp)
        return ", stopped";
    /* probes are a second apart at least */
    if (seconds < 1.8 || r->fd < 0 || getsockopt(r->fd, IPPROTO_TCP, TCP_INFO, &info, &len))
        return "";
    return info.tcpi_last_ack_recv > 750 * seconds
               ? ", and its machine does not answer: the link is cut, or the machine is down"
               : ", but its machine answers: it is stopped";
}
