/* mpi_open.c - MPI: started, left. */
#include "core/log.h"
#include "net/mpi_link.h"
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

static const double SPIN = 2e-5; /* seconds, where every rank of the machine has a core */
/* seconds for the others to come to the end, once one has closed its link */
static const double LAST = 5;

/* ---- starting ---- */

/* Who embeds us may have started MPI: then it is theirs to finish. */
static weir_err start(mpi_link *l)
{
    int started = 0, finished = 0, level = MPI_THREAD_SINGLE, code;

    MPI_Initialized(&started);
    MPI_Finalized(&finished);
    if (finished)
        return weir_fail(WEIR_FAILED,
                         "MPI was finished in this process, and can be started only once: one run "
                         "a process, or call "
                         "MPI_Init_thread yourself and MPI_Finalize after the last run");
    if (!started) {
        code = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
        if (code)
            return weir_mpi_fail(code, "starting");
        l->ours = true;
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    }
    MPI_Query_thread(&level);
    if (level < MPI_THREAD_FUNNELED)
        return weir_fail(
            WEIR_MISFIT,
            "MPI was started without threads: MPI_Init_thread with MPI_THREAD_FUNNELED is needed");
    return WEIR_OK;
}

static weir_err check_rank_info(const weir_rank_info *rank_info)
{
    int rank, size;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != rank_info->size)
        return weir_fail(WEIR_MISFIT,
                         "the run has %d ranks by %s, and %d by MPI: start it with mpirun -n %d "
                         "and no other number, by the "
                         "mpirun of the MPI that weir was built with, or use --net zmq",
                         rank_info->size, rank_info->source, size, rank_info->size);
    if (rank != rank_info->rank)
        return weir_fail(WEIR_MISFIT, "this rank is %d by %s, and %d by MPI", rank_info->rank,
                         rank_info->source, rank);
    return WEIR_OK;
}

