/* zoo.c - model files: beside the program (build tree, then installed), in the source tree, where they were to be installed. */
#include "nn/zoo.h"
#include "core/file.h"
#include "nn/model.h"
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_MODELS = 256 };

static const struct place {
    bool beside; /* counted from the program's folder */
    const char *path;
} places[] = {
    {true, "../../models"}, {true, "../share/weir/models"}, {false, WEIR_SOURCE_DIR "/models"}, {false, WEIR_SHARE_DIR "/models"}};
enum { PLACES = sizeof places / sizeof *places };

/* The folder of a place; false: it has none. */
static bool folder(const struct place *p, char *path, size_t room)
{
    char program[PATH_MAX];
    ssize_t n;

    if (!p->beside)
        return (size_t)snprintf(path, room, "%s", p->path) < room;
    if ((n = readlink("/proc/self/exe", program, sizeof program - 1)) <= 0)
        return false;
    program[n] = 0;
    *strrchr(program, '/') = 0;
    return (size_t)snprintf(path, room, "%s/%s", program, p->path) < room;
}

/* ---- what there is ---- */

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void add_folder(const char *path, char **name, int *names)
{
    DIR *d = opendir(path);

    for (struct dirent *e; d && *names < MAX_MODELS && (e = readdir(d));) {
        size_t len = strlen(e->d_name);
        if (len > 4 && e->d_name[0] != '.' && !strcmp(e->d_name + len - 4, ".net") && (name[*names] = strndup(e->d_name, len - 4)))
            ++*names;
    }
    if (d)
        closedir(d);
}

void weir_model_list(char *text, size_t room)
{
    char *name[MAX_MODELS], path[PATH_MAX];
    int names = 0;
    size_t n = 0;

    for (int i = 0; i < PLACES; i++)
        if (folder(&places[i], path, sizeof path))
            add_folder(path, name, &names);
    qsort(name, (size_t)names, sizeof *name, by_name);
    text[0] = 0;
    for (int i = 0; i < names; i++) {
        if (n < room && (!i || strcmp(name[i], name[i - 1])))
            n += (size_t)snprintf(text + n, room - n, "%s%s", n ? ", " : "", name[i]);
    }
    for (int i = 0; i < names; i++)
        free(name[i]);
}

/* ---- specs ---- */

static bool is_path(const char *name)
{
    size_t len = strlen(name);

    return strchr(name, '/') || (len > 4 && !strcmp(name + len - 4, ".net"));
}

static weir_err look_up(weir_zoo_spec *s, weir_arena *arena)
{
    char path[PATH_MAX], known[400];

    for (int i = 0; i < PLACES; i++) {
        size_t n;
        if (!folder(&places[i], path, sizeof path))
            continue;
        n = strlen(path);
        if ((size_t)snprintf(path + n, sizeof path - n, "/%s.net", s->name) < sizeof path - n && weir_path_exists(path))
            return (s->path = weir_copy_text(arena, path)) ? WEIR_OK : weir_fail_nomem(n);
    }
    weir_model_list(known, sizeof known);
    return weir_fail(WEIR_USAGE, "there is no model '%.100s'; there is %s; a model of your own is given as FILE.net", s->name,
                     known[0] ? known : "none");
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

weir_err weir_zoo_find(const char *spec, weir_arena *arena, weir_zoo_spec *out)
{
    weir_zoo_spec s = {.name = weir_copy_text(arena, spec)};
    char *slash, *colon;

    if (!s.name)
        return weir_fail_nomem(strlen(spec));
    slash = strrchr(s.name, '/');
    if ((colon = strchr(slash ? slash : s.name, ':'))) {
        *colon = 0;
        s.sizes = colon + 1;
    }
    if (!s.name[0])
        return weir_fail(WEIR_USAGE, "a model needs a name");
    if (is_path(s.name)) {
        s.path = s.name;
        WEIR_TRY(short_name(&s, arena));
    } else {
        WEIR_TRY(look_up(&s, arena));
    }
    *out = s;
    return WEIR_OK;
}
