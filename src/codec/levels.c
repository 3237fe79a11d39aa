/* levels.c - see levels.h. */
#include "codec/levels.h"

void weir_levels_pack(const int8_t *level, size_t n, int bits, unsigned char *to)
{
    uint64_t hold = 0;
    int have = 0;
    size_t k = 0, all = weir_levels_bytes(n, bits);

    for (size_t i = 0; i < n; i++) {
        hold |= (uint64_t)((unsigned)level[i] & ((1u << bits) - 1)) << have;
        for (have += bits; have >= 8; have -= 8, hold >>= 8)
            to[k++] = (unsigned char)hold;
    }
    for (; k < all; hold >>= 8)
        to[k++] = (unsigned char)hold;
}

void weir_levels_unpack(const unsigned char *from, size_t n, int bits, int8_t *level)
{
    uint64_t hold = 0;
    int have = 0, half = 1 << (bits - 1);

    for (size_t i = 0; i < n; i++) {
        for (; have < bits; have += 8)
            hold |= (uint64_t)*from++ << have;
        level[i] = (int8_t)(((int)(hold & (2u * (unsigned)half - 1)) ^ half) - half);
        hold >>= bits;
        have -= bits;
    }
}
