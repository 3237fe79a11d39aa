/* mpi_coll.c - MPI's own collectives: the kind that does not block, so that other fibres get on,
 * and a lost rank ends the wait.
 *
 * Counts in MPI are ints: what is longer is cut, in the same way on all ranks. */
#include "net/mpi_coll.h"
#include "net/mpi_link.h"
#include <string.h>

enum { MOST = 1 << 30 }; /* bytes at once */
/* seconds between looks at whether this rank has failed meanwhile */
static const double GLANCE = 0.1;

bool weir_mpi_here(const weir_net *n) { return n->world == &weir_net_mpi && n->link; }

/* ---- waiting ---- */

/* What MPI has begun cannot be taken back: it keeps the buffers, and is not called again. */
static weir_err give_up(weir_net *n, weir_err err)
{
    weir_net_op failed = {.err = err, .peer = n->rank};

    weir_mpi_down(n);
    if (err == WEIR_LATE)
        return weir_fail(
            WEIR_SILENT,
            "a collective of MPI's did not end within %.0f s: a rank is busy, or runs another one",
            ((mpi_link *)n->link)->stall);
    weir_loss_all(n, n->generation, &failed.peer);
    return weir_net_why(n, &failed);
}

/* Waits for a collective whose transfer was made before it began. */
static weir_err await(weir_net *n, transfer *t, int code, MPI_Request r)
{
    mpi_link *l = n->link;
    weir_net_op o = {.kind = WEIR_NET_OP_SENDING, .peer = n->rank, .cap = 1}, *ops = &o;
    double limit = weir_net_now(n) + l->stall;
    int which;
    weir_err err;

    if (code) {
        weir_mpi_transfer_free(l, t);
        weir_mpi_down(n);
        return weir_mpi_fail(code, "a collective");
    }
    t->op = &o;
    weir_mpi_watch(l, t, r);
    while ((err = weir_net_wait(n, &ops, 1, weir_net_now(n) + GLANCE, &which)) == WEIR_LATE) {
        if ((err = weir_loss_all(n, n->generation, &which)))
            return give_up(n, err);
        if (weir_net_now(n) > limit)
            return give_up(n, WEIR_LATE);
    }
    return err ? err : weir_net_why(n, &o);
}

/* Before each collective: is MPI still there, and is there room to wait for it. */
static weir_err prepare(weir_net *n, transfer **t)
{
    mpi_link *l = n->link;
    int who = n->rank;
    weir_err err = weir_loss_all(n, n->generation, &who);

    if (err || l->down) {
        weir_net_op failed = {.err = err ? err : WEIR_LOST, .peer = who};
        return weir_net_why(n, &failed);
    }
    *t = weir_mpi_transfer(l, n->rank, 1);
    return *t ? WEIR_OK : weir_fail_nomem(sizeof **t);
}

/* ---- sums ---- */

/* MPI's callback has no argument of ours, but it has the type: one element of `unit` bytes, whose
 * stride, of no meaning for a single block, is the address of our copy of the sum. */
static void add_units(void *from, void *to, int *units, MPI_Datatype *type)
{
    int count[2];
    MPI_Aint address;
    MPI_Datatype bytes;
    const weir_sum *sum;

    MPI_Type_get_contents(*type, 2, 1, 1, count, &address, &bytes);
    sum = (const weir_sum *)(uintptr_t)address;
    sum->add(to, from, (size_t)*units);
}

static weir_err make_sum(mpi_link *l, const weir_sum *sum)
{
    int code;

    if (l->sum.unit == sum->unit && l->sum.add == sum->add)
        return WEIR_OK;
    if (l->sum.unit) {
        l->sum.unit = 0;
        MPI_Op_free(&l->sum_op);
        MPI_Type_free(&l->sum_type);
    }
    code = MPI_Type_create_hvector(1, (int)sum->unit, (MPI_Aint)(uintptr_t)&l->sum, MPI_BYTE,
                                   &l->sum_type);
    if (!code)
        code = MPI_Type_commit(&l->sum_type);
    if (!code)
        code = MPI_Op_create(add_units, 1, &l->sum_op);
    if (code)
        return weir_mpi_fail(code, "making a sum");
    l->sum = *sum;
    return WEIR_OK;
}

