/* help_vectors.h - gradients of every kind that a codec may meet. */
#ifndef WEIR_HELP_VECTORS_H
#define WEIR_HELP_VECTORS_H
#include <stddef.h>
#include <stdint.h>

typedef enum { NORMAL, HEAVY, SPIKY, CONSTANT, ZERO, TINY, WHOLE, KINDS } kind;

void fill(float *x, size_t n, kind k, uint64_t seed);
#endif
