/* pair.h - a memory with a spare: what is written to the spare counts from the commit on, so that a
 * step that fails has changed nothing. */
#ifndef WEIR_EXCHANGE_PAIR_H
#define WEIR_EXCHANGE_PAIR_H
#include "core/arena.h"
#include "core/err.h"

typedef struct weir_pair {
    float *now, *next; /* NULLs: none is kept */
    bool fresh;        /* something was written to the spare */
} weir_pair;

/* To be gone through together with these gradients. */
weir_err weir_pair_make(weir_pair *, const float *grad, size_t n, weir_arena *);
/* What is fresh counts. */
void weir_pair_commit(weir_pair *);
#endif
