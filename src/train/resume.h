/* resume.h - a run to its checkpoints and back: all ranks take part, the leader writes, every
 * rank reads. The files are checkpoint.h's. */
#ifndef WEIR_TRAIN_RESUME_H
#define WEIR_TRAIN_RESUME_H
#include "train/rundir.h"

/* Where --resume says so: finds the newest whole checkpoint, before anything is opened, and takes
 * from it what the run's data taught. */
weir_err weir_resume_find(weir_trainer *);
/* Parameters, state and step from the checkpoint that was found, the same one on all ranks. */
weir_err weir_resume_load(weir_trainer *);
/* Whether there is anything to save is the leader's to say, as it alone writes. */
weir_err weir_resume_agree(weir_trainer *, bool *saves);
/* Settles, and writes a checkpoint of the step that was committed last. Weights that are not finite
 * are refused: what is saved is fit to go on from. */
weir_err weir_resume_save(weir_trainer *, weir_journal *, weir_rundir *);
#endif
