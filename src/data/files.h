/* files.h - which files of a directory are meant, and what is in them. Of a file and the same
 * gzipped the plain one counts. */
#ifndef WEIR_DATA_FILES_H
#define WEIR_DATA_FILES_H
#include "core/arena.h"
#include "core/err.h"

typedef bool (*weir_files_fit)(const char *name, const char *word);
typedef struct weir_files {
    const char **path;
    int n;
} weir_files;

/* The files in `dir` whose names fit the word, in the order of their names; there may be none.
 * Paths are in the arena. */
weir_err weir_files_find(const char *dir, weir_files_fit, const char *word, weir_arena *,
                         weir_files *);
/* The one that fits. Two: WEIR_INVALID, as nobody knows which is meant. None: NULL, where `wanted`
 * is NULL; else WEIR_INVALID, and the sentence says "there is no `wanted`". */
weir_err weir_files_one(const char *dir, weir_files_fit, const char *word, const char *wanted,
                        weir_arena *, const char **path);
/* Names that are the word and what follows a - or a dot: "train-images-idx3-ubyte.gz". "a|b":
 * either. */
bool weir_files_begin(const char *name, const char *word);
/* Whether a name ends so, or so and .gz. */
bool weir_files_end(const char *name, const char *ending);
bool weir_files_is_dir(const char *path);
/* The whole file, gunzipped, with a 0 byte behind it, malloc'ed: no more than this machine's
 * memory. */
weir_err weir_files_read(const char *path, char **bytes, size_t *n);
#endif
