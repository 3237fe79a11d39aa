/* mpi_move.c - what MPI does for us at the moment: requests, the memory they use, and what follows
 * when they are done. */
#include "core/log.h"
#include "net/mpi_link.h"
#include <stdio.h>
#include <stdlib.h>

/* ---- MPI's errors ---- */

weir_err weir_mpi_fail(int code, const char *doing)
{
    char text[MPI_MAX_ERROR_STRING] = "?";
    int len;

    MPI_Error_string(code, text, &len);
    return weir_fail(WEIR_FAILED, "MPI: %s: %s", doing, text);
}

void weir_mpi_broken(weir_net *n, int code, int peer)
{
    char text[MPI_MAX_ERROR_STRING] = "?", what[200];
    int len;

    MPI_Error_string(code, text, &len);
    snprintf(what, sizeof what, "cannot be reached: MPI says %.160s", text);
    if (peer >= 0 && peer != n->rank && n->life) {
        weir_liveness_give_up(n, peer, WEIR_LOST, what);
        return;
    }
    weir_log(WEIR_LOG_WARN, "net", "rank %d: MPI says %s", n->rank, text);
    weir_net_abort(n, WEIR_FAILED);
    weir_mpi_down(n);
}

/* ---- memory ---- */

static bool make_room(mpi_link *l, int more)
{
    int room = l->room ? l->room : 64;
    void *request, *of, *which, *status;

    while (room < l->count + more)
        room *= 2;
    if (room == l->room)
        return true;
    if ((request = realloc(l->request, (size_t)room * sizeof *l->request)))
        l->request = request;
    if ((of = realloc(l->of, (size_t)room * sizeof *l->of)))
        l->of = of;
    if ((which = realloc(l->which, (size_t)room * sizeof *l->which)))
        l->which = which;
    if ((status = realloc(l->status, (size_t)room * sizeof *l->status)))
        l->status = status;
    if (!request || !of || !which || !status)
        return false;
    l->room = room;
    return true;
}

transfer *weir_mpi_transfer(mpi_link *l, int peer, int parts)
{
    transfer *t = l->spare;

    if (!make_room(l, parts))
        return NULL;
    if (t)
        l->spare = t->next;
    else if (!(t = malloc(sizeof *t)))
        return NULL;
    t->parts = 0;
    t->peer = peer;
    t->out = false;
    t->op = NULL;
    t->parcel = t->held = NULL;
    return t;
}

void weir_mpi_transfer_free(mpi_link *l, transfer *t)
{
    t->next = l->spare;
    l->spare = t;
}

static int size_of(size_t len)
{
    int i = 0;

    while (i < WEIR_MPI_SIZES && (size_t)64 << i < len)
        i++;
    return i < WEIR_MPI_SIZES ? i : -1;
}

parcel *weir_mpi_parcel(mpi_link *l, size_t len)
{
    int size = size_of(len);
    parcel *p = size >= 0 ? l->parcels[size] : NULL;

    if (p)
        l->parcels[size] = p->next;
    else
        p = malloc(sizeof *p + (size >= 0 ? (size_t)64 << size : len));
    if (p) {
        p->size = size;
        p->body = 0;
        p->seen = p->unwanted = false;
        p->whole = NULL;
        p->op = NULL;
    }
    return p;
}

void weir_mpi_parcel_free(mpi_link *l, parcel *p)
{
    if (p->whole)
        weir_mpi_parcel_free(l, p->whole);
    if (p->size < 0) {
        free(p);
        return;
    }
    p->next = l->parcels[p->size];
    l->parcels[p->size] = p;
}

void weir_mpi_spares_free(mpi_link *l)
{
    for (transfer *next; l->spare; l->spare = next) {
        next = l->spare->next;
        free(l->spare);
    }
    for (int i = 0; i < WEIR_MPI_SIZES; i++)
        for (parcel *next; l->parcels[i]; l->parcels[i] = next) {
            next = l->parcels[i]->next;
            free(l->parcels[i]);
        }
    free(l->request);
    free(l->of);
    free(l->which);
    free(l->status);
}

/* ---- requests ---- */

void weir_mpi_watch(mpi_link *l, transfer *t, MPI_Request r)
{
    l->request[l->count] = r;
    l->of[l->count++] = t;
    t->parts++;
}

