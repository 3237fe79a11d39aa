/* sieve.c - see sieve.h. */
#include "codec/sieve.h"
#include "codec/select.h"
#include "core/vec.h"
#include <math.h>
#include <string.h>

enum { LEAST_SAMPLE = 512, MOST_SAMPLE = 16384, HITS = 16, SPARE = 1024, TIMES = 6 };

weir_err weir_sieve_make(weir_sieve *s, size_t n, double density, weir_arena *arena)
{
    size_t room = TIMES * weir_codec_share(density, n) + SPARE;

    s->room = room < n ? room : n;
    if (!n)
        return WEIR_OK;
    s->word = WEIR_NEW(arena, uint32_t, s->room);
    s->value = WEIR_NEW(arena, float, s->room);
    s->size = WEIR_NEW(arena, float, n); /* of all, when selection is exact */
    s->hit = WEIR_NEW(arena, uint32_t, WEIR_TILE);
    s->sample = WEIR_NEW(arena, float, MOST_SAMPLE);
    return s->word && s->value && s->size && s->hit && s->sample ? WEIR_OK : weir_fail_nomem((2 * s->room + n) * sizeof(float));
}

static void put_aside(weir_sieve *s, uint32_t place, float x)
{
    if (s->count < s->room) {
        s->word[s->count] = place << 1 | (x < 0);
        s->value[s->count] = x;
        s->most = fabsf(x) > s->most ? fabsf(x) : s->most;
    }
    s->count++;
}

void weir_sieve_over(weir_sieve *s, weir_feed *f, const weir_view *v, float least, int side)
{
    const weir_vec *vec = weir_vec_best();
    size_t n = weir_view_length(v);

    s->count = 0;
    s->most = 0;
    for (size_t k = 0; k < n; k += WEIR_TILE) {
        size_t some = n - k < WEIR_TILE ? n - k : WEIR_TILE, hits = 0;
        const float *x = weir_feed_tile(f, v->at + k, some);
        if (s->count <= s->room)
            hits = vec->over(x, some, least, s->hit);
        for (size_t h = 0; h < hits; h++)
            if (!side || x[s->hit[h]] * (float)side > 0)
                put_aside(s, (uint32_t)k + s->hit[h], x[s->hit[h]]);
        if (f->held)
            weir_feed_leave(f, v->at + k, some);
        else if (x != weir_feed_place(f, v->at + k))
            memcpy(weir_feed_place(f, v->at + k), x, some * sizeof *x);
    }
}

/* What `share` of the sample is larger than. */
static float sampled(weir_sieve *s, const weir_feed *f, const weir_view *v, weir_turn turn, double share, int side)
{
    size_t want = (size_t)(HITS / share), n, k;
    double sum = 0;

    want = want < LEAST_SAMPLE ? LEAST_SAMPLE : want > MOST_SAMPLE ? MOST_SAMPLE : want;
    n = weir_select_sample(f, v->at, weir_view_length(v), turn.step, side, s->sample, want);
    for (size_t i = 0; i < n; i++)
        sum += (double)s->sample[i];
    s->mean = n ? (float)(sum / (double)n) : 0;
    k = (size_t)(share * (double)n + 0.5);
    return n ? weir_select(s->sample, n, k < 1 ? 1 : k > n ? n : k) : 0;
}

void weir_sieve_share(weir_sieve *s, weir_feed *f, const weir_view *v, weir_turn turn, double share, int side)
{
    weir_sieve_over(s, f, v, sampled(s, f, v, turn, share, side), side);
}

static float one_side(float x, int side) { return side && x * (float)side <= 0 ? 0 : fabsf(x); }

void weir_sieve_exact(weir_sieve *s, const float *x, size_t n, size_t k, int side)
{
    float least;
    size_t ties = k;

    for (size_t i = 0; i < n; i++)
        s->size[i] = one_side(x[i], side);
    least = weir_select(s->size, n, k);
    for (size_t i = 0; i < n; i++)
        ties -= one_side(x[i], side) > least;
    s->count = 0;
    s->most = 0;
    for (size_t i = 0; i < n && s->count < s->room; i++) {
        float a = one_side(x[i], side);
        bool tie = a == least && ties && a > 0;
        ties -= tie;
        if (tie || a > least)
            put_aside(s, (uint32_t)i, x[i]);
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
