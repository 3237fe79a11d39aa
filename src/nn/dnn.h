/* dnn.h - the door to oneDNN. Only the dnn files behind it know the library.
 *
 * Three words. A layout says how a tensor lies in memory: plain (row-major) or blocked as a kernel
 * likes it. A mem is memory whose address is settled later, and may change: activations are placed
 * when the whole plan is known, the input is wherever the batch is. An op is a compiled primitive
 * with its mems tied to it once, so that running it is one call that allocates nothing. Layouts,
 * mems and ops belong to the weir_dnn and live until it is closed. Not for two threads at a
 * time. */
#ifndef WEIR_NN_DNN_H
#define WEIR_NN_DNN_H
#include "core/arena.h"
#include "core/bucket.h"
#include "core/err.h"

typedef struct weir_dnn weir_dnn;
typedef struct weir_layout weir_layout;
typedef struct weir_dnn_op weir_dnn_op;

/* A shape; of an activation dim[0] is the batch. */
typedef struct weir_shape {
    int dims;
    int64_t dim[WEIR_DIMS];
} weir_shape;
/* How many elements; -1 when they are more than `limit`. */
int64_t weir_shape_count(const weir_shape *, int64_t limit);

weir_err weir_dnn_open(weir_arena *, weir_dnn **);
void weir_dnn_close(weir_dnn *); /* NULL is allowed */

/* ---- layouts ---- */
weir_err weir_layout_plain(weir_dnn *, const weir_shape *, const weir_layout **);
size_t weir_layout_bytes(const weir_layout *);
bool weir_layout_same(const weir_layout *, const weir_layout *);

/* Pictures n x c x h x w, for loops of our own: `units` of `lanes` channels, lane l of unit u at
 * place p of sample i being float i * sample + u * unit + p * step + l. The last unit's lanes
 * beyond c are not there, or padding, which must stay zero. */
typedef struct weir_layout_blocks {
    int64_t lanes, units, sample, unit, step;
    bool padded; /* lanes beyond c exist */
} weir_layout_blocks;
weir_err weir_layout_channels(const weir_layout *, weir_layout_blocks *);
/* The same for n samples, which lie behind each other. */
weir_err weir_layout_batch(weir_dnn *, const weir_layout *, int64_t n, const weir_layout **);
/* For every element, counted in plain order, the place among the layout's floats where it lies. */
weir_err weir_layout_offsets(const weir_layout *, uint32_t *place);

/* ---- memory ---- */
typedef struct weir_mem {
    void *at;           /* NULL until it is pointed somewhere */
    size_t bytes, room; /* room: what is set aside for it, where that is more */
    /* For who places it: the times of its first and last use, and where it was put. */
    int first, last;
    size_t offset;
    bool placed;           /* by the plan: others are pointed somewhere by who made them */
    struct weir_mem *same; /* lies where that one does */
    /* Changes only when weir_model_refresh says so (parameters): copies in other layouts are kept
     * and remade when stale. */
    bool slow;
    unsigned version; /* of a parameter: a copy made at another one is stale */
    struct weir_mem_copy *copies;
    struct weir_dnn_tie *ties; /* the arguments of ops that read or write it */
    struct weir_mem *next;
} weir_mem;
weir_err weir_mem_new(weir_dnn *, size_t bytes, weir_mem **);
/* The one whose place it has: itself, mostly. */
weir_mem *weir_mem_root(weir_mem *);
/* Moves it, and every op tied to it. Allocates nothing. */
void weir_mem_point(weir_mem *, void *at);

/* ---- ops ---- */
typedef enum {
    WEIR_DNN_ARG_SRC,
    WEIR_DNN_ARG_OTHER, /* the second input */
    WEIR_DNN_ARG_WEIGHTS,
    WEIR_DNN_ARG_BIAS,
    WEIR_DNN_ARG_DST,
    WEIR_DNN_ARG_DIFF_SRC,
    WEIR_DNN_ARG_DIFF_WEIGHTS,
    WEIR_DNN_ARG_DIFF_BIAS,
    WEIR_DNN_ARG_DIFF_DST,
    WEIR_DNN_ARG_MEAN,
    WEIR_DNN_ARG_VARIANCE,
    WEIR_DNN_ARG_SCALE,
    WEIR_DNN_ARG_SHIFT,
    WEIR_DNN_ARG_DIFF_SCALE,
    WEIR_DNN_ARG_DIFF_SHIFT,
    WEIR_DNN_ARG_WORKSPACE,
    WEIR_DNN_ARG_SCRATCH,
    WEIR_DNN_ARGS
} weir_dnn_arg;

/* The layout the op wants for an argument; NULL: it has no such argument. */
const weir_layout *weir_dnn_op_layout(const weir_dnn_op *, weir_dnn_arg);
bool weir_dnn_op_writes(const weir_dnn_op *, weir_dnn_arg);
/* Ties memory of the wanted layout to an argument. */
weir_err weir_dnn_op_tie(weir_dnn_op *, weir_dnn_arg, weir_mem *);
/* WEIR_FAILED, naming it, unless every argument is tied. */
weir_err weir_dnn_op_whole(const weir_dnn_op *);
weir_err weir_dnn_op_run(void *op); /* void *, so that it is a step of a plan */

/* ---- one op, many pieces ---- */
/* An op that was made for one piece (a sample, some rows) and for one thread (weir_parallel_alone),
 * run on piece after piece: what it makes of a piece depends on nothing but the piece. The pieces
 * are cut into parts, which threads share. Not an op's own ties but these say where its arguments
 * are. */
