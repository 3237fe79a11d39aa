/* norm.c - which of the loops' variants: the one that core/vec.h chose. */
#include "nn/norm.h"
#include "core/vec.h"
#include <string.h>

extern const weir_norm_loops weir_norm_base, weir_norm_avx2, weir_norm_avx512;

const weir_norm_loops *weir_norm_best(void)
{
#ifdef __x86_64__
    const char *isa = weir_vec_best()->isa;

    if (!strcmp(isa, "avx512"))
        return &weir_norm_avx512;
    if (!strcmp(isa, "avx2"))
        return &weir_norm_avx2;
#endif
    return &weir_norm_base;
}
