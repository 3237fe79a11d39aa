/* Checkpoints: whole or skipped, whatever happens to their bytes, to the disk, or to the process
 * that saves. */
#include "help_ckpt.h"
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* ---- other bytes than were saved ---- */

/* step-2 is wrong now: it is refused by name, and step-1 is found instead. */
static void check_skipped(void)
{
    weir_checkpoint_body body;
    char path[WEIR_CHECKPOINT_PATH];
    size_t left;
    run r = {0};

    body = body_of(&r);
    assert_int_equal(weir_checkpoint_load(in_out("step-2"), 2, &body, &left), WEIR_DAMAGED);
    assert_non_null(strstr(weir_why_text(), "step-2"));
    assert_int_equal(r.steps, 0);
    assert_int_equal(weir_checkpoint_find(out, path), WEIR_OK);
    assert_string_equal(path, in_out("step-1"));
}

static void damage(const char *name)
{
    size_t n;
    char file[128], *bytes;

    snprintf(file, sizeof file, "%s/%s", out, name);
    bytes = slurp(file, &n);
    for (size_t cut = 0; cut < n; cut++) {
        spill(file, bytes, cut);
        check_skipped();
    }
    for (size_t i = 0; i < 2 * n; i++) {
        char old = bytes[i / 2];
        bytes[i / 2] ^= (char)(i % 2 ? 0xff : 1 << i / 2 % 8);
        spill(file, bytes, n);
        check_skipped();
        bytes[i / 2] = old;
    }
    spill(file, bytes, n);
    free(bytes);
    assert_int_equal(found(out), 2);
}

static void every_damage_is_seen(void **state)
{
    (void)state;
    assert_int_equal(save(out, 1), WEIR_OK);
    assert_int_equal(save(out, 2), WEIR_OK);
    assert_int_equal(found(out), 2);
    damage("step-2/model.safetensors");
    damage("step-2/state.safetensors");
}

static void files_of_two_saves_are_no_pair(void **state)
{
    size_t n;
    char *bytes;

    (void)state;
    assert_int_equal(save(out, 1), WEIR_OK);
    assert_int_equal(save(out, 2), WEIR_OK);
    bytes = slurp(in_out("step-1/model.safetensors"), &n);
    spill(in_out("step-2/model.safetensors"), bytes, n);
    free(bytes);
    check_skipped();
    bytes = slurp(in_out("step-2/state.safetensors"), &n);
    spill(in_out("step-2/model.safetensors"), bytes, n);
    free(bytes);
    check_skipped();
}

static void finds_without_latest(void **state)
{
    (void)state;
    for (uint64_t step = 9; step <= 11; step++)
        assert_int_equal(save(out, step), WEIR_OK);
    assert_int_equal(unlink(in_out("latest")), 0);
    assert_int_equal(found(out), 11);
    assert_int_equal(symlink("step-9", in_out("latest")), 0);
    assert_int_equal(found(out), 9);
    assert_int_equal(unlink(in_out("step-9/state.safetensors")), 0);
    assert_int_equal(found(out), 11);
    assert_int_equal(unlink(in_out("latest")), 0);
    assert_int_equal(symlink("../../etc", in_out("latest")), 0);
    assert_int_equal(found(out), 11);
    assert_int_equal(truncate(in_out("step-11/state.safetensors"), 100), 0);
    assert_int_equal(found(out), 10);
}

/* A file that cannot be opened now is no damage: to go on from an older one would lose work. */
static void no_descriptor_is_no_damage(void **state)
{
    struct rlimit old, now;
    char path[WEIR_CHECKPOINT_PATH];
    int free_fd = dup(0);
    weir_err err;

    (void)state;
    assert_int_equal(save(out, 1), WEIR_OK);
    assert_int_equal(save(out, 2), WEIR_OK);
    assert_int_equal(close(free_fd), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    now = (struct rlimit){(rlim_t)free_fd + 1, old.rlim_max}; /* enough for one of the two files */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
    err = weir_checkpoint_find(out, path);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_int_equal(err, WEIR_FAILED);
    assert_non_null(strstr(weir_why_text(), "step-2/state.safetensors"));
}

/* ---- full disks ---- */

/* Saving step 2 fails or not; either way nothing is half done. Gives the line of what is wrong. */
static int save_or_not(const char *dir, bool *saved)
{
    weir_err err = save(dir, 2);

    *saved = !err;
    if (err && err != WEIR_DISK)
        return __LINE__;
    if (strcmp(names(dir), err ? "latest step-1" : "latest step-1 step-2"))
        return __LINE__;
    if (found(dir) != (err ? 1 : 2))
        return __LINE__;
    return 0;
}

static void files_too_large(void **state)
{
    struct rlimit old, now;
    bool saved = false;
    rlim_t size = 0;

    (void)state;
    assert_int_equal(save(out, 1), WEIR_OK);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_IGN);
    for (; !saved && size < 4096; size += 8) {
        now = (struct rlimit){size, old.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &now), 0);
        int line = save_or_not(out, &saved);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        assert_int_equal(line, 0);
    }
    signal(SIGXFSZ, SIG_DFL);
    assert_true(saved && size > 500);
}

enum { NO_MOUNT = 255 };

/* In a process of its own, on a file system of its own that has `room` inodes left, so that
 * whatever is made next fails. */
static int on_small_disk(int room, bool *saved)
{
    char dir[80], path[120];
    int taken = 0;

    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("none", out, "tmpfs", 0, "size=1m,nr_inodes=40"))
        return NO_MOUNT;
    snprintf(dir, sizeof dir, "%s/run", out);
    if (save(dir, 1))
        return __LINE__ % NO_MOUNT;
    for (int fd; snprintf(path, sizeof path, "%s/%d", out, taken),
                 (fd = open(path, O_CREAT | O_WRONLY, 0666)) >= 0;
         taken++)
        close(fd);
    for (; room > 0 && taken > 0; room--)
        snprintf(path, sizeof path, "%s/%d", out, --taken), unlink(path);
    return save_or_not(dir, saved) % NO_MOUNT;
}

