/* quant_avx512.c - compiled for avx512. */
#ifdef __x86_64__
#define WEIR_QUANT weir_quant_avx512
#define WEIR_QUANT_ISA "avx512"
#include "codec/quant_body.h"
#else
typedef int nothing_here;
#endif
