/* wide.h - one register full of numbers, at any address: as wide as the instruction set that the
 * including file is compiled for. */
#ifndef WEIR_WIDE_H
#define WEIR_WIDE_H
#include <stdint.h>

#if defined __AVX512F__
enum { WIDE = 64 }; /* bytes */
#elif defined __AVX2__
enum { WIDE = 32 };
#else
enum { WIDE = 16 };
#endif
typedef float wide_f32 __attribute__((vector_size(WIDE), aligned(4), may_alias));
typedef int32_t wide_i32 __attribute__((vector_size(WIDE), aligned(4), may_alias));
typedef double wide_f64 __attribute__((vector_size(WIDE), aligned(8), may_alias));
#endif
