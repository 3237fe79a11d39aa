/* run_data.h - a run's data: opened by what the run has learnt, if it has, and compared with what
 * it was trained on and with what the other ranks have read. */
#ifndef WEIR_TRAIN_RUN_DATA_H
#define WEIR_TRAIN_RUN_DATA_H
#include "train/trainer.h"

/* Opens t->data. Ranks whose settings, model file or data differ: WEIR_MISFIT on all of them. The
 * leader of a run that saves has t->lessons then; data that are not those the run was trained on so
 * far are warned of. [all ranks] */
weir_err weir_run_data_open(weir_trainer *);
#endif
