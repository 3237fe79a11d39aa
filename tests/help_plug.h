/* help_plug.h - a made-up variant with an option of every kind. */
#ifndef HELP_PLUG_H
#define HELP_PLUG_H
#include <stddef.h>
#include "core/plug.h"

typedef struct thing {
    int64_t count;
    double rate;
    bool fast;
    const char *dir, *rest;
    int mode;
} thing;

static const weir_opt options[] = {
    {"count", WEIR_OPT_INT, offsetof(thing, count), "3", "how many", 1, 1000, NULL, false, false},
    {"rate", WEIR_OPT_REAL, offsetof(thing, rate), "0.1", "how fast", 0, 1e30, NULL, false, false},
    {"fast", WEIR_OPT_BOOL, offsetof(thing, fast), "no", "whether", 0, 0, NULL, false, false},
    {"dir", WEIR_OPT_TEXT, offsetof(thing, dir), NULL, "where", .bare = true, .path = true},
    {"mode", WEIR_OPT_CHOICE, offsetof(thing, mode), "two", "which", 0, 0, "one|two|three", false,
     false},
    {"rest", WEIR_OPT_TEXT, offsetof(thing, rest), "", "what is left", 0, 0, NULL, false, true},
    {0},
};

#endif
