/* ckpt_io.c - fields of state to tensors of a file, and back. */
#include "train/ckpt_io.h"
#include "core/log.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* bytes up to which a field is copied: it may be a local of the function that lists it */
enum { SHORT = 4096 };

/* The one place that knows what each rule means to a checkpoint. Rank 0 saves, and all ranks read
 * the same file: fields that differ between workers are made whole before they come here
 * (snapshot.h), and streams are read by range. */
static weir_err check_rule(const char *name, weir_keep keep, bool loading)
{
    static const char *const rule[] = {
        [WEIR_KEEP_SUM] = "a sum", [WEIR_KEEP_MEAN] = "a mean", [WEIR_KEEP_STREAM] = "streams"};

    if (keep == WEIR_KEEP_SAME || keep == WEIR_KEEP_DROP || (keep == WEIR_KEEP_STREAM && loading))
        return WEIR_OK;
    return weir_fail(WEIR_MISFIT,
                     "state field %s differs between workers (it is kept as %s): checkpoints hold "
                     "only what is the same "
                     "on all of them",
                     name, rule[keep]);
}

/* ---- saving ---- */

typedef struct saver {
    weir_io io;
    weir_safetensors_list *list;
    weir_arena *arena;
} saver;

/* n elements from place `at` on of the tensor. */
static weir_err add(saver *s, const weir_safetensors_tensor *like, size_t at, const void *data,
                    size_t n)
{
    size_t size = weir_safetensors_type_size(like->type), bytes = n * size;

    if (bytes && bytes <= SHORT) {
        void *copy = weir_alloc(s->arena, bytes);
        if (!copy)
            return weir_fail_nomem(bytes);
        data = memcpy(copy, data, bytes);
    }
    return weir_safetensors_list_add(s->list, like, at * size, data, bytes);
}

static weir_err save_range(weir_io *io, const char *name, const weir_io_piece *p)
{
    weir_safetensors_tensor like = {.name = name,
                                    .type = WEIR_SAFETENSORS_F32,
                                    .dims = 1,
                                    .dim = {(int64_t)p->whole}};

    WEIR_TRY(check_rule(name, p->keep, false));
    return add((saver *)io, &like, p->at, p->x, p->n);
}

static weir_err save_u64(weir_io *io, const char *name, uint64_t *x, size_t n, weir_keep keep)
{
    weir_safetensors_tensor like = {.name = name,
                                    .type = WEIR_SAFETENSORS_U64,
                                    .dims = 1,
                                    .dim = {(int64_t)n}};

    WEIR_TRY(check_rule(name, keep, false));
    return add((saver *)io, &like, 0, x, n);
}

weir_err weir_checkpoint_list_state(weir_safetensors_list *list, weir_arena *arena,
                                    weir_err (*state)(void *, weir_io *), void *arg)
{
    saver s = {.io = {.range = save_range, .u64 = save_u64}, .list = list, .arena = arena};

    return state ? state(arg, &s.io) : WEIR_OK;
}

/* ---- loading ---- */

typedef struct loader {
    weir_io io;
    const weir_safetensors *st;
    const char *path;
    bool alike;
    bool *taken; /* by place in the file */
} loader;

/* The field as it is in the file, or NULL: it is left as it was. */
static weir_err find(loader *l, const char *name, weir_safetensors_type type, size_t whole,
                     weir_keep keep, const weir_safetensors_tensor **found)
{
    size_t count;
    const weir_safetensors_tensor *all = weir_safetensors_tensors(l->st, &count),
                                  *t = weir_safetensors_find(l->st, name);

    WEIR_TRY(check_rule(name, keep, true));
    *found = NULL;
    if (t)
        l->taken[t - all] = true;
    if (keep == WEIR_KEEP_DROP && (!t || !l->alike))
        return WEIR_OK;
    if (!t)
        return weir_fail(WEIR_MISFIT,
                         "%s: state field %s is missing: it was saved with other settings "
                         "(--optim, --codec, --exchange, --model)",
                         l->path, name);
    if (keep == WEIR_KEEP_STREAM &&
        t->bytes != (uint64_t)whole * weir_safetensors_type_size(type)) {
        weir_log(WEIR_LOG_WARN, "checkpoint",
                 "%s: %s is of another number of streams (--batch has changed): it starts anew",
                 l->path, name);
        return WEIR_OK;
    }
    if (t->type != type || t->bytes != (uint64_t)whole * weir_safetensors_type_size(type))
        return weir_fail(WEIR_MISFIT,
                         "%s: state field %s has %" PRIu64
                         " bytes of %s, where these settings want %zu of %s",
                         l->path, name, t->bytes, weir_safetensors_type_name(t->type),
                         whole * weir_safetensors_type_size(type),
                         weir_safetensors_type_name(type));
    *found = t;
    return WEIR_OK;
}

static weir_err load_range(weir_io *io, const char *name, const weir_io_piece *p)
{
    loader *l = (loader *)io;
    const weir_safetensors_tensor *t;

    WEIR_TRY(find(l, name, WEIR_SAFETENSORS_F32, p->whole, p->keep, &t));
    return t ? weir_safetensors_read(l->st, t, p->at * sizeof *p->x, p->x, p->n * sizeof *p->x)
             : WEIR_OK;
}

static weir_err load_u64(weir_io *io, const char *name, uint64_t *x, size_t n, weir_keep keep)
{
    loader *l = (loader *)io;
    const weir_safetensors_tensor *t;

    WEIR_TRY(find(l, name, WEIR_SAFETENSORS_U64, n, keep, &t));
    return t ? weir_safetensors_read(l->st, t, 0, x, n * sizeof *x) : WEIR_OK;
}

weir_err weir_checkpoint_read_state(const weir_safetensors *st, const char *path, bool alike,
                                    const weir_checkpoint_body *body, size_t *left)
{
    loader l = {.io = {.loading = true, .range = load_range, .u64 = load_u64},
                .st = st,
                .path = path,
                .alike = alike};
    size_t count, rest = 0;
    const weir_safetensors_tensor *all = weir_safetensors_tensors(st, &count);
    weir_err err;

    if (!(l.taken = calloc(count + 1, sizeof *l.taken)))
        return weir_fail_nomem(count + 1);
    err = body->state ? body->state(body->arg, &l.io) : WEIR_OK;
    for (size_t i = 0; i < count && !err; i++)
        if (!l.taken[i]) {
            rest++;
            err = body->unused ? body->unused(all[i].name) : WEIR_OK;
        }
    free(l.taken);
    WEIR_TRY(err);
    *left = rest;
    return WEIR_OK;
}
