/* dropout.c - while training, each value is dropped with probability `rate` and the others are
 * scaled up, so that the mean stays; else nothing is changed. What is dropped is a pure function of
 * seed, step, sample and layer, wherever the sample is trained: the mask is drawn in plain order,
 * 16 bits a value, and kept as bytes for backward. */
#include "core/hash.h"
#include "core/rng.h"
#include "nn/layer.h"
#include "nn/parallel.h"
#include <string.h>

typedef struct dropout {
    double rate;
} dropout;

static const weir_opt options[] = {{"rate", WEIR_OPT_REAL, offsetof(dropout, rate), "0.5",
                                    "how many values are dropped", 0, 0.999, NULL, false, false},
                                   {0}};

/* For one batch size. */
typedef struct bound {
    const weir_layer_run *run;
    weir_mem *x, *y, *g, *mask;
    int64_t n, width; /* samples, values in each */
    uint32_t layer, limit;
    float scale;
} bound;

static void draw_mask(const bound *d, int64_t sample, uint8_t *mask)
{
    uint64_t place[] = {d->run->pass.step, d->run->pass.first + (uint64_t)sample};
    weir_rng rng = weir_rng_at(d->run->pass.seed, WEIR_RNG_DROPOUT,
                               weir_hash(place, sizeof place, 0), d->layer);

    for (int64_t i = 0; i < d->width; i += 2) {
        uint32_t bits = weir_rng_u32(&rng);
        mask[i] = (bits & 0xffff) >= d->limit;
        if (i + 1 < d->width)
            mask[i + 1] = bits >> 16 >= d->limit;
    }
}

static void apply(const uint8_t *mask, float scale, const float *x, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = mask[i] ? x[i] * scale : 0;
}

static void forward_part(void *arg, int64_t from, int64_t to)
{
    const bound *d = arg;

    for (int64_t i = from; i < to; i++) {
        uint8_t *mask = (uint8_t *)d->mask->at + i * d->width;
        draw_mask(d, i, mask);
        apply(mask, d->scale, (const float *)d->x->at + i * d->width,
              (float *)d->y->at + i * d->width, d->width);
    }
}

static weir_err forward(void *arg)
{
    weir_parallel_for(((bound *)arg)->n, 1, forward_part, arg);
    return WEIR_OK;
}

static void back_part(void *arg, int64_t from, int64_t to)
{
    const bound *d = arg;
    float *g = d->g->at;

    apply((const uint8_t *)d->mask->at + from, d->scale, g + from, g + from, to - from);
}

static weir_err back(void *arg)
{
    const bound *d = arg;

    weir_parallel_for(d->n * d->width, 16384, back_part, arg);
    return WEIR_OK;
}

static weir_err fill(const dropout *o, const weir_bind *b, bound *d)
{
    *d = (bound){.run = b->run, .x = b->in->data, .g = b->in->grad, .n = b->in->shape.dim[0]};
    d->width = weir_shape_count(&b->in->shape, INT64_MAX) / d->n;
    d->layer = (uint32_t)weir_hash(b->name, strlen(b->name), 0);
    d->limit = (uint32_t)(o->rate * 65536 + 0.5);
    d->scale = 65536.f / (float)(65536 - d->limit);
    return weir_bind_mem(b, (size_t)(d->n * d->width), &d->mask);
}

static weir_err bind_dropout(void *self, const weir_bind *b)
{
    weir_act *in = b->in, *out = b->out;
    weir_bind training = *b, evaluating = *b;
    bound *d = WEIR_NEW(b->arena, bound, 1);

    if (!d)
        return weir_fail_nomem(sizeof *d);
    training.only = WEIR_PASS_TRAINING;
    evaluating.only = WEIR_PASS_EVALUATING;
    WEIR_TRY(fill(self, b, d));
    out->layout = in->layout;
    out->grad = in->grad;
    out->shared = true;
    out->data = in->data;
    if (!in->yields) {
        WEIR_TRY(weir_bind_mem(b, weir_layout_bytes(in->layout), &out->data));
        WEIR_TRY(weir_bind_copy(&evaluating, WEIR_LAYER_FORWARD, out->data, in->data));
    }
    d->y = out->data;
    WEIR_TRY(weir_bind_loop(&training, WEIR_LAYER_FORWARD, forward, d,
                            (weir_mem *[]){d->x, d->y, d->mask, NULL}));
    return d->g ? weir_bind_loop(b, WEIR_LAYER_BACK_DATA, back, d,
                                 (weir_mem *[]){d->mask, d->g, NULL})
                : WEIR_OK;
}

const weir_layer weir_layer_dropout = {
    .plug = {"dropout", "while training, drops values at random and scales up the others",
             sizeof(dropout), options},
    .plain = true,
    .shape = weir_shape_kept,
    .bind = bind_dropout,
};
