/* augment.c - crop and flip, in place. */
#include "data/augment.h"
#include <string.h>

enum { FRAME = 4 };

/* n floats move up by `by` places, or down if it is negative; what moves in is 0. */
static void shift(float *x, int64_t n, int64_t by)
{
    int64_t gap = by < 0 ? -by : by, kept = gap < n ? n - gap : 0;

    gap = n - kept;
    memmove(by > 0 ? x + gap : x, by > 0 ? x : x + gap, (size_t)kept * sizeof *x);
    memset(by > 0 ? x : x + kept, 0, (size_t)gap * sizeof *x);
}

static void mirror(float *x, int64_t n)
{
    for (int64_t i = 0; i < n / 2; i++) {
        float kept = x[i];
        x[i] = x[n - 1 - i];
        x[n - 1 - i] = kept;
    }
}

void weir_augment(float *x, const int64_t dim[3], const weir_data_pick *pick, int i)
{
    weir_rng r = weir_rng_at(pick->seed, WEIR_RNG_AUGMENT, pick->step,
                             (uint32_t)(pick->first + (uint64_t)i));
    int64_t down = (int64_t)weir_rng_below(&r, 2 * FRAME + 1) - FRAME,
            right = (int64_t)weir_rng_below(&r, 2 * FRAME + 1) - FRAME;
    bool flip = weir_rng_u32(&r) & 1;

    for (int64_t c = 0; c < dim[0]; c++, x += dim[1] * dim[2]) {
        shift(x, dim[1] * dim[2], down * dim[2]);
        for (float *row = x; row < x + dim[1] * dim[2]; row += dim[2]) {
            shift(row, dim[2], right);
            if (flip)
                mirror(row, dim[2]);
        }
    }
}
