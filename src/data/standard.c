/* standard.c - inputs of mean 0 and deviation 1, whatever unit a file has them in. */
#include "data/standard.h"
#include <math.h>

static void fit_bytes(weir_standard *s, const weir_array *a)
{
    uint64_t n = a->dim[0] * a->width, count[256] = {0};
    unsigned __int128 sum = 0, squares = 0;

    for (uint64_t i = 0; i < n; i++)
        count[a->value[i]]++;
    for (unsigned x = 0; x < 256; x++) {
        sum += (unsigned __int128)count[x] * x;
        squares += (unsigned __int128)count[x] * (x * x);
    }
    s->mean = (double)sum / (double)n / 255;
    s->deviation = sqrt((double)(squares * n - sum * sum)) / (double)n / 255;
}

static void fit_numbers(weir_standard *s, const weir_array *a)
{
    uint64_t n = a->dim[0] * a->width;
    double sum = 0, squares = 0;

    for (uint64_t i = 0; i < n; i++)
        sum += weir_array_number(a, i);
    s->mean = sum / (double)n;
    for (uint64_t i = 0; i < n; i++) {
        double d = weir_array_number(a, i) - s->mean;
        squares += d * d;
    }
    s->deviation = sqrt(squares / (double)n);
}

void weir_standard_fit(weir_standard *s, const weir_array *a)
{
    if (a->type == WEIR_U8)
        fit_bytes(s, a);
    else
        fit_numbers(s, a);
    if (s->deviation == 0)
        s->deviation = 1;
    for (int x = 0; x < 256; x++)
        s->byte[x] = (float)(((double)x / 255 - s->mean) / s->deviation);
}

weir_err weir_standard_check(const weir_standard *s, const weir_array *a)
{
    uint64_t n = a->type == WEIR_U8 ? 0 : a->dim[0] * a->width;

    for (uint64_t i = 0; i < n; i++)
        if (fabs((weir_array_number(a, i) - s->mean) / s->deviation) > 1e30)
            return weir_fail(WEIR_INVALID, "%s: value %llu of sample %llu (both from 0) is %g, too far from the mean %g and deviation %g",
                             a->name, (unsigned long long)(i % a->width), (unsigned long long)(i / a->width), weir_array_number(a, i),
                             s->mean, s->deviation);
    return WEIR_OK;
}

void weir_standard_sample(const weir_standard *s, const weir_array *a, uint64_t sample, float *x)
{
    uint64_t first = sample * a->width;

    if (a->type == WEIR_U8)
        for (uint64_t i = 0; i < a->width; i++)
            x[i] = s->byte[a->value[first + i]];
    else
        for (uint64_t i = 0; i < a->width; i++)
            x[i] = (float)((weir_array_number(a, first + i) - s->mean) / s->deviation);
}
