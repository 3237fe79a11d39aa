/* engine_plan.h - the steps and the memory of one batch size. All plans of a model share one block
 * of memory, as only one runs at a time. */
#ifndef WEIR_NN_ENGINE_PLAN_H
#define WEIR_NN_ENGINE_PLAN_H
#include "nn/graph.h"

/* What all plans of a model share. */
typedef struct weir_engine {
    const weir_graph *graph;
    weir_arena *arena;
    weir_dnn *dnn;
    weir_param *param; /* one a tensor of the graph */
    weir_param *still; /* one a still */
    /* one a node: its first tensor where that is another's too, with a gradient of its own */
    weir_param *tied;
    bool exact;
    weir_layer_run run;
} weir_engine;

/* A parameter in another layout, remade when it is stale. */
typedef struct weir_mem_copy {
    weir_mem *mem;
    const weir_layout *layout;
    weir_dnn_op *reorder;
    bool stale;
    struct weir_mem_copy *next;
} weir_mem_copy;

/* Something that runs; arg is the op or the layer's own. */
typedef struct weir_engine_step {
    weir_err (*run)(void *arg);
    void *arg;
    weir_pass_only only;
    struct weir_engine_step *next;
} weir_engine_step;

/* One layer's part of a plan. */
typedef struct weir_layer_steps {
    int index;
    const weir_node *node;
    const weir_layer_run *run;
    weir_act out;
    weir_act view[2]; /* the inputs as the layer sees them */
    weir_engine_step *first[WEIR_LAYER_PHASES], **end[WEIR_LAYER_PHASES];
} weir_layer_steps;

typedef struct weir_engine_plan {
    weir_engine *engine;
    int n;
    weir_act input;
    weir_layer_steps *stage; /* one a node */
    weir_mem *mems;          /* those it places */
    size_t bytes;
    struct weir_engine_plan *next;
} weir_engine_plan;

weir_err weir_engine_open(const weir_graph *, weir_arena *, weir_engine *);
void weir_engine_close(weir_engine *);
/* Before the first plan: gradients are summed in double, see weir_model_exact. Their mems are made,
 * and pointed by the caller. */
weir_err weir_engine_exact(weir_engine *);
/* The parameters have changed: copies in other layouts are stale. */
void weir_engine_refresh(weir_engine *);
/* Those of a node, in the order in which its layer declared them. */
const weir_param *weir_engine_param(const weir_engine *, const weir_node *, int k);
void weir_engine_params(const weir_engine *, const weir_node *,
                        weir_param param[WEIR_LAYER_WEIGHTS]);

/* input_grad: the gradient of the input is wanted too (tests; the first stage of a pipeline never
 * does). */
weir_err weir_engine_plan_make(weir_engine *, int n, bool input_grad, weir_engine_plan **);
/* Where its `bytes` of memory are, 64-byte aligned. */
void weir_engine_plan_attach(weir_engine_plan *, void *base);
weir_err weir_layer_steps_run(const weir_layer_steps *, weir_layer_phase);

/* bind.c: a reorder as a step; the args of the two are not looked at. */
weir_err weir_bind_reorder(const weir_bind *, weir_layer_phase, const weir_bind_use *from,
                           const weir_bind_use *to);

/* Where an op finds or leaves what lies in another layout than the one `wanted`: before the op, a
 * reorder where it reads. */
weir_err weir_bind_stand_in(const weir_bind *, weir_layer_phase, const weir_dnn_op *,
                            const weir_layout *wanted, const weir_bind_use *, weir_bind_use *other);

/* mem_place.c: offsets such that mems whose lifetimes meet do not overlap; returns the bytes
 * needed. */
weir_err weir_mem_place_all(weir_mem *list, size_t *bytes);
#endif
