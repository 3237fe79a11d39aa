/* checkpoint.h - a run that can go on from where it was.
 *
 *   OUT/step-N/model.safetensors   the weights, under the model file's names and shapes
 *   OUT/step-N/state.safetensors   all else: optimiser, residuals, layer state, under the names
 *                                  that weir_io gives them
 *   OUT/latest -> step-N           the newest that is whole
 *
 * Both files carry what the run is (weir_checkpoint_info) in their metadata; the second one names
 * the first one's checksum, so that a pair that was not saved together is seen. A checkpoint is
 * whole when both files are there, both checksums fit and they are a pair. Whoever dies while
 * saving leaves the old ones as they were and, at worst, a step-N that is not whole: the reader
 * skips it, the next save removes it. OUT belongs to one saving process; names in it that begin
 * with ".weir-" are left-overs and are removed.
 *
 * The leader alone saves; every rank reads. docs/WIRE.md, Checkpoints, has the bytes. */
#ifndef WEIR_TRAIN_CHECKPOINT_H
#define WEIR_TRAIN_CHECKPOINT_H
#include "core/arena.h"
#include "core/bucket.h"
#include "core/state.h"
#include "core/task.h"

enum { WEIR_CHECKPOINT_PATH = 4096 };

/* What the run is, and how far it has come. */
typedef struct weir_checkpoint_info {
    uint64_t step, seed, samples;
    uint64_t epoch, used, rows; /* its cursor in the data; rows 0: not saved, it is of 0.1 */
    int workers;
    /* specs, and the options as text; bytes that are not UTF-8 come back as '?' */
    const char *model, *data, *settings;
    const char *lessons; /* what the data taught: weir_data_lessons. NULL: an older one has none */
} weir_checkpoint_info;

/* What a checkpoint holds, listed once for both ways. Saving, the floats that `state` lists stay
 * where they are until the save returns (up to 1024 of them, and whole numbers, may be locals).
 * Loading, `state` runs with io->loading. */
typedef struct weir_checkpoint_body {
    const weir_tensor *tensor; /* names on ranges of param */
    int tensors;
    float *param;
    weir_err (*state)(void *arg, weir_io *); /* NULL: none */
    void *arg;
    /* told of each field that `state` did not ask for; an error ends the loading. NULL: nobody
     * wants to know */
    weir_err (*unused)(const char *name);
} weir_checkpoint_body;

/* Where it is kept. */
typedef struct weir_checkpoint_place {
    const char *out;
    int keep; /* how many, at least 1 */
    /* asked when all is written, before names change: before the files get theirs, before `latest`
     * is changed and before old ones are removed. false: OUT is another's by now, and nothing more
     * in it is touched. NULL: it is ours */
    bool (*held)(const void *arg);
    const void *arg;
} weir_checkpoint_place;

typedef struct weir_checkpoint_saved {
    char path[WEIR_CHECKPOINT_PATH]; /* OUT/step-N */
    uint64_t bytes;
    double seconds;
} weir_checkpoint_saved;

/* Writes OUT/step-N, whole or not at all, points `latest` to it, and then removes all but the
 * `keep` newest; this one stays. Of those that stay, the ones before step N come
 * first: later ones belong to a future that was given up. A step-N that is there already stays if
 * it holds the same, and is replaced otherwise: that alone is not atomic, between two names. A
 * write that fails is WEIR_DISK, and what was there before is untouched. Blocks for as long as the
 * disk takes. */
weir_err weir_checkpoint_save(weir_rt *, const weir_checkpoint_place *,
                              const weir_checkpoint_info *, const weir_checkpoint_body *,
                              weir_checkpoint_saved *);

/* The newest whole checkpoint of a run directory (the one `latest` names if it is whole, else by
 * falling step), with a warning for each that was skipped; or `dir` itself if it is a checkpoint.
 * None whole: WEIR_DAMAGED, with what is wrong with the newest. None at all: WEIR_USAGE. Reads the
 * files whole. */
weir_err weir_checkpoint_find(const char *dir, char path[WEIR_CHECKPOINT_PATH]);

/* Is `latest` the checkpoint of this step? It was whole when it became that. */
bool weir_checkpoint_is_latest(const char *out, uint64_t step);

/* Does the run directory have a checkpoint, whole or not? */
bool weir_checkpoint_any(const char *out);

/* What the checkpoint (not: run directory) says of itself; reads no data. Texts live in the
 * arena. */
weir_err weir_checkpoint_peek(const char *path, weir_arena *, weir_checkpoint_info *);

/* Reads weights, then state; checks both files whole before the first byte. Weights of other names
 * or shapes: WEIR_MISFIT, names the first tensor that differs, nothing is changed. A state field of
 * another size, or a missing one: WEIR_MISFIT too, and some fields may have been read. Fields that
 * may be dropped are left as they are when missing, or when the run that saved had not `workers`
 * workers. *left: how many fields of state nobody asked for (all, where body->state is NULL). */
weir_err weir_checkpoint_load(const char *path, int workers, const weir_checkpoint_body *,
                              size_t *left);
#endif
