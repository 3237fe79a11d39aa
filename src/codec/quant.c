/* quant.c - which set: the one that core/vec.h chose. */
#include "codec/quant.h"
#include "core/vec.h"
#include <string.h>

extern const weir_quant weir_quant_base;
#ifdef __x86_64__
extern const weir_quant weir_quant_avx2, weir_quant_avx512;
static const weir_quant *const all[] = {&weir_quant_base, &weir_quant_avx2, &weir_quant_avx512};
#else
static const weir_quant *const all[] = {&weir_quant_base};
#endif

const weir_quant *weir_quant_of(const char *isa)
{
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(all[i]->isa, isa))
            return all[i];
    return NULL;
}

const weir_quant *weir_quant_best(void) { return weir_quant_of(weir_vec_best()->isa); }

weir_rice_lows weir_rice_lows_of(int b)
{
    weir_rice_lows l = {.b = b};

    for (int k = 0; k < 8; k++) {
        l.shift[k] = (uint32_t)(k * (b + 1) % 8);
        for (int i = 0; i < 4; i++)
            l.byte[k][i] = (unsigned char)(k * (b + 1) / 8 - (k < 4 ? 0 : (b + 1) / 2) + i);
    }
    return l;
}
