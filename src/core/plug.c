/* plug.c - finding variants and filling options: the only parser of spec strings. */
#include "core/plug.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 200 }; /* bytes of a user's word that an error repeats */

/* ---- one option ---- */

static const weir_opt *find_option(const weir_opt *options, const char *key, size_t len)
{
    for (const weir_opt *o = options; o && o->name; o++)
        if (strlen(o->name) == len && !strncmp(o->name, key, len))
            return o;
    return NULL;
}

static void list_options(const weir_opt *options, char *text, size_t room)
{
    size_t n = 0;

    text[0] = 0;
    for (const weir_opt *o = options; o && o->name && n < room; o++)
        n += (size_t)snprintf(text + n, room - n, "%s%s", o == options ? "" : ", ", o->name);
}

static weir_err unknown_key(const weir_opt *options, const char *owner, const char *key, size_t len)
{
    char known[600];

    len = len > SHOWN ? SHOWN : len;
    list_options(options, known, sizeof known);
    if (!known[0])
        return weir_fail(WEIR_USAGE, "%s: there is no option '%.*s'; it has none", owner, (int)len,
                         key);
    if (memchr(key, ':', len))
        return weir_fail(WEIR_USAGE,
                         "%s: there is no option '%.*s'; it has %s (what has options of its own "
                         "stands in brackets: key=[name:option=value])",
                         owner, (int)len, key, known);
    return weir_fail(WEIR_USAGE, "%s: there is no option '%.*s'; it has %s", owner, (int)len, key,
                     known);
}

static weir_err bad_value(const weir_opt *o, const char *owner, const char *value,
                          const char *wanted)
{
    return weir_fail(WEIR_USAGE, "%s: %s=%.*s: %s was expected", owner, o->name, SHOWN, value,
                     wanted);
}

/* A limit as people write it: 16777216, not 1.67772e+07. */
static void show_limit(double x, char text[32])
{
    bool whole = x == floor(x) && fabs(x) < 1e16;

    snprintf(text, 32, whole ? "%.0f" : "%g", x);
}

static weir_err check_range(const weir_opt *o, const char *owner, const char *value, double x)
{
    char wanted[96], min[32], max[32];

    if ((o->min == 0 && o->max == 0) || (x >= o->min && x <= o->max))
        return WEIR_OK;
    show_limit(o->min, min);
    show_limit(o->max, max);
    if (x < o->min && o->max >= 1e15)
        snprintf(wanted, sizeof wanted, "at least %s", min);
    else
        snprintf(wanted, sizeof wanted, "a value from %s to %s", min, max);
    return bad_value(o, owner, value, wanted);
}

static weir_err set_choice(const weir_opt *o, const char *owner, const char *value, int *at)
{
    char wanted[256];
    size_t len = strlen(value);
    int i = 0;

    for (const char *c = o->choices; *c; i++) {
        size_t n = strcspn(c, "|");
        if (n == len && !strncmp(c, value, n))
            return *at = i, WEIR_OK;
        c += n + (c[n] == '|');
    }
    snprintf(wanted, sizeof wanted, "one of %s", o->choices);
    return bad_value(o, owner, value, wanted);
}

/* a time is divided by it, so that 50us is the double nearest to 50e-6 */
typedef struct unit {
    const char *name;
    double is;
} unit;

