/* help_held.h - ranks whose workers hold something back, on gradients that are whole numbers, so
 * that sums are exact; and what they have put in, sent and still hold, over all of them. */
#ifndef WEIR_HELP_HELD_H
#define WEIR_HELP_HELD_H
#include "exchange/exchange.h"
#include "help_ranks.h"

enum { HELD_N = 6100, HELD_RANKS = 6 };

/* A rank's model. */
typedef struct held_model {
    weir_tensor t[3];
    float param[HELD_N], grad[HELD_N + WEIR_NOTES];
    weir_lane *lane;
    int lanes;
    weir_group g;
    weir_coll_use coll;
    void *self;
} held_model;

/* What all ranks are given, and what they came to. */
typedef struct held_job {
    const char *codec, *optim, *exchange;
    double clip;
    int steps, split; /* split: each machine's gradient comes in so many parts */
    uint64_t hash[HELD_RANKS], fields[HELD_RANKS];
    uint64_t bytes;
    float param[HELD_RANKS][HELD_N];
    /* over all ranks; before and after: held and momentum */
    double put[HELD_N], sent[HELD_N], held[HELD_N], before[2][HELD_N], after[2][HELD_N];
    double idle; /* held by those who lead no machine */
} held_job;

extern const weir_exchange *const held_exchange;

weir_exchange_env held_env(held_model *, const held_job *, weir_arena *);
weir_err held_open(held_model *, const held_job *, weir_arena *);
/* The gradient is one of `machine`, or the part that `member` has of it. */
weir_err held_step(held_model *, held_job *, int machine, int member, uint64_t step);
/* Adds what this rank holds back, and its momentum. */
void held_add(const held_model *, double *held, double *speed);
void held_add_sent(const held_model *, held_job *);
uint64_t held_fold(uint64_t hash, const void *, size_t bytes);
#endif
