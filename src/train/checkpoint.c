/* checkpoint.c - saving, finding and loading. Names of a run directory: ckpt_dir.c; the two files
 * of a checkpoint: ckpt_pair.c; fields of state: ckpt_io.c. */
#include "train/checkpoint.h"
#include "core/file.h"
#include "core/log.h"
#include "train/ckpt_dir.h"
#include "train/ckpt_io.h"
#include "train/ckpt_pair.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- saving ---- */

typedef struct saving {
    const weir_checkpoint_place *place;
    const char *out;
    char path[WEIR_CHECKPOINT_PATH];
    weir_arena *arena;
    weir_safetensors_list *list[WEIR_CHECKPOINT_FILES];
    char sum[WEIR_CHECKPOINT_FILES][WEIR_SAFETENSORS_SUM];
    uint64_t bytes;
} saving;

static weir_err list_model(saving *s, const weir_checkpoint_body *body)
{
    for (int i = 0; i < body->tensors; i++) {
        const weir_tensor *t = &body->tensor[i];
        weir_safetensors_tensor like = {.name = t->name,
                                        .type = WEIR_SAFETENSORS_F32,
                                        .dims = t->dims};
        memcpy(like.dim, t->dim, sizeof t->dim);
        WEIR_TRY(weir_safetensors_list_add(s->list[WEIR_CHECKPOINT_MODEL], &like, 0,
                                           body->param + t->at, t->n * sizeof(float)));
    }
    return WEIR_OK;
}

static weir_err seal(saving *s, int file)
{
    uint64_t bytes;

    WEIR_TRY(weir_safetensors_list_seal(s->list[file], s->sum[file], &bytes));
    s->bytes += bytes;
    return WEIR_OK;
}

static weir_err list_all(saving *s, const weir_checkpoint_info *info,
                         const weir_checkpoint_body *body)
{
    for (int i = 0; i < WEIR_CHECKPOINT_FILES; i++) {
        if (!(s->list[i] = weir_safetensors_list_new(s->arena)))
            return weir_fail_nomem(0);
        WEIR_TRY(weir_checkpoint_put_info(s->list[i], i, info));
    }
    WEIR_TRY(list_model(s, body));
    WEIR_TRY(seal(s, WEIR_CHECKPOINT_MODEL));
    WEIR_TRY(weir_safetensors_list_text(s->list[WEIR_CHECKPOINT_STATE], "weir.pair",
                                        s->sum[WEIR_CHECKPOINT_MODEL]));
    WEIR_TRY(weir_checkpoint_list_state(s->list[WEIR_CHECKPOINT_STATE], s->arena, body->state,
                                        body->arg));
    return seal(s, WEIR_CHECKPOINT_STATE);
}

/* Is what we are about to save there already? */
static bool is_saved(const saving *s)
{
    bool same;
    weir_checkpoint_pair p;

    if (!weir_path_exists(s->path) || weir_checkpoint_open(s->path, &p))
        return false;
    same =
        !strcmp(weir_safetensors_sum(p.st[WEIR_CHECKPOINT_MODEL]), s->sum[WEIR_CHECKPOINT_MODEL]) &&
        !strcmp(weir_safetensors_sum(p.st[WEIR_CHECKPOINT_STATE]), s->sum[WEIR_CHECKPOINT_STATE]);
    weir_checkpoint_close(&p);
    return same;
}

/* Whole and on the disk, but without a name. */
static weir_err write_file(const saving *s, int file, weir_file **written)
{
    char path[WEIR_CHECKPOINT_PATH];
    weir_file *f;
    weir_err err;

    WEIR_TRY(weir_checkpoint_path(s->path, weir_checkpoint_file[file], path));
    WEIR_TRY(weir_file_create_in(s->out, path, &f));
    err = weir_safetensors_write(s->list[file], f);
    if (!err)
        err = weir_file_sync(f);
    if (err)
        return weir_file_drop(f), err;
    *written = f;
    return WEIR_OK;
}

static weir_err check_held(const saving *s)
{
    const weir_checkpoint_place *p = s->place;

    return !p->held || p->held(p->arg)
               ? WEIR_OK
               : weir_fail(WEIR_DISK,
                           "%s: its directory is another run's by now: nothing in it is changed",
                           s->path);
}

/* Gives both their names, one after the other; takes the files. */
static weir_err name_files(const saving *s, weir_file *model, weir_file *state)
{
    weir_err err = weir_dir_make(s->path);

    if (err)
        return weir_file_drop(state), weir_file_drop(model), err;
    err = weir_file_commit(model);
    if (err)
        return weir_file_drop(state), err;
    WEIR_TRY(weir_file_commit(state));
    WEIR_TRY(weir_dir_sync(s->path));
    return weir_dir_sync(s->out);
}

