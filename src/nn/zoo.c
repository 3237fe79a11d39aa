/* zoo.c - model files: found from where the program lies, so that neither a build tree nor an
 * installed one must stay where it was made; then where they were to be installed. */
#include "nn/zoo.h"
#include "core/file.h"
#include "nn/model.h"
#include "nn/netfile.h"
#include <dirent.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_MODELS = 256, MAX_FILE = 1 << 20 };

/* Counted from the program's folder, `up` folders further up: those of a program in the build tree
 * and of a test there, which both lie in a folder `build`, and of an installed program; and, for a
 * program elsewhere that has the library in it, as it stands. */
static const struct place {
    int up; /* -1: as it stands */
    const char *below, *path;
} places[] = {
    {2, "build", "models"},
    {3, "build", "models"},
    {1, NULL, "share/weir/models"},
#ifdef WEIR_SHARE_DIR /* the installed library's */
    {-1, NULL, WEIR_SHARE_DIR "/models"},
#endif
};
enum { PLACES = sizeof places / sizeof *places };

/* The folder of a place; false: it has none. */
static bool folder(const struct place *p, char *path, size_t room)
{
    char program[PATH_MAX], *slash = NULL;
    ssize_t n;

    if (p->up < 0)
        return (size_t)snprintf(path, room, "%s", p->path) < room;
    if ((n = readlink("/proc/self/exe", program, sizeof program - 1)) <= 0)
        return false;
    program[n] = 0;
    for (int i = 0; i <= p->up; i++) {
        if (!(slash = strrchr(program, '/')))
            return false;
        *slash = 0;
    }
    if (p->below && strcmp(slash + 1, p->below))
        return false;
    return (size_t)snprintf(path, room, "%s/%s", program, p->path) < room;
}

/* ---- what there is ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void add_folder(const char *path, char **name, int *names)
{
    DIR *d = opendir(path);

    for (struct dirent *e; d && *names < MAX_MODELS && (e = readdir(d));) {
        size_t len = strlen(e->d_name);
        if (len > 4 && e->d_name[0] != '.' && !strcmp(e->d_name + len - 4, ".net") &&
            (name[*names] = strndup(e->d_name, len - 4)))
            ++*names;
    }
    if (d)
        closedir(d);
}

/* The names of all models, sorted, each once; the caller frees them. */
static int find_names(char **name)
{
    char path[PATH_MAX];
    int names = 0, kept = 0;

    for (int i = 0; i < PLACES; i++)
        if (folder(&places[i], path, sizeof path))
            add_folder(path, name, &names);
    qsort(name, (size_t)names, sizeof *name, by_name);
    for (int i = 0; i < names; i++) {
        if (kept && !strcmp(name[i], name[kept - 1]))
            free(name[i]);
        else
            name[kept++] = name[i];
    }
    return kept;
}

static weir_err no_such(const char *wanted)
{
    char *name[MAX_MODELS], known[400] = "";
    int names = find_names(name);
    size_t n = 0;

    for (int i = 0; i < names; free(name[i++]))
        if (n < sizeof known)
            n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", i ? ", " : "", name[i]);
    return weir_fail(
        WEIR_USAGE,
        "there is no model '%.100s'; there is %s; a model of your own is given as FILE.net", wanted,
        names ? known : "none");
}

/* ---- specs ---- */

static bool is_path(const char *name)
{
    size_t len = strlen(name);

    return strchr(name, '/') || (len > 4 && !strcmp(name + len - 4, ".net"));
}

static weir_err look_up(weir_zoo_spec *s, weir_arena *arena)
{
    char path[PATH_MAX];

    for (int i = 0; i < PLACES; i++) {
        size_t n;
        if (!folder(&places[i], path, sizeof path))
            continue;
        n = strlen(path);
        if ((size_t)snprintf(path + n, sizeof path - n, "/%s.net", s->name) < sizeof path - n &&
            weir_path_exists(path))
            return (s->path = weir_copy_text(arena, path)) ? WEIR_OK : weir_fail_nomem(n);
    }
    return no_such(s->name);
}

/* "dir/name.net" to "name". */
static weir_err short_name(weir_zoo_spec *s, weir_arena *arena)
{
    const char *base = strrchr(s->path, '/');
    size_t len;

    base = base ? base + 1 : s->path;
    if (!(s->name = weir_copy_text(arena, base)))
        return weir_fail_nomem(strlen(base));
    len = strlen(base);
    if (len > 4 && !strcmp(base + len - 4, ".net"))
        s->name[len - 4] = 0;
    return WEIR_OK;
}

/* Where the sizes begin: at the ':' before `size=`, as folders may have one in their names and
 * sizes may be divided; else at the first behind the folders. NULL: there are none. */
