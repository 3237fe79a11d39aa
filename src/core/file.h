/* file.h - files that are whole or not there.
 *
 * A weir_file being written has no name until weir_file_commit (O_TMPFILE; where the file system
 * lacks it, a name beginning with ".weir-" that is unlinked on failure), so a killed process leaves
 * nothing behind. Write errors give WEIR_DISK and name the file. */
#ifndef WEIR_CORE_FILE_H
#define WEIR_CORE_FILE_H
#include "core/arena.h"
#include "core/err.h"

typedef struct weir_file weir_file;
weir_err weir_file_create(const char *path, weir_file **);
/* The same for a path whose directory is made later: until then the file lives in `dir`, on the
 * same file system. */
weir_err weir_file_create_in(const char *dir, const char *path, weir_file **);
weir_err weir_file_write(weir_file *, const void *, size_t);
/* What was written is on the disk; so a commit can then fail only for its name. */
weir_err weir_file_sync(weir_file *);
/* fsync, then under its name, replacing what was there; closes in any case. */
weir_err weir_file_commit(weir_file *);
void weir_file_drop(weir_file *);

/* The whole file with a 0 byte behind it, malloc'ed; gunzipped if it begins as gzip. Longer than
 * `limit`: WEIR_INVALID. */
weir_err weir_file_read(const char *path, size_t limit, char **bytes, size_t *n);
/* with parents; there already: fine */
weir_err weir_dir_make(const char *path);
weir_err weir_dir_sync(const char *path);
weir_err weir_link_replace(const char *target, const char *path); /* symbolic link, atomically */
weir_err weir_tree_remove(const char *path);                      /* not there: fine */
bool weir_path_exists(const char *path);
#endif
