/* saver.h - a run's checkpoints, written while training goes on.
 *
 * All ranks take part in a snapshot (snapshot.h), after which training goes on; the leader's is
 * written by a task. One is written at a time: where the next one is due earlier, it waits, and the
 * wait is counted; none is left out. The log tells of a checkpoint when it is whole. One that could
 * not be written (the disk is full) is warned of, and those before it stay: the run goes on. Only
 * where the last one of a run could not be written the run ends with WEIR_DISK.
 *
 * Journal and directory are the leader's, as loop.h has them; the others' are not looked at. */
#ifndef WEIR_TRAIN_SAVER_H
#define WEIR_TRAIN_SAVER_H
#include "train/rundir.h"

typedef struct weir_saver weir_saver; /* the trainer's */

/* Settles, and takes a snapshot of the step that was committed last; its writing begins. Weights
 * that are not finite are refused: what is saved is fit to go on from. [all ranks] */
weir_err weir_saver_save(weir_trainer *, weir_journal *, weir_rundir *);
/* After every step: tells of a write that has ended, if one has. */
weir_err weir_saver_look(weir_trainer *, weir_journal *, weir_rundir *);
/* The same, having waited for it: whoever leaves, or leads no longer. */
weir_err weir_saver_wait(weir_trainer *, weir_journal *, weir_rundir *);
/* There will be no other save: waits for this one. What it came to is the same on all ranks. [all
 * ranks] */
weir_err weir_saver_end(weir_trainer *, weir_journal *, weir_rundir *);

/* For how long training has stood still for its checkpoints, and how often it had to wait for one
 * to be written before it could take the next. The leader's. */
typedef struct weir_saver_count {
    double stood_s;
    uint64_t waits;
} weir_saver_count;
weir_saver_count weir_saver_counted(const weir_trainer *);

/* Waits for what is being written, and says nothing. */
void weir_saver_close(weir_trainer *);
#endif
