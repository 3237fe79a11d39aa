/* rice.h - inside codec/: rising places and a sign for each, in few bits (Golomb-Rice).
 *
 * A place is the gap to the one before it (the first: to 0; equal places have gap 0): gap >> b ones, a zero, the low b bits of the gap
 * from the lowest on, then a one if the sign is minus. Bits fill bytes from the lowest on. For places drawn at random with density D the
 * best b is within a twentieth of a bit of the entropy. */
#ifndef WEIR_CODEC_RICE_H
#define WEIR_CODEC_RICE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The parameter for `count` places below n. */
int weir_rice_fit(size_t n, size_t count);
/* Bits that each of them comes to in the mean, its sign included. */
double weir_rice_bits(size_t n, size_t count);
/* place << 1 | minus, rising. Bytes written; 0 if they would be more than `room`. */
size_t weir_rice_write(const uint32_t *word, size_t count, int b, unsigned char *to, size_t room);

typedef struct weir_rice {
    const unsigned char *at;
    size_t bytes;
    uint64_t bit; /* the next one */
    int b;
    uint64_t place;
} weir_rice;
weir_rice weir_rice_begin(const unsigned char *, size_t bytes, int b);
/* The next `count` words. Whether there were so many, all of places below n. */
bool weir_rice_read(weir_rice *, size_t n, uint32_t *word, size_t count);
#endif
