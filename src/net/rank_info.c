/* rank_info.c - which rank am I. Flags and variables come from users and launchers: wrong ones are
 * refused by name. */
#include "net/rank_info.h"
#include "net/launch.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

weir_err weir_rank_info_number(const char *name, const char *text, long least, long most, int *out)
{
    char *end;
    long x;

    errno = 0;
    x = strtol(text, &end, 10);
    if (end == text || *end || errno || x < least || x > most)
        return weir_fail(WEIR_USAGE, "%s=%.40s: a whole number from %ld to %ld was expected", name,
                         text, least, most);
    *out = (int)x;
    return WEIR_OK;
}

static weir_err copy(const char *name, const char *text, char *to, size_t room)
{
    if (strlen(text) >= room)
        return weir_fail(WEIR_USAGE, "%s is too long: %zu bytes at most", name, room - 1);
    memcpy(to, text, strlen(text) + 1);
    return WEIR_OK;
}

/* HOST:PORT, an address of version 6 in brackets. */
static weir_err check_rendezvous(const char *name, const char *text)
{
    const char *colon = strrchr(text, ':');
    int port;

    if (!colon || colon == text || strpbrk(text, " \t\n/"))
        return weir_fail(WEIR_USAGE, "%s=%.100s: HOST:PORT was expected", name, text);
    return weir_rank_info_number(name, colon + 1, 1, 65535, &port)
               ? weir_fail(WEIR_USAGE,
                           "%s=%.100s: a port from 1 to 65535 was expected behind the colon", name,
                           text)
               : WEIR_OK;
}

static weir_err from_flags(int rank, int size, const char *rendezvous, weir_rank_info *p)
{
    const char *missing = rank == -1                ? "--rank"
                          : size == 0               ? "--size"
                          : !rendezvous && size > 1 ? "--rendezvous"
                                                    : NULL;

    if (missing)
        return weir_fail(WEIR_USAGE, "%s is missing: --rank, --size and --rendezvous go together",
                         missing);
    if (size < 1 || size > WEIR_RANKS_MAX)
        return weir_fail(WEIR_USAGE, "--size %d: a number from 1 to %d was expected", size,
                         WEIR_RANKS_MAX);
    if (rank < 0 || rank >= size)
        return weir_fail(WEIR_USAGE, "--rank %d: a number from 0 to %d was expected", rank,
                         size - 1);
    p->rank = rank;
    p->size = size;
    strcpy(p->source, "flags");
    if (!rendezvous)
        return WEIR_OK;
    WEIR_TRY(check_rendezvous("--rendezvous", rendezvous));
    return copy("--rendezvous", rendezvous, p->rendezvous, sizeof p->rendezvous);
}

static const char *const variables[] = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR",
                                        "MASTER_PORT"};
enum { RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT, VARIABLES };

/* All of the set, or (*found false) none of it. */
static weir_err read_variables(const char *value[VARIABLES], bool *found)
{
    const char *missing = NULL, *present = getenv("WEIR_RUN") ? "WEIR_RUN" : NULL;

    for (int i = 0; i < VARIABLES; i++) {
        value[i] = getenv(variables[i]);
        if (value[i])
            present = variables[i];
        else if (!missing)
            missing = variables[i];
    }
    if (present && missing)
        return weir_fail(WEIR_USAGE,
                         "%s is not set, but %s is: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and "
                         "MASTER_PORT go together",
                         missing, present);
    *found = present;
    return WEIR_OK;
}

/* Our own launcher: this machine, a directory to meet in, a board. */
static weir_err from_launcher(const char *run, weir_rank_info *p)
{
    weir_launched launched;

    if (run[0] != '/')
        return weir_fail(WEIR_USAGE, "WEIR_RUN=%.100s: an absolute path was expected", run);
    weir_launched_find(&launched);
    p->board = launched.board;
    p->rendezvous[0] = 0;
    p->guests = getenv("WEIR_GUESTS") != NULL;
    strcpy(p->source, "weir");
    return copy("WEIR_RUN", run, p->run_dir, sizeof p->run_dir);
}

/* torchrun's agent keeps MASTER_PORT for itself, so ranks meet one above it (below, at the last
 * one). */
static weir_err from_torchrun(const char *host, const char *port_text, weir_rank_info *p)
{
    const char *id = getenv("TORCHELASTIC_RUN_ID"),
               *restarts = getenv("TORCHELASTIC_RESTART_COUNT");
    char at[256];
    int port;

    WEIR_TRY(weir_rank_info_number("MASTER_PORT", port_text, 1, 65535, &port));
    port += port < 65535 ? 1 : -1;
    if (strlen(host) + 10 > sizeof at)
        return weir_fail(WEIR_USAGE, "MASTER_ADDR is too long");
    snprintf(at, sizeof at, strchr(host, ':') && host[0] != '[' ? "[%s]:%d" : "%s:%d", host, port);
    WEIR_TRY(check_rendezvous("MASTER_ADDR", at));
    strcpy(p->source, "torchrun");
    if (id)
        snprintf(p->job, sizeof p->job, "torchrun %.32s attempt %.8s", id,
                 restarts ? restarts : "0");
    return copy("MASTER_ADDR", at, p->rendezvous, sizeof p->rendezvous);
}

