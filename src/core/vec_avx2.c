/* vec_avx2.c - the kernels compiled with -mavx2. */
#ifdef __x86_64__
#define WEIR_VEC weir_vec_avx2
#define WEIR_VEC_ISA "avx2"
#include "core/vec_body.h"
#else
typedef int nothing_here;
#endif
