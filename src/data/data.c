/* data.c - the data sets there are, and where those with a name lie on this machine. */
#include "data/data.h"
#include "core/file.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

weir_plugs weir_datas = (const weir_plug *const[]){
#define X(name) &weir_data_##name.plug,
#include "data/list.h"
#undef X
    NULL,
};

/* ---- sets with a name ---- */

/* NAME[:options] stands for KIND:dir=DIR[,options]. */
typedef struct named {
    const char *name, *kind;
    const char *dir; /* NULL: where scripts/data puts it, $XDG_DATA_HOME/weir/NAME */
    const char *cure;
} named;

static const named sets[] = {
    {"fashion-mnist", "idx", "/usr/share/datasets/fashion-mnist",
     "install the Debian package dataset-fashion-mnist"},
    {"mnist", "idx", NULL, "run scripts/data mnist"},
    {"cifar10", "cifar10", NULL, "run scripts/data cifar10, or give cifar10:DIR"},
};

static const named *find_named(const char *spec)
{
    size_t len = strcspn(spec, ":");

    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if (strlen(sets[i].name) == len && !strncmp(sets[i].name, spec, len))
            return &sets[i];
    return NULL;
}

/* "" where nobody can say, or where a spec cannot hold it. */
static void named_place(const named *s, char *dir, size_t room)
{
    const char *base = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    int n = 0;

    if (s->dir)
        n = snprintf(dir, room, "%s", s->dir);
    else if (base && base[0] == '/')
        n = snprintf(dir, room, "%s/weir/%s", base, s->name);
    else if (home && home[0])
        n = snprintf(dir, room, "%s/.local/share/weir/%s", home, s->name);
    if (!n || n >= (int)room || strchr(dir, ','))
        dir[0] = 0;
}

/* The spec that the name stands for; what the user gave comes last and wins. */
static weir_err expand(const named *s, const char *dir, const char *spec, weir_arena *a,
                       const char **whole)
{
    const char *options = strchr(spec, ':');
    size_t room = strlen(s->kind) + strlen(dir) + strlen(spec) + 8;
    char *text = weir_alloc(a, room);

    if (!text)
        return weir_fail_nomem(room);
    snprintf(text, room, "%s:dir=%s%s%s", s->kind, dir, options ? "," : "",
             options ? options + 1 : "");
    *whole = text;
    return WEIR_OK;
}

/* A set that is not where its name says: the sentence tells how to get it. */
static weir_err check_place(const named *s, const char *dir, const weir_plug *plug,
                            const void *self)
{
    const weir_opt *o = plug->options;
    char used[PATH_MAX];

    while (strcmp(o->name, "dir"))
        o++;
    weir_opt_show(o, self, used, sizeof used);
    if (strcmp(used, dir))
        return WEIR_OK;
    if (!dir[0])
        return weir_fail(WEIR_INVALID,
                         "data %s: XDG_DATA_HOME or HOME must say where it lies, in a path without "
                         "commas; or give %s:DIR",
                         s->name, s->kind);
    if (!weir_path_exists(dir))
        return weir_fail(WEIR_INVALID, "data %s: there is no %s; %s", s->name, dir, s->cure);
    return WEIR_OK;
}

/* ---- opening ---- */

static weir_err unknown(const char *spec)
{
    char known[600] = "";
    size_t n = 0;

    for (size_t i = 0; i < sizeof sets / sizeof *sets && n < sizeof known; i++)
        if (strcmp(sets[i].name, sets[i].kind))
            n += (size_t)snprintf(known + n, sizeof known - n, "%s, ", sets[i].name);
    for (weir_plugs p = weir_datas; *p && n < sizeof known; p++)
        n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", p == weir_datas ? "" : ", ",
                              (*p)->name);
    n = strcspn(spec, ":");
    return weir_fail(WEIR_USAGE, "there is no data '%.*s'; there is %s", n > 200 ? 200 : (int)n,
                     spec, known);
}

/* Lessons first, where there are any; what went wrong is closed. */
static weir_err open_files(weir_data_use *use, const weir_data_need *need, weir_arena *a)
{
    weir_err err = need->lessons ? weir_data_learn(use, need->lessons, a) : WEIR_OK;

    if (!err)
        err = use->data->open(use->self, need, a, &use->facts);
    if (err)
        weir_data_close(use);
    return err;
}

