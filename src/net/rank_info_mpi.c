/* rank_info_mpi.c - has somebody started MPI for this process, and do they agree with who told our
 * rank. Only variables are read: nothing of MPI is called. */
#include "net/rank_info.h"
#include <stdlib.h>
#include <string.h>

/* Who starts MPI programs, and tells them so. */
static const struct {
    const char *who, *rank, *size;
} starters[] = {
    {"openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"pmi", "PMI_RANK", "PMI_SIZE"},
    {"slurm", "PMIX_RANK", "SLURM_NTASKS"}, /* srun --mpi=pmix */
};
enum { STARTERS = sizeof starters / sizeof *starters };

weir_err weir_rank_info_mpi(weir_rank_info *p)
{
    int i = 0, rank, size;

    if (!strcmp(p->source, "weir") || !strcmp(p->source, "torchrun"))
        return WEIR_OK; /* started from within a program that runs under MPI, perhaps; not by MPI */
    while (i < STARTERS && !(getenv(starters[i].rank) && getenv(starters[i].size)))
        i++;
    if (i == STARTERS)
        return WEIR_OK;
    WEIR_TRY(weir_rank_info_number(starters[i].size, getenv(starters[i].size), 1, WEIR_RANKS_MAX,
                                   &size));
    WEIR_TRY(weir_rank_info_number(starters[i].rank, getenv(starters[i].rank), 0, size - 1, &rank));
    if (size != p->size)
        return weir_fail(WEIR_MISFIT,
                         "%d ranks by %s, but %d by %s, which started them: leave --rank, --size "
                         "and --rendezvous to it",
                         p->size, p->source, size, starters[i].who);
    if (rank != p->rank)
        return weir_fail(WEIR_MISFIT,
                         "rank %d by %s, but %d by %s, which started it: leave --rank, --size and "
                         "--rendezvous to it",
                         p->rank, p->source, rank, starters[i].who);
    p->mpi = true;
    return WEIR_OK;
}
