/* plug.h - one syntax for everything that can be chosen:  name[:item,item...]
 *
 * An item is key=value, or a bare value for the one option marked `bare` (idx:DIR). Options are
 * rows of a table: parsing, checking, help, `weir list` and the echo into logs fall out of them;
 * nobody else parses. Values hold no comma, unless they stand in brackets
 * (hier:inner=[ring:window=4,segment=4096]: what is between the outermost ones is the value), or
 * the option is `rest`, which takes all that is left. Strings come from users and config files:
 * hostile ones give WEIR_USAGE. */
#ifndef WEIR_CORE_PLUG_H
#define WEIR_CORE_PLUG_H
#include "core/arena.h"
#include "core/err.h"
#include <stdio.h>

typedef enum {
    WEIR_OPT_INT,  /* int64_t; within min..max */
    WEIR_OPT_REAL, /* double; finite, within min..max */
    WEIR_OPT_BOOL, /* bool; yes or no */
    /* const char *, in the arena; NULL where the default is NULL and none was given */
    WEIR_OPT_TEXT,
    WEIR_OPT_CHOICE, /* int: which of the words in `choices`, separated by | */
    WEIR_OPT_TIME,   /* double, in seconds: 30, 2.5s, 10ms, 50us, 80ns */
    WEIR_OPT_RATE    /* double, in bits a second: 9600, 56k, 100M, 2.5G, 1T */
} weir_opt_kind;

typedef struct weir_opt {
    const char *name;
    weir_opt_kind kind;
    size_t at;            /* offsetof in the thing's own struct */
    const char *standard; /* the default, as the user would write it */
    const char *help;
    double min, max;     /* numbers; both 0: no bound */
    const char *choices; /* CHOICE: "a|b|c" */
    bool bare;           /* may stand without its key */
    bool rest;           /* TEXT: takes the rest of the spec, commas included */
    bool path;           /* TEXT, not rest: names a file or a directory */
} weir_opt;              /* a table ends with name NULL */

/* What every variant's descriptor begins with. `size` bytes of private state are allocated, zeroed
 * and filled from the options before the variant's own init runs. */
typedef struct weir_plug {
    const char *name, *help;
    size_t size;
    const weir_opt *options; /* NULL: none */
} weir_plug;

/* A table of descriptors of one axis: each begins with a weir_plug; ends with NULL. */
typedef const weir_plug *const *weir_plugs;

/* Is this the name in front of the first ':'? */
bool weir_plug_named(const char *spec, const char *name);
/* Looks up the name in front of the first ':'. An unknown name is an error that lists the known
 * ones. `axis`: "codec". */
weir_err weir_plug_find(weir_plugs, const char *axis, const char *spec, const weir_plug **found);
/* Allocates the private state and fills the options: an unknown key is an error that lists the
 * known ones. */
weir_err weir_plug_make(const weir_plug *, const char *axis, const char *spec, weir_arena *,
                        void **self);
/* Whether a spec that weir_plug_make has taken says this option itself. */
bool weir_plug_given(const weir_plug *, const char *spec, const char *key);
/* Writes another path in place of this one, and gives how long it is, as snprintf does; 0: it
 * stays. */
typedef size_t (*weir_plug_path)(void *arg, const char *path, char *to, size_t room);
/* The spec with other paths; malloc'ed. NULL: a spec cannot say them (a line break; a comma and
 * brackets without a partner), it is not one, or there is no memory. */
char *weir_plug_spec_paths(const weir_plug *, const char *spec, weir_plug_path, void *arg);
/* The same: relative paths are put behind `dir`, which is absolute. */
char *weir_plug_spec_from(const weir_plug *, const char *spec, const char *dir);
/* Fills the options of `at` with their defaults; then one of them by name (what config files and
 * flags use). */
weir_err weir_opt_defaults(const weir_opt *, const char *owner, weir_arena *, void *at);
weir_err weir_opt_set(const weir_opt *, const char *owner, const char *key, const char *value,
                      weir_arena *, void *at);
/* The value as the user would write it. */
void weir_opt_show(const weir_opt *, const void *at, char *text, size_t room);
/* All of an axis with their options, for `weir list`; `more` (NULL: nobody) adds to each what its
 * kind declares. */
void weir_plug_print(FILE *, weir_plugs, const char *axis, void (*more)(FILE *, const weir_plug *));
/* Loud check at start-up: names unique, defaults parse, offsets inside size. */
weir_err weir_plug_check(weir_plugs, const char *axis);
#endif
