/* kernels_base.c - the kernels for any machine. */
#define WEIR_KERNELS weir_kernels_base
#define WEIR_KERNELS_ISA "baseline"
/* lanes of a vector; rows and units of a tile, so that its sums fill the registers */
#define LANES 4
#define ROWS 3
#define UNITS 1
#include "nn/kernels_body.h"
