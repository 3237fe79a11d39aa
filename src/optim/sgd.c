/* sgd.c - stochastic gradient descent:  g = scale * grad + decay * w;  v = momentum * v + g;  w -=
 * rate * v, or, as Nesterov has it,  w -= rate * (g + momentum * v).  v begins at 0, so the first
 * step moves by g, as in PyTorch. */
#include "core/vec.h"
#include "optim/optim.h"

typedef struct sgd {
    double momentum, decay;
    bool nesterov;
    bool apart; /* gradients come with their momentum: v is that of the decay alone */
    float *v;   /* NULL: nothing to keep */
} sgd;

static weir_err init(void *self, const weir_bucket *b, weir_arena *a)
{
    sgd *s = self;

    if (s->nesterov && s->momentum == 0)
        return weir_fail(WEIR_MISFIT, "optim sgd: nesterov=yes needs a momentum above 0");
    if (s->momentum > 0 && !(s->apart && s->decay == 0) && !(s->v = WEIR_NEW(a, float, b->n)))
        return weir_fail_nomem(b->n * sizeof(float));
    return WEIR_OK;
}

static void step(void *self, const weir_bucket *b, uint64_t number, double rate, float scale)
{
    const sgd *s = self;
    const weir_vec *vec = weir_vec_best();
    weir_vec_sgd f = {.rate = (float)rate,
                      .momentum = (float)s->momentum,
                      .scale = scale,
                      .nesterov = s->nesterov};

    (void)number;
    for (const weir_view *v = b->view; v < b->view + b->views; v++) {
        float *w = b->param + v->at;
        const float *grad = b->grad + v->at;
        size_t n = v->rows * v->cols;
        f.decay = v->tensor->decays ? (float)s->decay : 0;
        if (s->v)
            (s->apart ? vec->sgd_apart : vec->sgd)(w, s->v + v->at, grad, n, &f);
        else
            vec->sgd_plain(w, grad, n, f.rate, f.decay, scale);
    }
}

static weir_err state(void *self, const weir_bucket *b, weir_io *io)
{
    const sgd *s = self;

    return s->v ? weir_bucket_keep(b, s->apart ? "decay-momentum" : "momentum", s->v,
                                   WEIR_KEEP_SAME, io)
                : WEIR_OK;
}

static bool momentum(void *self, weir_momentum *out)
{
    sgd *s = self;

    if (s->momentum == 0)
        return false;
    *out = (weir_momentum){(float)s->momentum, s->nesterov};
    return s->apart = true;
}

static void bare(void *self, weir_pull *out)
{
    sgd *s = self;

    *out = (weir_pull){{(float)s->momentum, s->nesterov}, (float)s->decay};
    s->momentum = s->decay = 0;
    s->v = NULL;
}

static const weir_opt options[] = {
    {"momentum", WEIR_OPT_REAL, offsetof(sgd, momentum), "0", "how much of the last move is kept",
     .min = 0, .max = 0.99999},
    {"nesterov", WEIR_OPT_BOOL, offsetof(sgd, nesterov), "no",
     .help = "look ahead by the momentum"},
    {"decay", WEIR_OPT_REAL, offsetof(sgd, decay), "0",
     "pull of weights towards 0; not of biases and norms", .min = 0, .max = 1e18},
    {0},
};

const weir_optim weir_optim_sgd = {
    .plug = {"sgd", "stochastic gradient descent", sizeof(sgd), options},
    .init = init,
    .step = step,
    .state = state,
    .momentum = momentum,
    .bare = bare,
};