int weir_mpi_parts(const mpi_link *l, size_t len) { return (int)((len + l->chunk - 1) / l->chunk); }

/* Parts have one tag: MPI keeps those of one sender in order. */
int weir_mpi_move(mpi_link *l, transfer *t, void *bytes, size_t len, int tag)
{
    MPI_Request r;
    int code = MPI_SUCCESS;

    for (size_t at = 0; at < len && !code; at += l->chunk) {
        int n = (int)(len - at < l->chunk ? len - at : l->chunk);
        if (t->out)
            code = MPI_Isend((char *)bytes + at, n, MPI_BYTE, t->peer, tag, l->comm, &r);
        else
            code = MPI_Irecv((char *)bytes + at, n, MPI_BYTE, t->peer, tag, l->comm, &r);
        if (!code)
            weir_mpi_watch(l, t, r);
    }
    return code;
}

static void end(weir_net *n, transfer *t)
{
    mpi_link *l = n->link;

    if (t->op && t->out)
        weir_net_op_sent(n, t->op);
    else if (t->op)
        weir_net_op_done(t->op, WEIR_OK);
    if (t->parcel)
        weir_mpi_parcel_free(l, t->parcel);
    if (t->held)
        weir_mpi_held(n, t->held);
    weir_mpi_transfer_free(l, t);
}

static int by_number(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return (x < y) - (x > y);
}

/* Takes the requests named in `which` off the rows, the last first, so that the last of a row can
 * fill the gap. */
static void take_off(weir_net *n, int done)
{
    mpi_link *l = n->link;

    qsort(l->which, (size_t)done, sizeof *l->which, by_number);
    for (int i = 0; i < done; i++) {
        int k = l->which[i];
        transfer *t = l->of[k];
        l->count--;
        l->request[k] = l->request[l->count];
        l->of[k] = l->of[l->count];
        if (!--t->parts)
            end(n, t);
    }
}

bool weir_mpi_finish(weir_net *n)
{
    mpi_link *l = n->link;
    int done = 0, code, wrong = MPI_SUCCESS, peer = -1;

    if (!l->count || l->down)
        return false;
    code = MPI_Testsome(l->count, l->request, &done, l->which, l->status);
    if (code && code != MPI_ERR_IN_STATUS) {
        weir_mpi_broken(n, code, -1);
        return true;
    }
    if (done == MPI_UNDEFINED || !done)
        return false;
    for (int i = 0; code && i < done && !wrong; i++)
        if (l->status[i].MPI_ERROR && l->status[i].MPI_ERROR != MPI_ERR_PENDING) {
            wrong = l->status[i].MPI_ERROR;
            peer = l->of[l->which[i]]->peer;
        }
    if (wrong)
        weir_mpi_broken(n, wrong, peer);
    else
        take_off(n, done);
    return true;
}

/* Why a receive that was under way will not end well, and who is to blame. */
static weir_err reason(weir_net *n, weir_net_op *o)
{
    weir_err err = weir_loss_all(n, n->generation, &o->peer);
    weir_fault f;

    if (err)
        return err;
    weir_net_fault(n, &f);
    if (f.code)
        o->peer = f.rank;
    return f.code ? f.code : WEIR_LOST;
}

/* Bytes of a send are ours again: nobody will read them but a peer that does not count any more. A
 * receive's are the caller's; memory of ours that MPI was to write to stays allocated. */
void weir_mpi_down(weir_net *n)
{
    mpi_link *l = n->link;

    if (l->down)
        return;
    l->down = true;
    for (int i = 0; i < l->count; i++) {
        parcel *held = l->of[i]->held;
        weir_net_op *o = l->of[i]->op ? l->of[i]->op : held ? held->op : NULL;
        if (held)
            held->op = NULL;
        l->of[i]->op = NULL;
        if (!o)
            continue;
        if (l->of[i]->out) {
            weir_net_op_sent(n, o);
            continue;
        }
        if (!o->cap)
            o->data = o->own = NULL;
        o->kind = WEIR_NET_OP_IDLE;
        weir_net_op_done(o, reason(n, o));
    }
    l->count = 0;
}
