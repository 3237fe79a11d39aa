/* synth.c - pictures made up from random numbers, of any shape: each class has a picture of its
 * own, a sample is it under noise. Or text (tokens=N): streams in which each token is the one
 * before and seven, give or take one. A pure function of (seed, part, index), without tables: the
 * same on every worker, of any size, and quick to make. */
#include "data/data.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct synth {
    const char *shape;
    int64_t classes, count[WEIR_DATA_PARTS], seed, tokens, length;
    uint64_t windows[WEIR_DATA_PARTS];
    double noise;
    size_t width;
    float signal_scale, noise_scale;
} synth;

/* A byte drawn evenly has this variance; the sum of a word's four bytes is bell-shaped, with four
 * times as much. */
#define BYTE_VARIANCE ((256.0 * 256.0 - 1) / 12)

/* "1x28x28" or "784": one or three sizes. */
static weir_err parse_shape(synth *s, weir_data_facts *facts)
{
    const char *at = s->shape;
    char *end;

    s->width = 1;
    for (facts->dims = 0; facts->dims < 3; at = end + 1) {
        long x = *at >= '0' && *at <= '9' ? strtol(at, &end, 10) : 0;
        if (x < 1 || x > 1 << 30 || (s->width *= (size_t)x) > 1 << 30)
            break;
        facts->dim[facts->dims++] = x;
        if (!*end && facts->dims != 2)
            return WEIR_OK;
        if (*end != 'x')
            break;
    }
    return weir_fail(WEIR_USAGE,
                     "data synth: shape=%.200s: channels x height x width as in 3x32x32, or one "
                     "number, was expected",
                     s->shape);
}

/* As many streams as the run has samples a step; counts become whole windows of each. */
static weir_err open_tokens(synth *s, const weir_data_need *need, weir_data_facts *facts)
{
    weir_data_facts made = {.target = WEIR_TARGET_TOKENS,
                            .classes = s->tokens,
                            .tokens_in = true,
                            .dims = 1,
                            .dim = {s->length},
                            .value_scale = 1};

    for (int part = 0; part < WEIR_DATA_PARTS; part++) {
        int64_t streams = need && need->batch > 0 ? need->batch : 1;
        if (streams > s->count[part] && part == WEIR_DATA_TRAIN)
            return weir_fail(
                WEIR_MISFIT,
                "data synth: count=%lld windows are fewer than the %lld streams of the batch",
                (long long)s->count[part], (long long)streams);
        made.streams[part] = streams < s->count[part] ? streams : s->count[part];
        s->windows[part] = (uint64_t)(s->count[part] / made.streams[part]);
        made.count[part] = s->windows[part] * (uint64_t)made.streams[part];
    }
    *facts = made;
    return WEIR_OK;
}

/* Token `at` of a stream; streams of the two parts are apart. */
static int32_t token_at(const synth *s, int part, uint64_t stream, uint64_t at)
{
    weir_rng r =
        weir_rng_at((uint64_t)s->seed, WEIR_RNG_DATA, stream << 32 | at, 8 + (uint32_t)part);

    return (int32_t)((stream * 7919 + at * 7 + weir_rng_u32(&r) % 3) % (uint64_t)s->tokens);
}

static void make_window(const synth *s, int part, uint64_t index, int32_t *token, int32_t *label)
{
    uint64_t stream = index / s->windows[part], at = index % s->windows[part] * (uint64_t)s->length;
    int32_t next = token_at(s, part, stream, at);

    for (int64_t i = 0; i < s->length; i++) {
        token[i] = next;
        label[i] = next = token_at(s, part, stream, at + (uint64_t)i + 1);
    }
}

static weir_err open_synth(void *self, const weir_data_need *need, weir_arena *a,
                           weir_data_facts *facts)
{
    synth *s = self;
    weir_data_facts made = {.target = WEIR_TARGET_CLASSES, .classes = s->classes};
    double deviation = sqrt(1 + s->noise * s->noise); /* of the whole: inputs have deviation 1 */

    (void)a;
    if (s->tokens)
        return open_tokens(s, need, facts);
    WEIR_TRY(parse_shape(s, &made));
    s->signal_scale = (float)(1 / (deviation * sqrt(BYTE_VARIANCE)));
    s->noise_scale = (float)(s->noise / (deviation * sqrt(4 * BYTE_VARIANCE)));
    for (int part = 0; part < WEIR_DATA_PARTS; part++)
        made.count[part] = (uint64_t)s->count[part];
    *facts = made;
    return WEIR_OK;
}

static float four_bytes(uint32_t x)
{
    return (float)(x & 255) + (float)(x >> 8 & 255) + (float)(x >> 16 & 255) + (float)(x >> 24) -
           510;
}

/* One word of random bits gives the class's picture four values, and one word each value's
 * noise. */
static void make_sample(const synth *s, int part, uint64_t index, uint64_t class, float *x)
{
    weir_rng picture = weir_rng_at((uint64_t)s->seed, WEIR_RNG_DATA, class, WEIR_DATA_PARTS);
    weir_rng noise = weir_rng_at((uint64_t)s->seed, WEIR_RNG_DATA, index, (uint32_t)part);
    uint32_t word = 0;

    for (size_t i = 0; i < s->width; i++, word >>= 8) {
        if (i % 4 == 0)
            word = weir_rng_u32(&picture);
        x[i] = s->signal_scale * ((float)(word & 255) - 127.5f) +
               s->noise_scale * four_bytes(weir_rng_u32(&noise));
    }
}

static weir_err get(const void *self, const weir_data_pick *pick, weir_data_batch *batch)
{
    const synth *s = self;

    for (int i = 0; s->tokens && i < pick->n; i++)
        make_window(s, pick->part, pick->index[i], batch->token + (size_t)i * (size_t)s->length,
                    batch->label + (size_t)i * (size_t)s->length);
    for (int i = 0; !s->tokens && i < pick->n; i++) {
        uint64_t class = pick->index[i] % (uint64_t)s->classes;
        make_sample(s, pick->part, pick->index[i], class, batch->x + (size_t)i * s->width);
        batch->label[i] = (int32_t) class;
    }
    batch->n = pick->n;
    return WEIR_OK;
}

static const weir_opt options[] = {
    {"shape", WEIR_OPT_TEXT, offsetof(synth, shape), "1x28x28",
     .help = "channels x height x width, or one number"},
    {"classes", WEIR_OPT_INT, offsetof(synth, classes), "10", "how many", .min = 1, .max = 1000000},
    {"count", WEIR_OPT_INT, offsetof(synth, count[WEIR_DATA_TRAIN]), "60000", "training samples",
     .min = 1, .max = 1e18},
    {"test", WEIR_OPT_INT, offsetof(synth, count[WEIR_DATA_TEST]), "10000", "test samples",
     .min = 1, .max = 1e18},
    {"noise", WEIR_OPT_REAL, offsetof(synth, noise), "1", "its deviation, where the pictures' is 1",
     .min = 0, .max = 1000},
    {"seed", WEIR_OPT_INT, offsetof(synth, seed), "1", "of pictures and noise; not the run's",
     .min = 0, .max = 1e18},
    {"tokens", WEIR_OPT_INT, offsetof(synth, tokens), "0",
     "text instead, with so many different tokens", .min = 0, .max = 1 << 24},
    {"length", WEIR_OPT_INT, offsetof(synth, length), "35", "of text: tokens a window", .min = 1,
     .max = 1 << 20},
    {0},
};

const weir_data weir_data_synth = {
    .plug = {"synth", "made-up pictures, or text, that can be learnt", sizeof(synth), options},
    .open = open_synth,
    .get = get,
};
