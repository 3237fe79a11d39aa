/* vec_avx512.c - the kernels compiled with -mavx512f and its usual companions. */
#ifdef __x86_64__
#define WEIR_VEC weir_vec_avx512
#define WEIR_VEC_ISA "avx512"
#include "core/vec_body.h"
#else
typedef int nothing_here;
#endif