typedef struct weir_each weir_each;
weir_err weir_each_new(weir_dnn *, const weir_dnn_op *, int64_t pieces, weir_each **);
int weir_each_parts(const weir_each *);
/* Where an argument is: one for all; behind each other, one a piece; or memory of its own for each
 * part, `weir_each_step`
 * apart. */
typedef enum { WEIR_EACH_BY_ALL, WEIR_EACH_BY_PIECE, WEIR_EACH_BY_PART } weir_each_by;
weir_err weir_each_tie(weir_each *, weir_dnn_arg, weir_mem *, weir_each_by);
size_t weir_each_step(const weir_each *, weir_dnn_arg);
/* Calls then(arg, part, first) behind every piece; first: of its part. */
void weir_each_then(weir_each *, void (*then)(void *arg, int part, bool first), void *arg);
weir_err weir_each_whole(const weir_each *); /* WEIR_FAILED unless every argument is tied */
weir_err weir_each_run(void *each);

/* Which of a layer's three computations. */
typedef enum { WEIR_DNN_DO_FORWARD, WEIR_DNN_DO_BACK_DATA, WEIR_DNN_DO_BACK_WEIGHTS } weir_dnn_do;

/* y[rows, out] = x[rows, in] w[out, in]' + b; all plain. relu: on y, in the same pass. */
typedef struct weir_dense_desc {
    int64_t rows, in, out;
    bool bias, relu;
    /* a row comes out the same to the bit among however many rows: forward, and backward by data */
    bool steady;
} weir_dense_desc;
/* The backward ones are given the forward one, unless it is steady. A steady backward by data may
 * have SRC and DST in place of DIFF_DST and DIFF_SRC, and any steady op other names for plain
 * layouts: take the op's. */
weir_err weir_dnn_dense(weir_dnn *, weir_dnn_do, const weir_dense_desc *,
                        const weir_dnn_op *forward, weir_dnn_op **);
/* How many rows a steady op must be given, `rows` or a few more: the library's kernels for few
 * rows, and for what is left over at the end, add up in other orders. With several threads and
 * without AVX-512, a dense layer of few outputs is not steady. */
weir_err weir_dnn_steady(weir_dnn *, const weir_dense_desc *, int64_t *rows);
/* How many rows at a time a steady op for one thread may be given such that a row's place among
 * them, too, is not seen in its bits: `rows`, or the one number of rows that is always to be
 * taken. */
weir_err weir_dnn_block(weir_dnn *, const weir_dense_desc *, int64_t *rows);
/* The gradient of w alone, DST = SRC' WEIGHTS, of y's gradient (SRC) and x (WEIGHTS): faster where
 * rows are many. All plain, but their layouts have other names: take the op's. */
weir_err weir_dnn_outer(weir_dnn *, const weir_dense_desc *, weir_dnn_op **);

/* Pictures n x c x h x w; weights out x in x kernel x kernel, with groups
 * groups x out/groups x in/groups x kernel x kernel. Every layout but the bias is the library's
 * choice. */
typedef struct weir_conv_desc {
    weir_shape in, out, weights;
    int64_t kernel, stride, pad;
    bool bias, relu;
    /* as they lie, and shall if a kernel takes that; NULL: no matter */
    const weir_layout *in_layout, *out_layout;
} weir_conv_desc;
weir_err weir_dnn_conv(weir_dnn *, weir_dnn_do, const weir_conv_desc *, const weir_dnn_op *forward,
                       weir_dnn_op **);

/* Pooling by the largest of a window, or by their mean, where zeros of the padding count too.
 * WORKSPACE carries from forward to backward which input won. `layout` is the input's; backward
 * takes the output's from its forward. */
typedef struct weir_pool_desc {
    weir_shape out;
    const weir_layout *layout;
    int64_t height, width, stride, pad;
    bool average;
} weir_pool_desc;
weir_err weir_dnn_pool(weir_dnn *, weir_dnn_do, const weir_pool_desc *, const weir_dnn_op *forward,
                       weir_dnn_op **);

/* Functions of single elements: forward SRC to DST, which may be one mem; backward reads DST (gelu:
 * SRC) and turns DIFF_DST into DIFF_SRC, which may be one too. */
typedef enum {
    WEIR_ELEMENTWISE_RELU,
    WEIR_ELEMENTWISE_TANH,
    WEIR_ELEMENTWISE_SIGMOID,
    WEIR_ELEMENTWISE_GELU
} weir_elementwise;
weir_err weir_dnn_elementwise(weir_dnn *, weir_dnn_do, weir_elementwise, const weir_layout *,
                              const weir_dnn_op *forward, weir_dnn_op **);

/* SRC + OTHER to DST, all in one layout; SRC and DST may be one mem. relu: on the sum. */
weir_err weir_dnn_add(weir_dnn *, const weir_layout *, bool relu, weir_dnn_op **);

/* Rows of the last dimension to mean 0 and variance 1; MEAN and VARIANCE are written by forward and
 * read by backward. */
typedef struct weir_norm_desc {
    const weir_layout *layout; /* of input, output and gradients */
    double eps;
} weir_norm_desc;
weir_err weir_dnn_layernorm(weir_dnn *, weir_dnn_do, const weir_norm_desc *,
                            const weir_dnn_op *forward, weir_dnn_op **);

/* SRC to DST in another layout. */
weir_err weir_dnn_reorder(weir_dnn *, const weir_layout *from, const weir_layout *to,
                          weir_dnn_op **);
#endif
