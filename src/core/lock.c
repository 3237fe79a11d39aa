/* lock.c - flock: it belongs to an open file, so that two runs of one process exclude each other
 * too, and Linux carries it over NFS. */
#include "core/lock.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct weir_lock {
    int fd;
    char path[];
};

static bool is_at(int fd, const char *path)
{
    struct stat open, there;

    return !fstat(fd, &open) && !stat(path, &there) && open.st_dev == there.st_dev &&
           open.st_ino == there.st_ino;
}

/* What its holder wrote, in one line of plain letters, and when that was. */
static void read_holder(int fd, char holder[WEIR_LOCK_HOLDER])
{
    char who[120] = "", when[40] = "";
    struct stat st;
    struct tm tm;
    ssize_t n = pread(fd, who, sizeof who - 1, 0);

    who[n > 0 ? n : 0] = 0;
    who[strcspn(who, "\n")] = 0;
    for (char *c = who; *c; c++)
        *c = *c < ' ' || *c > '~' ? '?' : *c;
    if (!fstat(fd, &st) && localtime_r(&st.st_mtime, &tm))
        strftime(when, sizeof when, " since %Y-%m-%d %H:%M:%S", &tm);
    snprintf(holder, WEIR_LOCK_HOLDER, "%s%s", who[0] ? who : "another process", when);
}

/* 0: it is ours. A file that was removed between our opening and our locking it is nobody's, and is
 * passed over. */
static int open_and_lock(const char *path, int *fd)
{
    for (;;) {
        if ((*fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666)) < 0)
            return errno;
        if (flock(*fd, LOCK_EX | LOCK_NB))
            return errno;
        if (is_at(*fd, path))
            return 0;
        close(*fd);
    }
}

weir_err weir_lock_take(const char *path, const char *who, weir_lock **lock, bool *sure,
                        char holder[WEIR_LOCK_HOLDER])
{
    weir_lock *l = malloc(sizeof *l + strlen(path) + 1);
    int why;

    if (!l)
        return weir_fail_nomem(sizeof *l);
    strcpy(l->path, path);
    why = open_and_lock(path, &l->fd);
    if (l->fd < 0)
        return free(l), weir_fail(WEIR_DISK, "%s: cannot be written: %s", path, strerror(why));
    if (why == EWOULDBLOCK) {
        read_holder(l->fd, holder);
        close(l->fd);
        free(l);
        return weir_fail(WEIR_USAGE, "%s is held by %s", path, holder);
    }
    *sure = !why;
    /* who holds it is for people: a disk that is full shall not stop anybody here */
    if (ftruncate(l->fd, 0) || dprintf(l->fd, "%s\n", who) < 0)
        errno = 0;
    *lock = l;
    return WEIR_OK;
}

bool weir_lock_stands(const weir_lock *l) { return is_at(l->fd, l->path); }

/* Removed before it is let go: whoever opened it meanwhile sees that it is not there any more. */
void weir_lock_release(weir_lock *l)
{
    if (!l)
        return;
    if (weir_lock_stands(l))
        unlink(l->path);
    close(l->fd);
    free(l);
}
