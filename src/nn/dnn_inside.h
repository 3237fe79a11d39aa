/* dnn_inside.h - what dnn.c and dnn_ops.c share; nobody else includes it. They include the library's header first. */
#ifndef WEIR_NN_DNN_INSIDE_H
#define WEIR_NN_DNN_INSIDE_H
#include "nn/dnn.h"

struct weir_layout {
    const_dnnl_memory_desc_t md;
    dnnl_memory_desc_t own; /* NULL: md belongs to an op */
    weir_layout *next;
};

/* An argument of an op that lies in a mem. */
typedef struct weir_tie {
    dnnl_memory_t memory;
    struct weir_tie *next;
} weir_tie;

struct weir_op {
    weir_dnn *dnn;
    const char *what;
    dnnl_primitive_desc_t pd;
    dnnl_primitive_t primitive;
    weir_layout layout[WEIR_ARGS]; /* md NULL: no such argument */
    unsigned writes;               /* bit per weir_arg */
    int args;
    dnnl_exec_arg_t arg[WEIR_ARGS];
    weir_op *next;
};

struct weir_dnn {
    weir_arena *arena;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    weir_layout *layouts;
    weir_op *ops;
};

/* WEIR_FAILED with what was tried and the library's word for what happened. */
weir_err weir_dnn_fail(const char *what, dnnl_status_t);
/* Makes an op of a primitive description, which it owns from here on, in failure too. */
weir_err weir_dnn_compile(weir_dnn *, const char *what, dnnl_primitive_desc_t, unsigned writes, weir_op **);
#endif
