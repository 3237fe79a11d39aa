/* levels.h - inside codec/: small whole numbers in few bits each, two's complement, from the lowest
 * bit on, padded to 4 bytes. */
#ifndef WEIR_CODEC_LEVELS_H
#define WEIR_CODEC_LEVELS_H
#include <stddef.h>
#include <stdint.h>

static inline size_t weir_levels_bytes(size_t n, int bits)
{
    return (n * (size_t)bits + 31) / 32 * 4;
}
void weir_levels_pack(const int8_t *level, size_t n, int bits, unsigned char *to);
void weir_levels_unpack(const unsigned char *from, size_t n, int bits, int8_t *level);
#endif