weir_err weir_data_open(const char *spec, const weir_data_need *need, weir_arena *a,
                        weir_data_use *use)
{
    static const weir_data_need nothing;
    const named *set = find_named(spec);
    const weir_plug *plug;
    weir_data_use made = {0};
    char dir[PATH_MAX];

    if (set) {
        named_place(set, dir, sizeof dir);
        WEIR_TRY(expand(set, dir, spec, a, &spec));
    }
    if (weir_plug_find(weir_datas, "data", spec, &plug))
        return unknown(spec);
    made.data = (const weir_data *)plug;
    if (!(made.spec = weir_copy_text(a, spec)))
        return weir_fail_nomem(strlen(spec));
    WEIR_TRY(weir_plug_make(plug, "data", spec, a, &made.self));
    if (set)
        WEIR_TRY(check_place(set, dir, plug, made.self));
    WEIR_TRY(open_files(&made, need ? need : &nothing, a));
    if (made.facts.target != WEIR_TARGET_VALUES)
        made.facts.value_scale = 1;
    *use = made;
    return WEIR_OK;
}

void weir_data_close(weir_data_use *use)
{
    if (use->data && use->data->close)
        use->data->close(use->self);
    *use = (weir_data_use){0};
}

uint64_t weir_data_hash(weir_data_use *use, weir_data_part part)
{
    if (!use->hashed[part] && use->data->hash)
        use->hash[part] = use->data->hash(use->self, part);
    use->hashed[part] = true;
    return use->hash[part];
}

/* ---- paths that hold from elsewhere ---- */

static const weir_plug *find_kind(const char *spec)
{
    const named *set = find_named(spec);
    const weir_plug *plug;

    return weir_plug_find(weir_datas, "data", set ? set->kind : spec, &plug) ? NULL : plug;
}

char *weir_data_spec_from(const char *spec, const char *dir)
{
    const weir_plug *plug = find_kind(spec);
    char *text = plug ? weir_plug_spec_from(plug, spec, dir) : NULL;

    return text ? text : strdup(spec);
}

typedef struct nearby {
    const char *beside;
    bool found;
} nearby;

static size_t path_near(void *arg, const char *path, char *to, size_t room)
{
    nearby *near = arg;
    const char *const dir[] = {"", near->beside};

    if (weir_path_exists(path))
        return 0;
    for (const char *rest = path; rest; rest = strchr(rest, '/')) {
        rest += strspn(rest, "/");
        for (int i = 0; i < 2 && *rest; i++) {
            size_t n = (size_t)snprintf(to, room, "%s%s%s", dir[i], i ? "/" : "", rest);
            if (n < room && weir_path_exists(to))
                return near->found = true, n;
        }
    }
    return 0;
}

char *weir_data_spec_near(const char *spec, const char *beside)
{
    const weir_plug *plug = find_kind(spec);
    nearby near = {.beside = beside};
    char *text = plug ? weir_plug_spec_paths(plug, spec, path_near, &near) : NULL;

    if (near.found)
        return text;
    free(text);
    return NULL;
}

/* ---- batches ---- */

weir_err weir_data_batch_new(const weir_data_facts *facts, int room, weir_arena *a,
                             weir_data_batch *batch)
{
    size_t width = 1, targets = 1;
    void *in, *out;

    for (int i = 0; i < facts->dims; i++)
        width *= (size_t)facts->dim[i];
    if (facts->target != WEIR_TARGET_CLASSES)
        targets = facts->target == WEIR_TARGET_TOKENS ? width : (size_t)facts->classes;
    /* a token is as large as a float */
    in = weir_alloc_many(a, (size_t)room, width * sizeof(float));
    out = weir_alloc_many(a, (size_t)room, targets * sizeof(float));
    if (!in || !out)
        return weir_fail_nomem((size_t)room * (width + targets) * sizeof(float));
    *batch = (weir_data_batch){.room = room};
    if (facts->tokens_in)
        batch->token = in;
    else
        batch->x = in;
    if (facts->target == WEIR_TARGET_VALUES)
        batch->value = out;
    else
        batch->label = out;
    return WEIR_OK;
}

void weir_data_print_sets(FILE *f)
{
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        fprintf(f, "  %-12s a set by its name alone; if it is missing: %s\n", sets[i].name,
                sets[i].cure);
}
