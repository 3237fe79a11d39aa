/* feed.h - what a codec is given to encode, made tile by tile while it is in the cache, and what
 * becomes of what it leaves.
 *
 *   g = scale * gradient
 *   u = momentum * u + g   where momentum is corrected here (Nesterov's: u, and g + momentum * u
 *                          goes on); else g goes on
 *   x = held back + u      the codec encodes x, and leaves in its place what it did not send: that
 *                          is held back now
 *
 * Of all that a repeated step would need nothing is overwritten: what is held back, and u, go to a
 * memory of their own, and change places with the old in the commit (exchange/lane.c). Where
 * nothing is held back, x is made in the gradient's own place. */
#ifndef WEIR_CODEC_FEED_H
#define WEIR_CODEC_FEED_H
#include "core/err.h"
#include "core/vec.h"

/* floats: with its gradient and its residual it stays in the first cache */
enum { WEIR_FEED_TILE = 4096 };

typedef struct weir_feed {
    size_t n;
    float *grad, scale;
    const float *held; /* NULL: nothing is held back */
    float *hold;
    const float *speed; /* NULL: momentum is not corrected here */
    float *sped, momentum;
    bool nesterov, mask; /* mask: the momentum of what is sent begins anew */
    /* the tile's first element that held something not finite; n: all is well */
    size_t bad;
    float most; /* the largest |x| of what was made last */
    float unit; /* what a gradient of 1 is among the x, where that is not 1; 0: it is */
    /* for draws: another one on every worker and for every message of a step */
    uint64_t key;
    float *tile; /* WEIR_FEED_TILE floats */
} weir_feed;

/* One call for each tile, from the first to the last; then leave or keep, before the next. */
/* Makes x[at .. at + n), n <= WEIR_FEED_TILE, in the tile; or gives its place in the gradient,
 * where that is x. */
float *weir_feed_tile(weir_feed *, size_t at, size_t n);
/* What the tile holds now is what is held back of it: once through, never looked at again in this
 * step. */
void weir_feed_leave(weir_feed *, size_t at, size_t n);
/* Makes and leaves x[at .. at + n), n <= WEIR_FEED_TILE, at once; what is beyond `least` is put
 * aside, and left nearer to 0 by `take`; if that is not 0, it is sent. */
void weir_feed_sift(weir_feed *, size_t at, size_t n, float least, float take, weir_vec_sifted *);
/* Makes x[at .. at + n), any n, where it will be held back, for those who go through it more than
 * once; what the codec leaves there is held back. */
float *weir_feed_whole(weir_feed *, size_t at, size_t n);
/* Where x[at] is, when it is made and left: what is written there is held back. */
static inline float *weir_feed_pointer(const weir_feed *f, size_t at)
{
    return (f->held ? f->hold : f->grad) + at;
}
/* x[i] before its tile is made: for samples. */
float weir_feed_at(const weir_feed *, size_t i);
/* Element i, its tile made, is sent. */
static inline void weir_feed_sent(weir_feed *f, size_t i)
{
    if (f->mask)
        f->sped[i] = 0;
}
#endif
