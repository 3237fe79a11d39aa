/* vec.c - which variant: asked once of the processor and of WEIR_ISA, then remembered. */
#include "core/vec.h"
#include "core/log.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

extern const weir_vec weir_vec_base;
#ifdef __x86_64__
#include <cpuid.h>
extern const weir_vec weir_vec_avx2, weir_vec_avx512;

/* whoever has a later one has those before */
static const weir_vec *const upto_base[] = {&weir_vec_base, NULL};
static const weir_vec *const upto_avx2[] = {&weir_vec_base, &weir_vec_avx2, NULL};
static const weir_vec *const upto_avx512[] = {&weir_vec_base, &weir_vec_avx2, &weir_vec_avx512,
                                              NULL};

/* Older compilers do not know it by name. */
static bool has_f16c(void)
{
    unsigned a, b, c, d;

    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static const weir_vec *const *ask(void)
{
    if (!__builtin_cpu_supports("avx2") || !has_f16c())
        return upto_base;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return upto_avx512;
    return upto_avx2;
}
#else
static const weir_vec *const *ask(void)
{
    static const weir_vec *const all[] = {&weir_vec_base, NULL};
    return all;
}
#endif

/* Once: on a virtual machine the answer takes as long as a small layer. Two threads may both ask:
 * they hear the same. */
const weir_vec *const *weir_vec_all(void)
{
    static _Atomic(const weir_vec *const *) known;
    const weir_vec *const *all = atomic_load_explicit(&known, memory_order_relaxed);

    if (!all) {
        all = ask();
        atomic_store_explicit(&known, all, memory_order_relaxed);
    }
    return all;
}

static const weir_vec *choose(void)
{
    static const char *const word[] = {"baseline", "avx2", "avx512"};
    const char *isa = getenv("WEIR_ISA");
    const weir_vec *const *all = weir_vec_all();
    int most = isa ? 0 : 2, i = 0;

    while (isa && most < 3 && strcmp(isa, word[most]))
        most++;
    if (most == 3)
        weir_log(WEIR_LOG_WARN, "env", "WEIR_ISA=%s is ignored: it may be baseline, avx2 or avx512",
                 isa);
    while (i < most && all[i + 1])
        i++;
    return all[i];
}

/* Two threads may both choose: they choose alike. */
const weir_vec *weir_vec_best(void)
{
    static _Atomic(const weir_vec *) best;
    const weir_vec *v = atomic_load_explicit(&best, memory_order_relaxed);

    if (!v) {
        v = choose();
        atomic_store_explicit(&best, v, memory_order_relaxed);
    }
    return v;
}
