/* norm_base.c - the loops of batch norm for any machine. */
#define WEIR_NORM weir_norm_base
#include "nn/norm_body.h"
