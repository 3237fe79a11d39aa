/* launch_trials.h - things that may crash, or never end, are tried in processes of their own. They
 * have numbers; a process tries one after the other, and where it dies another goes on behind
 * that. Nothing that has threads may have run in this process before. Signals that are caught here
 * end those processes. */
#ifndef WEIR_NET_LAUNCH_TRIALS_H
#define WEIR_NET_LAUNCH_TRIALS_H
#include "core/err.h"
#include <signal.h>

typedef struct weir_trials {
    int jobs;              /* processes at a time */
    uint64_t first, count; /* the numbers */
    double seconds;        /* that one may take */
    size_t bytes;          /* of a result */
    void *arg;
    /* In a process of its own. */
    void (*try_one)(void *arg, uint64_t number, void *result);
    /* Here, in whatever order they are ready. died: NULL; or how its process ended, and there is no
     * result. False: no more is tried. */
    bool (*tried)(void *arg, uint64_t number, const void *result, const char *died);
    const volatile sig_atomic_t *told; /* to stop, by a signal that was caught here; NULL: never */
} weir_trials;

weir_err weir_trials_run(const weir_trials *);
#endif
