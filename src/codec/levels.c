/* levels.c - see levels.h. Eight levels are the bytes of a word, and their bits are moved together,
 * or apart, two by two. */
#include "codec/levels.h"
#include <string.h>

enum { SOME = 8 };
static const uint64_t EACH = 0x0101010101010101u, TWO = 0x0001000100010001u,
                      FOUR = 0x0000000100000001u;

/* Compiled apart for each number of bits, so that all shifts are known. */
#define INLINE static inline __attribute__((always_inline))

INLINE uint64_t together(uint64_t x, int bits)
{
    x &= EACH * ((1u << bits) - 1);
    x = (x & TWO * 0xff) | (x >> 8 & TWO * 0xff) << bits;
    x = (x & FOUR * 0xffff) | (x >> 16 & FOUR * 0xffff) << 2 * bits;
    return (x & UINT32_MAX) | x >> 32 << 4 * bits;
}

/* And what is below 0 gets its sign back. */
INLINE uint64_t apart(uint64_t x, int bits)
{
    uint64_t one = (1u << bits) - 1, two = (1u << 2 * bits) - 1, four = (1ull << 4 * bits) - 1,
             half = EACH << (bits - 1), top = EACH << 7;

    x = (x & four) | (x >> 4 * bits & four) << 32;
    x = (x & FOUR * two) | (x >> 2 * bits & FOUR * two) << 16;
    x = (x & TWO * one) | (x >> bits & TWO * one) << 8;
    return bits == 8 ? x : (((x ^ half) | top) - half) ^ top;
}

/* Eight bytes move at a time, of which `bits` count; the last few by themselves. */
INLINE void pack(const int8_t *level, size_t n, int bits, unsigned char *to)
{
    unsigned char *end = to + weir_levels_bytes(n, bits);
    size_t i = 0, some;
    uint64_t x;

    for (; i + SOME <= n && end - to >= 8; i += SOME, to += bits) {
        memcpy(&x, level + i, SOME);
        x = together(x, bits);
        memcpy(to, &x, 8);
    }
    memset(to, 0, (size_t)(end - to));
    for (; i < n; i += some, to += bits) {
        some = n - i < SOME ? n - i : SOME;
        x = 0;
        memcpy(&x, level + i, some);
        x = together(x, bits);
        memcpy(to, &x, (some * (size_t)bits + 7) / 8);
    }
}

INLINE void unpack(const unsigned char *from, size_t n, int bits, int8_t *level)
{
    const unsigned char *end = from + weir_levels_bytes(n, bits);
    size_t i = 0, some;
    uint64_t x;

    for (; i + SOME <= n && end - from >= 8; i += SOME, from += bits) {
        memcpy(&x, from, 8);
        x = apart(x, bits);
        memcpy(level + i, &x, SOME);
    }
    for (; i < n; i += some, from += bits) {
        some = n - i < SOME ? n - i : SOME;
        x = 0;
        memcpy(&x, from, (some * (size_t)bits + 7) / 8);
        x = apart(x, bits);
        memcpy(level + i, &x, some);
    }
}

#define EACH_WIDTH(BY) BY(1) BY(2) BY(3) BY(4) BY(5) BY(6) BY(7) BY(8)

void weir_levels_pack(const int8_t *level, size_t n, int bits, unsigned char *to)
{
#define BY(BITS)                  \
    case BITS:                    \
        pack(level, n, BITS, to); \
        break;
    switch (bits) {
        EACH_WIDTH(BY)
    default:
        break; /* there is none */
    }
#undef BY
}

void weir_levels_unpack(const unsigned char *from, size_t n, int bits, int8_t *level)
{
#define BY(BITS)                      \
    case BITS:                        \
        unpack(from, n, BITS, level); \
        break;
    switch (bits) {
        EACH_WIDTH(BY)
    default:
        break; /* there is none */
    }
#undef BY
}
