/* told.h - what a run's log says already. Who writes on after a leader's death tells nothing twice,
 * and leaves out nothing that the leader had no time to write. */
#ifndef WEIR_TRAIN_TOLD_H
#define WEIR_TRAIN_TOLD_H
#include "core/err.h"

typedef struct weir_told {
    bool any;           /* there are lines at all */
    int64_t step;       /* of the last one about a step; 0: none */
    int64_t generation; /* of the last change of members; 0: none */
} weir_told;

/* Lines after which an event is no longer looked for: the last ones are read alone. */
enum { WEIR_TOLD_LINES = 100 };

/* A log that cannot be read, or is none (NULL), says nothing. */
weir_told weir_told_read(const char *path);
#endif
