/* help_vectors.c - see help_vectors.h. */
#include "help_vectors.h"
#include "core/rng.h"
#include <math.h>

void fill(float *x, size_t n, kind k, uint64_t seed)
{
    weir_rng r = weir_rng_at(seed, WEIR_RNG_TEST, k, 0);

    for (size_t i = 0; i < n; i++) {
        float z = weir_rng_normal(&r);
        x[i] = k == NORMAL     ? 0.01f * z
               : k == HEAVY    ? z * z * z * z * z
               : k == SPIKY    ? (i % 997 == 5 ? 100 * z : 1e-6f * z)
               : k == CONSTANT ? 0.5f
               : k == ZERO     ? 0
               : k == TINY     ? z * 1e-41f
                               : rintf(4 * z);
    }
}
