/* batchnorm.h - what the two forms of batch norm share. */
#ifndef WEIR_NN_BATCHNORM_H
#define WEIR_NN_BATCHNORM_H
#include "nn/layer.h"

typedef struct weir_batchnorm {
    double momentum, eps;
    bool sync;
    int64_t channels;
    double *sums; /* sync: what is summed over workers, 2 * channels + 1 */
} weir_batchnorm;
/* The tensors, as declared. */
enum { WEIR_NORM_SCALE, WEIR_NORM_SHIFT, WEIR_NORM_MEAN, WEIR_NORM_VARIANCE };

/* Running statistics take in those of a batch: `count` values a channel, with this mean and (biased) variance. */
void weir_batchnorm_take(const weir_batchnorm *, const weir_param *, int64_t c, double mean, double variance, double count);

/* batchnorm_sync.c: statistics over all workers, by loops of our own; forward while training, and backward. */
weir_err weir_batchnorm_sync(const weir_batchnorm *, const weir_bind *, const weir_layout *);
/* What a worker without samples does. */
weir_err weir_batchnorm_idle(void *self, const weir_run *, weir_when, const weir_param *);
#endif
