/* optim.h - one bucket's update. One instance per bucket, wherever that bucket is stepped. One pass
 * over memory. Called only in the commit of a step, so nothing here needs undoing. Same bits on
 * every instruction set. */
#ifndef WEIR_OPTIM_OPTIM_H
#define WEIR_OPTIM_OPTIM_H
#include "core/bucket.h"
#include "core/plug.h"

typedef struct weir_momentum {
    float factor;
    bool nesterov;
} weir_momentum;
/* What a step is besides the gradient, where that is all there is. */
typedef struct weir_pull {
    weir_momentum momentum;
    float decay;
} weir_pull;

typedef struct weir_optim {
    weir_plug plug;
    /* steps each element by what its own gradients were, which a codec brings late or in bursts */
    bool adaptive;
    bool whole; /* needs whole tensors in a bucket (norms per layer) */
    weir_err (*init)(void *self, const weir_bucket *, weir_arena *);
    /* b->param moves by b->grad * scale at the given rate. Views whose tensor does not decay are
     * not decayed. */
    void (*step)(void *self, const weir_bucket *, uint64_t step, double rate, float scale);
    /* What continues a run: fields TENSOR.what (weir_io_in with the tensor's name), each view a
     * range of the whole tensor's field (weir_io_range), so that other buckets can take it up.
     * NULL: none. */
    weir_err (*state)(void *self, const weir_bucket *, weir_io *);
    /* Before init: somebody else (a lane, before its codec) gives gradients their momentum from now
     * on; what is decayed keeps its own here. False, or NULL: there is none. */
    bool (*momentum)(void *self, weir_momentum *);
    /* After init, before the first step: whoever makes the gradient gives it momentum and decay
     * from now on, and a step is no more than param -= rate * scale * grad, so that it does not
     * matter how gradients are put together, nor when. NULL: a step cannot be that. */
    void (*bare)(void *self, weir_pull *);
} weir_optim;

/* x^n by squaring: pow() may differ in its last bit between machines. */
double weir_power(double x, uint64_t n);

#define X(name) extern const weir_optim weir_optim_##name;
#include "optim/list.h"
#undef X
extern weir_plugs weir_optims;
#endif
