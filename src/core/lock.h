/* lock.h - a file that one process holds, and that says who. The system lets go of it when its
 * holder ends, however it ends; what is left of the file then means nothing. */
#ifndef WEIR_CORE_LOCK_H
#define WEIR_CORE_LOCK_H
#include "core/err.h"

typedef struct weir_lock weir_lock;
enum { WEIR_LOCK_HOLDER = 200 };

/* Makes the file if need be, and writes `who` into it. Held by another (also in this process):
 * WEIR_USAGE, and *holder is that one's `who` with the time it was taken, "another process" where
 * it has not said. A file system that has no locks: WEIR_OK, and *sure is false. */
weir_err weir_lock_take(const char *path, const char *who, weir_lock **, bool *sure,
                        char holder[WEIR_LOCK_HOLDER]);
/* The file at its path is still the one that was taken. */
bool weir_lock_stands(const weir_lock *);
/* Removes the file if it still is that one; NULL is allowed. */
void weir_lock_release(weir_lock *);
#endif
