/* fuzz_idx.c - any bytes as a pair of IDX arrays: two bytes say where the samples end and the
 * labels begin. What is let through must be usable: every label below the classes, every
 * standardised value finite. */
#include "data/standard.h"
#include "fuzz.h"
#include <math.h>

static void use_all(const weir_array *in, const weir_array *label, int64_t classes)
{
    static weir_standard standard;
    float *x = malloc(in->width * sizeof *x);

    check(x);
    weir_standard_set(&standard, weir_scale_fit(in, 0, 1));
    for (uint64_t i = 0; !weir_standard_check(&standard, in, 0, 1) && i < in->dim[0]; i++) {
        int32_t class = weir_array_int(label, i);
        weir_standard_sample(&standard, in, i, x);
        check(class >= 0 && class < classes);
        for (uint64_t k = 0; k < in->width; k++)
            check(isfinite(x[k]));
    }
    free(x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    size_t cut;
    void *first, *second;
    weir_array in, label;
    int64_t classes = 0;

    if (!take(&data, &n, &cut) || cut > n)
        return 0;
    first = copy(data, cut);
    second = copy(data + cut, n - cut);
    if (!weir_array_parse("samples", first, cut, &in) &&
        !weir_array_parse("labels", second, n - cut, &label) &&
        !weir_array_labels(&in, &label, &classes))
        use_all(&in, &label, classes);
    free(first);
    free(second);
    return 0;
}