static weir_err from_variables(const char *const value[VARIABLES], weir_rank_info *p)
{
    const char *local = getenv("LOCAL_WORLD_SIZE"), *run = getenv("WEIR_RUN");

    WEIR_TRY(weir_rank_info_number("WORLD_SIZE", value[WORLD_SIZE], 1, WEIR_RANKS_MAX, &p->size));
    WEIR_TRY(weir_rank_info_number("RANK", value[RANK], 0, p->size - 1, &p->rank));
    p->local_size = p->size;
    if (local)
        WEIR_TRY(weir_rank_info_number("LOCAL_WORLD_SIZE", local, 1, p->size, &p->local_size));
    WEIR_TRY(weir_rank_info_number("LOCAL_RANK", value[LOCAL_RANK], 0, p->local_size - 1,
                                   &p->local_rank));
    return run ? from_launcher(run, p) : from_torchrun(value[MASTER_ADDR], value[MASTER_PORT], p);
}

/* ---- launchers that tell a rank and a size ---- */

typedef struct launcher {
    const char *source, *rank, *size, *local_rank, *local_size;
} launcher;
static const launcher launchers[] = {
    {"openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"pmi", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "none"},
};

/* A job's script has Slurm's variables too, but is no rank: only what srun starts is in a step. */
static bool present(const launcher *l)
{
    return (getenv(l->rank) || getenv(l->size)) &&
           (strcmp(l->source, "slurm") || (getenv("SLURM_STEP_ID") && getenv(l->rank)));
}

static weir_err from_other(const launcher *l, weir_rank_info *p)
{
    const char *rank = getenv(l->rank), *size = getenv(l->size), *local = getenv(l->local_rank),
               *count = getenv(l->local_size);

    if (!rank || !size)
        return weir_fail(WEIR_USAGE, "%s is not set, but %s is: they go together",
                         rank ? l->size : l->rank, rank ? l->rank : l->size);
    WEIR_TRY(weir_rank_info_number(l->size, size, 1, WEIR_RANKS_MAX, &p->size));
    WEIR_TRY(weir_rank_info_number(l->rank, rank, 0, p->size - 1, &p->rank));
    if (count)
        WEIR_TRY(weir_rank_info_number(l->local_size, count, 1, p->size, &p->local_size));
    if (local)
        WEIR_TRY(weir_rank_info_number(l->local_rank, local, 0, p->size - 1, &p->local_rank));
    snprintf(p->source, sizeof p->source, "%s", l->source);
    if (strcmp(l->source, "openmpi") && getenv("SLURM_STEP_ID"))
        WEIR_TRY(weir_rank_info_slurm(p));
    if (p->local_size <= p->local_rank)
        p->local_size = p->local_rank + 1; /* as far as it is told */
    return WEIR_OK;
}

static weir_err from_environment(weir_rank_info *p)
{
    const char *value[VARIABLES];
    bool found = false;

    WEIR_TRY(read_variables(value, &found));
    if (found)
        return from_variables(value, p);
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
        if (present(&launchers[i]))
            return from_other(&launchers[i], p);
    return WEIR_OK;
}

/* What every process has. */
static weir_rank_info anybody(void)
{
    weir_rank_info p = {.size = 1, .local_size = 1, .timeout = 30, .stall = 600};

    if (gethostname(p.host, sizeof p.host - 1))
        strcpy(p.host, "unknown");
    return p;
}

/* HOST:PORT,HOST:PORT; the first of them */
static weir_err check_doors(const char *list, char *first, size_t room)
{
    const char *at = list;
    char one[128];

    for (;;) {
        size_t n = strcspn(at, ",");
        if (n >= sizeof one)
            return weir_fail(WEIR_USAGE, "--join: a HOST:PORT is too long");
        snprintf(one, sizeof one, "%.*s", (int)n, at);
        WEIR_TRY(check_rendezvous("--join", one));
        if (at == list)
            WEIR_TRY(copy("--join", one, first, room));
        if (!at[n])
            return WEIR_OK;
        at += n + 1;
    }
}

weir_err weir_rank_info_join(const char *at, weir_rank_info *out)
{
    weir_rank_info p = anybody();

    WEIR_TRY(check_doors(at, p.rendezvous, sizeof p.rendezvous));
    WEIR_TRY(copy("--join", at, p.join, sizeof p.join));
    strcpy(p.source, "join");
    p.guests = true;
    *out = p;
    return WEIR_OK;
}

bool weir_rank_info_again(const weir_rank_info *was, const char *doors, weir_rank_info *out)
{
    *out = *was;
    out->rank = 0;
    out->size = 1;
    snprintf(out->join, sizeof out->join, "%s",
             was->run_dir[0] ? "here"
             : doors[0]      ? doors
                             : was->rendezvous);
    return was->guests && out->join[0];
}

weir_err weir_rank_info_open(const char *rendezvous, weir_rank_info *p)
{
    WEIR_TRY(check_rendezvous("--rendezvous", rendezvous));
    p->run_dir[0] = 0;
    if (p->join[0])
        WEIR_TRY(copy("--rendezvous", rendezvous, p->join, sizeof p->join));
    return copy("--rendezvous", rendezvous, p->rendezvous, sizeof p->rendezvous);
}

/* Started by our launcher in place of one that died. */
static weir_err from_restart(weir_rank_info *p)
{
    WEIR_TRY(from_launcher(getenv("WEIR_RUN"), p));
    strcpy(p->join, "here");
    p->guests = true;
    return WEIR_OK;
}

weir_err weir_rank_info_find(int rank, int size, const char *rendezvous, weir_rank_info *out)
{
    weir_rank_info p = anybody();

    strcpy(p.source, "alone");
    if (getenv("WEIR_JOIN") && getenv("WEIR_RUN"))
        WEIR_TRY(from_restart(&p));
    else if (rank != -1 || size != 0 || rendezvous)
        WEIR_TRY(from_flags(rank, size, rendezvous, &p));
    else
        WEIR_TRY(from_environment(&p));
    WEIR_TRY(weir_rank_info_mpi(&p));
    *out = p;
    return WEIR_OK;
}
