/* zoo.h - finding model files. */
#ifndef WEIR_NN_ZOO_H
#define WEIR_NN_ZOO_H
#include "core/arena.h"
#include "core/err.h"

typedef struct weir_zoo_spec {
    char *name; /* without folder and ending */
    char *path;
    char *sizes; /* what stood behind the ':'; NULL: nothing */
} weir_zoo_spec;

/* Takes a model spec apart and finds its file. An unknown name is WEIR_USAGE, and lists those there
 * are. */
weir_err weir_zoo_find(const char *spec, weir_arena *, weir_zoo_spec *);
/* The whole file, malloc'ed. */
weir_err weir_zoo_read(const weir_zoo_spec *, char **text, size_t *n);
#endif
