/* weir.h - train deep networks on many machines: what an embedding program sees.
 *
 * A run is a set of settings, named as the options of `weir train` (see `weir help train`), and one
 * call that trains. Nothing here exits, aborts, prints or installs a signal handler. The library is
 * a static one: link with `pkg-config --static --libs weir`. */
#ifndef WEIR_H
#define WEIR_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* the one place that has it: Makefile, pkg-config and man page read it here */
#define WEIR_VERSION "0.1.0"
#define WEIR_API 1 /* raised when something here changes its meaning */

/* Every function that can fail returns one of these. Codes below 100 are the exit codes of the
 * program too. */
typedef enum weir_err {
    WEIR_OK = 0,
    WEIR_FAILED = 1,    /* memory, a system call, anything without a code of its own */
    WEIR_USAGE = 2,     /* an option or a value that does not exist */
    WEIR_LOST = 10,     /* a peer's process ended or closed its link */
    WEIR_SILENT = 11,   /* a peer gave no sign of life in time */
    WEIR_DIVERGED = 12, /* replicas disagree */
    WEIR_DAMAGED = 13,  /* a checkpoint is damaged */
    WEIR_DISK = 14,     /* the disk is full or a write failed */
    WEIR_DENIED = 15,   /* not authorised */
    WEIR_MISFIT = 16,   /* settings that do not fit together */
    WEIR_INVALID = 17,  /* a data or model file is invalid */
    WEIR_NAN = 18,      /* the loss is not a number */
    /* never seen outside the library: */
    WEIR_LATE = 100, /* a deadline has passed */
    WEIR_STALE,      /* the operation belongs to an older generation, or was cancelled */
    WEIR_BIG,        /* a message larger than its buffer, or a queue that is full */
    WEIR_SHUT        /* the queue was shut and is empty */
} weir_err;

typedef struct weir_run weir_run;

/* What a run came to. */
typedef struct weir_result {
    uint64_t steps, samples;
    double loss;        /* of the last step */
    const char *metric; /* "accuracy", "perplexity" or "rmse" */
    double value;       /* of the test part, at the end */
    double samples_per_s;
    uint64_t params_hash;
} weir_result;

const char *weir_version(void);
/* Warnings, and what else WEIR_DEBUG asks for, which is read here: called for every sentence, from
 * any thread of the library, one call at a time for each. `level` is 0 for an error, 1 for a
 * warning, 2 and 3 for more; `part` is what it is about ("net"). Nobody hears anything by default,
 * and NULL makes it so again. For the whole process: set it before the first run. What a run warns
 * of is also an event of it. */
void weir_on_log(void (*hear)(void *arg, int level, const char *part, const char *text), void *arg);
weir_err weir_run_new(weir_run **run);
/* `key` is an option of `weir train` without its dashes. The value is copied. */
weir_err weir_run_set(weir_run *run, const char *key, const char *value);
/* Called for every line of the log, as one JSON object, on the rank that leads (`leader`,
 * 0). May be NULL. */
void weir_run_on_event(weir_run *run, void (*event)(void *arg, const char *json), void *arg);
/* Trains, in this process: alone, or as the rank that a launcher's variables name. */
weir_err weir_run_train(weir_run *run, weir_result *result);
/* One sentence about the last error of this run. */
const char *weir_run_error(const weir_run *run);
void weir_run_free(weir_run *run);

#ifdef __cplusplus
}
#endif
#endif
