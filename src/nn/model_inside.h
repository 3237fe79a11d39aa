/* model_inside.h - what model.c and model_state.c share; nobody else includes it. */
#ifndef WEIR_NN_MODEL_INSIDE_H
#define WEIR_NN_MODEL_INSIDE_H
#include "nn/model.h"
#include "nn/engine_plan.h"

struct weir_model {
    const char *name;
    weir_graph *graph;
    weir_engine engine;
    int room;
    float *param, *grad;
    double *exact; /* in place of grad; NULL: not exact mode */
    weir_engine_plan *plans;
    weir_engine_plan
        *last;        /* whose activations are in the pool, with what backward needs; NULL: none */
    bool empty;       /* the last forward had no samples */
    weir_arena *pool; /* one block for the activations of all plans */
    void *block;
    size_t block_bytes;
    float *spare; /* a layer's gradients, before they are added to those that are there */
    bool adds;    /* the gradient mems point to spare, not to grad */
    /* running statistics, as the last commit left them, and as this step will */
    float *still, *next;
    bool changed; /* next is worth a commit */
    weir_model_sum *sum;
    void *sum_arg;
};

/* The plan for batches of n; NULL: there is none yet. */
weir_engine_plan *weir_model_plan(const weir_model *, int n);
#endif
