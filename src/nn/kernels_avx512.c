/* kernels_avx512.c - the kernels compiled with -mavx512f and its usual companions. */
#ifdef __x86_64__
#define WEIR_KERNELS weir_kernels_avx512
#define WEIR_KERNELS_ISA "avx512"
/* lanes of a vector; rows and units of a tile, so that its sums fill the registers */
#define LANES 16
#define ROWS 6
#define UNITS 4
#include "nn/kernels_body.h"
#else
typedef int nothing_here;
#endif
