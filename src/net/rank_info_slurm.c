/* rank_info_slurm.c - what Slurm tells the tasks of a step, where there is no MPI to meet through.
 */
#include "net/rank_info.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of brackets such as "07-09,12" or "7" the first element: as it is written, with its zeros. */
bool weir_slurm_first_host(const char *list, char *host, size_t room)
{
    size_t n = 0;

    while (*list && *list != ',' && n + 1 < room) {
        if (*list != '[') {
            host[n++] = *list++;
            continue;
        }
        size_t digits = strspn(++list, "0123456789");
        const char *behind = strchr(list, ']');
        if (!digits || !behind || n + digits + 1 > room)
            return false;
        memcpy(host + n, list, digits);
        n += digits;
        list = behind + 1;
    }
    host[n] = 0;
    return n && (!*list || *list == ',');
}

int weir_slurm_tasks(const char *list, int index)
{
    while (*list) {
        char *end;
        long tasks = strtol(list, &end, 10), times = 1;
        if (end == list || tasks < 0 || tasks > WEIR_RANKS_MAX)
            return 0;
        if (!strncmp(end, "(x", 2)) {
            times = strtol(end + 2, &end, 10);
            end += *end == ')';
        }
        if (index < times)
            return (int)tasks;
        index -= (int)times;
        list = *end == ',' ? end + 1 : end;
        if (*end && *end != ',')
            return 0;
    }
    return 0;
}

static const char *either(const char *first, const char *second)
{
    const char *value = getenv(first);

    return value && *value ? value : getenv(second);
}

/* A port of its own for every step of every job, as far as numbers go; below those that the system
 * gives away itself. */
static int port_of(long job, long step)
{
    return 20000 + (int)((unsigned long)(job * 31 + step) % 10000);
}

weir_err weir_rank_info_slurm(weir_rank_info *p)
{
    const char *list = either("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"),
               *from = getenv("SLURM_STEP_NODELIST") == list ? "STEP" : "JOB",
               *tasks = either("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE");
    const char *job = either("SLURM_JOB_ID", "SLURM_JOBID"), *step = getenv("SLURM_STEP_ID"),
               *node = getenv("SLURM_NODEID");
    int index = 0, here;
    char host[100];

    if (!list || !job || !step)
        return weir_fail(WEIR_USAGE, "%s is not set in a step of Slurm's",
                         !list  ? "SLURM_JOB_NODELIST"
                         : !job ? "SLURM_JOB_ID"
                                : "SLURM_STEP_ID");
    if (!weir_slurm_first_host(list, host, sizeof host))
        return weir_fail(WEIR_USAGE,
                         "SLURM_%s_NODELIST=%.100s cannot be read as a list of hosts: name the "
                         "first one yourself, with --rank, --size and --rendezvous HOST:PORT",
                         from, list);
    if (node)
        WEIR_TRY(weir_rank_info_number("SLURM_NODEID", node, 0, WEIR_RANKS_MAX, &index));
    here = tasks ? weir_slurm_tasks(tasks, index) : 0;
    if (here > 0 && here <= p->size)
        p->local_size = here;
    snprintf(p->job, sizeof p->job, "slurm %.24s step %.24s", job, step);
    snprintf(p->rendezvous, sizeof p->rendezvous, "%s:%d", host,
             port_of(strtol(job, NULL, 10), strtol(step, NULL, 10)));
    return WEIR_OK;
}
