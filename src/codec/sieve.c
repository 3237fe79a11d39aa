/* sieve.c - see sieve.h. */
#include "codec/sieve.h"
#include "codec/select.h"
#include <math.h>

enum { SPARE = 1024, TIMES = 6 };

weir_err weir_sieve_make(weir_sieve *s, size_t n, double density, weir_arena *arena)
{
    size_t room = TIMES * weir_codec_count(density, n) + SPARE;

    s->room = room < n ? room : n;
    if (!n)
        return WEIR_OK;
    s->word = WEIR_NEW(arena, uint32_t, s->room);
    s->value = WEIR_NEW(arena, float, s->room);
    s->size = WEIR_NEW(arena, float, n); /* of all, when selection is exact */
    s->tile.word = WEIR_NEW(arena, uint32_t, WEIR_FEED_TILE + WEIR_VEC_SIFT_SPARE);
    s->tile.value = WEIR_NEW(arena, float, WEIR_FEED_TILE + WEIR_VEC_SIFT_SPARE);
    s->sample = WEIR_NEW(arena, float, WEIR_SELECT_SAMPLE);
    return s->word && s->value && s->size && s->tile.word && s->tile.value && s->sample
               ? WEIR_OK
               : weir_fail_nomem((2 * s->room + n) * sizeof(float));
}

static void put_aside(weir_sieve *s, uint32_t word, float x)
{
    if (s->count < s->room) {
        s->word[s->count] = word;
        s->value[s->count] = x;
        s->most = fabsf(x) > s->most ? fabsf(x) : s->most;
    }
    s->count++;
}

void weir_sieve_over(weir_sieve *s, weir_feed *f, const weir_view *v, float least, int side)
{
    const weir_vec_sifted *t = &s->tile;
    size_t n = weir_view_length(v);

    s->count = 0;
    s->most = 0;
    for (size_t k = 0; k < n; k += WEIR_FEED_TILE) {
        size_t some = n - k < WEIR_FEED_TILE ? n - k : WEIR_FEED_TILE;
        weir_feed_sift(f, v->at + k, some, s->count <= s->room ? least : INFINITY, 0, &s->tile);
        for (size_t h = 0; h < t->count; h++)
            if (!side || t->value[h] * (float)side > 0)
                put_aside(s, t->word[h] + (uint32_t)(k << 1), t->value[h]);
    }
}

void weir_sieve_largest(weir_sieve *s, weir_feed *f, const weir_view *v, weir_when when,
                        double portion, int side)
{
    weir_select_from from = {
        .feed = f, .at = v->at, .n = weir_view_length(v), .step = when.step, .side = side};
    weir_select_sampled said = weir_select_level(&from, portion, s->sample);

    s->mean = said.mean;
    weir_sieve_over(s, f, v, said.level, side);
}

static float one_side(float x, int side) { return side && x * (float)side <= 0 ? 0 : fabsf(x); }

void weir_sieve_exact(weir_sieve *s, const float *x, size_t n, size_t k, int side)
{
    float least;
    size_t ties = k;

    s->count = 0;
    s->most = 0;
    if (!n)
        return;
    for (size_t i = 0; i < n; i++)
        s->size[i] = fmaxf(one_side(x[i], side), 0); /* no NaN: with those the k-th is none */
    least = weir_select(s->size, n, k);
    for (size_t i = 0; i < n; i++)
        ties -= one_side(x[i], side) > least;
    for (size_t i = 0; i < n && s->count < s->room; i++) {
        float a = one_side(x[i], side);
        bool tie = a == least && ties && a > 0;
        ties -= tie;
        if (tie || a > least)
            put_aside(s, (uint32_t)i << 1 | (x[i] < 0), x[i]);
    }
}

void weir_sieve_thin(weir_sieve *s, size_t k)
{
    float least;
    size_t kept = 0, ties = k;

    if (s->count <= k)
        return;
    for (size_t i = 0; i < s->count; i++)
        s->size[i] = fabsf(s->value[i]);
    least = weir_select(s->size, s->count, k);
    for (size_t i = 0; i < s->count; i++)
        ties -= fabsf(s->value[i]) > least;
    for (size_t i = 0; i < s->count; i++) {
        bool tie = fabsf(s->value[i]) == least && ties;
        if (!tie && !(fabsf(s->value[i]) > least))
            continue;
        ties -= tie;
        s->word[kept] = s->word[i];
        s->value[kept++] = s->value[i];
    }
    s->count = kept;
}
