/* standard.h - how values become floats of mean 0 and deviation 1: (x - mean) / deviation, bytes
 * being x / 255 first. Mean and deviation are those of the training part, and serve the test part
 * too: two numbers for all its values, or for each channel of a picture, or each feature. */
#ifndef WEIR_DATA_STANDARD_H
#define WEIR_DATA_STANDARD_H
#include "data/idx_file.h"

typedef struct weir_scale {
    double mean, deviation;
} weir_scale;
/* Of the array's values first, first + every, first + 2 every...: (0, 1) are all. Exact for bytes.
 * Where all are equal the deviation is taken as 1. */
weir_scale weir_scale_fit(const weir_array *, uint64_t first, uint64_t every);
/* The same for bytes that lie elsewhere, of which there are count[x] of each value x; at least
 * one. */
weir_scale weir_scale_fit_counts(const uint64_t count[256]);

typedef struct weir_standard {
    weir_scale scale;
    float byte[256]; /* what each byte becomes */
} weir_standard;
void weir_standard_set(weir_standard *, weir_scale);
/* Whether such values, standardised, are floats at all: those of another array than the scale was
 * fitted to may be too large. */
weir_err weir_standard_check(const weir_standard *, const weir_array *, uint64_t first,
                             uint64_t every);
/* All values of one sample; one value. */
void weir_standard_sample(const weir_standard *, const weir_array *, uint64_t sample, float *x);
static inline float weir_standard_value(const weir_standard *s, const weir_array *a, uint64_t i)
{
    return a->type == WEIR_ARRAY_U8
               ? s->byte[a->value[i]]
               : (float)((weir_array_number(a, i) - s->scale.mean) / s->scale.deviation);
}
#endif
