/* adam.c - Adam (Kingma and Ba, 2015), as PyTorch has it:  g = scale * grad + decay * w;  m = beta1
 * m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;  at step t from 1  w -= rate / (1 - beta1^t) *
 * m / (sqrt(v / (1 - beta2^t)) + eps). */
#include "optim/moments.h"

static void step(void *self, const weir_bucket *b, uint64_t number, double rate, float scale)
{
    weir_moments_step(self, b, number, rate, scale, false);
}

static const weir_opt options[] = {
    WEIR_MOMENTS_OPTIONS,
    {"decay", WEIR_OPT_REAL, offsetof(weir_moments, decay), "0",
     "pull of weights towards 0, through the gradient; not of biases and norms", .min = 0,
     .max = 1e18},
    {0},
};

const weir_optim weir_optim_adam = {
    .plug = {"adam", "running means of gradients and their squares", sizeof(weir_moments), options},
    .adaptive = true,
    .init = weir_moments_init,
    .step = step,
    .state = weir_moments_state,
};
