/* launch_child.h - one rank as its launcher sees it. */
#ifndef WEIR_NET_LAUNCH_CHILD_H
#define WEIR_NET_LAUNCH_CHILD_H
#include "net/launch.h"
#include "net/output.h"
#include <signal.h>
#include <sys/types.h>

/* What all ranks of a run are given. */
typedef struct weir_net_run_env {
    int size;
    int leader;          /* what this rank prints is for people as it is (mesh.h) */
    int board, lifeline; /* descriptors that ranks inherit; closed on exec everywhere else */
    char dir[128];
    bool guests; /* others may join while the run goes on */
    bool joins;  /* this one does */
} weir_net_run_env;

typedef struct weir_child {
    pid_t pid;
    int rank, status;
    int ended;            /* 0: lives; else the how-many-th to end */
    bool stopped, killed; /* killed: by us */
    weir_output out, err;
} weir_child;

/* Starts this program again as `rank`, with `mask` as its signal mask, in a process group of its
 * own. */
weir_err weir_child_start(weir_child *, int rank, const weir_net_run_env *, const sigset_t *mask,
                          char **argv);
#endif
