/* Specs as a user or a config file might write them, on a table with an option of every kind:
 * filled and shown, or refused. */
#include <stdlib.h>
#include <string.h>
#include "../help_plug.h"

static const weir_plug whole = {"thing", "with options", sizeof(thing), options};
static const weir_plug strict = {"strict", "without a bare one", sizeof(thing), options + 4};
static const weir_plug bare = {"bare", "without options", 0, NULL};
static const weir_plug *const table[] = {&whole, &strict, &bare, NULL};

static void insist(bool right)
{
    if (!right)
        abort();
}

/* Every value shown must be taken again, and mean the same. */
static void check_shown(const thing *t, weir_arena *a)
{
    for (const weir_opt *o = options; o->name; o++) {
        char *text = malloc(1 << 16), *again = malloc(1 << 16);
        thing other = {0};
        weir_opt_show(o, t, text, 1 << 16);
        insist(!weir_opt_set(options, "shown", o->name, text, a, &other));
        weir_opt_show(o, &other, again, 1 << 16);
        insist(!strcmp(text, again));
        free(text), free(again);
    }
    insist(t->count >= 1 && t->count <= 1000 && t->mode >= 0 && t->mode < 3);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    weir_arena *a = weir_arena_new();
    char *spec = calloc(n + 1, 1);
    const weir_plug *p = NULL;
    void *self = NULL;
    weir_err err;

    insist(a && spec);
    if (n)
        memcpy(spec, bytes, n);
    err = weir_plug_find(table, "axis", spec, &p);
    if (!err)
        err = weir_plug_make(p, "axis", spec, a, &self);
    insist(err ? err == WEIR_USAGE && !self && weir_why_text()[0] : self != NULL);
    if (!err && p == &whole)
        check_shown(self, a);
    free(spec);
    weir_arena_free(a);
    return 0;
}