static weir_err set_scaled(const weir_opt *o, const char *owner, const char *value, double *field)
{
    static const unit times[] = {{"s", 1}, {"ms", 1e3}, {"us", 1e6}, {"ns", 1e9}, {0}},
                      rates[] = {{"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {0}},
                      one = {"", 1};
    bool is_time = o->kind == WEIR_OPT_TIME;
    const unit *u = is_time ? times : rates;
    char *end;
    double x = strtod(value, &end);

    while (u->name && strcmp(end, u->name))
        u++;
    if (!*end)
        u = &one;
    if (end == value || !isfinite(x) || !u->name)
        return bad_value(o, owner, value,
                         is_time ? "seconds, or a number with ms, us or ns"
                                 : "bits a second, or a number with k, M, G or T");
    x = is_time ? x / u->is : x * u->is;
    WEIR_TRY(check_range(o, owner, value, x));
    *field = x;
    return WEIR_OK;
}

static weir_err set_value(const weir_opt *o, const char *owner, const char *value, weir_arena *a,
                          void *at)
{
    char *end, *field = (char *)at + o->at;

    switch (o->kind) {
    case WEIR_OPT_INT: {
        errno = 0;
        long long x = strtoll(value, &end, 10);
        if (end == value || *end || errno)
            return bad_value(o, owner, value, "a whole number");
        WEIR_TRY(check_range(o, owner, value, (double)x));
        *(int64_t *)field = x;
        return WEIR_OK;
    }
    case WEIR_OPT_REAL: {
        double x = strtod(value, &end);
        if (end == value || *end || !isfinite(x))
            return bad_value(o, owner, value, "a number");
        WEIR_TRY(check_range(o, owner, value, x));
        *(double *)field = x;
        return WEIR_OK;
    }
    case WEIR_OPT_BOOL:
        if (strcmp(value, "yes") && strcmp(value, "no"))
            return bad_value(o, owner, value, "yes or no");
        *(bool *)field = value[0] == 'y';
        return WEIR_OK;
    case WEIR_OPT_TEXT:
        if (!(*(const char **)field = weir_copy_text(a, value)))
            return weir_fail_nomem(strlen(value));
        return WEIR_OK;
    case WEIR_OPT_CHOICE:
        return set_choice(o, owner, value, (int *)field);
    case WEIR_OPT_TIME:
    case WEIR_OPT_RATE:
        return set_scaled(o, owner, value, (double *)field);
    }
    return weir_fail(WEIR_FAILED, "%s: %s has no kind", owner, o->name);
}

weir_err weir_opt_defaults(const weir_opt *options, const char *owner, weir_arena *a, void *at)
{
    for (const weir_opt *o = options; o && o->name; o++)
        if (o->standard)
            WEIR_TRY(set_value(o, owner, o->standard, a, at));
    return WEIR_OK;
}

weir_err weir_opt_set(const weir_opt *options, const char *owner, const char *key,
                      const char *value, weir_arena *a, void *at)
{
    const weir_opt *o = find_option(options, key, strlen(key));

    return o ? set_value(o, owner, value, a, at) : unknown_key(options, owner, key, strlen(key));
}

void weir_opt_show(const weir_opt *o, const void *at, char *text, size_t room)
{
    const char *field = (const char *)at + o->at, *word;

    text[0] = 0;
    switch (o->kind) {
    case WEIR_OPT_INT:
        snprintf(text, room, "%lld", (long long)*(const int64_t *)field);
        break;
    case WEIR_OPT_REAL:
    case WEIR_OPT_TIME:
    case WEIR_OPT_RATE:
        snprintf(text, room, "%.15g", *(const double *)field);
        if (strtod(text, NULL) != *(const double *)field) /* who reads it gets the same number */
            snprintf(text, room, "%.17g", *(const double *)field);
        break;
    case WEIR_OPT_BOOL:
        snprintf(text, room, "%s", *(const bool *)field ? "yes" : "no");
        break;
    case WEIR_OPT_TEXT:
        word = *(const char *const *)field;
        snprintf(text, room, "%s", word ? word : "");
        break;
    case WEIR_OPT_CHOICE:
        word = o->choices;
        for (int i = *(const int *)field; i > 0 && strchr(word, '|'); i--)
            word = strchr(word, '|') + 1;
        snprintf(text, room, "%.*s", (int)strcspn(word, "|"), word);
        break;
    }
}

/* ---- a whole spec ---- */

bool weir_plug_named(const char *spec, const char *name)
{
    size_t len = strcspn(spec, ":");

    return strlen(name) == len && !strncmp(name, spec, len);
}

weir_err weir_plug_find(weir_plugs table, const char *axis, const char *spec,
                        const weir_plug **found)
{
    size_t len = strcspn(spec, ":"), n = 0;
    char known[600] = "";

    for (weir_plugs p = table; *p; p++)
        if (weir_plug_named(spec, (*p)->name))
            return *found = *p, WEIR_OK;
    for (weir_plugs p = table; *p && n < sizeof known; p++)
        n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", p == table ? "" : ", ",
                              (*p)->name);
    return weir_fail(WEIR_USAGE, "there is no %s '%.*s'; there is %s", axis,
                     len > SHOWN ? SHOWN : (int)len, spec, known);
}

static const weir_opt *bare_option(const weir_opt *options)
{
    for (const weir_opt *o = options; o && o->name; o++)
        if (o->bare)
            return o;
    return NULL;
}

/* How long the value that begins here is: to a comma (outside of brackets, if it begins with one),
 * or to the end. */
static size_t value_length(const char *value)
{
    const char *at = value;
    int depth = 0;

    if (*value != '[')
        return strcspn(value, ",");
    for (; *at && (*at != ',' || depth > 0); at++)
        depth += (*at == '[') - (*at == ']');
    return (size_t)(at - value);
}

/* Takes off the brackets that a value stands in. */
static char *unwrap(char *value)
{
    size_t n = strlen(value);

    if (n < 2 || value[0] != '[' || value[n - 1] != ']')
        return value;
    value[n - 1] = 0;
    return value + 1;
}

/* Takes one item off `text` (which is cut in place) and sets it; *next is what follows, NULL at the
 * end. */
static weir_err set_item(const weir_plug *p, const char *owner, char *text, char **next,
                         weir_arena *a, void *self)
{
    char *equals = text + strcspn(text, "=,"), *value = text, *end;
    const weir_opt *o;

    if (*equals == '=' && *text != '[') {
        if (!(o = find_option(p->options, text, (size_t)(equals - text))))
            return unknown_key(p->options, owner, text, (size_t)(equals - text));
        value = equals + 1;
    } else if (!(o = bare_option(p->options))) {
        text[strcspn(text, ",")] = 0;
        return weir_fail(WEIR_USAGE, "%s: '%.*s' is not key=value", owner, SHOWN, text);
    }
    end = value + (o->rest ? strlen(value) : value_length(value));
    *next = *end ? end + 1 : NULL;
    *end = 0;
    return set_value(o, owner, o->rest ? value : unwrap(value), a, self);
}

weir_err weir_plug_make(const weir_plug *p, const char *axis, const char *spec, weir_arena *a,
                        void **self)
{
    const char *colon = strchr(spec, ':');
    char owner[96], *items;
    void *made;

    snprintf(owner, sizeof owner, "%s %s", axis, p->name);
    if (!(made = weir_alloc(a, p->size)))
        return weir_fail_nomem(p->size);
    WEIR_TRY(weir_opt_defaults(p->options, owner, a, made));
    if (colon) {
        if (!(items = weir_copy_text(a, colon + 1)))
            return weir_fail_nomem(strlen(spec));
        while (items)
            WEIR_TRY(set_item(p, owner, items, &items, a, made));
    }
    *self = made;
    return WEIR_OK;
}

bool weir_plug_given(const weir_plug *p, const char *spec, const char *key)
{
    for (const char *at = strchr(spec, ':'); at && *at; at += value_length(at)) {
        size_t n = strcspn(++at, "=,");
        bool keyed = at[n] == '=' && *at != '[';
        const weir_opt *o = keyed ? find_option(p->options, at, n) : bare_option(p->options);
        if (!o || !strcmp(o->name, key))
            return o;
        if (o->rest)
            return false;
        at += keyed ? n + 1 : 0;
    }
    return false;
}

/* ---- other paths ---- */

enum { LONGEST = 8192 };

/* Writes the item that says this path. Commas want brackets, an = wants the key. */
static bool write_path(FILE *f, const weir_opt *o, bool keyed, const char *path)
{
    char item[LONGEST + 4];
    const char *whole = item + 1;
    int len = snprintf(item, sizeof item, "[%s]", path);

    if (len + 1 >= (int)sizeof item || strchr(item, '\n'))
        return false;
    keyed |= strchr(item, '=') != NULL;
    if (!strchr(item, ',')) {
        item[len - 1] = 0;
    } else {
        memcpy(item + len, ",", 2); /* what follows must not be taken for a part of it */
        if (value_length(item) != (size_t)len)
            return false;
        item[len] = 0;
        whole = item;
    }
    fprintf(f, "%s%s%s", keyed ? o->name : "", keyed ? "=" : "", whole);
    return true;
}

typedef struct rewriting {
    const weir_plug *plug;
    weir_plug_path path;
    void *arg;
} rewriting;

/* One item, from behind its ':' or ','; *next is what follows. */
static bool write_item(FILE *f, const rewriting *r, const char *item, const char **next)
{
    size_t n = strcspn(item, "=,"), len = 0;
    bool keyed = item[n] == '=' && *item != '[';
    const weir_opt *o =
        keyed ? find_option(r->plug->options, item, n) : bare_option(r->plug->options);
    const char *value = keyed ? item + n + 1 : item;
    char path[LONGEST], other[LONGEST];

    if (!o)
        return false;
    n = o->rest ? strlen(value) : value_length(value);
    *next = value + n;
    bool wrapped = n >= 2 && value[0] == '[' && value[n - 1] == ']';
    if (o->path && n < sizeof path) {
        snprintf(path, sizeof path, "%.*s", (int)n - 2 * wrapped, value + wrapped);
        len = path[0] ? r->path(r->arg, path, other, sizeof other) : 0;
    }
    if (len)
        return len < sizeof other && write_path(f, o, keyed, other);
    fprintf(f, "%.*s", (int)(*next - item), item);
    return true;
}

char *weir_plug_spec_paths(const weir_plug *p, const char *spec, weir_plug_path path, void *arg)
{
    const rewriting r = {p, path, arg};
    const char *at = spec + strcspn(spec, ":");
    char *text = NULL;
    size_t n = 0;
    bool whole = true;
    FILE *f = open_memstream(&text, &n);

    if (!f)
        return NULL;
    fprintf(f, "%.*s", (int)(at - spec), spec);
    while (whole && *at) {
        fputc(*at, f);
        whole = write_item(f, &r, at + 1, &at);
    }
    if (!fclose(f) && whole)
        return text;
    free(text);
    return NULL;
}

static size_t path_from(void *dir, const char *path, char *to, size_t room)
{
    const char *from = *(const char **)dir, *slash = from[strlen(from) - 1] == '/' ? "" : "/";

    return *path == '/' ? 0 : (size_t)snprintf(to, room, "%s%s%s", from, slash, path);
}

char *weir_plug_spec_from(const weir_plug *p, const char *spec, const char *dir)
{
    return weir_plug_spec_paths(p, spec, path_from, &dir);
}

/* ---- showing and checking ---- */

static void print_one(FILE *f, const weir_plug *p, void (*more)(FILE *, const weir_plug *))
{
    fprintf(f, "  %-12s %s\n", p->name, p->help);
    for (const weir_opt *o = p->options; o && o->name; o++) {
        char head[160];
        snprintf(head, sizeof head, "%s=%s", o->name, o->standard ? o->standard : "");
        fprintf(f, "      %-24s %s%s%s\n", head, o->help, o->choices ? ": " : "",
                o->choices ? o->choices : "");
    }
    if (more)
        more(f, p);
}

void weir_plug_print(FILE *f, weir_plugs table, const char *axis,
                     void (*more)(FILE *, const weir_plug *))
{
    fprintf(f, "%s\n", axis);
    for (weir_plugs p = table; *p; p++)
        print_one(f, *p, more);
}

static bool option_whole(const weir_plug *p, const weir_opt *o)
{
    static const size_t bytes[] = {
        [WEIR_OPT_INT] = sizeof(int64_t), [WEIR_OPT_REAL] = sizeof(double),
        [WEIR_OPT_BOOL] = sizeof(bool),   [WEIR_OPT_TEXT] = sizeof(char *),
        [WEIR_OPT_CHOICE] = sizeof(int),  [WEIR_OPT_TIME] = sizeof(double),
        [WEIR_OPT_RATE] = sizeof(double)};

    return (size_t)o->kind < sizeof bytes / sizeof *bytes && o->at <= p->size &&
           p->size - o->at >= bytes[o->kind] && o->help &&
           (o->kind != WEIR_OPT_CHOICE || o->choices) &&
           (!o->path || (o->kind == WEIR_OPT_TEXT && !o->rest)) &&
           find_option(p->options, o->name, strlen(o->name)) == o;
}

weir_err weir_plug_check(weir_plugs table, const char *axis)
{
    for (weir_plugs p = table; *p; p++) {
        weir_arena *a = weir_arena_new();
        void *self;
        weir_err err = a ? WEIR_OK : weir_fail_nomem(0);
        for (weir_plugs q = table; !err && q < p; q++)
            if (!strcmp((*p)->name, (*q)->name))
                err = weir_fail(WEIR_FAILED, "%s: two are named %s", axis, (*p)->name);
        for (const weir_opt *o = (*p)->options; !err && o && o->name; o++)
            if (!option_whole(*p, o))
                err = weir_fail(WEIR_FAILED, "%s %s: option %s is not described whole, or twice",
                                axis, (*p)->name, o->name);
        if (!err)
            err = weir_plug_make(*p, axis, (*p)->name, a, &self);
        weir_arena_free(a);
        WEIR_TRY(err);
    }
    return WEIR_OK;
}
