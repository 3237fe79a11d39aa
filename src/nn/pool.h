/* pool.h - what max and average pooling share. */
#ifndef WEIR_NN_POOL_H
#define WEIR_NN_POOL_H
#include "nn/layer.h"

typedef struct weir_pool {
    int64_t kernel, stride, pad;
} weir_pool;
extern const weir_opt weir_pool_options[];
weir_err weir_pool_shape(weir_pool *, const char *kind, const weir_shape *in, weir_shape *out);
/* Its `layout` and `out` are filled in here. */
weir_err weir_pool_bind(const weir_bind *, weir_pool_desc);
#endif
