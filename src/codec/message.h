/* message.h - inside codec/: the head of every message that is decoded, and reading what comes
 * behind it. Little-endian, 16 bytes:
 *
 *    0  "WC"
 *    2  version 2
 *    3  the codec's mark
 *    4  floats of the bucket (32 bits)
 *    8  bytes behind the head (32 bits)
 *   12  low half of XXH3-64 of the 12 bytes before, seed 0 */
#ifndef WEIR_CODEC_MESSAGE_H
#define WEIR_CODEC_MESSAGE_H
#include "codec/codec.h"

enum { WEIR_MESSAGE_HEAD = 16 };

/* Writes the head in front of `body` bytes; gives the length of the whole. */
size_t weir_message_head(void *msg, const weir_codec *, size_t floats, size_t body);
/* Whether these bytes are a message of this codec for a bucket of so many floats. What is behind
 * the head is *body, of *len bytes. */
weir_err weir_message_open(const void *msg, size_t bytes, const weir_codec *, size_t floats,
                           const unsigned char **body, size_t *len);
/* What every decoder says of a body that makes no sense. */
weir_err weir_message_bad(const weir_codec *, const char *what);
#endif
