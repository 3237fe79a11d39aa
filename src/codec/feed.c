/* feed.c - see feed.h. */
#include "codec/feed.h"
#include <math.h>

/* What was made up to `end` gets at most so large; what went past the caches is there for all when
 * the last is made. */
static void note(weir_feed *f, size_t at, size_t end, float most)
{
    f->most = most;
    if (!isfinite(most) && f->bad > at)
        f->bad = at;
    if (end == f->n)
        weir_vec_best()->fence();
}

static weir_vec_source source(const weir_feed *f, size_t at)
{
    return (weir_vec_source){.grad = f->grad + at,
                             .held = f->held ? f->held + at : NULL,
                             .speed = f->speed ? f->speed + at : NULL,
                             .sped = f->speed ? f->sped + at : NULL,
                             .scale = f->scale,
                             .momentum = f->momentum,
                             .nesterov = f->nesterov,
                             .mask = f->mask};
}

/* Whether x is the gradient as it lies there. */
static bool lies(const weir_feed *f) { return !f->held && !f->speed && f->scale == 1; }

static void make(weir_feed *f, size_t at, size_t n, float *to)
{
    weir_vec_source s = source(f, at);

    note(f, at, at + n,
         lies(f) ? weir_vec_best()->most(s.grad, n) : weir_vec_best()->feed(to, &s, n));
}

float *weir_feed_tile(weir_feed *f, size_t at, size_t n)
{
    make(f, at, n, f->tile);
    return lies(f) ? f->grad + at : f->tile;
}

void weir_feed_leave(weir_feed *f, size_t at, size_t n)
{
    if (!f->held) /* nobody wants it */
        return;
    weir_vec_best()->stream(f->hold + at, f->tile, n);
    if (at + n == f->n)
        weir_vec_best()->fence();
}

void weir_feed_sift(weir_feed *f, size_t at, size_t n, float least, float take, weir_vec_sifted *to)
{
    weir_vec_source s = source(f, at);

    weir_vec_best()->sift(weir_feed_pointer(f, at), &s, n, least, take, to);
    note(f, at, at + n, to->most);
}

float *weir_feed_whole(weir_feed *f, size_t at, size_t n)
{
    float *x = weir_feed_pointer(f, at), most = 0;

    for (size_t k = 0; k < n; k += WEIR_FEED_TILE) {
        size_t some = n - k < WEIR_FEED_TILE ? n - k : WEIR_FEED_TILE;
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
