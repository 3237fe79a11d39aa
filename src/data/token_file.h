/* token_file.h - tokens as llm.c and nanoGPT keep them, little-endian. llm.c: 256 int32, of which
 * the first are a magic number, a version and the number of tokens; then the tokens, of 16 bits
 * (magic 20240520, version 1) or 32 (20240801, 7). nanoGPT: 16-bit tokens alone. */
#ifndef WEIR_DATA_TOKEN_FILE_H
#define WEIR_DATA_TOKEN_FILE_H
#include "core/err.h"

typedef struct weir_token_file {
    const char *name;
    const unsigned char *token;
    int width; /* bytes of one: 2 or 4 */
    uint64_t tokens;
} weir_token_file;

/* Reads bytes that may be anything; `f` points into them and to `name`. WEIR_INVALID: no tokens,
 * half a one, fewer or more than the header promises, another version, another of llm.c's files. */
weir_err weir_token_file_parse(const char *name, const void *bytes, size_t n, weir_token_file *f);
/* Copies the tokens into memory of the machine's order and raises *most to the largest.
 * WEIR_INVALID: one is `vocabulary` or more. */
weir_err weir_token_file_copy(const weir_token_file *, void *to, uint64_t vocabulary,
                              uint32_t *most);
#endif
