/* run_model.c - see run_model.h. */
#include "train/run_model.h"
#include "core/file.h"
#include "nn/zoo.h"
#include <stdlib.h>
#include <string.h>

#define COPY "model.net"
enum { MOST_BYTES = 1 << 20 }; /* as nn/zoo.c takes them */

static bool is_in(const char *dir, const char *name)
{
    char path[4200];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    return weir_path_exists(path);
}

weir_err weir_run_model_find(const char *dir, weir_arena *arena, const char **path)
{
    size_t room = strlen(dir) + sizeof "/" COPY;
    char *text;

    *path = NULL;
    if (!is_in(dir, "config") || !is_in(dir, COPY))
        return WEIR_OK;
    if (!(text = weir_alloc(arena, room)))
        return weir_fail_nomem(room);
    snprintf(text, room, "%s/%s", dir, COPY);
    *path = text;
    return WEIR_OK;
}

/* ---- reading ---- */

static bool is_same(const weir_model_file *f, const char *text, size_t n)
{
    return f->n == n && !memcmp(f->text, text, n);
}

static weir_err read_file(const weir_zoo_spec *s, weir_arena *arena, weir_model_file *f)
{
    char *text, *copy;
    size_t n;

    WEIR_TRY(weir_zoo_read(s, &text, &n));
    if ((copy = weir_alloc(arena, n + 1)))
        memcpy(copy, text, n + 1);
    free(text);
    *f = (weir_model_file){s->path, copy, n};
    return copy ? WEIR_OK : weir_fail_nomem(n + 1);
}

/* One that is gone differs from nothing. */
static void warn_of_edit(weir_trainer *t)
{
    weir_zoo_spec s;
    weir_model_file now;

    if (weir_zoo_find(t->set->model, NULL, t->arena, &s) || read_file(&s, t->arena, &now) ||
        is_same(&t->model_file, now.text, now.n))
        return;
    weir_warned_add(&t->warned,
                    "%s is not what it was when the run began: the run's own copy, %s, is used "
                    "(--model takes the file as it is now)",
                    s.path, t->model_file.path);
}

weir_err weir_run_model_read(weir_trainer *t)
{
    const char *copy = t->set->model_copy;
    weir_zoo_spec s;

    if (t->model_file.text) /* it came from the run that is joined */
        return WEIR_OK;
    WEIR_TRY(weir_zoo_find(t->set->model, copy, t->arena, &s));
    WEIR_TRY(read_file(&s, t->arena, &t->model_file));
    if (copy)
        warn_of_edit(t);
    return WEIR_OK;
}

/* ---- writing ---- */

static weir_err check_place(const weir_model_file *f, const char *out, const char *path, bool *is)
{
    char *text;
    size_t n;

    *is = false;
    if (!weir_path_exists(path))
        return WEIR_OK;
    *is = !weir_file_read(path, MOST_BYTES, &text, &n);
    if (*is) {
        *is = is_same(f, text, n);
        free(text);
    }
    if (*is || is_in(out, "config"))
        return WEIR_OK;
    return weir_fail(WEIR_USAGE,
                     "--out %s: a run keeps a copy of its model in %s, but there is another model "
                     "in it and no run: rename it, or take another directory",
                     out, path);
}

weir_err weir_run_model_write(const weir_model_file *model, const char *out)
{
    char path[4200];
    weir_file *f;
    weir_err err;
    bool is;

    snprintf(path, sizeof path, "%s/%s", out, COPY);
    WEIR_TRY(check_place(model, out, path, &is));
    if (is)
        return WEIR_OK;
    WEIR_TRY(weir_file_create(path, &f));
    if ((err = weir_file_write(f, model->text, model->n)))
        return weir_file_drop(f), err;
    return weir_file_commit(f);
}
