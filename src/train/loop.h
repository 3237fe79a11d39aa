/* loop.h - step after step, with evaluations and checkpoints where they are due. */
#ifndef WEIR_TRAIN_LOOP_H
#define WEIR_TRAIN_LOOP_H
#include "train/progress.h"
#include "train/report.h"
#include "train/rundir.h"
#include "train/told.h"

typedef struct weir_loop {
    weir_journal *journal; /* the leader's; else NULL */
    weir_rundir *dir;      /* the same: others have not taken it */
    weir_tally tally;
    bool keeps;                      /* the leader has an --out: all take part in its checkpoints */
    weir_every evals, saves, checks; /* how often */
    uint64_t began;                  /* the step that this process began at */
    /* the last steps at which these were done (saved: begun, see saver.h) */
    uint64_t evaluated, saved, checked;
    uint64_t logged, scored; /* the last step, and the last evaluation, that were told */
    uint64_t found;          /* the last step that whoever led before had told; 0: nobody did */
    uint64_t begun;          /* the last step whose saving was begun by whoever led; 0: none */
    bool owed;               /* that one, or a newer one: it may not be whole */
} weir_loop;

/* Before the first step. */
weir_err weir_loop_open(weir_loop *, weir_trainer *);
/* On one that leads from now on, before that: a save that the one before it had begun is owed,
 * unless it is whole in `out` (NULL: there is none). */
void weir_loop_owe(weir_loop *, const char *out);
/* On the same one, with its journal: the last step is told, unless the log has it. */
weir_err weir_loop_tell(weir_loop *, weir_trainer *, const weir_told *log);

/* With other members, before they go on: whatever some of them have done at this step and others
 * have not, as it was broken off in the middle, is done by all. Whether there is anything to save
 * is the leader's to say, as it alone writes. fresh: this one has just come, and does what they do.
 * [all ranks] */
weir_err weir_loop_agree(weir_loop *, weir_trainer *, bool fresh);

/* Goes on from t->step to the end of the run, or until all ranks agreed to stop (t->stopped), or
 * members wish to change (t->change). What was trained is saved before it is evaluated for the last
 * time. */
weir_err weir_loop_run(weir_loop *, weir_trainer *);
/* There will be no other step: on return what was trained is saved, and whole. [all ranks] */
weir_err weir_loop_save_last(weir_loop *, weir_trainer *);
#endif
