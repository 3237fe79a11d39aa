/* indices.h - inside codec/: which elements of a tensor are sent, and what for each: the body of
 * every sparse codec's messages.
 *
 * A word is index << 1 | minus, rising; it may stand several times. The body has, for each tensor
 * of the bucket, a row of 16 bytes
 *
 *    0  value (float)
 *    4  words (32 bits)
 *    8  how they are written (8)
 *    9  parameter (8)
 *   10  valued (16: 0 or 1)
 *   12  bytes of its words (32)
 *
 * and then their words, each tensor's a multiple of 4 bytes: the words and, if they are valued, a
 * float for each of them, which is added there; else it is value, or minus that. They are written
 *
 *   0 words  32 bits each
 *   1 rice   rice.h, with the parameter; padded to 4 bytes
 *   2 cells  `parameter` bits an element (2, 4, 8), in order from the lowest bit on: how many words
 *            of it, minus counted down, in two's complement; padded to 4 bytes; never valued */
#ifndef WEIR_CODEC_INDICES_H
#define WEIR_CODEC_INDICES_H
#include "codec/message.h"

enum { WEIR_INDICES_WORDS, WEIR_INDICES_RICE, WEIR_INDICES_CELLS };
typedef struct weir_indices {
    float value;
    uint32_t words;
    uint8_t how, bits;
    uint16_t valued;
    uint32_t bytes;
} weir_indices;
_Static_assert(sizeof(weir_indices) == 16, "rows have no holes");

static inline size_t weir_indices_cells_bytes(size_t n, int bits)
{
    return (n * (size_t)bits + 31) / 32 * 4;
}
void weir_indices_cells_add(unsigned char *cells, int bits, size_t i, int by);
/* What is sent of a tensor of n elements: words, and their values, or (values NULL) one for all. */
typedef struct weir_indices_chosen {
    size_t n, words;
    const uint32_t *word;
    const float *values;
    float value;
} weir_indices_chosen;
/* Writes them at `to`, as words or, if that is shorter, by rice, in at most `room` bytes; values
 * behind them, for which there is room besides. What it came to; `how` is cells if the words got
 * too long: these are the caller's to write. */
weir_indices weir_indices_write(const weir_indices_chosen *, bool rice, unsigned char *to,
                                size_t room);

/* Bytes that so many words of n elements usually come to. */
size_t weir_indices_usual(size_t n, size_t words, bool valued, bool rice);
/* Asks the memory for the element of a word that comes a good while after word k: places lie far
 * apart. */
enum { WEIR_INDICES_AHEAD = 64 };
static inline __attribute__((always_inline)) void weir_indices_ask(const uint32_t *word,
                                                                   size_t words, size_t k,
                                                                   const float *x)
{
    if (k + WEIR_INDICES_AHEAD < words)
        __builtin_prefetch(x + (word[k + WEIR_INDICES_AHEAD] >> 1), 1);
}

/* The rows behind a message's head, and the first part. */
static inline weir_indices *weir_indices_rows(void *msg)
{
    return (weir_indices *)(void *)((char *)msg + WEIR_MESSAGE_HEAD);
}
/* Decodes a whole message of this codec's for this bucket. */
weir_err weir_indices_decode(const weir_codec *, const weir_bucket *, const void *msg, size_t len,
                             float *acc);
#endif
