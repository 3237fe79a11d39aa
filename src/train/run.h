/* run.h - whole runs: training, evaluation, benches (rank.c, eval_run.c, bench_*.c). What the
 * command line and the embedding API both call. */
#ifndef WEIR_TRAIN_RUN_H
#define WEIR_TRAIN_RUN_H
#include "core/json.h"
#include "net/net.h"
#include "train/settings.h"
#include "train/warn.h"
#include "train/witness.h"
#include <stdatomic.h>
#include <stdio.h>

/* Nobody waits for us yet: whoever reads signals may leave at once. */
enum { WEIR_STOP_AT_ONCE = -1 };

/* What the caller lends. All may be NULL. */
typedef struct weir_hooks {
    /* set to a signal's number: checkpoint, then leave. It may begin as WEIR_STOP_AT_ONCE, and is 0
     * once all ranks have met */
    atomic_int *stop;
    FILE *people; /* progress */
    bool live;    /* it is a terminal */
    void (*event)(void *, const char *json);
    void *arg;
    const weir_witness *witness;
} weir_hooks;

/* *stopped: the signal the run stopped for, 0 if it ran to its end. */
weir_err weir_train_run(const weir_settings *, const weir_rank_info *, const weir_hooks *,
                        weir_result *, int *stopped);
/* The test part by the weights of a checkpoint, and by what its run's data taught it: prints
 * nothing, fills result, and says in `warned` what people should know of it. */
weir_err weir_eval_run(const char *checkpoint, const weir_settings *, const weir_rank_info *,
                       weir_warned *warned, weir_result *);

/* Times `steps` whole steps after 3 untimed ones; one JSON object to `out` by the leader, as
 * `weir bench compute` and `train`. */
typedef struct weir_bench {
    const char *kind;
    uint64_t steps;
    bool json;
    FILE *out;
} weir_bench;
weir_err weir_bench_run(const weir_settings *, const weir_rank_info *, const weir_bench *);
/* One codec, or all (spec NULL), on so many floats, as `weir bench codec`. */
weir_err weir_bench_codec(const char *spec, size_t floats, bool json, FILE *out);
/* A line per collective. `coll` NULL: every one that fits. */
weir_err weir_bench_allreduce(const weir_settings *, const weir_rank_info *, const char *coll,
                              size_t floats, bool json, FILE *out);
/* What every bench prints: the line as JSON, or the text. */
weir_err weir_bench_print(FILE *out, weir_json *line, bool json, const char *text);
#endif
