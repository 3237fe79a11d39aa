/* norm_avx512.c - the loops of batch norm for AVX-512. */
#ifdef __x86_64__
#define WEIR_NORM weir_norm_avx512
#include "nn/norm_body.h"
#else
typedef int nothing_here;
#endif
