/* standard.h - how the values of an array become floats of mean 0 and deviation 1: (x - mean) / deviation, bytes being x / 255 first.
 * Mean and deviation are two numbers for the whole training part, and serve the test part too. */
#ifndef WEIR_DATA_STANDARD_H
#define WEIR_DATA_STANDARD_H
#include "data/array.h"

typedef struct weir_standard {
    double mean, deviation;
    float byte[256]; /* what each byte becomes */
} weir_standard;
/* Over all values of the array; exact for bytes. Where all are equal the deviation is taken as 1. */
void weir_standard_fit(weir_standard *, const weir_array *);
/* Whether the array's values, standardised, are floats at all: those of another array than the fitted one may be too large. */
weir_err weir_standard_check(const weir_standard *, const weir_array *);
/* All values of one sample. */
void weir_standard_sample(const weir_standard *, const weir_array *, uint64_t sample, float *x);
#endif
