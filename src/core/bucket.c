/* bucket.c - the two sums everybody needs. */
#include "core/bucket.h"
#include "core/vec.h"

static void add_f32(void *to, const void *from, size_t n) { weir_vec_best()->add(to, from, n); }
static void add_f64(void *to, const void *from, size_t n) { weir_vec_best()->add_f64(to, from, n); }
static void all_f32(void *const *x, int k, size_t n) { weir_vec_best()->add_all(x, k, n); }
static void all_f64(void *const *x, int k, size_t n) { weir_vec_best()->add_all_f64(x, k, n); }

const weir_sum weir_sum_f32 = {sizeof(float), add_f32, all_f32};
const weir_sum weir_sum_f64 = {sizeof(double), add_f64, all_f64};
