/* adagrad.c - Adagrad (Duchi, Hazan and Singer, 2011), as PyTorch has it:  g = scale * grad + decay
 * * w;  s += g^2; w -= rate * g / (sqrt(s) + eps).  s begins at `initial`. */
#include "core/vec.h"
#include "optim/optim.h"

typedef struct adagrad {
    double decay, eps, initial;
    float *s; /* sums of squares, as long as the bucket */
} adagrad;

static weir_err init(void *self, const weir_bucket *b, weir_arena *a)
{
    adagrad *s = self;

    if (!(s->s = WEIR_NEW(a, float, b->n)))
        return weir_fail_nomem(b->n * sizeof(float));
    for (size_t i = 0; s->initial > 0 && i < b->n; i++)
        s->s[i] = (float)s->initial;
    return WEIR_OK;
}

static void step(void *self, const weir_bucket *b, uint64_t number, double rate, float scale)
{
    const adagrad *s = self;
    const weir_vec *vec = weir_vec_best();
    weir_vec_adagrad f = {.rate = (float)rate, .eps = (float)s->eps, .scale = scale};

    (void)number;
    for (const weir_view *v = b->view; v < b->view + b->views; v++) {
        f.decay = v->tensor->decays ? (float)s->decay : 0;
        vec->adagrad(b->param + v->at, s->s + v->at, b->grad + v->at, v->rows * v->cols, &f);
    }
}

static weir_err state(void *self, const weir_bucket *b, weir_io *io)
{
    return weir_bucket_keep(b, "sum", ((const adagrad *)self)->s, WEIR_KEEP_SAME, io);
}

static const weir_opt options[] = {
    {"decay", WEIR_OPT_REAL, offsetof(adagrad, decay), "0",
     "pull of weights towards 0; not of biases and norms", .min = 0, .max = 1e18},
    {"eps", WEIR_OPT_REAL, offsetof(adagrad, eps), "1e-10", "added to the root of the sum",
     .min = 1e-30, .max = 1e6},
    {"initial", WEIR_OPT_REAL, offsetof(adagrad, initial), "0",
     "what the sums of squares begin with", .min = 0, .max = 1e18},
    {0},
};

const weir_optim weir_optim_adagrad = {
    .plug = {"adagrad", "each weight's rate falls with what it has met", sizeof(adagrad), options},
    .adaptive = true,
    .init = init,
    .step = step,
    .state = state,
};
