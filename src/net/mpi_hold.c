/* mpi_hold.c - messages that nobody asks for, under MPI.
 *
 * A long body stays with its sender until the message has matched. But its sender may want its
 * memory back (weir_net_cancel), and waits a second for that: so what has been held for some tenths
 * of a second is fetched, into memory of ours. */
#include "net/mpi_link.h"
#include <string.h>

void weir_mpi_deal(weir_net *n, weir_net_op *o, parcel *p)
{
    if (o->cap) {
        if (p->msg.len)
            memcpy(o->data, p->msg.data, p->msg.len);
        n->count.copied += p->msg.len;
        weir_mpi_parcel_free(n->link, p);
    } else {
        o->data = p->msg.data;
        o->own = &p->msg;
    }
    weir_net_op_done(o, WEIR_OK);
}

void weir_mpi_held(weir_net *n, parcel *p)
{
    p->msg.data = p->whole->bytes;
    if (p->unwanted)
        weir_mpi_parcel_free(n->link, p);
    else if (p->op)
        weir_mpi_deal(n, p->op, p);
}

static void fetch_body(weir_net *n, parcel *p)
{
    mpi_link *l = n->link;
    transfer *t = weir_mpi_transfer(l, p->msg.from, weir_mpi_parts(l, p->msg.len));
    int code;

    if (!t)
        return; /* it stays where it is */
    if (!(p->whole = weir_mpi_parcel(l, p->msg.len))) {
        weir_mpi_transfer_free(l, t);
        return;
    }
    t->held = p;
    code = weir_mpi_move(l, t, p->whole->bytes, p->msg.len, (int)p->body);
    p->body = 0;
    if (code)
        weir_mpi_broken(n, code, p->msg.from);
}

void weir_mpi_sweep(weir_net *n)
{
    mpi_link *l = n->link;

    for (int i = 0; i < WEIR_SHELVES; i++)
        for (weir_msg *m = n->arrived[i].first; m && !l->down; m = m->next) {
            parcel *p = (parcel *)m;
            if (m->self || !p->body)
                continue;
            if (p->seen)
                fetch_body(n, p);
            p->seen = true;
        }
}
