/* layer.h - one kind of layer: a file, a descriptor, a line in list.h. A layer knows its
 * activations and its slice of the parameters; no peer, no file. Its options are the words of its
 * line in a model file; one without a default must be given.
 *
 * A layer computes nothing when it is called: `bind` puts steps (ops of dnn.h, or loops of its own)
 * into the plan for one batch size, and the plan runs them. Whoever puts a step there says in which
 * phase, and so the plan knows when each piece of memory is used, shares memory by lifetime, and
 * calls a layer's gradients ready as soon as they are. Layers always overwrite: adding to the
 * gradients of earlier micro-batches is the model's work. */
#ifndef WEIR_NN_LAYER_H
#define WEIR_NN_LAYER_H
#include "core/bucket.h"
#include "core/plug.h"
#include "core/state.h"
#include "nn/dnn.h"
#include "nn/model.h"

/* What a layer declares of one of its tensors, before anything is placed. */
typedef struct weir_weights {
    const char *name; /* "weight": the layer's name and a dot are put before it */
    weir_shape shape;
    bool decays;
    /* initial values: uniform in +-bound (0: all `fill`), unless there is a normal deviation */
    float bound, fill;
    /* Not a parameter but a running statistic: nobody steps it. Such ones come last. Its
     * weir_param's `data` is what the last commit left, `grad` what the next will leave there:
     * forward changes `grad` alone, once a micro-batch. */
    bool still;
    float deviation; /* normal, with mean 0 */
} weir_weights;
enum { WEIR_LAYER_WEIGHTS = 24 };

/* A tensor's place in the flat vectors, in plain order. */
typedef struct weir_param {
    weir_mem *data, *grad;
    const weir_layout *plain;
    /* In exact mode the gradient's sums, in double and in plain order: the layer adds to them, and
     * leaves `grad` alone. Else NULL. */
    weir_mem *exact;
} weir_param;

/* What passes from layer to layer, for one batch size. data and grad lie in `layout`, which may be
 * blocked. Where several layers read an output, each writes its gradient as if it were alone: the
 * plan gives it memory of its own and adds up. */
typedef struct weir_act {
    weir_shape shape; /* dim[0] is the batch */
    const weir_layout *layout;
    weir_mem *data, *grad; /* grad NULL: nobody wants it */
    bool yields;           /* the layer that reads it may write over data */
    /* Set by the layer whose output it is, when grad is also the gradient of its input, or when its
     * backward writes over grad. */
    bool shared;
} weir_act;

/* A pass, as loops of a layer's own see it while they run. */
typedef struct weir_layer_run {
    weir_model_batch batch;
    weir_pass pass;
    weir_score score; /* of this pass: a loss adds to it */
    float scale;      /* of the loss, in backward */
    weir_model_sum *sum;
    void *sum_arg;
} weir_layer_run;
/* Sums over all workers, which all must come here; alone, it does nothing. Only in passes that
 * train. */
weir_err weir_layer_run_sum(const weir_layer_run *, double *x, size_t n);

/* Phases of a layer's steps. All of a layer's weight gradients are final after BACK_WEIGHTS, which
 * runs before BACK_DATA, so that the exchange can begin early. What both need comes first in
 * BACK_WEIGHTS. */
typedef enum {
    WEIR_LAYER_FORWARD,
    WEIR_LAYER_BACK_WEIGHTS,
    WEIR_LAYER_BACK_DATA,
    WEIR_LAYER_PHASES
} weir_layer_phase;

/* Passes that a step belongs to. */
typedef enum { WEIR_PASS_ALWAYS, WEIR_PASS_TRAINING, WEIR_PASS_EVALUATING } weir_pass_only;

/* What a layer is bound to, for one batch size. */
typedef struct weir_bind {
    struct weir_engine_plan *plan;
    struct weir_layer_steps *stage; /* the plan's, for the functions below */
    weir_dnn *dnn;
    weir_arena *arena;
    weir_layer_run *run;
    const char *name; /* of the layer */
    weir_act *in;     /* whole */
    /* the second input of a layer that joins two, in the layout of the first; else NULL */
    weir_act *with;
    /* its shape is set: the layer chooses layout and memory, mostly by weir_bind_out */
    weir_act *out;
    bool wants;              /* out->grad is wanted */
    const weir_param *param; /* of this layer, as declared by `shape` */
    /* the only reader is a relu: apply it in the forward pass, on the way out */
    bool relu;
    bool fused;      /* the layer before has done this one's forward */
    bool fused_back; /* and does its backward */
    /* see weir_model_exact: what becomes of a sample may not depend on how many there are, nor on
     * threads */
    bool exact;
    /* of the steps that are put into the plan with it: a layer that needs others makes a copy */
    weir_pass_only only;
} weir_bind;

