/* layer.h - one kind of layer: a file, a descriptor, a line in list.h. A layer knows its activations and its slice of the parameters;
 * no peer, no file. Its options are the words of its line in a model file. */
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
    int dims;
    int64_t dim[WEIR_DIMS];
    bool decays;
    /* initial values: uniform in +-bound (0: all `fill`) */
    float bound, fill;
} weir_weights;
enum { WEIR_LAYER_WEIGHTS = 4 };

/* What passes from layer to layer, for one batch size. data and grad lie in `layout`, which may be blocked. */
typedef struct weir_act {
    int dims;
    int64_t dim[WEIR_DIMS]; /* dim[0] is the batch */
    const weir_layout *layout;
    float *data, *grad; /* grad NULL: nobody wants it */
} weir_act;

/* What a layer is bound to, for one batch size. */
typedef struct weir_bind {
    weir_dnn *dnn;
    weir_arena *arena;        /* of this batch size's plan */
    const weir_act *in;       /* shape, layout and memory are known */
    weir_act *out;            /* dims are set; the layer chooses layout, asks for data and grad by weir_alloc from `arena` */
    float *param[WEIR_LAYER_WEIGHTS], *grad[WEIR_LAYER_WEIGHTS]; /* this layer's slices of the flat vectors, plain order */
    const weir_model_batch *const *batch; /* the batch of the running pass (labels, for losses) */
    const weir_pass *const *pass;
    bool training;
} weir_bind;

typedef struct weir_layer {
    weir_plug plug;
    bool loss; /* ends the network: scores, and its backward begins it */
    /* The shape of a sample's output from that of its input (dim[0] is a placeholder for the batch), and the tensors. Shapes that do
     * not fit are WEIR_INVALID. Called once. */
    weir_err (*shape)(void *self, const weir_model_input *, const weir_act *in, weir_act *out, weir_weights *, int *weights);
    /* Makes the primitives for one batch size; *bound is what forward and backward get. Called once per batch size. */
    weir_err (*bind)(void *self, const weir_bind *, void **bound);
    weir_err (*forward)(void *bound, weir_score *score);
    /* From out->grad to in->grad (if wanted) and this layer's gradients, times 1; adds to the gradients if `add`. A loss takes `scale`. */
    weir_err (*backward)(void *bound, float scale, bool add);
    void (*refresh)(void *bound);            /* NULL: reads the parameters where they are */
    void (*commit)(void *self);              /* NULL: no state */
    weir_err (*state)(void *self, weir_io *); /* NULL: no state */
    void (*unbind)(void *bound);             /* NULL: nothing to free */
} weir_layer;

#define X(name) extern const weir_layer weir_layer_##name;
#include "nn/list.h"
#undef X
extern weir_plugs weir_layers;
#endif
