/* moments.c - the steps of Adam and AdamW. What depends on the step alone is worked out in double,
 * once. */
#include "optim/moments.h"
#include "core/vec.h"
#include <math.h>

weir_err weir_moments_init(void *self, const weir_bucket *b, weir_arena *a)
{
    weir_moments *s = self;

    s->m = WEIR_NEW(a, float, b->n);
    s->v = WEIR_NEW(a, float, b->n);
    return s->m && s->v ? WEIR_OK : weir_fail_nomem(2 * b->n * sizeof(float));
}

static weir_vec_adam factors(const weir_moments *s, uint64_t t, double rate, float scale)
{
    return (weir_vec_adam){
        .take1 = (float)(1 - s->beta1),
        .beta2 = (float)s->beta2,
        .take2 = (float)(1 - s->beta2),
        .root = (float)(1 / sqrt(1 - weir_power(s->beta2, t))),
        .eps = (float)s->eps,
        .rate = (float)(rate / (1 - weir_power(s->beta1, t))),
        .scale = scale,
    };
}

void weir_moments_step(weir_moments *s, const weir_bucket *b, uint64_t step, double rate,
                       float scale, bool decoupled)
{
    const weir_vec *vec = weir_vec_best();
    weir_vec_adam f = factors(s, step + 1, rate, scale);

    for (const weir_view *v = b->view; v < b->view + b->views; v++) {
        double decay = v->tensor->decays ? s->decay : 0;
        f.decay = decoupled ? 0 : (float)decay;
        f.keep = decoupled ? (float)(1 - rate * decay) : 1;
        vec->adam(b->param + v->at, s->m + v->at, s->v + v->at, b->grad + v->at, v->rows * v->cols,
                  &f);
    }
}

/* The names are PyTorch's. */
weir_err weir_moments_state(void *self, const weir_bucket *b, weir_io *io)
{
    const weir_moments *s = self;

    WEIR_TRY(weir_bucket_keep(b, "exp_avg", s->m, WEIR_KEEP_SAME, io));
    return weir_bucket_keep(b, "exp_avg_sq", s->v, WEIR_KEEP_SAME, io);
}
