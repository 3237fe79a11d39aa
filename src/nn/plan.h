/* plan.h - the steps and the memory of one batch size. All plans of a model share one block of memory, as only one runs at a
 * time. */
#ifndef WEIR_NN_PLAN_H
#define WEIR_NN_PLAN_H
#include "nn/graph.h"

/* What all plans of a model share. */
typedef struct weir_engine {
    const weir_graph *graph;
    weir_arena *arena;
    weir_dnn *dnn;
    weir_param *param; /* one a tensor of the graph */
    weir_run run;
} weir_engine;

/* Something that runs; arg is the op or the layer's own. */
typedef struct weir_step {
    weir_err (*run)(void *arg);
    void *arg;
    struct weir_step *next;
} weir_step;

/* One layer's part of a plan. */
typedef struct weir_stage {
    int index;
    const weir_node *node;
    weir_act out;
    weir_act plain; /* the input in plain order, where the layer wants that and it is not */
    weir_step *first[WEIR_WHENS], **end[WEIR_WHENS];
} weir_stage;

typedef struct weir_plan {
    weir_engine *engine;
    int n;
    weir_act input;
    weir_stage *stage; /* one a node */
    weir_mem *mems;    /* those it places */
    size_t bytes;
    struct weir_plan *next;
} weir_plan;

weir_err weir_engine_open(const weir_graph *, weir_arena *, weir_engine *);
void weir_engine_close(weir_engine *);
/* The parameters have changed: copies in other layouts are stale. */
void weir_engine_refresh(weir_engine *);

/* input_grad: the gradient of the input is wanted too (tests; the first stage of a pipeline never does). */
weir_err weir_plan_make(weir_engine *, int n, bool input_grad, weir_plan **);
/* Where its `bytes` of memory are, 64-byte aligned. */
void weir_plan_settle(weir_plan *, void *base);
weir_err weir_stage_run(const weir_stage *, weir_when);

/* place.c: offsets such that mems whose lifetimes meet do not overlap; returns the bytes needed. */
weir_err weir_mems_place(weir_mem *list, size_t *bytes);
#endif
