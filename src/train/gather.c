/* gather.c - two passes over the state: one collects, one writes. */
#include "train/gather.h"
#include <string.h>

typedef struct field {
    char *name;
    float *whole;
    size_t n;
    bool written;
    struct field *next;
} field;

struct weir_gathered {
    weir_trainer *t;
    weir_arena *arena;
    field *first, **last;
};

/* A pass: the io that the state sees, and what is behind it. */
typedef struct pass {
    weir_io io;
    weir_gathered *g;
    weir_io *real; /* of the second pass */
} pass;

static field *find(weir_gathered *g, const char *name)
{
    field *f = g->first;

    while (f && strcmp(f->name, name))
        f = f->next;
    return f;
}

/* ---- collecting ---- */

static weir_err collect_range(weir_io *io, const char *name, float *x, size_t at, size_t n, size_t whole, weir_keep keep)
{
    weir_gathered *g = ((pass *)io)->g;
    field *f = find(g, name);

    if (keep != WEIR_KEEP_STREAM)
        return WEIR_OK;
    if (!f) {
        f = WEIR_NEW(g->arena, field, 1);
        if (!f || !(f->name = weir_copy_text(g->arena, name)) || !(f->whole = WEIR_NEW(g->arena, float, whole)))
            return weir_fail_nomem(whole * sizeof(float));
        f->n = whole;
        *g->last = f;
        g->last = &f->next;
    }
    if (n)
        memcpy(f->whole + at, x, n * sizeof *x);
    return WEIR_OK;
}

static weir_err collect_u64(weir_io *io, const char *name, uint64_t *x, size_t n, weir_keep keep)
{
    (void)io, (void)name, (void)x, (void)n, (void)keep;
    return WEIR_OK;
}

static weir_err sum_job(void *arg)
{
    weir_gathered *g = arg;

    for (field *f = g->first; f; f = f->next)
        WEIR_TRY(weir_allreduce(&g->t->coll, &g->t->all, f->whole, f->n, &weir_sum_f32));
    return WEIR_OK;
}

weir_err weir_gather_state(weir_trainer *t, weir_gathered **out)
{
    weir_arena *arena = weir_arena_new();
    weir_gathered *g = arena ? WEIR_NEW(arena, weir_gathered, 1) : NULL;
    weir_err err;

    if (!g)
        return weir_arena_free(arena), weir_fail_nomem(sizeof *g);
    *g = (weir_gathered){.t = t, .arena = arena, .last = &g->first};
    pass p = {.io = {.range = collect_range, .u64 = collect_u64}, .g = g};
    err = weir_trainer_state(t, &p.io);
    if (!err && g->first)
        err = weir_comm_call(t->comm, sum_job, g);
    if (err)
        return weir_gathered_free(g), err;
    *out = g;
    return WEIR_OK;
}

/* ---- writing ---- */

static weir_err write_range(weir_io *io, const char *name, float *x, size_t at, size_t n, size_t whole, weir_keep keep)
{
    pass *p = (pass *)io;
    field *f = keep == WEIR_KEEP_STREAM ? find(p->g, name) : NULL;

    if (!f)
        return p->real->range(p->real, name, x, at, n, whole, keep);
    if (f->written)
        return WEIR_OK;
    f->written = true;
    return p->real->range(p->real, name, f->whole, 0, f->n, f->n, WEIR_KEEP_SAME);
}

static weir_err write_u64(weir_io *io, const char *name, uint64_t *x, size_t n, weir_keep keep)
{
    pass *p = (pass *)io;

    return p->real->u64(p->real, name, x, n, keep);
}

weir_err weir_gathered_state(void *gathered, weir_io *real)
{
    weir_gathered *g = gathered;
    pass p = {.io = {.range = write_range, .u64 = write_u64}, .g = g, .real = real};

    for (field *f = g->first; f; f = f->next)
        f->written = false;
    return weir_trainer_state(g->t, &p.io);
}

void weir_gathered_free(weir_gathered *g)
{
    if (g)
        weir_arena_free(g->arena);
}
