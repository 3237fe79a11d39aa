/* quant_base.c - for every machine. */
#define WEIR_QUANT weir_quant_base
#define WEIR_QUANT_ISA "baseline"
#include "codec/quant_body.h"
