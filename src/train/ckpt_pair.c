/* ckpt_pair.c - what makes two files one checkpoint: their metadata, and the checksum by which one
 * names the other. */
#include "train/ckpt_pair.h"
#include "train/ckpt_dir.h"
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const weir_checkpoint_file[WEIR_CHECKPOINT_FILES] = {"model.safetensors",
                                                                 "state.safetensors"};
static const char *const kind_name[WEIR_CHECKPOINT_FILES] = {"model", "state"};

/* ---- the metadata ---- */

static weir_err put_number(weir_safetensors_list *l, const char *key, uint64_t value)
{
    char text[24];

    snprintf(text, sizeof text, "%" PRIu64, value);
    return weir_safetensors_list_text(l, key, text);
}

weir_err weir_checkpoint_put_info(weir_safetensors_list *l, int file,
                                  const weir_checkpoint_info *info)
{
    WEIR_TRY(weir_safetensors_list_text(l, "weir.kind", kind_name[file]));
    WEIR_TRY(put_number(l, "weir.step", info->step));
    WEIR_TRY(put_number(l, "weir.seed", info->seed));
    WEIR_TRY(put_number(l, "weir.samples", info->samples));
    WEIR_TRY(put_number(l, "weir.epoch", info->epoch));
    WEIR_TRY(put_number(l, "weir.used", info->used));
    WEIR_TRY(put_number(l, "weir.rows", info->rows));
    WEIR_TRY(put_number(l, "weir.workers", (uint64_t)info->workers));
    WEIR_TRY(weir_safetensors_list_text(l, "weir.model", info->model ? info->model : ""));
    WEIR_TRY(weir_safetensors_list_text(l, "weir.data", info->data ? info->data : ""));
    WEIR_TRY(weir_safetensors_list_text(l, "weir.settings", info->settings ? info->settings : ""));
    if (file != WEIR_CHECKPOINT_MODEL || !info->lessons)
        return WEIR_OK;
    return weir_safetensors_list_text(l, "weir.lessons", info->lessons);
}

static weir_err get_text(const weir_safetensors *st, const char *path, const char *key,
                         const char **text)
{
    if (!(*text = weir_safetensors_text(st, key)))
        return weir_fail(WEIR_DAMAGED, "%s is not a checkpoint of weir's: its metadata has no %s",
                         path, key);
    return WEIR_OK;
}

static weir_err get_number(const weir_safetensors *st, const char *path, const char *key,
                           uint64_t most, uint64_t *value)
{
    const char *text;
    char *end;

    WEIR_TRY(get_text(st, path, key, &text));
    errno = 0;
    *value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || *value > most)
        return weir_fail(WEIR_DAMAGED, "%s: its %s is not a number", path, key);
    return WEIR_OK;
}

/* Older checkpoints have none. */
static weir_err get_cursor(const weir_safetensors *st, const char *path, weir_checkpoint_info *info)
{
    info->epoch = info->used = info->rows = 0;
    if (!weir_safetensors_text(st, "weir.rows"))
        return WEIR_OK;
    WEIR_TRY(get_number(st, path, "weir.epoch", UINT64_MAX, &info->epoch));
    WEIR_TRY(get_number(st, path, "weir.used", UINT64_MAX, &info->used));
    return get_number(st, path, "weir.rows", UINT64_MAX, &info->rows);
}

weir_err weir_checkpoint_get_info(const weir_safetensors *st, const char *path,
                                  weir_checkpoint_info *info)
{
    uint64_t workers;

    WEIR_TRY(get_number(st, path, "weir.step", UINT64_MAX, &info->step));
    WEIR_TRY(get_number(st, path, "weir.seed", UINT64_MAX, &info->seed));
    WEIR_TRY(get_number(st, path, "weir.samples", UINT64_MAX, &info->samples));
    WEIR_TRY(get_cursor(st, path, info));
    WEIR_TRY(get_number(st, path, "weir.workers", INT_MAX, &workers));
    info->workers = (int)workers;
    WEIR_TRY(get_text(st, path, "weir.model", &info->model));
    WEIR_TRY(get_text(st, path, "weir.data", &info->data));
    info->lessons = weir_safetensors_text(st, "weir.lessons");
    return get_text(st, path, "weir.settings", &info->settings);
}

/* ---- a checkpoint that is there ---- */

void weir_checkpoint_close(weir_checkpoint_pair *p)
{
    for (int i = 0; i < WEIR_CHECKPOINT_FILES; i++)
        weir_safetensors_close(p->st[i]);
}

static weir_err open_file(const char *dir, int file, weir_safetensors **st)
{
    char path[WEIR_CHECKPOINT_PATH];
    const char *kind;

    WEIR_TRY(weir_checkpoint_path(dir, weir_checkpoint_file[file], path));
    WEIR_TRY(weir_safetensors_open(path, st));
    WEIR_TRY(weir_safetensors_check(*st));
    WEIR_TRY(get_text(*st, path, "weir.kind", &kind));
    if (strcmp(kind, kind_name[file]))
        return weir_fail(WEIR_DAMAGED, "%s does not hold the %s", path, kind_name[file]);
    return WEIR_OK;
}

static weir_err open_both(const char *dir, weir_checkpoint_pair *p)
{
    const char *model;

    for (int i = 0; i < WEIR_CHECKPOINT_FILES; i++)
        WEIR_TRY(open_file(dir, i, &p->st[i]));
    WEIR_TRY(weir_checkpoint_get_info(p->st[WEIR_CHECKPOINT_MODEL], dir, &p->info));
    WEIR_TRY(get_text(p->st[WEIR_CHECKPOINT_STATE], dir, "weir.pair", &model));
    if (strcmp(model, weir_safetensors_sum(p->st[WEIR_CHECKPOINT_MODEL])))
        return weir_fail(WEIR_DAMAGED, "%s: its %s and %s were not saved together", dir,
                         weir_checkpoint_file[WEIR_CHECKPOINT_MODEL],
                         weir_checkpoint_file[WEIR_CHECKPOINT_STATE]);
    return WEIR_OK;
}

weir_err weir_checkpoint_open(const char *dir, weir_checkpoint_pair *p)
{
    weir_err err;

    *p = (weir_checkpoint_pair){0};
    err = open_both(dir, p);
    if (err)
        weir_checkpoint_close(p);
    return err;
}
