/* mpi.c - real processes under MPI: messages out and in. mpi_link.h tells how the files share the
 * work.
 *
 *   a message:   packet (head, and the body if that is short) under tag 0  [ + body under a tag of
 * its own, named in the packet ]
 *
 * Matching is net's own, by the head. A long body is received only once its message has matched:
 * straight into its place, without a copy; one that nobody wants any more is received too, and
 * thrown away. So a send may be done only when the peer has matched it. */
#include "core/log.h"
#include "net/mpi_link.h"
#include <stdlib.h>
#include <string.h>

enum {
    BURST = 64,   /* packets taken before fibres get their turn */
    WARNINGS = 10 /* about foreign messages */
};

/* ---- sending ---- */

/* A send that could not even begin. */
static void no_send(weir_net *n, weir_net_op *o, int code)
{
    int peer = o->peer;

    if (code == MPI_SUCCESS) {
        weir_net_op_done(o, WEIR_FAILED);
        weir_net_abort(n, WEIR_FAILED);
        return;
    }
    weir_mpi_broken(n, code, peer);
    if (!o->done)
        weir_net_op_sent(n, o);
}

static int send_packet(mpi_link *l, transfer *t, size_t inside)
{
    MPI_Request r;
    int code = MPI_Isend(&t->packet, (int)(WEIR_MPI_HEAD + inside), MPI_BYTE, t->peer,
                         WEIR_MPI_TAG_PACKET, l->comm, &r);

    if (!code)
        weir_mpi_watch(l, t, r);
    return code;
}

/* The bytes of a size without content. */
static bool make_dry(mpi_link *l, transfer *t, size_t len)
{
    if (!(t->parcel = weir_mpi_parcel(l, len)))
        return false;
    memset(t->parcel->bytes, 0, len);
    return true;
}

static void send_long(weir_net *n, weir_net_op *o, transfer *t)
{
    mpi_link *l = n->link;
    int tag = 1 + (int)(l->sequence++ % (uint32_t)l->tags), code;

    if (!o->data && !make_dry(l, t, o->len)) {
        weir_mpi_transfer_free(l, t);
        no_send(n, o, MPI_SUCCESS);
        return;
    }
    t->packet.body = (uint32_t)tag;
    t->op = o;
    code = send_packet(l, t, 0);
    if (!code)
        code = weir_mpi_move(l, t, o->data ? o->data : t->parcel->bytes, o->len, tag);
    if (code)
        no_send(n, o, code);
}

static void send_short(weir_net *n, weir_net_op *o, transfer *t)
{
    int code;

    t->packet.body = 0;
    if (o->data && o->len)
        memcpy(t->packet.bytes, o->data, o->len);
    else
        memset(t->packet.bytes, 0, o->len);
    n->count.copied += o->len;
    code = send_packet(n->link, t, o->len);
    if (code)
        no_send(n, o, code);
    else
        weir_net_op_done(o, WEIR_OK);
}

static void send_data(weir_net *n, weir_net_op *o)
{
    mpi_link *l = n->link;
    bool is_short = o->len <= sizeof((packet *)0)->bytes;
    transfer *t;

    if (l->down) {
        weir_net_op_done(o, WEIR_LOST);
        return;
    }
    if (!(t = weir_mpi_transfer(l, o->peer, 1 + weir_mpi_parts(l, o->len)))) {
        no_send(n, o, MPI_SUCCESS);
        return;
    }
    t->out = true;
    t->packet.zero = 0;
    weir_frame_make(&t->packet.head, WEIR_FRAME_DATA, n, o->tag, o->len);
    if (is_short)
        send_short(n, o, t);
    else
        send_long(n, o, t);
}

/* DONE goes behind the data; all other words have a path of their own. */
static void tell(weir_net *n, int peer, weir_frame_kind kind, const void *body, size_t len)
{
    mpi_link *l = n->link;
    transfer *t;

    if (kind != WEIR_FRAME_DONE) {
        weir_mpi_tell(n, peer, kind, body, len);
        return;
    }
    if (l->down || !(t = weir_mpi_transfer(l, peer, 1)))
        return;
    t->out = true;
    t->packet.body = t->packet.zero = 0;
    weir_frame_make(&t->packet.head, kind, n, 0, 0);
    if (send_packet(l, t, 0))
        weir_mpi_transfer_free(l, t);
}

/* ---- receiving ---- */

/* Starts the body that `head` announced on its way to `to`; when it is there `o` (NULL: nobody) is
 * done, and `p` (NULL: none) is free. */
static void receive(weir_net *n, const parcel *head, void *to, weir_net_op *o, parcel *p)
{
    mpi_link *l = n->link;
    size_t len = head->msg.len;
    int from = head->msg.from, code;
    transfer *t = weir_mpi_transfer(l, from, weir_mpi_parts(l, len));

    if (!t) {
        weir_net_abort(n, WEIR_FAILED);
        if (o)
            weir_net_op_done(o, WEIR_FAILED);
        return;
    }
    t->op = o;
    t->parcel = p;
    code = weir_mpi_move(l, t, to, len, (int)head->body);
    if (!code)
        return;
    weir_mpi_broken(n, code, from);
    if (o && !o->done)
        weir_net_op_done(o, WEIR_LOST);
}

static void drop(weir_net *n, weir_msg *m)
{
    mpi_link *l = n->link;
    parcel *p = (parcel *)m, *away;

    if (p->whole && !m->data) { /* MPI is writing to it */
        p->unwanted = true;
        return;
    }
    if (p->body && !l->down) { /* it must come all the same, so that its sender gets on */
        if ((away = weir_mpi_parcel(l, m->len)))
            receive(n, p, away->bytes, NULL, away);
        else
            weir_liveness_give_up(n, m->from, WEIR_LOST, "sent more than this rank has room for");
    }
    weir_mpi_parcel_free(l, p);
}

