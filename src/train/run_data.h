/* run_data.h - a run's data: opened by what the run has learnt, if it has, and compared with what
 * it was trained on and with what the other ranks have read. */
#ifndef WEIR_TRAIN_RUN_DATA_H
#define WEIR_TRAIN_RUN_DATA_H
#include "train/trainer.h"

/* The settings' data are as the run in this directory kept them. Where a path of them is not there,
 * as the run was begun elsewhere, the same names are looked for from the current directory and
 * beside the run. */
weir_err weir_run_data_find(weir_settings *, const char *run);
/* Opens t->data. Ranks whose settings, model file or data differ: WEIR_MISFIT on all of them. The
 * leader of a run that saves has t->lessons then; data that are not those the run was trained on so
 * far are warned of, but refused where they were only found (WEIR_INVALID). [all ranks] */
weir_err weir_run_data_open(weir_trainer *);
#endif
