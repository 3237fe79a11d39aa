/* norm_avx2.c - the loops of batch norm for AVX2. */
#ifdef __x86_64__
#define WEIR_NORM weir_norm_avx2
#include "nn/norm_body.h"
#else
typedef int nothing_here;
#endif
