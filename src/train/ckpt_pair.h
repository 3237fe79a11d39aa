/* ckpt_pair.h - the two files of a checkpoint; for checkpoint.c alone. */
#ifndef WEIR_TRAIN_CKPT_PAIR_H
#define WEIR_TRAIN_CKPT_PAIR_H
#include "train/checkpoint.h"
#include "train/safetensors.h"

enum { WEIR_CKPT_MODEL, WEIR_CKPT_STATE, WEIR_CKPT_FILES };
extern const char *const weir_ckpt_file[WEIR_CKPT_FILES];

/* Puts what the run is into the metadata of one of the files, and gets it back: texts stay in `st`,
 * `path` is for messages. */
weir_err weir_ckpt_put_info(weir_st_list *, int file, const weir_ckpt_info *);
weir_err weir_ckpt_get_info(const weir_st *st, const char *path, weir_ckpt_info *);

typedef struct weir_ckpt_pair {
    weir_st *st[WEIR_CKPT_FILES];
    weir_ckpt_info info; /* texts belong to the files */
} weir_ckpt_pair;
/* Opens both files and checks them whole. After an error there is nothing to close. */
weir_err weir_ckpt_open(const char *dir, weir_ckpt_pair *);
void weir_ckpt_close(weir_ckpt_pair *);
#endif
