/* place_mpi.c - which rank am I, by the variables of those who start MPI programs. Nothing of MPI itself is called. */
#include "net/place.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* One launcher's variables; `source` is what the log calls it. */
typedef struct teller {
    const char *source, *rank, *size, *local_rank, *local_size;
} teller;

static const teller tellers[] = {
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"pmi", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"pmix", "PMIX_RANK", "SLURM_NTASKS", "SLURM_LOCALID", NULL}, /* srun --mpi=pmix */
};

static weir_err number(const char *name, const char *text, long least, long most, int *out)
{
    char *end;
    long x;

    errno = 0;
    x = strtol(text, &end, 10);
    if (end == text || *end || errno || x < least || x > most)
        return weir_fail(WEIR_USAGE, "%s=%.40s: a whole number from %ld to %ld was expected", name, text, least, most);
    *out = (int)x;
    return WEIR_OK;
}

/* SLURM_STEP_TASKS_PER_NODE, "2(x3),1": how many of node `node`. 0: it does not say. */
static int tasks_of_node(const char *text, long node)
{
    while (text && *text) {
        char *end;
        long tasks = strtol(text, &end, 10), nodes = 1;
        if (end == text || tasks < 1 || tasks > WEIR_RANKS_MAX)
            return 0;
        if (!strncmp(end, "(x", 2))
            nodes = strtol(end + 2, &end, 10);
        if (node < nodes)
            return (int)tasks;
        node -= nodes;
        text = strchr(end, ',');
        text = text ? text + 1 : NULL;
    }
    return 0;
}

/* Where Slurm does not tell in one number how many ranks this machine has. */
static int slurm_local_size(int size)
{
    const char *node = getenv("SLURM_NODEID");
    int tasks = tasks_of_node(getenv("SLURM_STEP_TASKS_PER_NODE"), node ? strtol(node, NULL, 10) : 0);

    return tasks && tasks <= size ? tasks : size;
}

weir_err weir_place_mpi(weir_place *p, bool *found)
{
    const teller *t = tellers, *end = tellers + sizeof tellers / sizeof *tellers;
    const char *local, *locals;

    while (t < end && !(getenv(t->rank) && getenv(t->size)))
        t++;
    *found = t < end;
    if (!*found)
        return WEIR_OK;
    WEIR_TRY(number(t->size, getenv(t->size), 1, WEIR_RANKS_MAX, &p->size));
    WEIR_TRY(number(t->rank, getenv(t->rank), 0, p->size - 1, &p->rank));
    local = getenv(t->local_rank);
    locals = t->local_size ? getenv(t->local_size) : NULL;
    p->local_size = t->local_size ? p->size : slurm_local_size(p->size);
    if (locals)
        WEIR_TRY(number(t->local_size, locals, 1, p->size, &p->local_size));
    p->local_rank = p->rank % p->local_size;
    if (local)
        WEIR_TRY(number(t->local_rank, local, 0, p->local_size - 1, &p->local_rank));
    strcpy(p->source, t->source);
    p->mpi = true;
    return WEIR_OK;
}

weir_err weir_place_agrees(const weir_place *p)
{
    weir_place told = {.size = 1};
    bool found;

    WEIR_TRY(weir_place_mpi(&told, &found));
    if (!found || (told.size == p->size && told.rank == p->rank))
        return WEIR_OK;
    if (told.size != p->size)
        return weir_fail(WEIR_MISFIT, "--size %d, but %s started %d ranks: leave --rank, --size and --rendezvous to it", p->size,
                         told.source, told.size);
    return weir_fail(WEIR_MISFIT, "--rank %d, but this is rank %d by %s: leave --rank, --size and --rendezvous to it", p->rank, told.rank,
                     told.source);
}
