/* dir.c - directories: made with their parents, synced, removed with all that is in them. */
#include "core/file.h"
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static weir_err disk_error(const char *path, const char *verb, int number)
{
    return weir_fail(WEIR_DISK, "%s: cannot %s: %s", path, verb, strerror(number));
}

static weir_err make_one(const char *path)
{
    struct stat st;

    if (!mkdir(path, 0777) || (errno == EEXIST && !stat(path, &st) && S_ISDIR(st.st_mode)))
        return WEIR_OK;
    return disk_error(path, "be made a directory", errno);
}

weir_err weir_dir_make(const char *path)
{
    char *part = strdup(path);
    weir_err err = part ? WEIR_OK : weir_fail_nomem(strlen(path));

    for (char *c = part; !err && *c; c++) {
        if (c == part || *c != '/' || c[-1] == '/')
            continue;
        *c = 0;
        err = make_one(part);
        *c = '/';
    }
    free(part);
    return err ? err : make_one(path);
}

weir_err weir_dir_sync(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), why = 0;

    if (fd < 0)
        return disk_error(path, "be opened as a directory", errno);
    if (fsync(fd) && errno != EINVAL) /* some file systems cannot, and need not */
        why = errno;
    close(fd);
    return why ? disk_error(path, "be written", why) : WEIR_OK;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path) && errno != ENOENT ? (int)disk_error(path, "be removed", errno) : 0;
}

weir_err weir_tree_remove(const char *path)
{
    int err = nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);

    if (err < 0 && errno != ENOENT)
        return disk_error(path, "be removed", errno);
    return err < 0 ? WEIR_OK : (weir_err)err;
}

bool weir_path_exists(const char *path) { return !access(path, F_OK); }
