/* dnn_inside.h - what the dnn files share; nobody else includes it. They include the library's
 * header first. */
#ifndef WEIR_NN_DNN_INSIDE_H
#define WEIR_NN_DNN_INSIDE_H
#include "nn/dnn.h"

struct weir_layout {
    const_dnnl_memory_desc_t md;
    dnnl_memory_desc_t own; /* NULL: md belongs to an op */
    weir_layout *next;
};

/* An argument of an op that lies in a mem. */
typedef struct weir_dnn_tie {
    dnnl_memory_t memory;
    struct weir_dnn_tie *next;
} weir_dnn_tie;

struct weir_dnn_op {
    weir_dnn *dnn;
    const char *what;
    dnnl_primitive_desc_t pd;
    dnnl_primitive_t primitive;
    weir_layout layout[WEIR_DNN_ARGS]; /* md NULL: no such argument */
    unsigned writes;                   /* bit per weir_dnn_arg */
    int args;
    dnnl_exec_arg_t arg[WEIR_DNN_ARGS];
    weir_dnn_op *next;
};

struct weir_dnn {
    weir_arena *arena;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    weir_layout *layouts;
    weir_dnn_op *ops;
    weir_each *eaches;
    dnnl_stream_t *part_stream; /* one a part of a weir_each */
    int part_streams;
};

/* An argument of a weir_each. */
typedef struct weir_each_arg {
    weir_mem *mem;
    size_t by_piece, by_part;
} weir_each_arg;

struct weir_each {
    const weir_dnn_op *op;
    int64_t pieces;
    int parts, args;
    weir_each_arg at[WEIR_DNN_ARGS];
    dnnl_exec_arg_t *arg; /* WEIR_DNN_ARGS a part */
    dnnl_status_t *status;
    void (*then)(void *arg, int part, bool first);
    void *then_arg;
    weir_each *next;
};
void weir_each_drop(weir_each *);
/* The library's number of an argument. */
int weir_dnn_arg_number(weir_dnn_arg);

/* WEIR_FAILED with what was tried and the library's word for what happened. */
weir_err weir_dnn_fail(const char *what, dnnl_status_t);
/* Makes an op of a primitive description, which it owns from here on, in failure too. */
weir_err weir_dnn_compile(weir_dnn *, const char *what, dnnl_primitive_desc_t, unsigned writes,
                          weir_dnn_op **);

/* The description of a primitive that is being made: tensors, attributes. All NULL at first, so
 * that weir_dnn_draft_finish fits any moment. */
typedef struct weir_dnn_draft {
    dnnl_memory_desc_t x, w, b, y;
    dnnl_primitive_attr_t attr;
    dnnl_primitive_desc_t pd;
} weir_dnn_draft;
/* The scratch memory is always ours to place. relu: on the output. */
dnnl_status_t weir_dnn_draft_attr(weir_dnn_draft *, bool relu);
dnnl_status_t weir_dnn_draft_tensor(dnnl_memory_desc_t *, int dims, const int64_t *dim,
                                    dnnl_format_tag_t);
void weir_dnn_draft_drop(weir_dnn_draft *); /* all but the pd */
/* The end of every constructor: the description is complete, or `status` says why it is not.
 * writes: a bit per weir_dnn_arg. */
weir_err weir_dnn_draft_finish(weir_dnn *, const char *what, weir_dnn_draft *, dnnl_status_t status,
                               unsigned writes, weir_dnn_op **);

enum {
    WEIR_DNN_BIT_DST = 1 << WEIR_DNN_ARG_DST,
    WEIR_DNN_BIT_WORK = 1 << WEIR_DNN_ARG_WORKSPACE,
    WEIR_DNN_BIT_STATS = 1 << WEIR_DNN_ARG_MEAN | 1 << WEIR_DNN_ARG_VARIANCE,
    WEIR_DNN_BIT_DIFF_SRC = 1 << WEIR_DNN_ARG_DIFF_SRC,
    WEIR_DNN_BIT_DIFF_W = 1 << WEIR_DNN_ARG_DIFF_WEIGHTS,
    WEIR_DNN_BIT_DIFF_B = 1 << WEIR_DNN_ARG_DIFF_BIAS,
    WEIR_DNN_BIT_DIFF_NORM = 1 << WEIR_DNN_ARG_DIFF_SCALE | 1 << WEIR_DNN_ARG_DIFF_SHIFT
};
#endif
