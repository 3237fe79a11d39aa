/* place_mpi.c - has somebody started MPI for this process, and do they agree with who told our rank. Only variables are read:
 * nothing of MPI is called. */
#include "net/place.h"
#include <stdlib.h>
#include <string.h>

/* One launcher's variables; `source` is what the log calls it. */
typedef struct teller {
    const char *source, *rank, *size, *local_rank, *local_size;
} teller;

static const teller tellers[] = {
    {"openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"pmi", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"slurm", "PMIX_RANK", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS"}, /* srun --mpi=pmix */
};

/* What a launcher has told, if one has: *source is NULL if not. */
static weir_err told(weir_place *p, const char **source)
{
    const teller *t = tellers, *end = tellers + sizeof tellers / sizeof *tellers;
    const char *local, *locals;

    while (t < end && !(getenv(t->rank) && getenv(t->size)))
        t++;
    *source = t < end ? t->source : NULL;
    if (!*source)
        return WEIR_OK;
    WEIR_TRY(weir_place_number(t->size, getenv(t->size), 1, WEIR_RANKS_MAX, &p->size));
    WEIR_TRY(weir_place_number(t->rank, getenv(t->rank), 0, p->size - 1, &p->rank));
    local = getenv(t->local_rank);
    locals = getenv(t->local_size);
    p->local_size = p->size;
    p->local_rank = p->rank;
    if (!local || !locals)
        return WEIR_OK;
    WEIR_TRY(weir_place_number(t->local_size, locals, 1, p->size, &p->local_size));
    return weir_place_number(t->local_rank, local, 0, p->local_size - 1, &p->local_rank);
}

weir_err weir_place_mpi(weir_place *p)
{
    const char *source;
    weir_place by = *p;

    if (!strcmp(p->source, "weir") || !strcmp(p->source, "torchrun"))
        return WEIR_OK; /* started from within a program that runs under MPI, perhaps; not by MPI */
    WEIR_TRY(told(&by, &source));
    if (!source)
        return WEIR_OK;
    if (!strcmp(p->source, "alone")) {
        *p = by;
        strcpy(p->source, source);
    }
    if (by.size != p->size)
        return weir_fail(WEIR_MISFIT, "%d ranks by %s, but %d by %s, which started them: leave --rank, --size and --rendezvous to it",
                         p->size, p->source, by.size, source);
    if (by.rank != p->rank)
        return weir_fail(WEIR_MISFIT, "rank %d by %s, but %d by %s, which started it: leave --rank, --size and --rendezvous to it",
                         p->rank, p->source, by.rank, source);
    p->mpi = true;
    return WEIR_OK;
}
