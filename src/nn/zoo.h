/* zoo.h - finding model files. */
#ifndef WEIR_NN_ZOO_H
#define WEIR_NN_ZOO_H
#include "core/arena.h"
#include "core/err.h"

typedef struct weir_zoo_spec {
    char *name; /* without folder and ending */
    const char *path;
    char *sizes; /* what stood behind the ':'; NULL: nothing */
} weir_zoo_spec;

/* Takes a model spec apart and finds its file. An unknown name is WEIR_USAGE, and lists those there
 * are. `file`: its text is in that one, and none is looked for (NULL: look). */
weir_err weir_zoo_find(const char *spec, const char *file, weir_arena *, weir_zoo_spec *);
/* The whole file, malloc'ed. */
weir_err weir_zoo_read(const weir_zoo_spec *, char **text, size_t *n);
/* The spec with a file's relative path put behind `dir`, which is absolute; names of the zoo stay,
 * and so does what a spec cannot say. Malloc'ed; NULL: no memory. */
char *weir_zoo_spec_from(const char *spec, const char *dir);
#endif
