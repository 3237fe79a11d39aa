/* feed.c - see feed.h. */
#include "codec/feed.h"
#include <math.h>

static void note(weir_feed *f, size_t at, float most)
{
    f->most = most;
    if (!isfinite(most) && f->bad > at)
        f->bad = at;
}

/* What is held back is added to: the gradient and its factor, or what momentum makes of them. */
static const float *going(weir_feed *f, size_t at, size_t n, float *scale)
{
    *scale = f->speed ? 1 : f->scale;
    if (!f->speed)
        return f->grad + at;
    weir_vec_best()->speed(f->tile, f->sped + at, f->speed + at, f->grad + at, n, f->scale, f->momentum, f->nesterov);
    return f->tile;
}

/* Whether x is the gradient as it lies there. */
static bool lies(const weir_feed *f) { return !f->held && !f->speed && f->scale == 1; }

static void make(weir_feed *f, size_t at, size_t n, float *to)
{
    float scale;
    const float *x = going(f, at, n, &scale);

    note(f, at, weir_vec_best()->feed(to, x, scale, f->held ? f->held + at : NULL, n));
}

float *weir_feed_tile(weir_feed *f, size_t at, size_t n)
{
    if (!lies(f)) {
        make(f, at, n, f->tile);
        return f->tile;
    }
    note(f, at, weir_vec_best()->most(f->grad + at, n));
    return f->grad + at;
}

void weir_feed_leave(weir_feed *f, size_t at, size_t n)
{
    if (!f->held) /* nobody wants it */
        return;
    weir_vec_best()->stream(f->hold + at, f->tile, n);
    if (at + n == f->n)
        weir_vec_best()->fence();
}

void weir_feed_sift(weir_feed *f, size_t at, size_t n, float least, float take, weir_sifted *to)
{
    float scale;
    const float *x = going(f, at, n, &scale);

    weir_vec_best()->sift(weir_feed_place(f, at), x, scale, f->held ? f->held + at : NULL, n, least, take, to);
    note(f, at, to->most);
    if (at + n == f->n)
        weir_vec_best()->fence();
}

float *weir_feed_whole(weir_feed *f, size_t at, size_t n)
{
    float *x = weir_feed_place(f, at), most = 0;

    for (size_t k = 0; k < n; k += WEIR_TILE) {
        size_t some = n - k < WEIR_TILE ? n - k : WEIR_TILE;
        if (lies(f))
            weir_feed_tile(f, at + k, some);
        else
            make(f, at + k, some, x + k);
        most = f->most > most || !isfinite(f->most) ? f->most : most;
    }
    f->most = most;
    return x;
}

float weir_feed_at(const weir_feed *f, size_t i)
{
    float g = f->scale * f->grad[i], u = f->speed ? f->momentum * f->speed[i] + g : g;

    if (f->speed && f->nesterov)
        u = g + f->momentum * u;
    return f->held ? f->held[i] + u : u;
}
