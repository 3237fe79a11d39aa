/* comm.h - the rank's two halves: compute on a thread of its own, everything that talks to peers on
 * the comm task.
 *
 * Compute hands small jobs over, in order; the first that fails makes all later ones fail too,
 * until the run ends. */
#ifndef WEIR_TRAIN_COMM_H
#define WEIR_TRAIN_COMM_H
#include "net/net.h"

typedef struct weir_comm weir_comm;

/* On the rank's first fibre: starts `compute` on a thread and does its jobs until it returns; gives
 * its error, or the jobs' first. `close` (on the same thread, in any case) frees what compute made:
 * by then no job uses it any more. [blocks] */
weir_err weir_comm_run(weir_net *, weir_err (*compute)(weir_comm *, void *), void (*close)(void *),
                       void *arg);

/* On the compute thread: do this on the comm task, and do not wait. A failure is told by the next
 * call. */
weir_err weir_comm_post(weir_comm *, weir_err (*fn)(void *), void *arg);
/* The same, and wait for it and all before it. */
weir_err weir_comm_call(weir_comm *, weir_err (*fn)(void *), void *arg);
/* The same even if a job has failed: what is in flight is taken back before its memory goes. */
void weir_comm_close(weir_comm *, weir_err (*fn)(void *), void *arg);
/* On the comm task, in a job that compute waits for: fn runs on the compute thread meanwhile, where
 * it has that thread's helpers. [blocks] */
void weir_comm_lend(weir_comm *, void (*fn)(void *), void *arg);
weir_net *weir_comm_net(weir_comm *);
#endif
