/* quant_avx2.c - compiled for avx2. */
#ifdef __x86_64__
#define WEIR_QUANT weir_quant_avx2
#define WEIR_QUANT_ISA "avx2"
#include "codec/quant_body.h"
#else
typedef int nothing_here;
#endif
