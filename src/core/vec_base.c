/* vec_base.c - the kernels for any machine. */
#define WEIR_VEC weir_vec_base
#define WEIR_VEC_ISA "baseline"
#include "core/vec_body.h"