static char *find_sizes(char *spec)
{
    char *slash = strrchr(spec, '/');

    for (char *c = strchr(spec, ':'); c; c = strchr(c + 1, ':')) {
        size_t n = strspn(c + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
        if (n && c[1 + n] == '=')
            return c;
    }
    return strchr(slash ? slash : spec, ':');
}

/* A path, or only a name; and the sizes. */
static weir_err take_apart(const char *spec, weir_arena *arena, weir_zoo_spec *s)
{
    char *colon;

    *s = (weir_zoo_spec){.name = weir_copy_text(arena, spec)};
    if (!s->name)
        return weir_fail_nomem(strlen(spec));
    if ((colon = find_sizes(s->name))) {
        *colon = 0;
        s->sizes = colon + 1;
    }
    if (!s->name[0])
        return weir_fail(WEIR_USAGE, "a model needs a name");
    if (!is_path(s->name))
        return WEIR_OK;
    s->path = s->name;
    return short_name(s, arena);
}

weir_err weir_zoo_find(const char *spec, const char *file, weir_arena *arena, weir_zoo_spec *out)
{
    weir_zoo_spec s;

    WEIR_TRY(take_apart(spec, arena, &s));
    if (file)
        s.path = file;
    else if (!s.path)
        WEIR_TRY(look_up(&s, arena));
    *out = s;
    return WEIR_OK;
}

/* Whether what stood before the sizes is a path that wants a directory. */
static bool is_relative(const char *spec)
{
    char *name = strdup(spec), *colon;
    bool relative;

    if (!name)
        return false;
    if ((colon = find_sizes(name)))
        *colon = 0;
    relative = is_path(name) && name[0] != '/';
    free(name);
    return relative;
}

char *weir_zoo_spec_from(const char *spec, const char *dir)
{
    size_t n = strlen(dir), room = n + strlen(spec) + 2;
    const char *slash = n && dir[n - 1] == '/' ? "" : "/";
    char *whole = is_relative(spec) ? malloc(room) : NULL, *old = strdup(spec);

    if (!whole || !old)
        return free(whole), old;
    snprintf(whole, room, "%s%s%s", dir, slash, spec);
    n += strlen(slash);
    const char *was = find_sizes(old), *is = find_sizes(whole);
    /* where the directory looks like sizes, or ends a line, it is left out */
    bool same = is ? was && is - whole == was - old + (ptrdiff_t)n : !was;
    if (!same || strchr(whole, '\n'))
        return free(whole), old;
    free(old);
    return whole;
}

weir_err weir_zoo_read(const weir_zoo_spec *s, char **text, size_t *n)
{
    return weir_file_read(s->path, MAX_FILE, text, n);
}

/* ---- what files say of themselves ---- */

/* The file's lines as they are written, without data: `classes` is 1. The text is the caller's to
 * free. */
static weir_err read_lines(const char *spec, weir_arena *arena, char **text, weir_netfile **f)
{
    weir_netfile_source source = {0};
    weir_zoo_spec s;
    weir_err err;

    WEIR_TRY(weir_zoo_find(spec, NULL, arena, &s));
    WEIR_TRY(weir_zoo_read(&s, text, &source.n));
    source.path = s.path;
    source.text = *text;
    if ((err = weir_netfile_read(&source, 1, arena, f)))
        free(*text);
    return err;
}

static weir_err print_model(FILE *out, const char *name, weir_arena *arena)
{
    char *text, *help;
    weir_netfile *f;

    WEIR_TRY(read_lines(name, arena, &text, &f));
    help = text[0] == '#' ? text + 1 + strspn(text + 1, " ") : text;
    fprintf(out, "  %-12s %.*s\n", name, text[0] == '#' ? (int)strcspn(help, "\r\n") : 0, help);
    for (int i = 1; i < f->sizes; i++)
        fprintf(out, "      %s=%lld\n", f->size[i].name, (long long)f->size[i].value);
    free(text);
    return WEIR_OK;
}

bool weir_model_list(FILE *out)
{
    char *name[MAX_MODELS];
    int names = find_names(name);
    weir_arena *arena = weir_arena_new();

    fprintf(out, "model\n");
    for (int i = 0; i < names; free(name[i++]))
        if (arena && print_model(out, name[i], arena))
            fprintf(out, "  %-12s %s\n", name[i], weir_why_text());
    weir_arena_free(arena);
    return names > 0;
}

weir_err weir_model_bench_data(const char *spec, char *data, size_t room)
{
    weir_arena *arena = weir_arena_new();
    weir_netfile *f;
    char *text;
    weir_err err = arena ? read_lines(spec, arena, &text, &f) : weir_fail_nomem(0);

    if (!err) {
        if (!f->bench)
            err =
                weir_fail(WEIR_USAGE, "%s has no bench line: name the data to bench with", f->path);
        else if ((size_t)snprintf(data, room, "%s", f->bench) >= room)
            err = weir_fail(WEIR_INVALID, "%s: its bench line is too long", f->path);
        free(text);
    }
    weir_arena_free(arena);
    return err;
}
