/* rng.h - counter-based random numbers (Philox 4x32-10): a pure function of (seed, purpose,
 * counters), so nothing random has state, and any worker can draw any sample's numbers. */
#ifndef WEIR_CORE_RNG_H
#define WEIR_CORE_RNG_H
#include <stddef.h>
#include <stdint.h>

/* What the numbers are for: streams of different purposes never meet. */
typedef enum {
    WEIR_RNG_INIT = 1, /* initial weights: (tensor, index) */
    WEIR_RNG_ORDER,    /* shuffles: (epoch, round) */
    WEIR_RNG_AUGMENT,  /* (step, global sample) */
    WEIR_RNG_DROPOUT,  /* (step, global sample, layer) */
    WEIR_RNG_CODEC,    /* (step, bucket, rank) */
    WEIR_RNG_DATA,     /* synthetic data: (part, sample) */
    WEIR_RNG_TEST,
    WEIR_RNG_SIM /* the simulated world: (what, rank) */
} weir_rng_use;

/* The bare generator, for those who check it: Random123's known answers hold. */
void weir_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]);

/* A stream: the numbers of one purpose at one place, drawn in order. Cheap to make, never
 * shared. */
typedef struct weir_rng {
    uint32_t key[2], counter[4], block[4];
    int left;
} weir_rng;
weir_rng weir_rng_at(uint64_t seed, weir_rng_use use, uint64_t a, uint32_t b);
uint32_t weir_rng_u32(weir_rng *);
uint64_t weir_rng_below(weir_rng *, uint64_t n); /* unbiased, in [0, n); n > 0 */
float weir_rng_unit(weir_rng *);                 /* in [0, 1), 24 bits */
float weir_rng_normal(weir_rng *);               /* mean 0, deviation 1 */

/* Place `position` of a permutation of 0..n-1 that depends on (seed, epoch) alone; position < n. */
uint64_t weir_rng_shuffle(uint64_t seed, uint64_t epoch, uint64_t n, uint64_t position);
#endif
