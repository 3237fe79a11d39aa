/* model.h - a network read from a model file, trained batch by batch on the calling thread (oneDNN
 * has its own threads).
 *
 * Spec: NAME or FILE.net, with sizes: mlp:hidden=512. NAME is looked for as models/NAME.net beside
 * the program, where it was installed, and in the source tree. Parameters and gradients are the
 * caller's flat vectors (core/bucket.h), in plain order. */
#ifndef WEIR_NN_MODEL_H
#define WEIR_NN_MODEL_H
#include "core/bucket.h"
#include "core/plug.h"
#include "core/state.h"

typedef enum { WEIR_SCORE_CLASSES, WEIR_SCORE_TOKENS, WEIR_SCORE_VALUES } weir_score_kind;

/* A model's file that was read before: errors name its path. */
typedef struct weir_model_file {
    const char *path, *text;
    size_t n;
} weir_model_file;

/* What the data brings: shapes of one sample without the batch. */
typedef struct weir_model_input {
    int dims;
    int64_t dim[4];
    bool tokens; /* int32 tokens, not floats; dim[0] is the window */
    weir_score_kind kind;
    /* how many classes, the vocabulary, or targets a sample: the name `classes` in model files */
    int64_t classes;
    size_t small; /* tensors of fewer elements stand in the dense tail; 0: WEIR_SMALL */
    const weir_model_file *file; /* NULL: the one that the spec names is read */
} weir_model_input;

/* A batch: n samples, 0 allowed. */
typedef struct weir_model_batch {
    int n;
    const float *x;
    const int32_t *token;
    const int32_t *label;
    const float *value;
} weir_model_batch;

/* Sums over what was scored; add them up over workers. */
typedef struct weir_score {
    double loss;    /* sum over samples (tokens) */
    double count;   /* samples (tokens) */
    double right;   /* classes: how many were right */
    double squares; /* values: sum of squared errors */
} weir_score;

typedef struct weir_model weir_model;

/* Reads the file, works out shapes and tensors. Errors name file, line and column (WEIR_INVALID),
 * or sizes that do not exist (WEIR_USAGE). room: the largest batch that will come. */
weir_err weir_model_open(const char *spec, const weir_model_input *, int room, weir_arena *,
                         weir_model **);
void weir_model_close(weir_model *); /* NULL is allowed; its arena is freed later */
/* The models there are, with their sizes, for `weir list`; false: there are none. */
bool weir_model_list(FILE *);
/* The data that a model's file names for benchmarks. */
weir_err weir_model_bench_data(const char *spec, char *data, size_t room);
const char *weir_model_name(const weir_model *);
/* in the order of the flat vector */
const weir_tensor *weir_model_tensors(const weir_model *, int *count);
size_t weir_model_params(const weir_model *);

/* Where the flat vectors are: weir_model_params floats each, 64-byte aligned. */
void weir_model_attach(weir_model *, float *param, float *grad);
/* Exact mode, before the first batch: backward leaves gradients not in the float vector but in this
 * one, of doubles, 64-byte aligned. What becomes of a sample, gradients included, is worked out
 * without a look at the others and by one thread, and added up in double: sums over samples that
 * lie in another way on workers, threads and micro-batches round to the same float, but for one in
 * some hundred millions. Of a model all of whose layers can (weir_model_look). */
weir_err weir_model_exact(weir_model *, double *grad);
/* Facts that settings are judged by: the first layer of a kind, NULL: there is none. */
typedef struct weir_model_facts {
    const char *inexact, *inexact_kind; /* has weights, and no exact sums */
    const char *mixes;                  /* looks at the samples of one worker only */
} weir_model_facts;
weir_model_facts weir_model_look(const weir_model *);
/* Initial weights, a pure function of the seed and the tensors' names; PyTorch's defaults. */
void weir_model_init(weir_model *, uint64_t seed);
/* The parameters have changed: layers refresh their private copies. */
void weir_model_refresh(weir_model *);
/* The largest batch that will come is this one from now on, if it is larger than it was. */
void weir_model_room(weir_model *, int room);
/* Makes ready for batches of n samples: afterwards a step of that size allocates nothing. Done at
 * the first use if not before. */
weir_err weir_model_prepare(weir_model *, int n);

/* Forward and loss: adds to *score. The batch must stay where it is until backward has run
 * (training). training: keeps what backward needs, applies dropout keyed by (seed, step, first +
 * i). */
typedef struct weir_pass {
    bool training;
    uint64_t seed, step, first;
    /* Carried state starts from zero, not from where the last batch of these streams left it: an
     * epoch's first step, an evaluation's first window. Passes that do not train carry a state of
     * their own, by the sample's place in the batch. */
    bool fresh;
    /* which micro-batch of the step: with 0 a step begins, and what an abandoned one left is
     * forgotten */
    int micro;
    /* Asked between layers, also in backward: true ends the pass with WEIR_LOST. NULL: nobody
     * is. */
    bool (*halt)(const void *arg);
    const void *halt_arg;
} weir_pass;
weir_err weir_model_forward(weir_model *, const weir_model_batch *, const weir_pass *,
                            weir_score *score);
/* Gradients of (sum of the losses of the last forward) * scale, written to the gradient vector, or
 * added if `add`. `ready(arg, k)` is called when every tensor whose number is at most k is final,
 * in rising order of k; NULL is allowed. After a forward of 0 samples the gradient is zero. */
weir_err weir_model_backward(weir_model *, float scale, bool add, void (*ready)(void *arg, int k),
                             void *arg);
/* Who sums n doubles over all workers; each calls it the same number of times in a step, those
 * without samples too. */
typedef weir_err weir_model_sum(void *arg, double *x, size_t n);
/* For layers that need sums in forward and backward (batch norm with sync=yes). NULL, as at first:
 * this worker is alone. */
void weir_model_on_sum(weir_model *, weir_model_sum *, void *arg);
/* The running statistics, a flat vector that no optimiser steps: for who averages them over
 * workers. */
float *weir_model_still(const weir_model *, size_t *n);
/* Which streams of the data come to this worker, `total` being all: sample i of a pass is stream
 * pass.first + i. For carried state, which is saved by the stream's number (WEIR_KEEP_STREAM) and
 * begins at zero here. Before training, and again when slices change. */
weir_err weir_model_streams(weir_model *, uint64_t first, uint64_t count, uint64_t total);
/* The step was committed: carried state and running statistics change now, not before. */
void weir_model_commit(weir_model *);
weir_err weir_model_state(weir_model *, weir_io *); /* what is not in the parameters. */
/* Name of the first layer whose weights, or output of the last forward, are not finite ("input":
 * the batch is not), or NULL: for the message when a loss or a gradient is not a number. A relu
 * makes 0 of a NaN: the gradient tells more than the loss. Runs that forward again: batch and
 * parameters must still be there, and backward is no longer possible. */
const char *weir_model_blame(weir_model *);
/* Threads that the kernels of this thread use. Before weir_model_prepare: kernels are compiled for
 * a number of threads. */
void weir_model_threads(int threads);
#endif
