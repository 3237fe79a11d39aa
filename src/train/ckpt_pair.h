/* ckpt_pair.h - the two files of a checkpoint; for checkpoint.c alone. */
#ifndef WEIR_TRAIN_CKPT_PAIR_H
#define WEIR_TRAIN_CKPT_PAIR_H
#include "train/checkpoint.h"
#include "train/safetensors.h"

enum { WEIR_CHECKPOINT_MODEL, WEIR_CHECKPOINT_STATE, WEIR_CHECKPOINT_FILES };
extern const char *const weir_checkpoint_file[WEIR_CHECKPOINT_FILES];

/* Puts what the run is into the metadata of one of the files, and gets it back: texts stay in `st`,
 * `path` is for messages. */
weir_err weir_checkpoint_put_info(weir_safetensors_list *, int file, const weir_checkpoint_info *);
weir_err weir_checkpoint_get_info(const weir_safetensors *st, const char *path,
                                  weir_checkpoint_info *);

typedef struct weir_checkpoint_pair {
    weir_safetensors *st[WEIR_CHECKPOINT_FILES];
    weir_checkpoint_info info; /* texts belong to the files */
} weir_checkpoint_pair;
/* Opens both files and checks them whole. After an error there is nothing to close. */
weir_err weir_checkpoint_open(const char *dir, weir_checkpoint_pair *);
void weir_checkpoint_close(weir_checkpoint_pair *);
#endif
