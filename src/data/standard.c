/* standard.c - inputs of mean 0 and deviation 1, whatever unit a file has them in. */
#include "data/standard.h"
#include <math.h>

static weir_scale made(double mean, double deviation)
{
    return (weir_scale){mean, deviation == 0 ? 1 : deviation};
}

weir_scale weir_scale_fit_counts(const uint64_t count[256])
{
    unsigned __int128 n = 0, sum = 0, squares = 0;

    for (unsigned x = 0; x < 256; x++) {
        n += count[x];
        sum += (unsigned __int128)count[x] * x;
        squares += (unsigned __int128)count[x] * (x * x);
    }
    return made((double)sum / (double)n / 255,
                sqrt((double)(squares * n - sum * sum)) / (double)n / 255);
}

static weir_scale fit_bytes(const weir_array *a, uint64_t first, uint64_t every)
{
    uint64_t n = a->dim[0] * a->width, count[256] = {0};

    for (uint64_t i = first; i < n; i += every)
        count[a->value[i]]++;
    return weir_scale_fit_counts(count);
}

static weir_scale fit_numbers(const weir_array *a, uint64_t first, uint64_t every)
{
    uint64_t n = a->dim[0] * a->width;
    double sum = 0, squares = 0, count = 0, mean;

    for (uint64_t i = first; i < n; i += every, count++)
        sum += weir_array_number(a, i);
    mean = sum / count;
    for (uint64_t i = first; i < n; i += every) {
        double d = weir_array_number(a, i) - mean;
        squares += d * d;
    }
    return made(mean, sqrt(squares / count));
}

weir_scale weir_scale_fit(const weir_array *a, uint64_t first, uint64_t every)
{
    return a->type == WEIR_ARRAY_U8 ? fit_bytes(a, first, every) : fit_numbers(a, first, every);
}

void weir_standard_set(weir_standard *s, weir_scale scale)
{
    s->scale = scale;
    for (int x = 0; x < 256; x++)
        s->byte[x] = (float)(((double)x / 255 - scale.mean) / scale.deviation);
}

/* Of bytes the ends of the table tell. */
static double distance(const weir_standard *s, const weir_array *a, uint64_t i)
{
    if (a->type == WEIR_ARRAY_U8)
        return fmax(fabs((double)s->byte[0]), fabs((double)s->byte[255]));
    return fabs((weir_array_number(a, i) - s->scale.mean) / s->scale.deviation);
}

weir_err weir_standard_check(const weir_standard *s, const weir_array *a, uint64_t first,
                             uint64_t every)
{
    uint64_t n = a->type == WEIR_ARRAY_U8 ? first + 1 : a->dim[0] * a->width;

    for (uint64_t i = first; i < n; i += every)
        if (!(distance(s, a, i) <= 1e30))
            return weir_fail(WEIR_INVALID,
                             "%s: value %llu of sample %llu (both from 0) is %g, too far from the "
                             "mean %g and deviation %g",
                             a->name, (unsigned long long)(i % a->width),
                             (unsigned long long)(i / a->width), weir_array_number(a, i),
                             s->scale.mean, s->scale.deviation);
    return WEIR_OK;
}

void weir_standard_sample(const weir_standard *s, const weir_array *a, uint64_t sample, float *x)
{
    for (uint64_t i = 0; i < a->width; i++)
        x[i] = weir_standard_value(s, a, sample * a->width + i);
}
