/* bucket.h - a model is one flat vector with names on its ranges; a bucket is a contiguous range of
 * it.
 *
 * Parameters, gradients and optimiser state share one plain order on every machine: compressible
 * tensors in the order in which backward finishes them, then all one-dimensional and small ones as
 * one dense tail. A bucket is the unit of everything after backward: encoded, exchanged, stepped,
 * owned, measured. */
#ifndef WEIR_CORE_BUCKET_H
#define WEIR_CORE_BUCKET_H
#include "core/state.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WEIR_DIMS = 6 };

/* A named range of the flat vector, row-major. */
typedef struct weir_tensor {
    const char *name; /* "conv1.weight" */
    size_t at, n;
    int dims;
    int64_t dim[WEIR_DIMS];
    bool decays; /* weight decay applies: not to biases and norms */
    /* backward finishes tensors in rising order of this number; equal numbers together */
    int ready;
    bool output; /* of the last layer that has any */
} weir_tensor;

/* Not worth a codec: these make up the dense tail. WEIR_SMALL elements, if nobody says
 * otherwise. */
enum { WEIR_SMALL = 256 };
static inline bool weir_tensor_small(const weir_tensor *t, size_t small)
{
    return t->dims < 2 || t->n < small;
}

/* A tensor, or some rows of it, inside a bucket; seen as a matrix. */
typedef struct weir_view {
    const weir_tensor *tensor;
    size_t at, rows, cols; /* `at` counts from the bucket's beginning */
    size_t first;          /* the first element's place in the tensor */
} weir_view;

static inline size_t weir_view_length(const weir_view *v) { return v->rows * v->cols; }

typedef struct weir_bucket {
    int id;
    size_t at, n; /* range of the flat vectors */
    float *param, *grad;
    const weir_view *view;
    int views;
    int ready;  /* full when backward has finished the tensors up to this number */
    bool dense; /* the tail: no codec but the exact one touches it */
    bool dry;   /* sizes alone: whoever keeps something of its length keeps nothing */
} weir_bucket;

/* When: the same on every rank, so that randomness derived from it needs no state. */
typedef struct weir_when {
    uint64_t step;
    unsigned round;
    double epochs; /* passes over the data so far */
    double rate;   /* of learning, for those who need it before the commit */
} weir_when;

/* How to add two messages without decoding them; `unit` bytes are never split. */
typedef struct weir_sum {
    size_t unit;
    void (*add)(void *to, const void *from, size_t units);
    /* Each of the k becomes their sum, added in their order: the bits that `add` gives, in one
     * pass. NULL: only add can. */
    void (*all)(void *const *x, int k, size_t units);
} weir_sum;
extern const weir_sum weir_sum_f32, weir_sum_f64;

/* Lists a vector as long as the bucket and in its order as fields TENSOR.what: each view as its
 * place in the whole tensor, so that it does not matter how tensors are cut into buckets. */
weir_err weir_bucket_keep(const weir_bucket *, const char *what, float *x, weir_keep, weir_io *);
/* One number a view, as TENSOR.what.FIRST: a tensor cut over buckets has one in each. */
weir_err weir_bucket_keep_each(const weir_bucket *, const char *what, float *x, weir_keep,
                               weir_io *);
#endif
