/* rng.c - Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) and a
 * shuffle without a table. */
#include "core/rng.h"
#include <math.h>

void weir_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4])
{
    uint32_t k0 = key[0], k1 = key[1];
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];

    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)c0 * 0xD2511F53u, b = (uint64_t)c2 * 0xCD9E8D57u;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)b;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

/* The seed is the key; purpose, a, b and the number of the block share the counter without overlap,
 * so no two streams of a seed meet: the low 28 bits of counter[0] count blocks of four numbers, the
 * high 4 hold the purpose. */
weir_rng weir_rng_at(uint64_t seed, weir_rng_use use, uint64_t a, uint32_t b)
{
    return (weir_rng){.key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
                      .counter = {(uint32_t)use << 28, b, (uint32_t)a, (uint32_t)(a >> 32)}};
}

uint32_t weir_rng_u32(weir_rng *r)
{
    if (!r->left) {
        weir_philox(r->key, r->counter, r->block);
        r->counter[0] = (r->counter[0] & 0xF0000000u) | ((r->counter[0] + 1) & 0x0FFFFFFFu);
        r->left = 4;
    }
    return r->block[4 - r->left--];
}

uint64_t weir_rng_below(weir_rng *r, uint64_t n)
{
    uint64_t few = -n % n, x; /* 2^64 mod n: so many draws would favour the small results */

    do {
        x = weir_rng_u32(r);
        x |= (uint64_t)weir_rng_u32(r) << 32;
    } while (x < few);
    return x % n;
}

float weir_rng_unit(weir_rng *r) { return (float)(weir_rng_u32(r) >> 8) * 0x1p-24f; }

/* The natural logarithm from basic operations, good to 1e-12: libm's differs in its last bits from
 * processor to processor. */
static double ln(double x)
{
    int e;
    double m = frexp(x, &e), s, s2, sum = 0;

    if (m < 0.70710678118654752)
        m *= 2, e--;
    s = (m - 1) / (m + 1);
    s2 = s * s;
    for (int k = 15; k > 0; k -= 2)
        sum = sum * s2 + 1.0 / k;
    return e * 0.69314718055994531 + 2 * s * sum;
}

/* Marsaglia's polar method: a point of the unit disc gives two normal numbers, of which one is
 * used. */
float weir_rng_normal(weir_rng *r)
{
    double x, y, s;

    do {
        x = ((double)weir_rng_u32(r) + 0.5) * 0x1p-31 - 1;
        y = ((double)weir_rng_u32(r) + 0.5) * 0x1p-31 - 1;
        s = x * x + y * y;
    } while (s >= 1);
    return (float)(x * sqrt(-2 * ln(s) / s));
}

/* ---- the shuffle: a keyed Feistel network over the numbers of 2h bits; a result outside 0..n-1
 * goes through again ---- */

enum { ROUNDS = 8 };

static uint32_t mix(uint32_t x)
{
    x = (x ^ x >> 16) * 0x7FEB352Du;
    x = (x ^ x >> 15) * 0x846CA68Bu;
    return x ^ x >> 16;
}

static uint64_t feistel(const uint32_t *key, int half, uint64_t x)
{
    uint32_t mask = (uint32_t)(((uint64_t)1 << half) - 1), left = (uint32_t)(x >> half),
             right = (uint32_t)x & mask;

    for (int i = 0; i < ROUNDS; i++) {
        uint32_t next = left ^ (mix(right ^ key[i]) & mask);
        left = right;
        right = next;
    }
    return (uint64_t)left << half | right;
}

uint64_t weir_rng_shuffle(uint64_t seed, uint64_t epoch, uint64_t n, uint64_t position)
{
    weir_rng r = weir_rng_at(seed, WEIR_RNG_ORDER, epoch, 0);
    uint32_t key[ROUNDS];
    int half = 1;

    while (half < 32 && (n - 1) >> (2 * half))
        half++;
    for (int i = 0; i < ROUNDS; i++)
        key[i] = weir_rng_u32(&r);
    do
        position = feistel(key, half, position);
    while (position >= n);
    return position;
}