static void disk_is_full(void **state)
{
    bool saved = false;
    int code = 0, room;

    (void)state;
    for (room = 0; room < 20 && !saved; room++) {
        pid_t child = fork();
        if (!child) {
            code = on_small_disk(room, &saved);
            _exit(code ? code : saved ? 254 : 0);
        }
        assert_int_equal(waitpid(child, &code, 0), child);
        assert_true(WIFEXITED(code));
        if (WEXITSTATUS(code) == NO_MOUNT)
            skip();
        saved = WEXITSTATUS(code) == 254;
        if (!saved)
            assert_int_equal(WEXITSTATUS(code), 0);
    }
    assert_true(saved && room > 3);
}

/* ---- a directory that is another's by now ---- */

typedef struct holding {
    int asked, held; /* so often it still is ours */
} holding;

static bool still_held(const void *arg)
{
    holding *h = (holding *)arg;

    return h->asked++ < h->held;
}

/* Asked when all is written, and not again: no name changes, and nothing is removed. */
static void nothing_is_named_in_anothers_directory(void **state)
{
    holding h = {0};
    weir_checkpoint_place place = {.out = out, .keep = 1, .held = still_held, .arg = &h};
    weir_checkpoint_saved saved;

    (void)state;
    assert_int_equal(save(out, 1), WEIR_OK);
    assert_int_equal(save(out, 2), WEIR_OK);
    for (uint64_t step = 2; step <= 3; step++) {
        assert_int_equal(save_at(&place, step, 2, &saved), WEIR_DISK);
        assert_non_null(strstr(weir_why_text(), "another run's"));
        assert_int_equal(h.asked, step - 1);
        assert_string_equal(names(out), "latest step-1 step-2");
        assert_int_equal(found(out), 2);
    }
}

/* It becomes another's while names change: what comes after that is left alone. */
static void lost_while_names_change(void **state)
{
    holding h = {.held = 1};
    weir_checkpoint_place place = {.out = out, .keep = 1, .held = still_held, .arg = &h};
    weir_checkpoint_saved saved;

    (void)state;
    assert_int_equal(save(out, 1), WEIR_OK);
    assert_int_equal(save(out, 2), WEIR_OK);
    assert_int_equal(save_at(&place, 3, 2, &saved), WEIR_DISK);
    assert_int_equal(h.asked, 2);
    assert_string_equal(names(out), "latest step-1 step-2 step-3");
    assert_true(weir_checkpoint_is_latest(out, 2) && !weir_checkpoint_is_latest(out, 3));
    h = (holding){.held = 1}; /* it is there already */
    assert_int_equal(save_at(&place, 3, 2, &saved), WEIR_OK);
    assert_string_equal(names(out), "latest step-1 step-2 step-3");
    assert_int_equal(found(out), 3);
}

/* ---- killed at any instant ---- */

static void save_for_ever(uint64_t step)
{
    for (;; step++) {
        weir_checkpoint_saved saved;
        if (save_with(out, step, 2, 2, &saved))
            _exit(1);
    }
}

/* Nothing but steps and the link. At the instant of a death there may be a second link, about to
 * become `latest`, and a step without its files; after the next save there are neither. */
static void check_name(const char *name, bool settled)
{
    struct stat st;
    char path[600];

    if (!strcmp(name, ".") || !strcmp(name, ".."))
        return;
    if (!settled && !strncmp(name, ".weir-", 6)) {
        assert_true(!lstat(in_out(name), &st) && S_ISLNK(st.st_mode));
        return;
    }
    assert_true(!strncmp(name, "step-", 5) || !strcmp(name, "latest"));
    if (settled) {
        snprintf(path, sizeof path, "%s/%s", out, name);
        assert_string_equal(names(path), "model.safetensors state.safetensors");
    }
}

static void check_names(bool settled)
{
    struct dirent **list;
    int n = scandir(out, &list, NULL, alphasort);

    assert_true(n > 2);
    for (int i = 0; i < n; i++) {
        check_name(list[i]->d_name, settled);
        free(list[i]);
    }
    free(list);
}

static void killed_while_saving(void **state)
{
    weir_rng rng = weir_rng_at((uint64_t)getpid(), WEIR_RNG_TEST, 0, 0);
    char path[WEIR_CHECKPOINT_PATH];
    long step = 1;

    (void)state;
    assert_int_equal(save(out, 1), WEIR_OK);
    for (int i = 0; i < 100; i++) {
        pid_t child = fork();
        int code;
        if (!child)
            save_for_ever((uint64_t)step + 1);
        usleep((useconds_t)weir_rng_below(&rng, 20000));
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, &code, 0), child);
        assert_true(WIFSIGNALED(code));
        check_names(false);
        /* it never names one that is not whole */
        assert_int_equal(weir_checkpoint_find(in_out("latest"), path), WEIR_OK);
        assert_true(found(out) >= step);
        step = found(out);
    }
    assert_true(step > 1);
    assert_int_equal(save(out, 1000000), WEIR_OK);
    check_names(true);
    assert_int_equal(found(out), 1000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(every_damage_is_seen),
        CASE(files_of_two_saves_are_no_pair),
        CASE(finds_without_latest),
        CASE(no_descriptor_is_no_damage),
        CASE(files_too_large),
        CASE(disk_is_full),
        CASE(nothing_is_named_in_anothers_directory),
        CASE(lost_while_names_change),
        CASE(killed_while_saving),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
