/* optim.c - the optimisers there are, and what several of them need. */
#include "optim/optim.h"

weir_plugs weir_optims = (const weir_plug *const[]){
#define X(name) &weir_optim_##name.plug,
#include "optim/list.h"
#undef X
    NULL,
};

/* Each view is saved as its place in the whole tensor, so that it does not matter how tensors are cut into buckets. */
weir_err weir_optim_keep(const weir_bucket *b, const char *what, float *x, weir_io *io)
{
    for (const weir_view *v = b->view; v < b->view + b->views; v++) {
        const weir_tensor *t = v->tensor;
        size_t mark = weir_io_in(io, t->name);
        weir_err err = weir_io_range(io, what, x + v->at, b->at + v->at - t->at, v->rows * v->cols, t->n, WEIR_KEEP_SAME);
        weir_io_out(io, mark);
        WEIR_TRY(err);
    }
    return WEIR_OK;
}

double weir_power(double x, uint64_t n)
{
    double y = 1;

    for (; n; n >>= 1, x *= x)
        if (n & 1)
            y *= x;
    return y;
}
