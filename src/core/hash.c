/* hash.c - XXH3, 64 bits. */
#include "core/hash.h"
#include <xxhash.h>

uint64_t weir_hash(const void *bytes, size_t n, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes, n, seed);
}