static weir_err write_both(const saving *s)
{
    weir_file *model, *state;
    weir_err err;

    WEIR_TRY(write_file(s, WEIR_CHECKPOINT_MODEL, &model));
    err = write_file(s, WEIR_CHECKPOINT_STATE, &state);
    if (err)
        return weir_file_drop(model), err;
    if ((err = check_held(s)))
        return weir_file_drop(state), weir_file_drop(model), err;
    weir_checkpoint_remove(s->path); /* not whole, or not the same */
    err = name_files(s, model, state);
    if (err)
        weir_checkpoint_remove(s->path);
    return err;
}

static weir_err point_latest(const saving *s)
{
    char path[WEIR_CHECKPOINT_PATH];

    WEIR_TRY(weir_checkpoint_path(s->out, "latest", path));
    WEIR_TRY(weir_link_replace(strrchr(s->path, '/') + 1, path));
    return weir_dir_sync(s->out);
}

static weir_err save(saving *s, const weir_checkpoint_info *info, const weir_checkpoint_body *body)
{
    bool saved;
    weir_err err;

    WEIR_TRY(list_all(s, info, body));
    saved = is_saved(s);
    if (!saved)
        WEIR_TRY(write_both(s));
    WEIR_TRY(check_held(s)); /* giving names waits for the disk */
    err = point_latest(s);
    if (err && !saved)
        weir_checkpoint_remove(s->path);
    return err;
}

static weir_err remove_old(const saving *s, uint64_t step)
{
    WEIR_TRY(check_held(s));
    return weir_checkpoint_prune(s->out, step, s->place->keep);
}

weir_err weir_checkpoint_save(weir_rt *rt, const weir_checkpoint_place *place,
                              const weir_checkpoint_info *info, const weir_checkpoint_body *body,
                              weir_checkpoint_saved *saved)
{
    double begin = weir_now(rt);
    const char *out = place->out;
    saving s = {.place = place, .out = out};
    weir_err err;

    WEIR_TRY(weir_checkpoint_step_path(out, info->step, s.path));
    WEIR_TRY(weir_dir_make(out));
    if (!(s.arena = weir_arena_new()))
        return weir_fail_nomem(0);
    err = save(&s, info, body);
    weir_arena_free(s.arena);
    WEIR_TRY(err);
    if (remove_old(&s, info->step)) /* what was asked for is saved all the same */
        weir_log(WEIR_LOG_WARN, "checkpoint", "old checkpoints stay: %s", weir_why_text());
    memcpy(saved->path, s.path, sizeof s.path);
    saved->bytes = s.bytes;
    saved->seconds = weir_now(rt) - begin;
    return WEIR_OK;
}

/* ---- finding ---- */

static weir_err verify(const char *path)
{
    weir_checkpoint_pair p;

    WEIR_TRY(weir_checkpoint_open(path, &p));
    weir_checkpoint_close(&p);
    return WEIR_OK;
}

/* A checkpoint itself, by its name or by what is in it; not a run directory. */
static bool is_checkpoint(const char *dir)
{
    char path[WEIR_CHECKPOINT_PATH], name[32];
    size_t end = strlen(dir), begin;
    uint64_t step;

    for (int i = 0; i < WEIR_CHECKPOINT_FILES; i++)
        if (!weir_checkpoint_path(dir, weir_checkpoint_file[i], path) && weir_path_exists(path))
            return true;
    while (end > 1 && dir[end - 1] == '/')
        end--;
    for (begin = end; begin > 0 && dir[begin - 1] != '/';)
        begin--;
    return snprintf(name, sizeof name, "%.*s", (int)(end - begin), dir + begin) <
               (int)sizeof name &&
           weir_checkpoint_is_step(name, &step);
}

/* OUT/step-N if it is whole; a damaged one is warned of, and *why has the sentence of the first.
 * Other errors are passed on. */
static weir_err try_step(const char *out, uint64_t step, char path[WEIR_CHECKPOINT_PATH],
                         char why[WEIR_WHY_MAX], bool *whole)
{
    weir_err err;

    WEIR_TRY(weir_checkpoint_step_path(out, step, path));
    err = verify(path);
    *whole = !err;
    if (err != WEIR_DAMAGED)
        return err;
    if (!why[0])
        snprintf(why, WEIR_WHY_MAX, "%s", weir_why_text());
    weir_log(WEIR_LOG_WARN, "checkpoint", "skipped a checkpoint that is not whole: %s",
             weir_why_text());
    return WEIR_OK;
}

static weir_err search(const char *out, const uint64_t *step, size_t count,
                       char path[WEIR_CHECKPOINT_PATH])
{
    char why[WEIR_WHY_MAX] = "";
    uint64_t latest = 0;
    bool known = weir_checkpoint_latest(out, &latest), whole = false, there = false;

    for (size_t i = 0; i < count; i++)
        there = there || (known && step[i] == latest);
    if (there)
        WEIR_TRY(try_step(out, latest, path, why, &whole));
    for (size_t i = 0; i < count && !whole; i++)
        if (!there || step[i] != latest)
            WEIR_TRY(try_step(out, step[i], path, why, &whole));
    if (!whole)
        return weir_fail(WEIR_DAMAGED, "%s: no checkpoint is whole: %.800s", out, why);
    return WEIR_OK;
}

