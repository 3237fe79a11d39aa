/* state_deal.h - what a checkpoint has of the workers (snapshot.h), dealt to those that read it.
 *
 * Of a field kept by stream each worker takes the range of the streams it has. Of fields of which
 * each worker had its own as many workers take each their own. Another number: sums are dealt out
 * (worker i of q takes what i, i + q, ... had), so that nothing is lost or scaled; of means
 * everybody takes the mean. */
#ifndef WEIR_TRAIN_STATE_DEAL_H
#define WEIR_TRAIN_STATE_DEAL_H
#include "core/state.h"

/* What `state` lists, each worker with what is its. */
typedef struct weir_state_dealt {
    int saved, now, me; /* workers that wrote it; that read it; which of them this is */
    weir_err (*state)(void *arg, weir_io *);
    void *arg;
} weir_state_dealt;
weir_err weir_state_dealt_read(void *dealt, weir_io *);
#endif