static weir_err copy_world(mpi_link *l)
{
    int *most = NULL, found = 0, code = MPI_Comm_dup(MPI_COMM_WORLD, &l->comm);

    if (!code)
        code = MPI_Comm_dup(MPI_COMM_WORLD, &l->coll);
    if (code)
        return weir_mpi_fail(code, "copying the communicator");
    MPI_Comm_set_errhandler(l->comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(l->coll, MPI_ERRORS_RETURN);
    MPI_Comm_get_attr(l->comm, MPI_TAG_UB, &most, &found);
    l->tags = found && *most < 1 << 30 ? *most : found ? 1 << 30 : 32767;
    return WEIR_OK;
}

static weir_err post_slots(mpi_link *l)
{
    int code = MPI_SUCCESS;

    if (!(l->in = malloc(WEIR_MPI_SLOTS * sizeof *l->in)))
        return weir_fail_nomem(WEIR_MPI_SLOTS * sizeof *l->in);
    for (; l->slots < WEIR_MPI_SLOTS && !code; l->slots += !code) {
        code = MPI_Recv_init(&l->in[l->slots], sizeof *l->in, MPI_BYTE, MPI_ANY_SOURCE,
                             WEIR_MPI_TAG_PACKET, l->comm, &l->slot[l->slots]);
        if (!code)
            code = MPI_Start(&l->slot[l->slots]);
    }
    return code ? weir_mpi_fail(code, "posting a receive") : WEIR_OK;
}

/* mpirun may have bound this rank to fewer cores than are its own, on which all its threads would
 * queue. */
static void look_at_cores(weir_net *n)
{
    mpi_link *l = n->link;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int local = weir_net_here(n), mine;
    cpu_set_t set;

    l->spin = local <= cores ? SPIN : 0;
    if (sched_getaffinity(0, sizeof set, &set))
        return;
    mine = CPU_COUNT(&set);
    if (mine < cores && mine < cores / local)
        weir_log(WEIR_LOG_WARN, "net",
                 "rank %d may use %d of %ld cores, though only %d ranks share them: start mpirun "
                 "with --bind-to none",
                 n->rank, mine, cores, local);
}

static weir_err open_link(weir_net *n, const weir_rank_info *rank_info)
{
    mpi_link *l = n->link;

    l->counts = calloc((size_t)n->size, sizeof *l->counts);
    l->begins = calloc((size_t)n->size, sizeof *l->begins);
    if (!l->counts || !l->begins)
        return weir_fail_nomem((size_t)n->size * sizeof *l->counts);
    WEIR_TRY(start(l));
    WEIR_TRY(check_rank_info(rank_info));
    WEIR_TRY(copy_world(l));
    WEIR_TRY(post_slots(l));
    WEIR_TRY(weir_mpi_meet(n));
    look_at_cores(n);
    return WEIR_OK;
}

weir_err weir_mpi_open(weir_net *n, const weir_rank_info *rank_info)
{
    mpi_link *l;
    weir_err err;

    if (!rank_info->mpi)
        return weir_fail(
            WEIR_MISFIT,
            "--net mpi: nobody started MPI for these %d ranks (told by %s): mpirun -n %d weir ...",
            n->size, rank_info->source, n->size);
    if (!(l = calloc(1, sizeof *l)))
        return weir_fail_nomem(sizeof *l);
    l->comm = l->coll = MPI_COMM_NULL;
    l->poll = -1;
    l->chunk = (size_t)((weir_mpi_self *)n->self)->chunk;
    l->stall = rank_info->stall > 0 ? rank_info->stall : 600;
    n->link = l;
    err = open_link(n, rank_info);
    if (err)
        weir_mpi_close(n, false);
    return err;
}

/* ---- leaving ---- */

/* Waits a little; false once it is no use: a peer that ends before all have come to the end ends
 * MPI for us. */
static bool wait_more(weir_net *n, double *limit)
{
    mpi_link *l = n->link;
    double at = weir_mpi_now(n->sched);

    if (l->ends && *limit > at + LAST)
        *limit = at + LAST;
    if (at > *limit)
        l->down = true;
    weir_liveness_tick(n);
    if (!l->down)
        weir_mpi_wait(n, at + 1e-4);
    return !l->down;
}

/* Nobody goes before everybody has come to the end: until then peers may still wait for us to take
 * what they sent. */
static void drain(weir_net *n)
{
    mpi_link *l = n->link;
    double limit = weir_mpi_now(n->sched) + l->stall;
    MPI_Request all;
    int came = 0;

    while (!l->down && (l->dones < n->size - 1 || l->count))
        if (!wait_more(n, &limit))
            return;
    if (l->down || MPI_Ibarrier(l->comm, &all)) {
        l->down = true;
        return;
    }
    while (!MPI_Test(&all, &came, MPI_STATUS_IGNORE) && !came)
        if (!wait_more(n, &limit))
            return;
    l->down = !came;
}

static void free_mpi(mpi_link *l)
{
    for (int i = 0; i < l->slots; i++) {
        MPI_Cancel(&l->slot[i]);
        MPI_Wait(&l->slot[i], MPI_STATUS_IGNORE);
        MPI_Request_free(&l->slot[i]);
    }
    if (l->sum.unit) {
        MPI_Op_free(&l->sum_op);
        MPI_Type_free(&l->sum_type);
    }
    MPI_Comm_free(&l->coll);
    MPI_Comm_free(&l->comm);
    free(l->in);
    if (l->ours)
        MPI_Finalize();
}

void weir_mpi_close(weir_net *n, bool in_order)
{
    mpi_link *l = n->link;

    if (in_order)
        drain(n);
    else
        weir_mpi_down(n); /* its packets' memory stays, in case MPI still writes to it */
    if (!l->down)
        free_mpi(l);
    weir_mpi_control_close(n, in_order);
    weir_mpi_spares_free(l);
    free(l->counts);
    free(l->begins);
    free(n->machine);
    n->machine = NULL;
    free(l);
    n->link = NULL;
}
