/* ckpt_dir.c - the names in a run directory: which steps there are, and which of them go. */
#include "train/ckpt_dir.h"
#include "core/file.h"
#include "core/log.h"
#include "train/ckpt_pair.h"
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

weir_err weir_checkpoint_path(const char *dir, const char *name, char path[WEIR_CHECKPOINT_PATH])
{
    if ((size_t)snprintf(path, WEIR_CHECKPOINT_PATH, "%s/%s", dir, name) >= WEIR_CHECKPOINT_PATH)
        return weir_fail(WEIR_USAGE, "%.100s...: the path is longer than %d bytes", dir,
                         WEIR_CHECKPOINT_PATH - 1);
    return WEIR_OK;
}

weir_err weir_checkpoint_step_path(const char *out, uint64_t step, char path[WEIR_CHECKPOINT_PATH])
{
    char name[32];

    snprintf(name, sizeof name, "step-%" PRIu64, step);
    return weir_checkpoint_path(out, name, path);
}

bool weir_checkpoint_is_step(const char *name, uint64_t *step)
{
    char again[32];

    if (strncmp(name, "step-", 5))
        return false;
    *step = strtoull(name + 5, NULL, 10);
    snprintf(again, sizeof again, "step-%" PRIu64, *step);
    return !strcmp(name, again);
}

bool weir_checkpoint_latest(const char *out, uint64_t *step)
{
    char path[WEIR_CHECKPOINT_PATH], target[64];
    ssize_t n;

    if (snprintf(path, sizeof path, "%s/latest", out) >= (int)sizeof path)
        return false;
    n = readlink(path, target, sizeof target - 1);
    if (n < 0)
        return false;
    target[n] = 0;
    return weir_checkpoint_is_step(target, step);
}

bool weir_checkpoint_is_latest(const char *out, uint64_t step)
{
    uint64_t latest;

    return weir_checkpoint_latest(out, &latest) && latest == step;
}

/* ---- listing ---- */

typedef weir_err (*visitor)(void *arg, const char *out, const char *name);

static weir_err visit(const char *out, visitor each, void *arg)
{
    DIR *d = opendir(out);
    struct dirent *e;
    weir_err err = WEIR_OK;

    if (!d)
        return weir_fail(WEIR_USAGE, "%s: cannot be opened as a directory: %s", out,
                         strerror(errno));
    while (!err && (e = readdir(d)))
        err = each(arg, out, e->d_name);
    closedir(d);
    return err;
}

typedef struct steps {
    uint64_t *step;
    size_t count, room;
} steps;

static weir_err record_step(void *arg, const char *out, const char *name)
{
    steps *s = arg;
    uint64_t step;

    (void)out;
    if (!weir_checkpoint_is_step(name, &step))
        return WEIR_OK;
    if (s->count == s->room) {
        size_t room = s->room ? 2 * s->room : 16;
        uint64_t *more = realloc(s->step, room * sizeof *more);
        if (!more)
            return weir_fail_nomem(room * sizeof *more);
        s->step = more;
        s->room = room;
    }
    s->step[s->count++] = step;
    return WEIR_OK;
}

static int falling(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x < y) - (x > y);
}

weir_err weir_checkpoint_steps(const char *out, uint64_t **list, size_t *count)
{
    steps s = {0};
    weir_err err = visit(out, record_step, &s);

    if (err)
        return free(s.step), err;
    if (s.count)
        qsort(s.step, s.count, sizeof *s.step, falling);
    *list = s.step;
    *count = s.count;
    return WEIR_OK;
}

bool weir_checkpoint_any(const char *out)
{
    steps s = {0};
    bool any = !visit(out, record_step, &s) && s.count;

    free(s.step);
    return any;
}

/* ---- removing ---- */

/* 0, also if it was not there; else -1 and errno. */
static int remove_file(const char *dir, const char *name)
{
    char path[WEIR_CHECKPOINT_PATH];

    if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path)
        return 0;
    return unlink(path) && errno != ENOENT ? -1 : 0;
}

void weir_checkpoint_remove(const char *path)
{
    for (int i = 0; i < WEIR_CHECKPOINT_FILES; i++)
        if (remove_file(path, weir_checkpoint_file[i]))
            weir_log(WEIR_LOG_WARN, "checkpoint", "%s/%s cannot be removed: %s", path,
                     weir_checkpoint_file[i], strerror(errno));
    if (rmdir(path) && errno != ENOENT && errno != ENOTEMPTY && errno != EEXIST)
        weir_log(WEIR_LOG_WARN, "checkpoint", "%s cannot be removed: %s", path, strerror(errno));
}

static bool has_files(const char *path)
{
    char file[WEIR_CHECKPOINT_PATH];

    for (int i = 0; i < WEIR_CHECKPOINT_FILES; i++)
        if (snprintf(file, sizeof file, "%s/%s", path, weir_checkpoint_file[i]) >=
                (int)sizeof file ||
            !weir_path_exists(file))
            return false;
    return true;
}

/* Names that a killed process had for an instant: the link before it became `latest`, files where
 * none can be without a name. */
static weir_err remove_leftover(void *arg, const char *out, const char *name)
{
    (void)arg;
    if (!strncmp(name, ".weir-", 6) && remove_file(out, name))
        weir_log(WEIR_LOG_WARN, "checkpoint", "%s/%s cannot be removed: %s", out, name,
                 strerror(errno));
    return WEIR_OK;
}

/* Keeps it if it has its files and there is room for it. */
static weir_err prune_one(const char *out, uint64_t step, int *room)
{
    char path[WEIR_CHECKPOINT_PATH];

    WEIR_TRY(weir_checkpoint_step_path(out, step, path));
    if (*room > 0 && has_files(path))
        --*room;
    else
        weir_checkpoint_remove(path);
    return WEIR_OK;
}

weir_err weir_checkpoint_prune(const char *out, uint64_t step, int keep)
{
    uint64_t *list;
    size_t count;
    int room = keep - 1;
    weir_err err = WEIR_OK;

    WEIR_TRY(weir_checkpoint_steps(out, &list, &count));
    for (size_t i = 0; !err && i < count; i++)
        if (list[i] < step)
            err = prune_one(out, list[i], &room);
    for (size_t i = count; !err && i-- > 0;)
        if (list[i] > step)
            err = prune_one(out, list[i], &room);
    free(list);
    return err ? err : visit(out, remove_leftover, NULL);
}
