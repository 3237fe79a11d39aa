/* loop.h - step after step, with evaluations and checkpoints where they are due. */
#ifndef WEIR_TRAIN_LOOP_H
#define WEIR_TRAIN_LOOP_H
#include "train/progress.h"
#include "train/report.h"
#include "train/rundir.h"

typedef struct weir_loop {
    weir_journal *journal; /* the leader's; else NULL */
    weir_rundir *dir;      /* the same: others have not taken it */
    weir_tally tally;
    bool keeps;                      /* the leader has an --out: all take part in its checkpoints */
    weir_every evals, saves, checks; /* how often */
    uint64_t began;                  /* the step that this process began at */
    /* the last steps at which these were done */
    uint64_t evaluated, saved, checked;
    uint64_t logged, scored; /* the last step, and the last evaluation, that were told */
} weir_loop;

/* Before the first step. */
weir_err weir_loop_open(weir_loop *, weir_trainer *);

/* With other members, before they go on: whatever some of them have done at this step and others
 * have not, as it was broken off in the middle, is done by all. fresh: this one has just come, and
 * does what they do. [all ranks] */
weir_err weir_loop_agree(weir_loop *, weir_trainer *, bool fresh);

/* Goes on from t->step to the end of the run, or until all ranks agreed to stop (t->stopped), or
 * members wish to change (t->change). What
 * was trained is saved before it is evaluated for the last time. */
weir_err weir_loop_run(weir_loop *, weir_trainer *);
#endif
