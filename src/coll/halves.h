/* halves.h - inside coll/: pieces that several collectives share; those that take a talk stand
 * between weir_talk_begin and weir_talk_end. All [block]. */
#ifndef WEIR_COLL_HALVES_H
#define WEIR_COLL_HALVES_H
#include "coll/talk.h"

/* A power of two of members who halve the buffer between them. They have ids 0, 1, ...; id i is
 * member first + 2 i + 1 for i < fold, first + i + fold from there on. In the end id i has piece i
 * of `size`; `whole`, a multiple of size, is the number of pieces whose edges count, so that pieces
 * of a smaller block are unions of a larger one's. */
typedef struct weir_halves {
    int first, fold, size, whole;
    int id; /* ours; -1: we are not among them */
} weir_halves;

int weir_halves_floor2(int n); /* the largest power of two that is not above n */

/* The fold: of members 0 .. 2 fold - 1 each even one gives its buffer to the next, who adds it (the
 * lower rank's first) and takes part for both; in the end it gives back what came out. */
weir_halves weir_halves_fold(const weir_group *);
weir_err weir_halves_fold_in(weir_talk *, const weir_halves *);
weir_err weir_halves_fold_out(weir_talk *, const weir_halves *);

/* Reduce-scatter: the farthest partner and the largest half first, so that pieces come out in the
 * order of ids. Members that are not among them return at once. */
weir_err weir_halves_reduce(weir_talk *, const weir_halves *);
/* The way back: all-gather, nearest partner first. */
weir_err weir_halves_gather(weir_talk *, const weir_halves *);
/* From one piece an id to one piece a member (weir_coll_cut of the group's size). Every member
 * hears something, even of nothing. */
weir_err weir_halves_deal(weir_talk *, const weir_halves *);
void weir_halves_piece(const weir_talk *, const weir_halves *, int id, size_t *at, size_t *bytes);

/* All-gather and broadcast, for descriptors whose state begins with a weir_talk. All-gather takes
 * ceil(lg p) steps, each twice as long as the one before: with partners me ^ 2^k where p is a power
 * of two, else round the ring by 2^k; in memory order the second may need two messages a step.
 * Pieces that do not lie one behind the other: round the ring in p - 1 steps. Broadcast goes down a
 * binary tree, pipelined. */
weir_err weir_talk_allgather(void *self, weir_group *, void *all, const size_t *off,
                             const size_t *len);
weir_err weir_talk_broadcast(void *self, weir_group *, int root, void *buf, size_t bytes);
#endif
