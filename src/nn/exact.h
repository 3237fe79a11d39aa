/* exact.h - sums over rows, in double, for layers in exact mode. Each puts a loop into the plan
 * that adds to `to`, doubles in plain order (a parameter's `exact`). Which row comes first changes
 * no more than a double's last bits. */
#ifndef WEIR_NN_EXACT_H
#define WEIR_NN_EXACT_H
#include "nn/layer.h"

/* to[i] += sum of x[row][i] over `rows`, each of n floats. */
weir_err weir_exact_rows(const weir_bind *, weir_mem *to, weir_mem *x, int64_t rows, int64_t n);
/* to[o][i] += sum of dy[row][o] * x[row][i]. */
weir_err weir_exact_outer(const weir_bind *, weir_mem *to, weir_mem *dy, weir_mem *x,
                          const weir_dense_desc *);
#endif
