/* snapshot.h - all that a checkpoint holds, copied at one step: it can be written while training
 * goes on.
 *
 * What is the same on all workers is the leader's own. What differs is made whole first. Fields
 * kept by stream (WEIR_KEEP_STREAM) are ranges of one field over all streams: every worker puts its
 * own range into zeros, and the sum over the workers is the field. Fields of which each worker has
 * its own (WEIR_KEEP_SUM, WEIR_KEEP_MEAN) come to the leader, one worker behind the other. How they
 * are read back is state_deal.h's.
 *
 * The memory is kept for the next one: on the leader as much as parameters, optimiser and layer
 * state and everybody's residuals take, on others as much as their own residuals and the carried
 * state of all streams. */
#ifndef WEIR_TRAIN_SNAPSHOT_H
#define WEIR_TRAIN_SNAPSHOT_H
#include "train/checkpoint.h"
#include "train/trainer.h"

typedef struct weir_snapshot weir_snapshot;

weir_snapshot *weir_snapshot_new(void); /* NULL: out of memory */
/* On all ranks; the leader's is a checkpoint of the step that was committed last, and stays as it
 * is until the next one is taken. Nobody may be writing it. Anything may happen to the trainer
 * meanwhile, but its model and settings stay. */
weir_err weir_snapshot_take(weir_snapshot *, weir_trainer *);
uint64_t weir_snapshot_step(const weir_snapshot *);
/* The leader's to the disk, from any thread: weir_checkpoint_save. */
weir_err weir_snapshot_write(weir_snapshot *, weir_rt *, const weir_checkpoint_place *,
                             weir_checkpoint_saved *);
void weir_snapshot_free(weir_snapshot *); /* NULL is allowed */
#endif
