/* rice.h - inside codec/: rising places and a sign for each, in few bits (Golomb-Rice).
 *
 * A place is the gap to the one before it (the first: to 0; equal places have gap 0). First stand
 * the low parts of all words: b bits of the gap, from the lowest on, then a one if the sign is
 * minus; padded to a byte. Then their high parts: gap >> b zeros and a one; padded to a byte. Bits
 * fill bytes from the lowest on. (Apart, so that a reader finds each low part without waiting for
 * the one before.) For places drawn at random with density D the best b is within a twentieth of a
 * bit of the entropy. */
#ifndef WEIR_CODEC_RICE_H
#define WEIR_CODEC_RICE_H
#include "codec/quant.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The parameter for `count` places below n. */
int weir_rice_fit(size_t n, size_t count);
/* Bits that each of them comes to in the mean, its sign included. */
double weir_rice_bits(size_t n, size_t count);
/* place << 1 | minus, rising. Bytes written; 0 if they would be more than `room`. */
size_t weir_rice_write(const uint32_t *word, size_t count, int b, unsigned char *to, size_t room);

/* A reader of words one after the other, a hand of them at a time. High parts are found a hand
 * ahead: they are written one by one and read all at once, which waits for the writes if these are
 * recent. */
enum { WEIR_RICE_GROUP = 8 };
typedef struct weir_rice {
    const unsigned char *at;
    size_t bytes, words, n;
    int b;
    size_t read, found; /* words; words whose high parts are known */
    uint32_t high[2][WEIR_RICE_GROUP];
    size_t next; /* byte of high parts to look at */
    /* the eight bytes before it; the ones of words that were found are taken away */
    uint64_t look;
    uint64_t zeros;   /* of high parts before these eight bytes */
    uint64_t low_sum; /* low parts of all words read */
    weir_rice_lows lows;
    const weir_quant *quant;
} weir_rice;
/* At these bytes, that hold so many words, of places below n, and perhaps zeros. */
weir_rice weir_rice_begin(const unsigned char *, size_t bytes, size_t words, int b, size_t n);
/* The next WEIR_RICE_GROUP words, fewer at the end. Whether they were there, all of places below n;
 * if not, there is nothing more to read. */
bool weir_rice_read(weir_rice *, uint32_t *word);
#endif
