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
    float param[HELD_N], grad[HELD_N + WEIR_EXCHANGE_NOTES];
    weir_lane *lane;
    int lanes;
    weir_group g;
    weir_coll_use coll;
    void *self;
} held_model;

/* What workers have of their own: held back, and momentum. */
enum { HELD_BACK, HELD_SPEED, HELD_KINDS };
typedef struct held_sum {
    double of[HELD_KINDS][HELD_N], size[HELD_KINDS][HELD_N]; /* sums, and sums of sizes */
} held_sum;

/* What all ranks are given, and what they came to. */
typedef struct held_job {
    const char *codec, *optim, *exchange, *net;
    double clip;
    int steps, split; /* split: each machine's gradient comes in so many parts */
    uint64_t hash[HELD_RANKS], fields[HELD_RANKS];
    uint64_t bytes;
    float param[HELD_RANKS][HELD_N];
    /* over all ranks: what went in, what was sent, what is held back at the end; `before` and
     * `after` a change of hands */
    double put[HELD_N], sent[HELD_N];
    held_sum held, before, after;
    double idle; /* held by those who lead no machine */
    /* how far what was sent and is held back may be from what went in, by rounding: see held_step
     */
    double room[HELD_N];
} held_job;

extern const double held_rounding; /* the largest error of a rounding, by what is rounded */

const weir_exchange *held_exchange(const held_job *);
weir_exchange_env held_env(held_model *, const held_job *, weir_arena *);
weir_err held_open(held_model *, const held_job *, weir_arena *);
/* The gradient is one of `machine`, or the part that `member` has of it. */
weir_err held_step(held_model *, held_job *, int machine, int member, uint64_t step);
/* Adds what this rank holds back, and its momentum. */
void held_add(const held_model *, held_sum *);
/* Takes how far the parameters have moved for what was sent: plain SGD at held_step's rate. */
void held_take_sent(const held_model *, held_job *);
uint64_t held_fold(uint64_t hash, const void *, size_t bytes);
#endif
