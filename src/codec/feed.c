/* feed.c - see feed.h. */
#include "codec/feed.h"
#include "core/vec.h"
#include <math.h>
#include <string.h>

static float *place(weir_feed *f) { return f->held ? f->hold : f->grad; }

float *weir_feed_tile(weir_feed *f, size_t at, size_t n)
{
    const weir_vec *vec = weir_vec_best();
    const float *g = f->grad + at, *held = f->held ? f->held + at : NULL;
    float scale = f->scale;
    bool fine;

    if (!f->speed && !held && scale == 1) { /* as it lies there */
        if (!vec->finite(g, n) && f->bad > at)
            f->bad = at;
        return f->grad + at;
    }
    if (f->speed) {
        vec->speed(f->tile, f->sped + at, f->speed + at, g, n, scale, f->momentum, f->nesterov);
        if (held)
            vec->add(f->tile, held, n);
        fine = vec->finite(f->tile, n);
    } else
        fine = vec->feed(f->tile, g, scale, held, n);
    if (!fine && f->bad > at)
        f->bad = at;
    return f->tile;
}

void weir_feed_leave(weir_feed *f, size_t at, size_t n)
{
    if (f->held) /* else nobody wants it */
        weir_vec_best()->stream(f->hold + at, f->tile, n);
}

float *weir_feed_whole(weir_feed *f, size_t at, size_t n)
{
    float *x = place(f) + at;

    for (size_t k = 0; k < n; k += WEIR_TILE) {
        size_t some = n - k < WEIR_TILE ? n - k : WEIR_TILE;
        const float *tile = weir_feed_tile(f, at + k, some);
        if (tile != x + k)
            memcpy(x + k, tile, some * sizeof *x);
    }
    return x;
}

float weir_feed_at(const weir_feed *f, size_t i)
{
    float g = f->scale * f->grad[i], u = f->speed ? f->momentum * f->speed[i] + g : g;

    if (f->speed && f->nesterov)
        u = g + f->momentum * u;
    return f->held ? f->held[i] + u : u;
}
