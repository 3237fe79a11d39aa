/* progress.h - how far a run has come, when it is over, and what is due: all by samples.
 *
 * A run by --epochs is measured by the samples it has used (the trainer's cursor), so that it may
 * go on with another batch or with more rows; a run by --steps by its updates. What is given in
 * epochs (1e) counts samples, what is given in steps counts updates. Rates run over time: the
 * samples done, in steps of today's batch, so that one made of whole steps is a whole number. */
#ifndef WEIR_TRAIN_PROGRESS_H
#define WEIR_TRAIN_PROGRESS_H
#include "train/checkpoint.h"
#include "train/trainer.h"

/* Opens plan, cursor and rate by the trainer's settings and data: the beginning of a run. */
weir_err weir_progress_open(weir_trainer *);
/* Goes on where a checkpoint was saved: parameters and counts have been read. Called on all ranks
 * alike; what changed since is in the journal's warnings (the leader's). */
weir_err weir_progress_resume(weir_trainer *, const weir_checkpoint_info *);

/* Epochs done, with their portion of the one that has begun. */
double weir_progress_epochs(const weir_trainer *);
double weir_progress_rate(const weir_trainer *); /* of the next step */
bool weir_progress_over(const weir_trainer *);
/* The step is committed: past its samples. */
void weir_progress_advance(weir_trainer *);
/* Step, samples and cursor are what others say they are. */
void weir_progress_jumped(weir_trainer *);
/* Back to where it was before this step was made, which is one of the last ones (the exchange's
 * `apart` says of how many). *samples: from there on up to step `end`. */
weir_err weir_progress_back(weir_trainer *, uint64_t step, uint64_t end, uint64_t *samples);

/* --save-every and the like: 500 steps, or 2e. */
typedef struct weir_every {
    uint64_t n; /* 0: never */
    bool epochs;
} weir_every;
weir_err weir_every_read(const char *what, const char *text, weir_every *);
/* Is it due after the step that was just made? */
bool weir_every_due(weir_every, const weir_trainer *);
#endif