weir_err weir_checkpoint_find(const char *dir, char path[WEIR_CHECKPOINT_PATH])
{
    char found[WEIR_CHECKPOINT_PATH];
    uint64_t *step;
    size_t count;
    weir_err err;

    if (is_checkpoint(dir) && weir_path_exists(dir)) {
        WEIR_TRY(verify(dir));
        snprintf(path, WEIR_CHECKPOINT_PATH, "%s", dir);
        return WEIR_OK;
    }
    WEIR_TRY(weir_checkpoint_steps(dir, &step, &count));
    err = count ? search(dir, step, count, found)
                : weir_fail(WEIR_USAGE,
                            "%s holds no checkpoint: a directory step-N was expected in it", dir);
    free(step);
    WEIR_TRY(err);
    memcpy(path, found, sizeof found);
    return WEIR_OK;
}

static weir_err keep_texts(weir_arena *arena, weir_checkpoint_info *info)
{
    const char **text[] = {&info->model, &info->data, &info->settings, &info->lessons};

    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        if (*text[i] && !(*text[i] = weir_copy_text(arena, *text[i])))
            return weir_fail_nomem(0);
    return WEIR_OK;
}

weir_err weir_checkpoint_peek(const char *dir, weir_arena *arena, weir_checkpoint_info *info)
{
    char path[WEIR_CHECKPOINT_PATH];
    weir_checkpoint_info got;
    weir_safetensors *st;
    weir_err err;

    WEIR_TRY(weir_checkpoint_path(dir, weir_checkpoint_file[WEIR_CHECKPOINT_MODEL], path));
    WEIR_TRY(weir_safetensors_open(path, &st));
    err = weir_checkpoint_get_info(st, path, &got);
    if (!err)
        err = keep_texts(arena, &got);
    weir_safetensors_close(st);
    WEIR_TRY(err);
    *info = got;
    return WEIR_OK;
}

/* ---- loading ---- */

static weir_err other_model(const char *dir, const char *name, const weir_safetensors_tensor *there,
                            const weir_tensor *here)
{
    char a[160] = "not", b[160] = "not";

    if (there)
        weir_safetensors_shape(there->dims, there->dim, a, sizeof a);
    if (here)
        weir_safetensors_shape(here->dims, here->dim, b, sizeof b);
    return weir_fail(WEIR_MISFIT,
                     "%s is a checkpoint of another model: tensor '%s' is %s there and %s here",
                     dir, name, a, b);
}

static bool fits(const weir_safetensors_tensor *there, const weir_tensor *here)
{
    return there && there->type == WEIR_SAFETENSORS_F32 && there->dims == here->dims &&
           !memcmp(there->dim, here->dim, (size_t)here->dims * sizeof here->dim[0]) &&
           there->bytes == here->n * sizeof(float);
}

static bool listed(const weir_checkpoint_body *body, const char *name)
{
    for (int i = 0; i < body->tensors; i++)
        if (!strcmp(body->tensor[i].name, name))
            return true;
    return false;
}

/* The same names and shapes on both sides. */
static weir_err check_model(const weir_safetensors *st, const char *dir,
                            const weir_checkpoint_body *body)
{
    size_t count;
    const weir_safetensors_tensor *all = weir_safetensors_tensors(st, &count);

    for (int i = 0; i < body->tensors; i++) {
        const weir_tensor *here = &body->tensor[i];
        const weir_safetensors_tensor *there = weir_safetensors_find(st, here->name);
        if (!fits(there, here))
            return other_model(dir, here->name, there, here);
    }
    for (size_t i = 0; i < count && count > (size_t)body->tensors; i++)
        if (!listed(body, all[i].name))
            return other_model(dir, all[i].name, &all[i], NULL);
    return WEIR_OK;
}

static weir_err load_pair(const weir_checkpoint_pair *p, const char *dir, int workers,
                          const weir_checkpoint_body *body, size_t *left)
{
    const weir_safetensors *model = p->st[WEIR_CHECKPOINT_MODEL];

    WEIR_TRY(check_model(model, dir, body));
    for (int i = 0; i < body->tensors; i++) {
        const weir_tensor *t = &body->tensor[i];
        WEIR_TRY(weir_safetensors_read(model, weir_safetensors_find(model, t->name), 0,
                                       body->param + t->at, t->n * sizeof(float)));
    }
    return weir_checkpoint_read_state(p->st[WEIR_CHECKPOINT_STATE], dir, p->info.workers == workers,
                                      body, left);
}

weir_err weir_checkpoint_load(const char *dir, int workers, const weir_checkpoint_body *body,
                              size_t *left)
{
    weir_err err;
    weir_checkpoint_pair p;

    WEIR_TRY(weir_checkpoint_open(dir, &p));
    err = load_pair(&p, dir, workers, body, left);
    weir_checkpoint_close(&p);
    return err;
}
