/* file.c - files without a name until they are whole; reading, gunzipped where need be. */
#include "core/file.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/* ALIGN: of what goes around the kernel's cache, in memory and in the file; LEAST: what a reader
 * has room for at first */
enum { BUFFER = 1 << 20, ALIGN = 4096, LEAST = 256 << 10, TRIES = 100 };

struct weir_file {
    int fd, bad;       /* bad: errno of the first write that failed */
    char *path, *temp; /* temp NULL: it has no name yet */
    bool direct;       /* what is written goes around the kernel's cache */
    bool refused;      /* that cannot be had */
    size_t used;
    char *buffer;
};

static weir_err disk_error(const char *path, const char *verb, int number)
{
    return weir_fail(WEIR_DISK, "%s: cannot %s: %s", path, verb, strerror(number));
}

/* ---- names that live for microseconds ---- */

/* A hidden name in the directory of `path`, malloc'ed; another one for every `n`. */
static char *hidden_name(const char *path, int n)
{
    const char *slash = strrchr(path, '/');
    char *name;

    if (asprintf(&name, "%.*s.weir-%ld-%d", slash ? (int)(slash + 1 - path) : 0, path,
                 (long)getpid(), n) < 0)
        return NULL;
    return name;
}

typedef int (*maker)(const void *arg, const char *name); /* as a system call: -1 and errno */

/* Makes something under a hidden name nobody has. What the maker returned, or -1 and errno. */
static int make_hidden(const char *path, maker make, const void *arg, char **name)
{
    for (int n = 0; n < TRIES; n++) {
        int made;
        if (!(*name = hidden_name(path, n))) {
            errno = ENOMEM;
            return -1;
        }
        if ((made = make(arg, *name)) >= 0)
            return made;
        free(*name);
        *name = NULL;
        if (errno != EEXIST)
            return -1;
    }
    return -1;
}

static int make_file(const void *arg, const char *name)
{
    (void)arg;
    return open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
}

/* gives an open file its name: arg is the descriptor */
static int make_name(const void *arg, const char *name)
{
    char self[64];

    snprintf(self, sizeof self, "/proc/self/fd/%d", *(const int *)arg);
    return linkat(AT_FDCWD, self, AT_FDCWD, name, AT_SYMLINK_FOLLOW);
}

static int make_link(const void *arg, const char *name) { return symlink(arg, name); }

/* Takes the hidden name, which it frees; 0, or -1 and errno. */
static int rename_hidden(char *name, const char *path)
{
    int done = rename(name, path), why = errno;

    if (done)
        unlink(name);
    free(name);
    errno = why;
    return done;
}

/* ---- writing ---- */

/* A file without a name, where the file system and /proc allow it; else one under a hidden name. */
static int open_new(const char *dir, char **temp)
{
    char *inside;
    int fd = access("/proc/self/fd", X_OK) ? -1 : open(dir, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);

    *temp = NULL;
    if (fd >= 0 || asprintf(&inside, "%s/", dir) < 0)
        return fd;
    fd = make_hidden(inside, make_file, NULL, temp);
    free(inside);
    return fd;
}

weir_err weir_file_create(const char *path, weir_file **made)
{
    const char *slash = strrchr(path, '/');
    char *dir = slash == path ? strdup("/")
                : slash       ? strndup(path, (size_t)(slash - path))
                              : strdup(".");
    weir_err err = dir ? weir_file_create_in(dir, path, made) : weir_fail_nomem(strlen(path));

    free(dir);
    return err;
}

weir_err weir_file_create_in(const char *dir, const char *path, weir_file **made)
{
    weir_file *f = calloc(1, sizeof *f);
    int why;

    if (!f)
        return weir_fail_nomem(sizeof *f);
    f->fd = -1;
    f->buffer = aligned_alloc(ALIGN, BUFFER);
    f->path = strdup(path);
    if (!f->buffer || !f->path)
        return weir_file_drop(f), weir_fail_nomem(BUFFER);
    if ((f->fd = open_new(dir, &f->temp)) < 0) {
        why = errno;
        weir_file_drop(f);
        return disk_error(path, "be created", why);
    }
    *made = f;
    return WEIR_OK;
}

