/* help_nn.h - what the tests of nn share: the hash that PyTorch's side uses too, its saved numbers,
 * and a rig that runs layers alone. */
#ifndef WEIR_TESTS_HELP_NN_H
#define WEIR_TESTS_HELP_NN_H
#include "nn/engine_plan.h"

/* Streams of the hash, as in tests/torch/common.py. */
enum {
    HASH_X = 1,
    HASH_OUT_GRAD = 2,
    HASH_LABEL = 3,
    HASH_WEIGHT = 16,
    HASH_STEP = 1024,
    HASH_SIGN = 4096
};
uint32_t hash_bits(uint32_t stream, uint32_t i);
float hash_value(uint32_t stream, uint32_t i); /* in [-1, 1) */
void hash_fill(float *x, size_t n, uint32_t stream, float divisor);
void hash_labels(int32_t *label, int n, uint32_t stream, int classes);
/* Every tensor of a graph, in the order of its layers, divided by the root of the fan-in. */
void hash_weights(const weir_graph *, float *param);
/* |a - b| / |b| */
double relative(const float *a, const float *b, size_t n);

/* A file of the source tree, whole; the caller frees it. */
char *read_source(const char *name, size_t *n);
/* The floats saved under a name; NULL: there are none. `from` is the whole file. */
float *find_numbers(const char *from, size_t bytes, const char *name, size_t *n);
/* The same from tests/torch/numbers or sequence_numbers. */
float *saved_numbers(const char *name, size_t *n);
/* How far x is from the tensor that was saved under `name` ("lenet/dw0"), or as a sketch under
 * `name`~: |x - it| / |it|, of a sketch as well as that can be told. Fails the test when there is
 * no such one. */
double apart_from(const char *name, const float *x, size_t n);

/* Layers alone, for one batch: memory is plain, whatever the layers like inside. */
typedef struct rig {
    weir_arena *arena;
    weir_graph *graph;
    weir_engine engine;
    weir_engine_plan *plan;
    /* floats of input and output; outs is 1 for a loss */
    size_t ins, outs;
    /* still: running statistics; next: as a commit would leave them */
    float *x, *dx, *y, *dy, *param, *grad, *still, *next;
    int32_t *token, *label;   /* token: in place of x, where the data is tokens */
    float *value;             /* in place of labels, where the targets are values */
    weir_dnn_op *take, *give; /* output to y, dy to the output's gradient; NULL for a loss */
    uint64_t first;           /* number of the first sample */
    float scale;              /* of a loss: 1 / batch */
    double *exact;            /* in place of grad, for rig_open_exact; else NULL */
} rig;
/* `layers`: lines with ; between. Fails the test when it cannot. */
void rig_open(rig *, const char *layers, int batch, const weir_shape *sample);
/* The same for any data; tokens, labels and values come from the hash too. */
void rig_open_data(rig *, const char *layers, int batch, const weir_model_input *);
/* The same in exact mode: rig_backward adds to r->exact, which begins at zero. */
void rig_open_exact(rig *, const char *layers, int batch, const weir_model_input *);
void rig_close(rig *);
void rig_forward(rig *);
/* The running statistics of the last forward are committed, and used: y is as in evaluation. */
void rig_evaluate(rig *);
void rig_backward(rig *); /* after a forward */

enum { ROOM = 16, CLASSES = 10 };
/* 28 x 28 in one channel, 32 x 32 in three; ten classes */
extern const weir_model_input pictures, colours;
/* A model with its vectors and a batch. */
typedef struct bench {
    weir_arena *arena;
    size_t pixels; /* of a sample, all channels */
    weir_model *model;
    const weir_tensor *tensor;
    int tensors;
    size_t params;
    float *param, *grad, *x;
    int32_t label[ROOM];
} bench;
/* With the hash's weights and batch HASH_STEP; mlp and lenet get `pictures`, all others
 * `colours`. */
void bench_open(bench *, const char *spec);
void bench_close(bench *);
void set_batch(bench *, uint32_t stream);
/* Forward and backward of samples from..from+n-1; returns the sum of losses. */
double pass(bench *, int from, int n, float scale, bool add);
void sgd_step(bench *, float rate);

/* Fails the test, with the sentence, unless it is WEIR_OK. */
void ok(weir_err);
#endif
