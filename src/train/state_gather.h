/* state_gather.h - state that differs between workers, made whole for the checkpoint that the
 * leader writes.
 *
 * Fields kept by stream (WEIR_KEEP_STREAM) are ranges of one field over all streams: every worker
 * puts its own range into zeros, and the sum over the workers is the field. Read back, each worker
 * takes the range of the streams it has then.
 *
 * Fields of which each worker has its own (WEIR_KEEP_SUM, WEIR_KEEP_MEAN) are written one worker
 * behind the other. Read back by as many workers, each takes its own. By another number: sums are
 * dealt out (worker i of q takes what i, i + q, ... had), so that nothing is lost or scaled; of
 * means everybody takes the mean. */
#ifndef WEIR_TRAIN_STATE_GATHER_H
#define WEIR_TRAIN_STATE_GATHER_H
#include "train/trainer.h"

typedef struct weir_state_gathered weir_state_gathered;

/* On all ranks: sums what differs. The result holds copies; free it when the save has returned. */
weir_err weir_state_gather(weir_trainer *, weir_state_gathered **);
/* The whole state, as weir_trainer_state lists it, with gathered fields in place of this worker's
 * ranges: a checkpoint's callback. */
weir_err weir_state_gathered_state(void *gathered, weir_io *);
void weir_state_gathered_free(weir_state_gathered *); /* NULL is allowed */

/* Reading: what `state` lists, each worker with what is its. */
typedef struct weir_state_dealt {
    int saved, now, me; /* workers that wrote it; that read it; which of them this is */
    weir_err (*state)(void *arg, weir_io *);
    void *arg;
} weir_state_dealt;
weir_err weir_state_dealt_read(void *dealt, weir_io *);
#endif
