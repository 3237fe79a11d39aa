/* hash.h - 64-bit hash of bytes (XXH3), for params_hash, checksums of files and messages. Same on
 * every machine. */
#ifndef WEIR_CORE_HASH_H
#define WEIR_CORE_HASH_H
#include <stddef.h>
#include <stdint.h>
uint64_t weir_hash(const void *bytes, size_t n, uint64_t seed);
#endif
