/* Files that are whole or not there: writing, replacing, failing; reading plain and gzipped, whole
 * and damaged; directories. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants those first */
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <zlib.h>
#include "core/file.h"
#include "core/rng.h"

static char dir[64], path[512];

/* ---- system calls that fail when told to: these stand before libc's ---- */

static struct {
    bool no_tmpfile;
    size_t short_write; /* at most so many bytes a call; every other call is interrupted */
    long room;          /* bytes until ENOSPC; -1: no end */
    bool bad_sync, bad_link;
} fault = {.room = -1};

int open(const char *name, int flags, ...)
{
    va_list list;
    mode_t mode;

    va_start(list, flags);
    mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0;
    va_end(list);
    if (fault.no_tmpfile && (flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return openat(AT_FDCWD, name, flags, mode);
}

ssize_t write(int fd, const void *bytes, size_t n)
{
    static int calls;

    if (fault.short_write && calls++ % 2) {
        errno = EINTR;
        return -1;
    }
    if (fault.short_write && n > fault.short_write)
        n = fault.short_write;
    if (fault.room == 0) {
        errno = ENOSPC;
        return -1;
    }
    if (fault.room > 0) {
        n = n < (size_t)fault.room ? n : (size_t)fault.room;
        fault.room -= (long)n;
    }
    return syscall(SYS_write, fd, bytes, n);
}

int fsync(int fd)
{
    errno = EIO;
    return fault.bad_sync ? -1 : (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to)
{
    errno = EDQUOT;
    return fault.bad_link ? -1 : renameat(AT_FDCWD, from, AT_FDCWD, to);
}

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/weir-test-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return (int)weir_tree_remove(dir);
}

static const char *in_dir(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static int entries(void)
{
    DIR *d = opendir(dir);
    int n = -2; /* . and .. */

    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static void write_whole(const char *name, const void *bytes, size_t n)
{
    weir_file *f;

    assert_int_equal(weir_file_create(in_dir(name), &f), WEIR_OK);
    assert_int_equal(weir_file_write(f, bytes, n), WEIR_OK);
    assert_int_equal(weir_file_commit(f), WEIR_OK);
}

static void check_content(const char *name, const void *bytes, size_t n)
{
    char *got;
    size_t len;

    assert_int_equal(weir_file_read(in_dir(name), n, &got, &len), WEIR_OK);
    assert_int_equal(len, n);
    assert_memory_equal(got, bytes, n);
    assert_int_equal(got[n], 0);
    free(got);
}

static void check_fails(weir_err err, weir_err want, const char *word)
{
    if (err != want || !strstr(weir_why_text(), word))
        fail_msg("code %d, not %d, or no '%s' in: %s", err, want, word, weir_why_text());
}

/* ---- writing ---- */

static bool has_tmpfile(void)
{
    int fd = open(dir, O_TMPFILE | O_WRONLY, 0600);

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static void nothing_is_there_until_commit(void **state)
{
    weir_file *f;

    (void)state;
    assert_int_equal(weir_file_create(in_dir("new"), &f), WEIR_OK);
    assert_int_equal(weir_file_write(f, "abc", 3), WEIR_OK);
    assert_int_equal(entries(), has_tmpfile() ? 0 : 1);
    assert_false(weir_path_exists(in_dir("new")));
    assert_int_equal(weir_file_commit(f), WEIR_OK);
    assert_int_equal(entries(), 1);
    check_content("new", "abc", 3);
    assert_int_equal(weir_file_create(in_dir("dropped"), &f), WEIR_OK);
    weir_file_drop(f);
    assert_int_equal(entries(), 1);
    unlink(in_dir("new"));
}

/* A megabyte is put together before it is written, and goes around the kernel's cache if it is
 * whole: lengths about one and two of them, in pieces that fit nowhere. */
static void files_of_any_length_are_what_was_written(void **state)
{
    static const size_t lengths[] = {0,       1,       4095,    4096,    1048575,
                                     1048576, 1048577, 1052672, 2097152, 3000001};
    static char bytes[3000001];

    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 2654435761u >> 13);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (size_t piece = 777; piece <= sizeof bytes; piece *= 3861) {
            weir_file *f;
            assert_int_equal(weir_file_create(in_dir("long"), &f), WEIR_OK);
            for (size_t at = 0, n; at < lengths[i]; at += n) {
                n = lengths[i] - at < piece ? lengths[i] - at : piece;
                assert_int_equal(weir_file_write(f, bytes + at, n), WEIR_OK);
            }
            assert_int_equal(weir_file_commit(f), WEIR_OK);
            check_content("long", bytes, lengths[i]);
        }
    unlink(in_dir("long"));
}

static void without_tmpfile_the_name_is_hidden_and_goes(void **state)
{
    weir_file *f;

    (void)state;
    fault.no_tmpfile = true;
    assert_int_equal(weir_file_create(in_dir("new"), &f), WEIR_OK);
    assert_false(weir_path_exists(in_dir("new")));
    assert_int_equal(entries(), 1);
    assert_int_equal(weir_file_write(f, "abc", 3), WEIR_OK);
    assert_int_equal(weir_file_commit(f), WEIR_OK);
    assert_int_equal(entries(), 1);
    check_content("new", "abc", 3);
    write_whole("new", "other", 5);
    check_content("new", "other", 5);
    assert_int_equal(weir_file_create(in_dir("new"), &f), WEIR_OK);
    weir_file_drop(f);
    assert_int_equal(entries(), 1);
    check_content("new", "other", 5);
    fault.no_tmpfile = false;
    unlink(in_dir("new"));
}

/* where checkpoints begin: the directory of the name comes into being only when the content is
 * whole */
static void the_directory_may_be_made_later(void **state)
{
    weir_file *f;

    (void)state;
    for (int i = 0; i < 4; i++) {
        fault.no_tmpfile = i % 2;
        assert_int_equal(weir_file_create_in(dir, in_dir("later/file"), &f), WEIR_OK);
        assert_int_equal(weir_file_write(f, "abc", 3), WEIR_OK);
        assert_int_equal(weir_file_sync(f), WEIR_OK);
        if (i >= 2) {
            check_fails(weir_file_commit(f), WEIR_DISK,
                        "later/file: cannot be put in place: No such file");
        } else {
            assert_int_equal(weir_dir_make(in_dir("later")), WEIR_OK);
            assert_int_equal(weir_file_commit(f), WEIR_OK);
            check_content("later/file", "abc", 3);
            assert_int_equal(weir_tree_remove(in_dir("later")), WEIR_OK);
        }
        assert_int_equal(entries(), 0);
    }
    fault.no_tmpfile = false;
}

static void commit_replaces_and_leaves_no_other_name(void **state)
{
    struct stat st;

    (void)state;
    write_whole("twice", "first and longer", 16);
    write_whole("twice", "second", 6);
    check_content("twice", "second", 6);
    assert_int_equal(entries(), 1);
    assert_int_equal(stat(in_dir("twice"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0644); /* umask 022 */
    unlink(in_dir("twice"));
}

static void many_small_and_few_large_writes_keep_their_order(void **state)
{
    enum { N = 3 << 20 };
    char *want = malloc(N);
    weir_rng r = weir_rng_at(1, WEIR_RNG_TEST, 0, 0);
    weir_file *f;

    (void)state;
    assert_non_null(want);
    for (int i = 0; i < N; i++)
        want[i] = (char)weir_rng_u32(&r);
    assert_int_equal(weir_file_create(in_dir("big"), &f), WEIR_OK);
    for (size_t i = 0, n; i < N; i += n) {
        n = weir_rng_below(&r, i % 3 ? 5000 : 400000);
        n = n < N - i ? n : N - i;
        assert_int_equal(weir_file_write(f, want + i, n), WEIR_OK);
    }
    assert_int_equal(weir_file_commit(f), WEIR_OK);
    check_content("big", want, N);
    free(want);
    unlink(in_dir("big"));
}

static void short_and_interrupted_writes_go_on(void **state)
{
    weir_rng r = weir_rng_at(1, WEIR_RNG_TEST, 0, 0);
    static char want[700000];

    (void)state;
    for (size_t i = 0; i < sizeof want; i++)
        want[i] = (char)weir_rng_u32(&r);
    fault.short_write = 1013;
    write_whole("short", want, sizeof want);
    fault.short_write = 0;
    check_content("short", want, sizeof want);
    unlink(in_dir("short"));
}

/* one commit over an old file, with a fault set: the old one stays, nothing else does */
static void check_commit_fails(const char *word)
{
    static const char zeros[1000];
    weir_file *f;

    assert_int_equal(weir_file_create(in_dir("old"), &f), WEIR_OK);
    assert_int_equal(weir_file_write(f, zeros, sizeof zeros), WEIR_OK);
    check_fails(weir_file_commit(f), WEIR_DISK, word);
    check_content("old", "old", 3);
    assert_int_equal(entries(), 1);
}

static void a_failed_commit_leaves_all_as_it_was(void **state)
{
    (void)state;
    write_whole("old", "old", 3);
    for (int i = 0; i < 2; i++) {
        fault.no_tmpfile = i;
        fault.room = 100;
        check_commit_fails("/old: cannot be written: No space left");
        fault.room = -1;
        fault.bad_sync = true;
        check_commit_fails("/old: cannot be written: Input/output error");
        fault.bad_sync = false;
        fault.bad_link = true;
        check_commit_fails("/old: cannot be put in place: Disk quota exceeded");
        fault.bad_link = false;
    }
    fault.no_tmpfile = false;
    unlink(in_dir("old"));
}

/* A file that may not grow stands for a full disk. What was there before stays. */
static void a_full_disk_names_the_file_and_keeps_the_old(void **state)
{
    struct rlimit old, small;
    static const char zeros[3000000];
    weir_file *f;
    weir_err err;

    (void)state;
    write_whole("full", "old", 3);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    small = (struct rlimit){100000, old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    assert_int_equal(weir_file_create(in_dir("full"), &f), WEIR_OK);
    err = weir_file_write(f, zeros, sizeof zeros);
    check_fails(err, WEIR_DISK, "/full: cannot be written: File too large");
    check_fails(weir_file_commit(f), WEIR_DISK, "/full"); /* the failure is remembered */
    assert_int_equal(weir_file_create(in_dir("full"), &f), WEIR_OK);
    /* still in the buffer: the commit meets it */
    assert_int_equal(weir_file_write(f, zeros, 200000), WEIR_OK);
    err = weir_file_commit(f);
    setrlimit(RLIMIT_FSIZE, &old);
    check_fails(err, WEIR_DISK, "/full");
    check_content("full", "old", 3);
    assert_int_equal(entries(), 1);
    unlink(in_dir("full"));
}

static void impossible_places_are_disk_errors(void **state)
{
    weir_file *f;

    (void)state;
    check_fails(weir_file_create(in_dir("no/such/dir"), &f), WEIR_DISK,
                "no/such/dir: cannot be created: No such file");
    assert_int_equal(weir_dir_make(in_dir("taken")), WEIR_OK);
    assert_int_equal(weir_file_create(in_dir("taken"), &f), WEIR_OK);
    /* a directory is not replaced */
    check_fails(weir_file_commit(f), WEIR_DISK, "taken: cannot be put in place");
    assert_int_equal(entries(), 1);
    assert_int_equal(weir_tree_remove(in_dir("taken")), WEIR_OK);
}

/* A name without a directory is in the current one. */
static void a_bare_name_works(void **state)
{
    char *here = getcwd(NULL, 0);
    weir_file *f;

    (void)state;
    assert_int_equal(chdir(dir), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(weir_file_create("bare", &f), WEIR_OK);
        assert_int_equal(weir_file_write(f, "x", 1), WEIR_OK);
        assert_int_equal(weir_file_commit(f), WEIR_OK);
    }
    assert_int_equal(weir_link_replace("bare", "link"), WEIR_OK);
    assert_int_equal(entries(), 2);
    assert_int_equal(chdir(here), 0);
    free(here);
    unlink(in_dir("bare")), unlink(in_dir("link"));
}

/* ---- reading ---- */

static void limits_and_missing_files_are_invalid(void **state)
{
    char *got;
    size_t n;

    (void)state;
    write_whole("ten", "0123456789", 10);
    write_whole("none", "", 0);
    check_content("ten", "0123456789", 10);
    check_content("none", "", 0);
    check_fails(weir_file_read(in_dir("ten"), 9, &got, &n), WEIR_INVALID,
                "ten: longer than the 9 bytes");
    check_fails(weir_file_read(in_dir("ten"), 0, &got, &n), WEIR_INVALID, "ten");
    assert_int_equal(weir_file_read(in_dir("ten"), SIZE_MAX, &got, &n), WEIR_OK);
    assert_int_equal(n, 10);
    free(got);
    check_fails(weir_file_read(in_dir("missing"), 9, &got, &n), WEIR_INVALID,
                "missing: cannot be read: No such file");
    check_fails(weir_file_read(dir, 9, &got, &n), WEIR_INVALID, "not a regular file");
    assert_int_equal(mkfifo(in_dir("pipe"), 0600), 0);
    /* and does not wait for a writer */
    check_fails(weir_file_read(in_dir("pipe"), 9, &got, &n), WEIR_INVALID, "pipe");
    check_fails(weir_file_read("/dev/zero", 9, &got, &n), WEIR_INVALID, "/dev/zero");
    /* says its size is 0 */
    assert_int_equal(weir_file_read("/proc/self/status", 1 << 20, &got, &n), WEIR_OK);
    assert_true(n > 100);
    free(got);
    unlink(in_dir("ten")), unlink(in_dir("none")), unlink(in_dir("pipe"));
}

/* one gzip member of n bytes into `to`; its length */
static size_t pack(const void *bytes, size_t n, unsigned char *to, size_t room)
{
    z_stream z = {.next_in = (unsigned char *)(uintptr_t)bytes,
                  .avail_in = (unsigned)n,
                  .next_out = to,
                  .avail_out = (unsigned)room};

    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return z.total_out;
}

static unsigned char packed[2 << 20];
static char plain[900000];

static size_t pack_two(void)
{
    weir_rng r = weir_rng_at(2, WEIR_RNG_TEST, 0, 0);
    size_t n;

    for (size_t i = 0; i < sizeof plain; i++)
        plain[i] = (char)(weir_rng_u32(&r) % 40);
    n = pack(plain, 300000, packed, sizeof packed);
    return n + pack(plain + 300000, sizeof plain - 300000, packed + n, sizeof packed - n);
}

static void gzip_is_opened_also_in_two_members(void **state)
{
    size_t n = pack_two();

    (void)state;
    write_whole("two.gz", packed, n);
    check_content("two.gz", plain, sizeof plain);
    write_whole("two.gz", packed, pack("", 0, packed, sizeof packed));
    check_content("two.gz", "", 0);
    unlink(in_dir("two.gz"));
}

static void damaged_gzip_is_invalid_wherever_it_is_cut(void **state)
{
    size_t first, n, len;
    char *got;

    (void)state;
    pack_two();
    first = pack(plain, 300000, packed, sizeof packed);
    n = pack_two();
    for (size_t cut = 2; cut < n; cut += cut < 30 || cut > n - 12 ? 1 : 5003) {
        if (cut == first)
            continue; /* a whole first member is a whole file */
        write_whole("cut.gz", packed, cut);
        check_fails(weir_file_read(in_dir("cut.gz"), 1 << 20, &got, &len), WEIR_INVALID,
                    "cut.gz: damaged gzip");
    }
    packed[n / 2] ^= 0x10;
    write_whole("cut.gz", packed, n);
    check_fails(weir_file_read(in_dir("cut.gz"), 1 << 20, &got, &len), WEIR_INVALID,
                "cut.gz: damaged gzip");
    packed[n / 2] ^= 0x10;
    memcpy(packed + n, "rubbish", 7);
    write_whole("cut.gz", packed, n + 7);
    check_fails(weir_file_read(in_dir("cut.gz"), 1 << 20, &got, &len), WEIR_INVALID,
                "cut.gz: damaged gzip");
    unlink(in_dir("cut.gz"));
}

/* 64 MiB of zeros in 64 KiB: the limit holds before they are unpacked */
static void a_bomb_is_refused_by_its_limit(void **state)
{
    static char zeros[1 << 20];
    char *got;
    size_t n = pack(zeros, sizeof zeros, packed, sizeof packed), len;
    weir_file *f;

    (void)state;
    assert_int_equal(weir_file_create(in_dir("bomb.gz"), &f), WEIR_OK);
    for (int i = 0; i < 64; i++)
        assert_int_equal(weir_file_write(f, packed, n), WEIR_OK);
    assert_int_equal(weir_file_commit(f), WEIR_OK);
    check_fails(weir_file_read(in_dir("bomb.gz"), 1 << 20, &got, &len), WEIR_INVALID,
                "longer than the 1048576 bytes");
    check_fails(weir_file_read(in_dir("bomb.gz"), (64 << 20) - 1, &got, &len), WEIR_INVALID,
                "longer than");
    assert_int_equal(weir_file_read(in_dir("bomb.gz"), 64 << 20, &got, &len), WEIR_OK);
    assert_int_equal(len, 64 << 20);
    free(got);
    unlink(in_dir("bomb.gz"));
}

/* ---- directories, links ---- */

static void directories_come_with_parents_and_go_with_children(void **state)
{
    (void)state;
    assert_int_equal(weir_dir_make(in_dir("a//b/c/")), WEIR_OK);
    assert_int_equal(weir_dir_make(in_dir("a/b/c")), WEIR_OK);
    write_whole("a/b/file", "x", 1);
    check_fails(weir_dir_make(in_dir("a/b/file")), WEIR_DISK, "a/b/file");
    check_fails(weir_dir_make(in_dir("a/b/file/under")), WEIR_DISK, "a/b/file");
    assert_int_equal(weir_dir_sync(in_dir("a/b")), WEIR_OK);
    check_fails(weir_dir_sync(in_dir("a/x")), WEIR_DISK, "a/x");
    write_whole("kept", "x", 1);
    assert_int_equal(symlink("../kept", in_dir("a/link")), 0);
    assert_int_equal(symlink("..", in_dir("a/up")), 0); /* links go, not what they name */
    assert_int_equal(weir_tree_remove(in_dir("a")), WEIR_OK);
    assert_false(weir_path_exists(in_dir("a")));
    assert_true(weir_path_exists(in_dir("kept")));
    assert_int_equal(weir_tree_remove(in_dir("a")), WEIR_OK);
    assert_int_equal(weir_tree_remove(in_dir("kept")), WEIR_OK);
    check_fails(weir_tree_remove("/proc/self/status"), WEIR_DISK, "/proc/self/status");
}

static void a_link_is_replaced_at_once(void **state)
{
    char to[64];

    (void)state;
    for (int i = 0; i < 3; i++) {
        snprintf(to, sizeof to, "step-%d", i);
        assert_int_equal(weir_link_replace(to, in_dir("latest")), WEIR_OK);
        char found[64] = "";
        assert_true(readlink(in_dir("latest"), found, sizeof found - 1) > 0);
        assert_string_equal(found, to);
        assert_int_equal(entries(), 1);
    }
    unlink(in_dir("latest"));
    check_fails(weir_link_replace("x", in_dir("no/dir")), WEIR_DISK, "no/dir");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_there_until_commit),
        cmocka_unit_test(files_of_any_length_are_what_was_written),
        cmocka_unit_test(without_tmpfile_the_name_is_hidden_and_goes),
        cmocka_unit_test(the_directory_may_be_made_later),
        cmocka_unit_test(commit_replaces_and_leaves_no_other_name),
        cmocka_unit_test(many_small_and_few_large_writes_keep_their_order),
        cmocka_unit_test(short_and_interrupted_writes_go_on),
        cmocka_unit_test(a_failed_commit_leaves_all_as_it_was),
        cmocka_unit_test(a_full_disk_names_the_file_and_keeps_the_old),
        cmocka_unit_test(impossible_places_are_disk_errors),
        cmocka_unit_test(a_bare_name_works),
        cmocka_unit_test(limits_and_missing_files_are_invalid),
        cmocka_unit_test(gzip_is_opened_also_in_two_members),
        cmocka_unit_test(damaged_gzip_is_invalid_wherever_it_is_cut),
        cmocka_unit_test(a_bomb_is_refused_by_its_limit),
        cmocka_unit_test(directories_come_with_parents_and_go_with_children),
        cmocka_unit_test(a_link_is_replaced_at_once),
    };

    umask(022);
    return cmocka_run_group_tests(tests, setup, teardown);
}
