/* ckpt_dir.h - the names in a run directory; for checkpoint.c alone. */
#ifndef WEIR_TRAIN_CKPT_DIR_H
#define WEIR_TRAIN_CKPT_DIR_H
#include "core/err.h"
#include "train/checkpoint.h"

/* DIR/NAME, or an error if that is too long. */
weir_err weir_checkpoint_path(const char *dir, const char *name, char path[WEIR_CHECKPOINT_PATH]);
weir_err weir_checkpoint_step_path(const char *out, uint64_t step, char path[WEIR_CHECKPOINT_PATH]);
/* Is this "step-N", just as we write it? */
bool weir_checkpoint_is_step(const char *name, uint64_t *step);
/* Steps that have a directory, falling; malloc'ed. */
weir_err weir_checkpoint_steps(const char *out, uint64_t **steps, size_t *count);
/* Which step `latest` names; false: none. */
bool weir_checkpoint_latest(const char *out, uint64_t *step);
/* Removes a checkpoint's files and its directory; other things in it stay, and so does it then. A
 * failure is only warned of. */
void weir_checkpoint_remove(const char *path);
/* Removes what is not wanted once step N is saved: all but `keep` newest, directories without both
 * files, and left-overs. */
weir_err weir_checkpoint_prune(const char *out, uint64_t step, int keep);
#endif
