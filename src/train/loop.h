/* loop.h - step after step, with evaluations and checkpoints where they are due. */
#ifndef WEIR_TRAIN_LOOP_H
#define WEIR_TRAIN_LOOP_H
#include "train/report.h"
#include "train/rundir.h"

typedef struct weir_loop {
    weir_journal *journal; /* the leader's; else NULL */
    weir_rundir *dir;      /* the same: others have not taken it */
    weir_tally tally;
    bool saves; /* the leader has an --out: all take part in its checkpoints */
} weir_loop;

/* From t->step to the end of the run, or until all ranks agreed to stop (t->stopped). What was
 * trained is saved before it is evaluated for the last time. */
weir_err weir_loop_run(weir_loop *, weir_trainer *);
#endif
