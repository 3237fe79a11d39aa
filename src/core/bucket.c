/* bucket.c - the two sums everybody needs, and saving a vector of a bucket's. */
#include "core/bucket.h"
#include "core/vec.h"
#include <stdio.h>

static void add_f32(void *to, const void *from, size_t n) { weir_vec_best()->add(to, from, n); }
static void add_f64(void *to, const void *from, size_t n) { weir_vec_best()->add_f64(to, from, n); }
static void all_f32(void *const *x, int k, size_t n) { weir_vec_best()->add_all(x, k, n); }
static void all_f64(void *const *x, int k, size_t n) { weir_vec_best()->add_all_f64(x, k, n); }

const weir_sum weir_sum_f32 = {sizeof(float), add_f32, all_f32};
const weir_sum weir_sum_f64 = {sizeof(double), add_f64, all_f64};

weir_err weir_bucket_keep(const weir_bucket *b, const char *what, float *x, weir_keep keep,
                          weir_io *io)
{
    for (const weir_view *v = b->view; v < b->view + b->views; v++) {
        const weir_tensor *t = v->tensor;
        size_t mark = weir_io_in(io, t->name);
        weir_io_piece piece = {x + v->at, b->at + v->at - t->at, v->rows * v->cols, t->n, keep};
        weir_err err = weir_io_range(io, what, &piece);
        weir_io_out(io, mark);
        WEIR_TRY(err);
    }
    return WEIR_OK;
}

weir_err weir_bucket_keep_each(const weir_bucket *b, const char *what, float *x, weir_keep keep,
                               weir_io *io)
{
    for (int v = 0; v < b->views; v++) {
        size_t mark = weir_io_in(io, b->view[v].tensor->name);
        char name[64];
        snprintf(name, sizeof name, "%s.%zu", what, b->view[v].first);
        weir_err err = weir_io_floats(io, name, &x[v], 1, keep);
        weir_io_out(io, mark);
        WEIR_TRY(err);
    }
    return WEIR_OK;
}
