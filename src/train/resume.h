/* resume.h - a run back from its checkpoints: every rank reads. How it comes to them is saver.h's;
 * the files are checkpoint.h's. */
#ifndef WEIR_TRAIN_RESUME_H
#define WEIR_TRAIN_RESUME_H
#include "train/trainer.h"

/* Where --resume says so: finds the newest whole checkpoint, before anything is opened, and takes
 * from it what the run's data taught. */
weir_err weir_resume_find(weir_trainer *);
/* Parameters, state and step from the checkpoint that was found, the same one on all ranks. */
weir_err weir_resume_load(weir_trainer *);
#endif
