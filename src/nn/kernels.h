/* kernels.h - inner loops of layers that oneDNN has no primitive for, or a slower one; chosen at
 * run time as core/vec.h's are (baseline, AVX2, AVX-512; WEIR_ISA masks). Unlike those, they need
 * not give the same bits on every machine. NaNs pass
 * through. */
#ifndef WEIR_NN_KERNELS_H
#define WEIR_NN_KERNELS_H
#include <stdbool.h>
#include <stdint.h>

enum { WEIR_UNIT = 16 }; /* columns that are computed together */
static inline int64_t weir_units(int64_t n) { return (n + WEIR_UNIT - 1) / WEIR_UNIT; }

/* C = A B, or C += A B, of small or thin matrices. Columns of B and C come in whole units, which
 * must be there to read and write. Element (i, k) of A is at i * row + k * col; unit u of row i of
 * B and C begins at i * row + u * unit. A B whose rows lie unit by unit (row = WEIR_UNIT) is read
 * fastest. */
typedef struct weir_product {
    int64_t m, units, k;
    struct {
        const float *at;
        int64_t row, col;
    } a;
    struct {
        const float *at;
        int64_t row, unit;
    } b;
    struct {
        float *at;
        int64_t row, unit;
    } c;
    bool add;
} weir_product;

/* A tile of C += A' B in double, where a product of two floats is exact: A is depth x
 * WEIR_WIDE_ROWS, B depth x WEIR_WIDE_COLS, and of C only `rows` and `cols` are there, rows `row`
 * apart. */
enum { WEIR_WIDE_ROWS = 4, WEIR_WIDE_COLS = 16 };
typedef struct weir_wide {
    int64_t depth, rows, cols;
    const double *a, *b;
    double *c;
    int64_t row;
} weir_wide;

/* Some cells (at most WEIR_UNIT) of `rows` streams at one time step. Each pointer is at the first
 * row's first cell, each step is from row to row. The four gates i, f, g, o of a cell are `gap`
 * apart. */
typedef struct weir_lstm_cells {
    int64_t rows, cells, gap;
    /* forward: sums of the input in, values out; backward: values in, gradients of the sums out */
    float *gate;
    int64_t gate_row;
    const float *sum; /* forward: what the state adds: WEIR_UNIT of each gate, rows 4 * WEIR_UNIT
                         apart; backward: its gradient, rows WEIR_UNIT apart */
    const float *old; /* c of the step before */
    int64_t old_row;
    float *c; /* out; backward: in */
    int64_t c_row;
    float *h; /* out: the output; backward: in, its gradient */
    int64_t h_row;
    float *carry; /* out: h again, for the next step. Backward: gradient of c, in and out */
    int64_t carry_row;
    float *copy; /* out: what the next step of a training pass multiplies, may be NULL; backward:
                    the gates' gradients again, gates copy_gap apart */
    int64_t copy_row, copy_gap;
} weir_lstm_cells;

typedef struct weir_kernels {
    const char *isa;
    void (*product)(const weir_product *);
    void (*wide)(const weir_wide *);
    /* WEIR_UNIT rows of n numbers, n whole units, to n rows of WEIR_UNIT */
    void (*transpose)(float *to, const float *from, int64_t n);
    /* the largest; -INFINITY of none; NaNs are passed over */
    float (*most)(const float *x, int64_t n);
    /* sum of exp(scale * (x - most)) */
    double (*exp_sum)(const float *x, int64_t n, float scale, float most);
    /* y = exp(scale * (x - most)) * times, and their sum; y may be x */
    double (*exp_to)(float *y, const float *x, int64_t n, float scale, float most, float times);
    /* y = p * (y - d) * scale, where d = p . y: softmax undone */
    void (*softmax_back)(float *y, const float *p, int64_t n, float scale);
    void (*lstm)(const weir_lstm_cells *);
    void (*lstm_back)(const weir_lstm_cells *);
} weir_kernels;

const weir_kernels *weir_kernels_best(void);
/* Every variant this machine can run, NULL-ended, baseline first: for tests. */
const weir_kernels *const *weir_kernels_all(void);
#endif
