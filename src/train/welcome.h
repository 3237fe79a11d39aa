/* welcome.h - what a process has to know to join a run: the run's settings, its model's file, what
 * its data taught, and by which hashes it knows that it has the same data. As bytes, and back. */
#ifndef WEIR_TRAIN_WELCOME_H
#define WEIR_TRAIN_WELCOME_H
#include "train/trainer.h"

typedef struct weir_welcome {
    const char *settings; /* as weir_settings_take reads them */
    const char *model;    /* the text of its file */
    const char *lessons;  /* "": it has none */
    uint64_t hash[WEIR_DATA_PARTS];
    int most; /* members that there may be */
} weir_welcome;

/* malloc'ed; NULL: no memory. */
void *weir_welcome_write(weir_trainer *, size_t *n);
/* WEIR_INVALID where it is none. Texts lie in the arena. */
weir_err weir_welcome_read(const void *, size_t, weir_arena *, weir_welcome *);
/* Has this rank the same data? WEIR_MISFIT says which part differs. */
weir_err weir_welcome_check(weir_trainer *, const weir_welcome *);
#endif
