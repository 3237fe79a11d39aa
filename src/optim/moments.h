/* moments.h - what Adam and AdamW share: running means of the gradient and of its square, both
 * begun at 0 and corrected for that. They differ in one thing: decay is a part of the gradient
 * (Adam), or shrinks the weights by itself (AdamW). */
#ifndef WEIR_OPTIM_MOMENTS_H
#define WEIR_OPTIM_MOMENTS_H
#include "optim/optim.h"

typedef struct weir_moments {
    double beta1, beta2, eps, decay;
    float *m, *v; /* as long as the bucket */
} weir_moments;
/* The options but decay, to stand in both tables. */
#define WEIR_MOMENTS_OPTIONS                                                                       \
    {"beta1", WEIR_OPT_REAL, offsetof(weir_moments, beta1), "0.9", "how much of the mean is kept", \
     0,       0.999999},                                                                           \
        {"beta2",                                                                                  \
         WEIR_OPT_REAL,                                                                            \
         offsetof(weir_moments, beta2),                                                            \
         "0.999",                                                                                  \
         "how much of the mean square is kept",                                                    \
         0,                                                                                        \
         0.9999999},                                                                               \
    {                                                                                              \
        "eps", WEIR_OPT_REAL, offsetof(weir_moments, eps), "1e-8",                                 \
            "added to the root of the mean square", 1e-30, 1e6                                     \
    }

/* The verbs of weir_optim; the step's number counts from 0. */
weir_err weir_moments_init(void *self, const weir_bucket *, weir_arena *);
void weir_moments_step(weir_moments *, const weir_bucket *, uint64_t step, double rate, float scale,
                       bool decoupled);
weir_err weir_moments_state(void *self, const weir_bucket *, weir_io *);
#endif
