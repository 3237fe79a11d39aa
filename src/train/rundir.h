/* rundir.h - the directory of a run: who may have it, and what lies in it beside checkpoints.
 *
 *   OUT/lock            held by the run that has the directory (core/lock.h)
 *   OUT/config          the settings, as --config takes them
 *   OUT/model.net       the model's file as the run began with it (run_model.h)
 *   OUT/log.jsonl       the log
 *   OUT/flight-R.txt    what rank R was at, where a peer did not come
 *   OUT/step-N, latest  checkpoints: checkpoint.h
 *
 * The leader's alone. A directory without a checkpoint holds nothing that could be lost: whoever
 * comes next may have it. One that is deleted under its run is made anew at the next checkpoint. */
#ifndef WEIR_TRAIN_RUNDIR_H
#define WEIR_TRAIN_RUNDIR_H
#include "core/lock.h"
#include "train/run.h"
#include "train/trainer.h"
#include <sys/types.h>

typedef struct weir_rundir {
    const weir_settings *set;
    const char *host;
    const weir_model_file *model; /* read before the directory is filled */
    weir_lock *lock;              /* NULL: not ours yet, or there is no --out */
    dev_t device;                 /* which directory it was, when it was taken */
    ino_t inode;
} weir_rundir;

/* Looks, and changes nothing in it: what cannot go on must not have touched the run that is there.
 * One that is there is ours from now on: another run's is refused, with its holder. */
weir_err weir_rundir_take(weir_rundir *, weir_warned *);
/* Makes it if need be, and writes what belongs to the run. Without --out: nothing. */
weir_err weir_rundir_fill(weir_rundir *, weir_warned *);
/* The one who had it is gone: this rank writes on in the same directory, if it is the same here (a
 * disk that both see), else in one of its own of that name. */
weir_err weir_rundir_take_over(weir_rundir *, weir_warned *);
/* Before a checkpoint: is it still there? If not it is filled anew, with a warning. */
weir_err weir_rundir_keep(weir_rundir *, weir_journal *);
/* The one that was taken still has its name. */
bool weir_rundir_is_there(const weir_rundir *);
/* Somebody else has taken it since: what is in it is not this one's to write. From any thread. */
bool weir_rundir_others(const weir_rundir *);
/* It is there, and nobody else's: what is written may get its name there. From any thread. */
bool weir_rundir_held(const void *rundir);
void weir_rundir_leave(weir_rundir *);
/* The log: --log, or the directory's own, or only what the hooks show. */
weir_err weir_rundir_open_journal(const weir_settings *, const weir_hooks *, double began,
                                  weir_rt *, weir_journal **);
/* Somebody did not come: what this rank was at goes beside the log, for whoever has to find out.
 * Errors change nothing any more. */
void weir_rundir_write_flight(const weir_trainer *);
#endif
