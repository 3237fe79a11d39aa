/* state_share.h - members of a new generation come to the same state.
 *
 * What is equal on all workers (parameters, optimiser, running statistics, progress) comes from one
 * that has the newest step, to those that are a step behind or have just come. What each worker has
 * of its own (what it holds back) stays where it is. What belongs to streams of the data (state
 * carried from one window to the next) goes with the streams, which are dealt anew: those of a
 * member that is lost begin at zero. */
#ifndef WEIR_TRAIN_STATE_SHARE_H
#define WEIR_TRAIN_STATE_SHARE_H
#include "net/member_message.h"
#include "train/trainer.h"

/* Carried state on its way from one generation to the next. */
typedef struct weir_carried weir_carried;
/* Before the groups change: takes a copy of this worker's. has: it has some to give (one that has
 * just come has not). */
weir_err weir_carried_take(weir_trainer *, bool has, weir_carried **);
/* With the new groups, on all members: each has what its streams had. *lost: streams that nobody
 * brought. [all ranks] */
weir_err weir_carried_give(weir_trainer *, weir_carried *, uint64_t *lost);
void weir_carried_free(weir_carried *); /* NULL is allowed */

/* How new this rank's state is, by which members agree on a source (weir_offer.step). One of a
 * later generation, whose members have come to it together, is newer than any of an earlier one;
 * then one of a later step; then one that is like that of all others who have made this step. Where
 * replicas drift these are settled ones. Never 0, which is for one that has no state yet.
 * generation: whose state this is. */
uint64_t weir_state_newness(const weir_trainer *, int generation);
/* Whether this rank of the list takes the state of its source: its own is older, or may be another
 * one. all: the source's has changed since it was offered. */
bool weir_state_goes_to(const weir_members *, bool all, int rank);
/* Ahead of the new groups, on the source: to all of those. One that is lost meanwhile is nobody's
 * concern here. more: bytes that go with it. */
weir_err weir_state_send(weir_trainer *, const weir_members *, bool all, void *more, size_t bytes);
/* On one of those: all of it or nothing. fresh: it has just come, and takes the means of what
 * each worker has of its own, too. */
weir_err weir_state_receive(weir_trainer *, const weir_members *, bool fresh, void *more,
                            size_t bytes);
#endif
