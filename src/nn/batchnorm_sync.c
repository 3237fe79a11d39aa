/* batchnorm_sync.c - batch norm's statistics over several workers. */
#include "nn/batchnorm.h"
#include <string.h>

weir_err weir_batchnorm_sum(const weir_batchnorm *n, const weir_layer_run *run, double *x,
                            int64_t count)
{
    return n->sync ? weir_layer_run_sum(run, x, (size_t)count) : WEIR_OK;
}

weir_err weir_batchnorm_mean(const weir_batchnorm *n, const weir_layer_run *run)
{
    WEIR_TRY(weir_batchnorm_sum(n, run, n->sum, 2 * n->channels + 1));
    for (int64_t c = 0; c < n->channels; c++)
        n->sum[c] = *n->count > 0 ? n->sum[c] / *n->count : 0;
    return WEIR_OK;
}

weir_err weir_batchnorm_gather(const weir_batchnorm *n, const weir_layer_run *run,
                               const float *zero)
{
    WEIR_TRY(weir_batchnorm_sum(n, run, n->sum, 2 * n->channels + 1));
    for (int64_t c = 0; c<n->channels && * n->count> 0; c++) {
        double apart = n->sum[c] / *n->count;
        n->square[c] -= n->sum[c] * apart;
        n->sum[c] = (double)zero[c] + apart;
    }
    return WEIR_OK;
}

void weir_batchnorm_take(const weir_batchnorm *n, const weir_param *w)
{
    float *mean = w[MEAN].grad->at, *variance = w[VARIANCE].grad->at;
    double count = *n->count;

    for (int64_t c = 0; c < n->channels && count > 0; c++) {
        mean[c] = (float)((1 - n->momentum) * mean[c] + n->momentum * n->sum[c]);
        variance[c] = (float)((1 - n->momentum) * variance[c] +
                              n->momentum * n->square[c] / (count > 1 ? count - 1 : 1));
    }
}

weir_err weir_batchnorm_idle(void *self, const weir_layer_run *run, weir_layer_phase phase,
                             const weir_param *param)
{
    const weir_batchnorm *n = self;

    if (!n->sync || phase == WEIR_LAYER_BACK_DATA)
        return WEIR_OK;
    memset(n->sum, 0, (size_t)(2 * n->channels + 1) * sizeof *n->sum);
    if (phase == WEIR_LAYER_BACK_WEIGHTS)
        return weir_batchnorm_sum(n, run, n->sum, 2 * n->channels + 1);
    WEIR_TRY(weir_batchnorm_mean(n, run));
    for (int64_t c = 0; c < n->channels; c++)
        n->zero[c] = (float)n->sum[c];
    memset(n->sum, 0, (size_t)(2 * n->channels + 1) * sizeof *n->sum);
    WEIR_TRY(weir_batchnorm_gather(n, run, n->zero));
    weir_batchnorm_take(n, param);
    return WEIR_OK;
}
