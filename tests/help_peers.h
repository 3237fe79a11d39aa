/* help_peers.h - ranks that exchange by `peers`, or by `allreduce` beside it, and leave what they
 * have for the test to look at. */
#ifndef WEIR_HELP_PEERS_H
#define WEIR_HELP_PEERS_H
#include "exchange/exchange.h"
#include "help_ranks.h"
#include <stdatomic.h>

enum { ROWS = 60, COLS = 100, N = ROWS * COLS + 2000 + 100, RANKS = 6 };

struct rank;

/* What all ranks of a test are given, and leave. */
typedef struct plan {
    weir_err (*run)(struct rank *, struct plan *);
    const weir_exchange *exchange;
    const char *spec, *codec, *optim;
    int steps, bound;
    bool pulls;   /* gradients depend on the parameters */
    double fall;  /* the rate falls by this factor a step */
    double spend; /* seconds of work a step */
    /* rank: leaves in the middle; changes a weight before the end. -1: nobody */
    int leaves, spoils;
    atomic_int sent[RANKS]; /* steps whose last lane it is sending, or has sent */
    int apart[RANKS];       /* at most, as others saw it, and as the exchange said */
    int said[RANKS];
    float param[RANKS][N], held[RANKS][N], last[RANKS];
    double input[RANKS][N]; /* all gradients times their rates */
    double size[RANKS][N];  /* and their sizes */
} plan;

typedef struct rank {
    weir_arena *arena;
    weir_tensor t[3];
    float param[N], grad[N + WEIR_EXCHANGE_NOTES];
    weir_group g;
    weir_coll_use coll;
    weir_lane *lane;
    int lanes;
    void *self;
    weir_exchange_env env;
} rank;

plan *new_plan(const char *spec, int bound, const char *codec);
/* A rank's program: opens, calls plan->run, closes. */
weir_err run_rank(weir_net *, void *plan);
void all_well(plan *, const char *net, int size);

/* Parameters begin with multiples of 1/32, gradients are multiples of 1/16, and the rate of the
 * first step is a power of two: as long as the rate stays, all moves and their sums are exact. */
float first_param(int i);
extern const double FIRST_RATE;

/* For plan->run. */
const weir_exchange_env *rank_env(rank *); /* as the rank's group is now */
weir_err peer_open(rank *, weir_net *, const plan *);
void make_gradient(rank *, plan *, uint64_t step, double rate);
weir_err one_step(rank *, plan *, uint64_t step);
weir_err all_steps(rank *, plan *); /* and drains */
void leave_results(const rank *, plan *);

/* The largest difference, by the largest of b. */
double distance(const float *a, const float *b, size_t n);
#endif
