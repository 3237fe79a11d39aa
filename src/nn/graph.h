/* graph.h - the layers of a model file with shapes and tensors, before there is a batch size or
 * memory. */
#ifndef WEIR_NN_GRAPH_H
#define WEIR_NN_GRAPH_H
#include "nn/layer.h"
#include "nn/netfile.h"

enum { WEIR_GRAPH_INPUT = -1 };
typedef struct weir_node {
    const weir_layer *layer;
    void *self;
    const char *name;
    int line, col;      /* where the model file has it */
    int from[2], ins;   /* the nodes whose outputs it reads; WEIR_GRAPH_INPUT: the data */
    int readers, last;  /* how many nodes read its output, and the last of them */
    weir_shape in, out; /* dim[0] is 1 */
    int weights, stills;
    weir_weights weight[WEIR_LAYER_WEIGHTS]; /* the weights, then the stills */
    /* which of the graph's tensors each is; for a still which of those */
    int tensor[WEIR_LAYER_WEIGHTS];
    /* weight=NAME: the node whose first tensor its own is too; -1: none */
    int owner;
    /* a node behind it has the same first tensor, and is before it in backward: this one's gradient
     * is added */
    bool later;
    int ready; /* its number in the order of backward; -1: no weights */
} weir_node;

typedef struct weir_graph {
    const char *path;
    weir_model_input input;
    weir_node *node;
    int nodes;
    weir_tensor *tensor; /* in the order of the flat vector */
    int tensors;
    size_t params;
    weir_tensor *still; /* what layers keep and nobody steps, in a flat vector of its own */
    int stills;
    size_t still_floats;
    int readers, last; /* of the input */
} weir_graph;

/* Reads a model file. A whole model ends with a loss; tests ask for parts of one. A file that is
 * wrong is WEIR_INVALID; sizes that make a right one wrong are WEIR_USAGE. */
weir_err weir_graph_read(const weir_netfile_source *, const weir_model_input *, bool whole,
                         weir_arena *, weir_graph **);
#endif
