/* kernels_avx2.c - the kernels compiled with -mavx2 -mfma. */
#ifdef __x86_64__
#define WEIR_KERNELS weir_kernels_avx2
#define WEIR_KERNELS_ISA "avx2"
/* lanes of a vector; rows and units of a tile, so that its sums fill the registers */
#define LANES 8
#define ROWS 6
#define UNITS 1
#include "nn/kernels_body.h"
#else
typedef int nothing_here;
#endif
