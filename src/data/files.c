/* files.c - finding files by their names. */
#include "data/files.h"
#include "core/file.h"
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool weir_files_begin(const char *name, const char *word)
{
    for (size_t n; *word; word += word[n] ? n + 1 : n) {
        n = strcspn(word, "|");
        if (!strncmp(name, word, n) && (name[n] == '-' || name[n] == '.'))
            return true;
    }
    return false;
}

bool weir_files_end(const char *name, const char *ending)
{
    size_t n = strlen(name), m = strlen(ending);

    if (n > 3 && !strcmp(name + n - 3, ".gz"))
        n -= 3;
    return n >= m && !strncmp(name + n - m, ending, m);
}

bool weir_files_is_dir(const char *path)
{
    struct stat st;

    return !stat(path, &st) && S_ISDIR(st.st_mode);
}

weir_err weir_files_read(const char *path, char **bytes, size_t *n)
{
    size_t memory = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);

    return weir_file_read(path, memory, bytes, n);
}

/* ---- what a directory has ---- */

typedef struct listing {
    struct dirent **entry;
    int n;
} listing;

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static bool has(const listing *l, const char *name, size_t n)
{
    for (int i = 0; i < l->n; i++)
        if (!strncmp(l->entry[i]->d_name, name, n) && !l->entry[i]->d_name[n])
            return true;
    return false;
}

static bool wanted(const listing *l, const struct dirent *e, weir_files_fit fits, const char *word)
{
    size_t n = strlen(e->d_name);

    if (e->d_name[0] == '.' || e->d_type == DT_DIR || !fits(e->d_name, word))
        return false;
    return n < 4 || strcmp(e->d_name + n - 3, ".gz") || !has(l, e->d_name, n - 3);
}

static weir_err add_path(const char *dir, const char *name, weir_arena *a, weir_files *files)
{
    size_t room = strlen(dir) + strlen(name) + 2;
    char *path = weir_alloc(a, room);

    if (!path)
        return weir_fail_nomem(room);
    snprintf(path, room, "%s/%s", dir, name);
    files->path[files->n++] = path;
    return WEIR_OK;
}

weir_err weir_files_find(const char *dir, weir_files_fit fits, const char *word, weir_arena *a,
                         weir_files *files)
{
    weir_files made = {0};
    listing l = {0};
    weir_err err = WEIR_OK;

    if ((l.n = scandir(dir, &l.entry, NULL, by_name)) < 0)
        return weir_fail(WEIR_INVALID, "%s: no directory with data could be opened: %s", dir,
                         strerror(errno));
    if (!(made.path = WEIR_NEW(a, const char *, l.n)))
        err = weir_fail_nomem((size_t)l.n * sizeof *made.path);
    for (int i = 0; !err && i < l.n; i++)
        if (wanted(&l, l.entry[i], fits, word))
            err = add_path(dir, l.entry[i]->d_name, a, &made);
    for (int i = 0; i < l.n; i++)
        free(l.entry[i]);
    free(l.entry);
    if (!err)
        *files = made;
    return err;
}

weir_err weir_files_one(const char *dir, weir_files_fit fits, const char *word, const char *what,
                        weir_arena *a, const char **path)
{
    size_t skip = strlen(dir) + 1;
    weir_files found;

    WEIR_TRY(weir_files_find(dir, fits, word, a, &found));
    if (found.n > 1)
        return weir_fail(WEIR_INVALID, "%s: both %s and %s are there, one of them was expected",
                         dir, found.path[0] + skip, found.path[1] + skip);
    if (!found.n && what)
        return weir_fail(WEIR_INVALID, "%s: there is no %s, plain or .gz", dir, what);
    *path = found.n ? found.path[0] : NULL;
    return WEIR_OK;
}
