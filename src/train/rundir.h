/* rundir.h - the directory of a run: who may have it, and what lies in it beside checkpoints.
 *
 *   OUT/config          the settings, as --config takes them
 *   OUT/log.jsonl       the log
 *   OUT/flight-R.txt    what rank R was at, where a peer did not come
 *   OUT/step-N, latest  checkpoints: checkpoint.h */
#ifndef WEIR_TRAIN_RUNDIR_H
#define WEIR_TRAIN_RUNDIR_H
#include "train/run.h"
#include "train/trainer.h"

/* Looks, and changes nothing: what cannot go on must not have touched the run that is there. */
weir_err weir_rundir_check(const weir_settings *);
/* The run's settings, in its directory, which is made. Without --out: nothing. */
weir_err weir_rundir_write_config(const weir_settings *);
/* The log: --log, or the directory's own, or only what the hooks show. */
weir_err weir_rundir_open_journal(const weir_settings *, const weir_hooks *, double began,
                                  weir_rt *, weir_journal **);
/* Somebody did not come: what this rank was at goes beside the log, for whoever has to find out.
 * Errors change nothing any more. */
void weir_rundir_write_flight(const weir_trainer *);
#endif
