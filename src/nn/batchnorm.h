/* batchnorm.h - the layer, and what its workers do together (batchnorm_sync.c).
 *
 * With sync=yes the statistics are those of all workers: forward sums over them twice (values; then
 * distances from the common mean, which keep digits that a sum of squares would lose), backward
 * once. A sample's sums depend on nothing but the sample and that mean, and are added up in double:
 * however the samples lie on threads and workers, the same floats come out, but for one in some
 * millions. */
#ifndef WEIR_NN_BATCHNORM_H
#define WEIR_NN_BATCHNORM_H
#include "nn/layer.h"

typedef struct weir_batchnorm {
    double momentum, eps;
    bool sync;
    int64_t channels;
    /* What is summed over workers, by channel; the three lie behind each other. */
    double *sum, *square, *count;
    float *zero; /* what a worker without samples has in place of a bound one's */
} weir_batchnorm;

/* The tensors, as declared. */
enum { SCALE, SHIFT, MEAN, VARIANCE, TENSORS };

/* Sums `count` doubles over the workers; without sync nothing happens. */
weir_err weir_batchnorm_sum(const weir_batchnorm *, const weir_layer_run *, double *x,
                            int64_t count);
/* From this worker's sums of values (in sum) and their count: the mean of all workers, in sum. */
weir_err weir_batchnorm_mean(const weir_batchnorm *, const weir_layer_run *);
/* From this worker's sums of distances from `zero` (in sum), of their squares, and their count:
 * mean and squares around it. */
weir_err weir_batchnorm_gather(const weir_batchnorm *, const weir_layer_run *, const float *zero);
/* Running statistics take in those that gather left. */
void weir_batchnorm_take(const weir_batchnorm *, const weir_param *);
/* A worker without samples takes part in the sums. */
weir_err weir_batchnorm_idle(void *self, const weir_layer_run *, weir_layer_phase,
                             const weir_param *);
#endif
