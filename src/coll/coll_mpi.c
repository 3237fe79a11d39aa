/* coll_mpi.c - MPI's own collectives, for all ranks of an mpi world. Their order of adding, and
 * that every rank gets the same bits, are MPI's to keep; what they send is counted as the ring
 * would send it. */
#include "coll/coll.h"
#include "net/mpi_coll.h"

static const char *fits(const void *self, const weir_group *g)
{
    (void)self;
    if (weir_net_size(g->net) == 1)
        return NULL; /* a run of one rank asks nothing of MPI */
    if (!weir_mpi_here(g->net))
        return "it needs --net mpi, under mpirun or srun --mpi=pmix";
    if (g->size != weir_net_size(g->net) || g->id)
        return "it serves only the group of all ranks";
    for (int i = 0; i < g->size; i++)
        if (g->member[i] != i)
            return "it serves only the group of all ranks, in their order";
    return NULL;
}

/* A ring takes in as much as it sends. */
static void count(weir_group *g, size_t bytes) { weir_net_count_shared(g->net, bytes, bytes); }

static size_t piece(size_t units, int size, int i)
{
    return weir_coll_cut(units, size, i + 1) - weir_coll_cut(units, size, i);
}

static weir_err allreduce(void *self, weir_group *g, void *buf, size_t units, const weir_sum *sum)
{
    size_t mine = piece(units, g->size, g->me), next = piece(units, g->size, (g->me + 1) % g->size);

    (void)self;
    WEIR_TRY(weir_mpi_allreduce(g->net, buf, units, sum));
    count(g, (2 * units - mine - next) * sum->unit);
    return WEIR_OK;
}

static weir_err reduce_scatter(void *self, weir_group *g, void *buf, size_t units,
                               const weir_sum *sum)
{
    (void)self;
    if (!units)
        return weir_mpi_barrier(g->net);
    WEIR_TRY(weir_mpi_reduce_scatter(g->net, buf, units, sum));
    count(g, (units - piece(units, g->size, g->me)) * sum->unit);
    return WEIR_OK;
}

static weir_err allgather(void *self, weir_group *g, void *all, const size_t *off,
                          const size_t *len)
{
    size_t sum = 0;

    (void)self;
    for (int i = 0; i < g->size; i++)
        sum += len[i];
    WEIR_TRY(weir_mpi_allgather(g->net, all, off, len));
    count(g, sum - len[(g->me + 1) % g->size]);
    return WEIR_OK;
}

static weir_err broadcast(void *self, weir_group *g, int root, void *buf, size_t bytes)
{
    (void)self;
    WEIR_TRY(weir_mpi_broadcast(g->net, root, buf, bytes));
    count(g, (g->me + 1) % g->size == root ? 0 : bytes);
    return WEIR_OK;
}

const weir_coll weir_coll_mpi = {
    .plug = {"mpi", "MPI's own collectives (--net mpi): the site's tuned fabric", 0, NULL},
    .fits = fits,
    .allreduce = allreduce,
    .reduce_scatter = reduce_scatter,
    .allgather = allgather,
    .broadcast = broadcast,
};