static void set_direct(weir_file *f, bool direct)
{
    int flags = fcntl(f->fd, F_GETFL);

    f->refused |= fcntl(f->fd, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT) != 0;
    f->direct = direct && !f->refused;
}

static weir_err write_all(weir_file *f, const char *bytes, size_t n)
{
    while (n && !f->bad) {
        ssize_t k = write(f->fd, bytes, n);
        if (k > 0) {
            bytes += k;
            n -= (size_t)k;
        } else if (k && errno == EINVAL && f->direct) {
            f->refused = true;
            set_direct(f, false);
        } else if (!k || errno != EINTR) {
            f->bad = k ? errno : ENOSPC;
        }
    }
    return f->bad ? disk_error(f->path, "be written", f->bad) : WEIR_OK;
}

/* Whole buffers, which only large files have, go around the kernel's cache: nobody reads them soon,
 * and copying them there takes a core's time from training. The rest goes the usual way. */
static weir_err flush(weir_file *f)
{
    size_t n = f->used;
    bool direct = n == BUFFER && !f->refused;

    if (direct != f->direct)
        set_direct(f, direct);
    f->used = 0;
    return write_all(f, f->buffer, n);
}

weir_err weir_file_write(weir_file *f, const void *bytes, size_t n)
{
    const char *from = bytes;

    while (n) {
        size_t k = n < BUFFER - f->used ? n : BUFFER - f->used;
        memcpy(f->buffer + f->used, from, k);
        f->used += k;
        from += k;
        n -= k;
        if (f->used == BUFFER)
            WEIR_TRY(flush(f));
    }
    return WEIR_OK;
}

/* 0, or -1 and errno. Without a name, a free place takes it at once; one that is taken is replaced
 * by a rename. */
static int give_name(weir_file *f)
{
    char *name = f->temp;

    f->temp = NULL;
    if (name)
        return rename_hidden(name, f->path);
    if (!make_name(&f->fd, f->path))
        return 0;
    if (errno != EEXIST || make_hidden(f->path, make_name, &f->fd, &name))
        return -1;
    return rename_hidden(name, f->path);
}

weir_err weir_file_sync(weir_file *f)
{
    WEIR_TRY(flush(f));
    return fsync(f->fd) ? disk_error(f->path, "be written", errno) : WEIR_OK;
}

weir_err weir_file_commit(weir_file *f)
{
    weir_err err = weir_file_sync(f);

    if (!err && give_name(f))
        err = disk_error(f->path, "be put in place", errno);
    weir_file_drop(f);
    return err;
}

void weir_file_drop(weir_file *f)
{
    if (!f)
        return;
    if (f->temp)
        unlink(f->temp);
    if (f->fd >= 0)
        close(f->fd);
    free(f->buffer);
    free(f->temp);
    free(f->path);
    free(f);
}

/* ---- reading ---- */

typedef struct text {
    const char *path;
    char *bytes;
    size_t n, room, limit;
} text;

static weir_err read_error(const char *path)
{
    return weir_fail(WEIR_INVALID, "%s: cannot be read: %s", path, strerror(errno));
}

/* Room for one more byte, and the 0 behind it. One byte over the limit is let in, to be noticed. */
static weir_err grow(text *t)
{
    size_t most = t->limit < SIZE_MAX / 2 ? t->limit + 2 : SIZE_MAX / 2, room = t->room * 2;
    char *bytes;

    if (t->n > t->limit)
        return weir_fail(WEIR_INVALID, "%s: longer than the %zu bytes that are allowed", t->path,
                         t->limit);
    if (t->bytes && t->n + 1 < t->room)
        return WEIR_OK;
    room = room < LEAST ? LEAST : room;
    room = room > most ? most : room;
    if (!(bytes = realloc(t->bytes, room)))
        return weir_fail_nomem(room);
    t->bytes = bytes;
    t->room = room;
    return WEIR_OK;
}

