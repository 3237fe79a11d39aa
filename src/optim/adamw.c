/* adamw.c - Adam with decay apart from the gradient (Loshchilov and Hutter, 2019), as PyTorch has
 * it: before each of Adam's steps  w -= rate * decay * w. */
#include "optim/moments.h"

static void step(void *self, const weir_bucket *b, uint64_t number, double rate, float scale)
{
    weir_moments_step(self, b, number, rate, scale, true);
}

static const weir_opt options[] = {
    WEIR_MOMENTS_OPTIONS,
    {"decay", WEIR_OPT_REAL, offsetof(weir_moments, decay), "0.01",
     "pull of weights towards 0, by itself; not of biases and norms", .min = 0, .max = 1e18},
    {0},
};

const weir_optim weir_optim_adamw = {
    .plug = {"adamw", "Adam with decay apart from the gradient", sizeof(weir_moments), options},
    .adaptive = true,
    .init = weir_moments_init,
    .step = step,
    .state = weir_moments_state,
};
