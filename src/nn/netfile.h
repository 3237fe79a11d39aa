/* netfile.h - model files as text. A line a layer:
 *
 *   # a comment; the first line's is the model's description
 *   bench synth:shape=1x28x28     the data that benchmarks use when none is named; optional
 *   size hidden 1024              a size, with its default: changed by NAME:hidden=512
 *   repeat 2                      what follows, up to `end`, so many times; repeats nest
 *   dense block%.up out=4*hidden  kind, name (default: kind and running number), options
 *   add block%.sum from=block%.in a layer reads the line before, or what its from= names; add both
 *   end
 *
 * % in names and words is the number of the repetition, from 1; in nested repeats all of them,
 * outermost first, joined by dots. In expressions it is the innermost. Options that are whole
 * numbers are expressions (expr.h) over the sizes above the line and `classes`, which the data
 * brings; so are yes and no, as 1 and 0. This file knows no kinds of layers: graph.c does. Text is
 * hostile; errors name file, line and column. */
#ifndef WEIR_NN_NETFILE_H
#define WEIR_NN_NETFILE_H
#include "core/arena.h"
#include "nn/expr.h"

/* key=value; what stood there, before % and sizes are put in. */
typedef struct weir_netfile_option {
    const char *key, *value;
    int col, value_col;
} weir_netfile_option;

/* One layer. */
typedef struct weir_netfile_line {
    const char *kind, *name;
    uint64_t kind_hash, name_hash; /* so that files with thousands of layers are read in no time */
    int line, col;
    const weir_netfile_option *option;
    int options;
    int64_t repetition;  /* 0: not in a repeat */
    const char *numbers; /* "2.1"; NULL: not in a repeat */
    int sizes;           /* how many of the file's sizes stand above it */
} weir_netfile_line;

typedef struct weir_netfile {
    const char *path;
    const char *bench; /* NULL: no such line */
    weir_netfile_line *line;
    int lines;
    weir_size *size; /* the first is `classes` */
    int sizes;
} weir_netfile;

/* A model file's text: n hostile bytes; `path` names them in errors. `sizes` is what stood behind
 * the ':' of the spec: "hidden=512,depth=3", or NULL. */
typedef struct weir_netfile_source {
    const char *path, *text;
    size_t n;
    const char *sizes;
} weir_netfile_source;
/* A size that the file does not have is WEIR_USAGE, and lists those it has. */
weir_err weir_netfile_read(const weir_netfile_source *, int64_t classes, weir_arena *,
                           weir_netfile **);
/* An option's value as the layer's option table wants it: the expression's value, or the word with
 * % put in. */
weir_err weir_netfile_value(const weir_netfile *, const weir_netfile_line *,
                            const weir_netfile_option *, bool whole_number, char *text,
                            size_t room);
/* Puts "path:line:col" in front of the sentence that is there. */
weir_err weir_netfile_at(const weir_netfile *, weir_err, int line, int col);
#endif
