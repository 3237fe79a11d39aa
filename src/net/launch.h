/* launch.h - start this program again, once per rank, and see it through.
 *
 * The launcher calls nothing that makes threads. Ranks are its direct children, started in rank
 * order, with RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT and WEIR_RUN
 * set, and OMP_WAIT_POLICY=passive unless the user chose. It forwards SIGINT, SIGTERM and the
 * others a user may send; passes on what ranks print (the leader's as it is, the others' behind
 * "[rank] "); and when one fails, gives the rest a moment to leave by themselves, ends those that
 * do not (SIGKILL for stopped ones), removes the run's directory, and prints the first failure in
 * one line: rank, host, pid, phase, step, code, followed by that rank's last lines if it left any.
 * Its code is that of the first failure, 10 where a rank died by a signal.
 *
 * Ranks hold a pipe of the launcher's: when it closes, the launcher is gone, and they leave at
 * once. They show their phase on a page of memory that they share with the launcher (an inherited
 * memfd), so that it knows what a killed rank was doing. */
#ifndef WEIR_NET_LAUNCH_H
#define WEIR_NET_LAUNCH_H
#include "net/net.h"

typedef struct weir_launching {
    int workers, leader;
    char **argv;      /* argv[0] is ignored: it is this program */
    const char *word; /* printed when a first signal was passed on to ranks that have met */
    /* Ranks that have met go on without one that ends: it is only noted on the board, and the code
     * is 0 if one of them comes to a good end. */
    bool elastic;
    int restarts; /* so many are started anew for ranks that died, and join */
} weir_launching;
/* Runs argv as so many ranks; *code is what to exit with. */
weir_err weir_launch(const weir_launching *, int *code);

/* The rank's side: the inherited page and pipe; all zero or -1 when there was no such launcher. */
typedef struct weir_launched {
    int lifeline;             /* readable (end of file) when the launcher is gone; -1: none */
    struct weir_board *board; /* NULL: none */
} weir_launched;
void weir_launched_find(weir_launched *);
/* Removes what ranks that never met have left: the sockets of a run of `size` ranks and their
 * directory, nothing else. */
void weir_launch_dir_remove(const char *dir, int size);
/* One slot per rank. */
typedef struct weir_board_slot {
    _Atomic uint64_t doing; /* by its rank alone: step << 8 | phase */
    _Atomic int32_t pid;    /* by its rank, when it has this number; 0: nobody has it yet */
    atomic_bool reaped;     /* by the launcher: it is dead, for certain */
    char pad[48];
} weir_board_slot;
typedef struct weir_board {
    uint64_t ranks; /* slots */
    /* by whoever agrees on a generation: its number << 32 | a hash of its list, the first one that
     * was agreed on (membership.h) */
    _Atomic uint64_t list;
    char pad[48];
    weir_board_slot slot[];
} weir_board;
#endif
