/* kernels.c - which variant: the one that core/vec.h has chosen. */
#include "nn/kernels.h"
#include "core/vec.h"
#include <string.h>

extern const weir_kernels weir_kernels_base;
#ifdef __x86_64__
extern const weir_kernels weir_kernels_avx2, weir_kernels_avx512;
static const weir_kernels *const every[] = {&weir_kernels_base, &weir_kernels_avx2,
                                            &weir_kernels_avx512, NULL};
static const weir_kernels *const none[] = {&weir_kernels_base, NULL};
static const weir_kernels *const some[] = {&weir_kernels_base, &weir_kernels_avx2, NULL};

/* As many as vec has, but none with fused multiply-adds where there are none. */
const weir_kernels *const *weir_kernels_all(void)
{
    int n = 0;

    while (weir_vec_all()[n])
        n++;
    return n < 2 || !__builtin_cpu_supports("fma") ? none : n < 3 ? some : every;
}
#else
static const weir_kernels *const every[] = {&weir_kernels_base, NULL};
const weir_kernels *const *weir_kernels_all(void) { return every; }
#endif

const weir_kernels *weir_kernels_best(void)
{
    const weir_kernels *const *all = weir_kernels_all();
    const char *isa = weir_vec_best()->isa;

    for (int i = 0; all[i]; i++)
        if (!strcmp(all[i]->isa, isa))
            return all[i];
    return all[0];
}
