/* ckpt_io.h - the weir_io of checkpoints, both ways; for checkpoint.c alone.
 *
 * Fields become tensors of state.safetensors under their full names: floats F32, whole numbers U64,
 * of one dimension. */
#ifndef WEIR_TRAIN_CKPT_IO_H
#define WEIR_TRAIN_CKPT_IO_H
#include "core/state.h"
#include "train/checkpoint.h"
#include "train/safetensors.h"

/* Lists what `state` has. Floats are not copied (short fields are, and may be a caller's
 * locals). */
weir_err weir_checkpoint_list_state(weir_safetensors_list *, weir_arena *,
                                    weir_err (*state)(void *arg, weir_io *), void *arg);
/* Lets `state` read its fields. alike: the run has as many workers as the one that saved. *left:
 * fields that nobody asked for. */
weir_err weir_checkpoint_read_state(const weir_safetensors *, const char *path, bool alike,
                                    const weir_checkpoint_body *, size_t *left);
#endif
