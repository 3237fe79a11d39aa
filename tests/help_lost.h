/* help_lost.h - ranks that exchange made-up gradients and go on when some of them are lost, as a
 * trainer does (train/elastic.c), and the laws that hold of what they came to.
 *
 * A step has LOST_BATCH samples, which the members deal out. What a member puts in is one element
 * of every lane, which nobody else ever touches: each time that it makes a step has an element of
 * its own. So the parameters, with what is held back, tell of each time whether it counts, and in
 * which lanes. */
#ifndef WEIR_HELP_LOST_H
#define WEIR_HELP_LOST_H
#include "exchange/exchange.h"
#include "help_ranks.h"

enum {
    LOST_RANKS = 5,
    LOST_STEPS = 12,
    LOST_SETTLE = 5, /* every so many steps replicas are made one */
    LOST_TIMES = 6,  /* that a rank may make the same step */
    LOST_LANES = 4,
    LOST_N = 600, /* elements of a lane */
    LOST_BATCH = 60,
    LOST_VALUE = 3, /* the least of a gradient, where there is one */
    LOST_CALLS = 40 /* messages of a rank and lane that are remembered */
};

/* One time that a rank made a step. */
typedef struct lost_time {
    int from, to; /* its samples */
    int generation;
    bool begun;     /* something may have left */
    bool committed; /* it ended well */
} lost_time;

typedef struct lost_job {
    const char *net, *exchange, *codec;
    int size;
    double timeout;
    bool rounds;   /* the codec sends no whole numbers: sums are right but for rounding */
    uint64_t back; /* steps that a run may go back by */
    /* out */
    bool lives[LOST_RANKS]; /* it came to the end */
    int generations;        /* as those saw it; and the lists that were broken off among them */
    int again;
    int kept;          /* times that drifting replicas were settled, and stayed as they were */
    uint64_t repeated; /* samples, as the exchange says */
    uint64_t gone_back;
    int partly; /* steps that were broken off, of which something counts, of those who live */
    lost_time time[LOST_RANKS][LOST_STEPS][LOST_TIMES];
    float param[LOST_RANKS][LOST_LANES * LOST_N];
    float held[LOST_RANKS][LOST_LANES * LOST_N];
    /* what each rank held back after each of its messages, by lane: of one that was lost this is
     * what went with it, after the last that counts */
    int calls[LOST_RANKS][LOST_LANES];
    float past[LOST_RANKS][LOST_LANES][LOST_CALLS][LOST_N];
    /* what is there of each element, in the weights and held back: see lost_run */
    double there[LOST_LANES][LOST_N];
    char why[LOST_RANKS][300];
} lost_job;

/* Runs it, and checks:
 *   all that came to the end hold the same parameters, to the last bit;
 *   what is in the weights, what those hold back, and what a lost one held back after some message
 *   of its, is what some times put in, all of it: nothing counts twice, or in part;
 *   all that they had committed counts, in every lane; of a step that was broken off some first
 *   lanes count, or none;
 *   every sample counts, in every lane: once, where all step together; those that count again are
 *   no more than the exchange says, and it says no more than steps were begun again. */
void lost_run(lost_job *);
#endif
