/* standard.c - inputs of mean 0 and deviation 1, whatever unit a file has them in. */
#include "data/standard.h"
#include <math.h>

static void finish(weir_standard *s)
{
    if (s->deviation == 0)
        s->deviation = 1;
    for (int x = 0; x < 256; x++)
        s->byte[x] = (float)(((double)x / 255 - s->mean) / s->deviation);
}

void weir_standard_fit_counts(weir_standard *s, const uint64_t count[256])
{
    unsigned __int128 n = 0, sum = 0, squares = 0;

    for (unsigned x = 0; x < 256; x++) {
        n += count[x];
        sum += (unsigned __int128)count[x] * x;
        squares += (unsigned __int128)count[x] * (x * x);
    }
    s->mean = (double)sum / (double)n / 255;
    s->deviation = sqrt((double)(squares * n - sum * sum)) / (double)n / 255;
    finish(s);
}

static void fit_bytes(weir_standard *s, const weir_array *a, uint64_t first, uint64_t every)
{
    uint64_t n = a->dim[0] * a->width, count[256] = {0};

    for (uint64_t i = first; i < n; i += every)
        count[a->value[i]]++;
    weir_standard_fit_counts(s, count);
}

static void fit_numbers(weir_standard *s, const weir_array *a, uint64_t first, uint64_t every)
{
    uint64_t n = a->dim[0] * a->width;
    double sum = 0, squares = 0, count = 0;

    for (uint64_t i = first; i < n; i += every, count++)
        sum += weir_array_number(a, i);
    s->mean = sum / count;
    for (uint64_t i = first; i < n; i += every) {
        double d = weir_array_number(a, i) - s->mean;
        squares += d * d;
    }
    s->deviation = sqrt(squares / count);
    finish(s);
}

void weir_standard_fit(weir_standard *s, const weir_array *a, uint64_t first, uint64_t every)
{
    if (a->type == WEIR_U8)
        fit_bytes(s, a, first, every);
    else
        fit_numbers(s, a, first, every);
}

weir_err weir_standard_check(const weir_standard *s, const weir_array *a, uint64_t first,
                             uint64_t every)
{
    uint64_t n = a->type == WEIR_U8 ? 0 : a->dim[0] * a->width;

    for (uint64_t i = first; i < n; i += every)
        if (fabs((weir_array_number(a, i) - s->mean) / s->deviation) > 1e30)
            return weir_fail(WEIR_INVALID,
                             "%s: value %llu of sample %llu (both from 0) is %g, too far from the "
                             "mean %g and deviation %g",
                             a->name, (unsigned long long)(i % a->width),
                             (unsigned long long)(i / a->width), weir_array_number(a, i), s->mean,
                             s->deviation);
    return WEIR_OK;
}

void weir_standard_sample(const weir_standard *s, const weir_array *a, uint64_t sample, float *x)
{
    for (uint64_t i = 0; i < a->width; i++)
        x[i] = weir_standard_value(s, a, sample * a->width + i);
}
