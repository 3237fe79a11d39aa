/* zmq_key.c - the cluster's key as a file. */
#include "net/key.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

static const char HEADER[] = "weir cluster key 1\n"; /* then the secret and a newline */
enum { HEADER_LEN = sizeof HEADER - 1, SECRET_LEN = 40, FILE_LEN = HEADER_LEN + SECRET_LEN + 1 };

void weir_key_wipe(weir_key *k) { explicit_bzero(k, sizeof *k); }

static weir_err draw(weir_key *k)
{
    if (zmq_curve_keypair(k->open, k->secret))
        return weir_fail(WEIR_FAILED,
                         "this machine's ZeroMQ library makes no keys: it was built without CURVE");
    return WEIR_OK;
}

static weir_err write_key(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), why = 0;

    if (fd < 0 && errno == EEXIST)
        return weir_fail(WEIR_USAGE,
                         "%s exists: it is left as it is; remove it first, or name another file",
                         path);
    if (fd < 0)
        return weir_fail(WEIR_DISK, "%s: the key cannot be written: %s", path, strerror(errno));
    errno = EIO; /* of a write that was cut short */
    if (fchmod(fd, 0600) || write(fd, text, FILE_LEN) != FILE_LEN || fsync(fd))
        why = errno;
    if (close(fd) && !why)
        why = errno;
    if (!why)
        return WEIR_OK;
    unlink(path);
    return weir_fail(WEIR_DISK, "%s: the key cannot be written: %s", path, strerror(why));
}

weir_err weir_key_make(const char *path)
{
    char text[FILE_LEN + 1];
    weir_key k;
    weir_err err = draw(&k);

    if (!err) {
        snprintf(text, sizeof text, "%s%s\n", HEADER, k.secret);
        err = write_key(path, text);
    }
    explicit_bzero(text, sizeof text);
    weir_key_wipe(&k);
    return err;
}

/* Opens the file if nobody else can read what it holds. */
static weir_err open_private(const char *path, int *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;

    if (fd < 0)
        return weir_fail(WEIR_DENIED, "the key file %s cannot be read: %s", path, strerror(errno));
    if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
        close(fd);
        return weir_fail(WEIR_DENIED, "the key file %s is not a file", path);
    }
    if (st.st_mode & 077 || (st.st_uid != geteuid() && st.st_uid != 0)) {
        close(fd);
        if (st.st_mode & 077)
            return weir_fail(WEIR_DENIED,
                             "the key file %s can be read by others (mode %04o): chmod 600 %s",
                             path, (unsigned)st.st_mode & 07777, path);
        return weir_fail(WEIR_DENIED, "the key file %s belongs to another user (%u)", path,
                         (unsigned)st.st_uid);
    }
    *out = fd;
    return WEIR_OK;
}

weir_err weir_key_read(const char *path, weir_key *out)
{
    char text[FILE_LEN + 2];
    weir_key k = {0};
    ssize_t n;
    int fd = -1;
    bool good;

    WEIR_TRY(open_private(path, &fd));
    n = read(fd, text, sizeof text);
    close(fd);
    good = n == FILE_LEN && !memcmp(text, HEADER, HEADER_LEN) && text[FILE_LEN - 1] == '\n';
    if (good) {
        memcpy(k.secret, text + HEADER_LEN, SECRET_LEN);
        good = !zmq_curve_public(k.open, k.secret);
    }
    explicit_bzero(text, sizeof text);
    if (good)
        *out = k;
    weir_key_wipe(&k);
    return good ? WEIR_OK
                : weir_fail(WEIR_DENIED, "%s holds no key of this version: weir keygen makes one",
                            path);
}
