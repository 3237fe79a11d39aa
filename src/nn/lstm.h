/* lstm.h - what lstm.c (shapes, plan, carried state) and lstm_run.c (the loop over time) share;
 * nobody else includes it.
 *
 * Rows are (sample, time), as everywhere. What the input adds to the gates is one large product of
 * all rows, before the loop over time; so are the gradients of input and weights, behind it. In the
 * loop only h W_hh' is left: its weights are kept a second and a third time in units of 16 columns,
 * for forward with the four gates of 16 cells side by side, so that a thread computes the gates of
 * its cells and then those cells, without waiting for others. */
#ifndef WEIR_NN_LSTM_H
#define WEIR_NN_LSTM_H
#include "nn/layer.h"

enum { WEIR_LSTM_LEVELS = WEIR_LAYER_WEIGHTS / 3 };

/* One of several LSTMs on top of each other. */
typedef struct weir_lstm_level {
    float *ahead, *back;        /* W_hh for forward, and for backward */
    unsigned ahead_at, back_at; /* made of which version; 0: not made */
} weir_lstm_level;

typedef struct weir_lstm {
    int64_t out, layers; /* options */
    weir_lstm_level level[WEIR_LSTM_LEVELS];
    /* State carried over batches. A stream's: of every level h, then c. */
    uint64_t first, count, room, total; /* room: of streams, in the arena */
    bool streams_known; /* by weir_model_streams; else room is made for the largest batch */
    float *now, *next;  /* as the last commit left it, and as this step will */
    bool *wrote;        /* which streams this step has had */
    float *test;        /* of passes that do not train, by place in the batch */
    int64_t tests;
} weir_lstm;

/* One level, for one batch size. */
typedef struct weir_lstm_bound {
    weir_lstm *self;
    const weir_layer_run *run;
    int level;
    int64_t n, length;
    const weir_mem *weight; /* W_hh, plain */
    weir_mem *gates, *c;    /* of all rows; backward turns gates into their gradients */
    weir_mem *y, *dy;       /* output h, and its gradient */
    weir_mem *before;       /* the h before each row: what W_hh was multiplied with */
    weir_mem *begin;        /* c at the beginning, [n, out] */
    weir_mem *turns;        /* h of this step and of the next, [2, n, out] */
    weir_mem *dturns, *dc;  /* the same for the gates' gradients, [2, n, 4 out]; gradient of c */
    int64_t t;              /* the time step that runs */
} weir_lstm_bound;

/* Steps of a plan; arg is a weir_lstm_bound. */
weir_err weir_lstm_forward(void *arg);
weir_err weir_lstm_back(void *arg);
#endif
