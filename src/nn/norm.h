/* norm.h - the loops of batch norm over one piece: some channels of one sample, lane by lane.
 * Compiled for each instruction set, as core/vec.h is; with few bits lost: sums are taken of at
 * most 32 floats, then in double. */
#ifndef WEIR_NN_NORM_H
#define WEIR_NN_NORM_H
#include <stdbool.h>
#include <stdint.h>

enum { WEIR_NORM_LANES = 16 }; /* the most that a piece has */

typedef struct weir_norm_piece {
    int64_t places, step, lanes; /* lane l of place p is element p * step + l */
    bool relu;
    const float *x, *dy;
    float *y, *dx;
    /* By lane. y = (x - mean) * a + b, or 0 where a relu follows and that is negative: dy counts as
     * 0 there too. */
    const float *mean, *a, *b;
    const float *by_dy, *by_x, *rest; /* dx = by_dy * dy + by_x * (x - mean) + rest */
    double *sum;                      /* two rows of lanes */
} weir_norm_piece;

typedef struct weir_norm_loops {
    void (*sums)(const weir_norm_piece *);      /* sum: of x - mean, and of its square */
    void (*apply)(const weir_norm_piece *);     /* y */
    void (*back_sums)(const weir_norm_piece *); /* sum: of dy, and of dy * (x - mean) */
    void (*back)(const weir_norm_piece *);      /* dx */
} weir_norm_loops;

/* Those of the instruction set that weir_vec_best chose. */
const weir_norm_loops *weir_norm_best(void);
#endif