/* As read, but goes on after a signal. */
static ssize_t read_some(int fd, void *to, size_t n)
{
    ssize_t k;

    do
        k = read(fd, to, n);
    while (k < 0 && errno == EINTR);
    return k;
}

static weir_err read_plain(int fd, text *t)
{
    ssize_t k;

    do {
        WEIR_TRY(grow(t));
        if ((k = read_some(fd, t->bytes + t->n, t->room - t->n - 1)) < 0)
            return read_error(t->path);
        t->n += (size_t)k;
    } while (k);
    return WEIR_OK;
}

/* Inflates what is in `z`, whose state is `*at`: Z_OK inside a member, Z_STREAM_END between two. */
static weir_err inflate_some(z_stream *z, int *at, text *t)
{
    do {
        if (*at == Z_STREAM_END && inflateReset(z) != Z_OK)
            return weir_fail(WEIR_FAILED, "%s: zlib cannot go on", t->path);
        WEIR_TRY(grow(t));
        size_t room = t->room - t->n - 1;
        z->next_out = (unsigned char *)t->bytes + t->n;
        z->avail_out = room > UINT_MAX ? UINT_MAX : (unsigned)room;
        room = z->avail_out;
        *at = inflate(z, Z_NO_FLUSH);
        t->n += room - z->avail_out;
        if (*at == Z_BUF_ERROR) /* all is used up: more input is needed */
            *at = Z_OK;
        if (*at == Z_MEM_ERROR)
            return weir_fail_nomem(0);
        if (*at != Z_OK && *at != Z_STREAM_END)
            return weir_fail(WEIR_INVALID, "%s: damaged gzip data: %s", t->path,
                             z->msg ? z->msg : "no end");
    } while (z->avail_in || (*at == Z_OK && !z->avail_out));
    return WEIR_OK;
}

static weir_err read_gzip(int fd, text *t)
{
    unsigned char in[16 << 10];
    z_stream z = {0};
    int at = Z_OK;
    weir_err err = WEIR_OK;
    ssize_t k = 0;

    if (inflateInit2(&z, 16 + MAX_WBITS) != Z_OK)
        return weir_fail_nomem(sizeof z);
    while (!err && (k = read_some(fd, in, sizeof in)) > 0) {
        z.next_in = in;
        z.avail_in = (unsigned)k;
        err = inflate_some(&z, &at, t);
    }
    if (!err && k < 0)
        err = read_error(t->path);
    if (!err && at != Z_STREAM_END)
        err = weir_fail(WEIR_INVALID, "%s: damaged gzip data: the file ends too early", t->path);
    inflateEnd(&z);
    return err ? err : grow(t);
}

static weir_err read_open(int fd, text *t)
{
    unsigned char magic[2] = {0};
    struct stat st;

    if (fstat(fd, &st))
        return read_error(t->path);
    if (!S_ISREG(st.st_mode))
        return weir_fail(WEIR_INVALID, "%s: not a regular file", t->path);
    if (pread(fd, magic, 2, 0) == 2 && magic[0] == 0x1f && magic[1] == 0x8b)
        return read_gzip(fd, t);
    if ((uintmax_t)st.st_size <= t->limit) /* only to spare the doubling */
        t->room = ((size_t)st.st_size + 3) / 2;
    return read_plain(fd, t);
}

weir_err weir_file_read(const char *path, size_t limit, char **bytes, size_t *n)
{
    text t = {.path = path, .limit = limit};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not hold us up */
    weir_err err;

    if (fd < 0)
        return read_error(path);
    err = read_open(fd, &t);
    close(fd);
    if (err) {
        free(t.bytes);
        return err;
    }
    t.bytes[t.n] = 0;
    *bytes = t.bytes;
    *n = t.n;
    return WEIR_OK;
}

/* ---- links ---- */

weir_err weir_link_replace(const char *target, const char *path)
{
    char *name;

    if (make_hidden(path, make_link, target, &name) || rename_hidden(name, path))
        return disk_error(path, "be made a link", errno);
    return WEIR_OK;
}