/* One argument of an op. */
typedef struct weir_bind_use {
    weir_dnn_arg arg;
    weir_mem *mem;
    const weir_layout *layout;
} weir_bind_use;

/* The functions that bind uses. Each is called in the order in which the steps are to run. */
/* Memory of the plan, shared with what lives at other times. */
weir_err weir_bind_mem(const weir_bind *, size_t bytes, weir_mem **);
/* Gives `out` its layout and memory of its own, with a gradient if one is wanted. */
weir_err weir_bind_out(const weir_bind *, const weir_layout *);
/* Puts an op into the plan with all its arguments but the scratch memory. Where an argument lies in
 * another layout than the op wants, a reorder is put before or behind it; of parameters a copy is
 * kept and remade only when they have changed. */
weir_err weir_bind_op(const weir_bind *, weir_layer_phase, weir_dnn_op *, const weir_bind_use *,
                      int uses);
/* The same for an op that was made for one of `pieces`, and for one thread (dnn.h); all of them
 * run. Layouts are of all pieces; NULL: as the op wants it. Where it writes a gradient of weights,
 * `mem` is a parameter's `exact`: the pieces' gradients are added to it. */
weir_err weir_bind_each(const weir_bind *, weir_layer_phase, weir_dnn_op *, int64_t pieces,
                        const weir_bind_use *, int uses);
/* Sets aside more room than the mem has bytes; what lies behind them is anything. false: it is not
 * the plan's to place. */
bool weir_bind_room(weir_mem *, size_t bytes);
/* From here on the two are one piece of memory. false: they cannot be, as one is not the plan's to
 * place. */
bool weir_bind_same(const weir_bind *, weir_mem *, weir_mem *);
weir_err weir_bind_copy(const weir_bind *, weir_layer_phase, weir_mem *to, weir_mem *from);
weir_err weir_bind_add(const weir_bind *, weir_layer_phase, weir_mem *to,
                       weir_mem *from); /* to += from */
/* Puts a loop of the layer's own into the plan, and says which memory it uses (NULL-ended). */
weir_err weir_bind_loop(const weir_bind *, weir_layer_phase, weir_err (*run)(void *), void *arg,
                        weir_mem *const *used);

/* Two that many layers are: the output has the shape of the input, and there are no tensors; a
 * function of single elements. */
weir_err weir_shape_kept(void *self, const weir_model_input *, const weir_shape *in,
                         weir_shape *out, weir_weights *, int *weights);
weir_err weir_bind_elementwise(const weir_bind *, weir_elementwise);

typedef struct weir_layer {
    weir_plug plug;
    bool loss;      /* ends the network: scores, and its backward begins it */
    bool tokens;    /* reads int32 tokens: only the first layer can */
    bool plain;     /* reads its input in plain order: the plan sees to it */
    bool keeps;     /* its backward reads its output: the next layer must not write over it */
    bool relu;      /* is a relu, for who can do it on the way */
    bool does_relu; /* can apply a following relu in its forward pass */
    bool does_back; /* and undo it in its backward */
    bool exact;     /* has exact mode: it adds to a parameter's `exact` where there is one */
    /* reads the line before and, with the same shape, the layer that its `from` names */
    bool joins;
    /* The shape of the output from that of the input (dim[0] is 1, for the batch), and the tensors,
     * `weights` many. Shapes that do not fit are WEIR_INVALID, data that does not is WEIR_MISFIT.
     * Dims are 1 to 2^31 - 1 and products bounded: the caller has checked `in` and will check what
     * it gets. Called once. */
    weir_err (*shape)(void *self, const weir_model_input *, const weir_shape *in, weir_shape *out,
                      weir_weights *, int *weights);
    /* Once, behind `shape`: memory that lives as long as the model. NULL: none is needed. */
    weir_err (*open)(void *self, weir_arena *);
    /* Puts the steps for one batch size into the plan. Called once per batch size. */
    weir_err (*bind)(void *self, const weir_bind *);
    /* In place of the steps of a phase when there are no samples, for layers that sum over workers.
     * NULL: nothing to do. */
    weir_err (*idle)(void *self, const weir_layer_run *, weir_layer_phase, const weir_param *);
    /* Whether a sample's output depends on the others that this worker has, and not on those that
     * others have. NULL: it does
     * not. */
    bool (*mixes)(const void *self);
    void (*commit)(void *self);               /* NULL: no state */
    weir_err (*state)(void *self, weir_io *); /* NULL: no state */
    /* As weir_model_streams, for layers that carry state from batch to batch; NULL: none. Not
     * called: the samples of a batch are streams 0, 1, 2 ... */
    weir_err (*streams)(void *self, weir_arena *, uint64_t first, uint64_t count, uint64_t total);
} weir_layer;

#define X(name) extern const weir_layer weir_layer_##name;
#include "nn/list.h"
#undef X
extern const weir_plugs weir_layers;
#endif