static void fetch_long(weir_net *n, weir_net_op *o, parcel *p)
{
    mpi_link *l = n->link;
    parcel *whole;

    if (o->cap) {
        receive(n, p, o->data, o, NULL);
        weir_mpi_parcel_free(l, p);
        return;
    }
    if (!(whole = weir_mpi_parcel(l, p->msg.len))) {
        o->kind = WEIR_NET_OP_IDLE;
        weir_net_op_done(o, WEIR_FAILED);
        drop(n, &p->msg);
        return;
    }
    whole->msg = p->msg;
    whole->msg.data = o->data = whole->bytes;
    o->own = whole;
    receive(n, p, whole->bytes, o, NULL);
    weir_mpi_parcel_free(l, p);
}

static void fetch(weir_net *n, weir_net_op *o, weir_msg *m)
{
    mpi_link *l = n->link;
    parcel *p = (parcel *)m;

    if (m->data) {
        weir_mpi_deal(n, o, p);
    } else if (l->down) { /* the rest will not come any more */
        o->kind = WEIR_NET_OP_IDLE;
        weir_net_op_done(o, WEIR_LOST);
        drop(n, m);
    } else if (p->whole) { /* its body is on its way already */
        p->op = o;
    } else {
        fetch_long(n, o, p);
    }
}

/* Is what came in `bytes` bytes from `from` a packet of ours. */
static bool read_packet(const weir_net *n, const packet *k, int bytes, int from, weir_frame *head)
{
    size_t inside;

    if (bytes < WEIR_MPI_HEAD || !weir_frame_read(&k->head, sizeof k->head, n->size, head) ||
        head->from != (uint32_t)from)
        return false;
    inside = (size_t)bytes - WEIR_MPI_HEAD;
    if (head->kind == WEIR_FRAME_DONE)
        return !k->body && !inside && !head->len;
    if (head->kind != WEIR_FRAME_DATA)
        return false;
    if (k->body)
        return !inside && head->len > sizeof k->bytes &&
               k->body <= (uint32_t)((mpi_link *)n->link)->tags;
    return inside == head->len;
}

static void deliver(weir_net *n, const packet *k, int bytes, int from)
{
    mpi_link *l = n->link;
    weir_frame head;
    parcel *p;

    if (!read_packet(n, k, bytes, from, &head)) {
        if (l->warned++ < WARNINGS)
            weir_log(WEIR_LOG_WARN, "net", "rank %d dropped a message that is not of this run",
                     n->rank);
        return;
    }
    weir_liveness_heard(n, from, (weir_frame_kind)head.kind, head.doing, NULL, 0);
    if (head.kind != WEIR_FRAME_DATA) {
        l->dones++;
        return;
    }
    if (!(p = weir_mpi_parcel(l, k->body ? 0 : head.len))) {
        weir_net_abort(n, WEIR_FAILED);
        return;
    }
    p->msg =
        (weir_msg){.from = from, .generation = head.generation, .tag = head.tag, .len = head.len};
    p->body = k->body;
    if (!k->body)
        p->msg.data = memcpy(p->bytes, k->bytes, head.len);
    weir_match_arrive(n, &p->msg);
}

/* Slots fill in the order they were started, and MPI keeps one sender's messages in order: so only
 * the first is looked at. */
bool weir_mpi_packets(weir_net *n)
{
    mpi_link *l = n->link;
    bool any = false;
    MPI_Status status;
    int flag, code, bytes;

    for (int i = 0; i < BURST && !l->down; i++) {
        code = MPI_Test(&l->slot[l->at], &flag, &status);
        if (code || !flag) {
            if (code)
                weir_mpi_broken(n, code, -1);
            break;
        }
        any = true;
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        deliver(n, &l->in[l->at], bytes, status.MPI_SOURCE);
        if (!l->down && (code = MPI_Start(&l->slot[l->at])))
            weir_mpi_broken(n, code, -1);
        l->at = (l->at + 1) % WEIR_MPI_SLOTS;
    }
    return any;
}

/* Said at once: the launcher knows of a death as soon as we do, and some kill all the others before
 * they can leave in words. */
static void cut(weir_net *n, int peer)
{
    mpi_link *l = n->link;
    weir_fault f;
    char text[400];

    if (!weir_loss_is(n, peer, WEIR_PEER_LOST) || l->down)
        return;
    weir_net_fault(n, &f);
    weir_fault_text(&f, text, sizeof text);
    weir_log(WEIR_LOG_WARN, "net", "lost: %s", text);
    weir_mpi_down(n);
}

/* ---- the world ---- */

static const weir_opt options[] = {
    WEIR_WORLD_OPTIONS,
    {"chunk", WEIR_OPT_INT, offsetof(weir_mpi_self, chunk), "1073741824",
     "bytes that are given to MPI at once", .min = 64, .max = 1 << 30},
    {0},
};

const weir_world weir_net_mpi = {
    .plug = {"mpi", "processes started by mpirun, mpiexec or srun --mpi=pmix, over MPI",
             sizeof(weir_mpi_self), options},
    .facts = {.shares = true}, /* MPI itself does not outlive a rank */
    .stack = 1 << 20,
    .open = weir_mpi_open,
    .close = weir_mpi_close,
    .send = send_data,
    .tell = tell,
    .fetch = fetch,
    .drop = drop,
    .cut = cut,
    .idle = weir_mpi_idle,
    .now = weir_mpi_now,
    .silence = weir_mpi_silence,
};