static weir_err find_sum(mpi_link *l, const weir_sum *sum, MPI_Datatype *type, MPI_Op *op)
{
    *op = MPI_SUM;
    *type = MPI_FLOAT;
    if (sum->unit == sizeof(float) && sum->add == weir_sum_f32.add)
        return WEIR_OK;
    *type = MPI_DOUBLE;
    if (sum->unit == sizeof(double) && sum->add == weir_sum_f64.add)
        return WEIR_OK;
    WEIR_TRY(make_sum(l, sum));
    *type = l->sum_type;
    *op = l->sum_op;
    return WEIR_OK;
}

/* ---- verbs ---- */

weir_err weir_mpi_allreduce(weir_net *n, void *buf, size_t units, const weir_sum *sum)
{
    mpi_link *l = n->link;
    size_t most = MOST / sum->unit;
    MPI_Datatype type;
    MPI_Request r;
    transfer *t;
    MPI_Op op;
    int code;

    WEIR_TRY(find_sum(l, sum, &type, &op));
    for (size_t at = 0; at < units; at += most) {
        int count = (int)(units - at < most ? units - at : most);
        WEIR_TRY(prepare(n, &t));
        code = MPI_Iallreduce(MPI_IN_PLACE, (char *)buf + at * sum->unit, count, type, op, l->coll,
                              &r);
        WEIR_TRY(await(n, t, code, r));
    }
    return WEIR_OK;
}

weir_err weir_mpi_reduce_scatter(weir_net *n, void *buf, size_t units, const weir_sum *sum)
{
    mpi_link *l = n->link;
    size_t each = units / (size_t)n->size, begin = 0;
    MPI_Datatype type;
    MPI_Request r;
    transfer *t;
    MPI_Op op;
    int code;

    if (units > MOST / sum->unit) /* pieces cannot be cut alike: sum all */
        return weir_mpi_allreduce(n, buf, units, sum);
    WEIR_TRY(find_sum(l, sum, &type, &op));
    WEIR_TRY(prepare(n, &t));
    for (int i = 0; i < n->size; i++) {
        l->counts[i] = (int)(each + ((size_t)i < units % (size_t)n->size));
        begin += i < n->rank ? (size_t)l->counts[i] : 0;
    }
    code = MPI_Ireduce_scatter(MPI_IN_PLACE, buf, l->counts, type, op, l->coll, &r);
    WEIR_TRY(await(n, t, code, r));
    /* MPI leaves it in front */
    memmove((char *)buf + begin * sum->unit, buf, (size_t)l->counts[n->rank] * sum->unit);
    return WEIR_OK;
}

weir_err weir_mpi_allgather(weir_net *n, void *all, const size_t *off, const size_t *len)
{
    mpi_link *l = n->link;
    bool large = false;
    MPI_Request r;
    transfer *t;
    int code;

    for (int i = 0; i < n->size; i++) {
        large |= off[i] + len[i] > MOST;
        l->counts[i] = (int)len[i];
        l->begins[i] = (int)off[i];
    }
    for (int i = 0; large && i < n->size; i++)
        WEIR_TRY(weir_mpi_broadcast(n, i, (char *)all + off[i], len[i]));
    if (large)
        return WEIR_OK;
    WEIR_TRY(prepare(n, &t));
    code = MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_BYTE, all, l->counts, l->begins, MPI_BYTE, l->coll,
                           &r);
    return await(n, t, code, r);
}

weir_err weir_mpi_broadcast(weir_net *n, int root, void *buf, size_t bytes)
{
    mpi_link *l = n->link;
    MPI_Request r;
    transfer *t;
    int code;

    for (size_t at = 0; at < bytes; at += MOST) {
        int count = (int)(bytes - at < MOST ? bytes - at : MOST);
        WEIR_TRY(prepare(n, &t));
        code = MPI_Ibcast((char *)buf + at, count, MPI_BYTE, root, l->coll, &r);
        WEIR_TRY(await(n, t, code, r));
    }
    return WEIR_OK;
}

weir_err weir_mpi_barrier(weir_net *n)
{
    MPI_Request r;
    transfer *t;
    int code;

    WEIR_TRY(prepare(n, &t));
    code = MPI_Ibarrier(((mpi_link *)n->link)->coll, &r);
    return await(n, t, code, r);
}
