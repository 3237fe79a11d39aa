/* state_gather.c - two passes over the state: one collects, one writes. */
#include "train/state_gather.h"
#include "core/vec.h"
#include <stdlib.h>
#include <string.h>

typedef struct field {
    char *name;
    float *whole;
    size_t n;  /* of one worker, or of all streams */
    bool each; /* every worker has its own: the leader has all of them, one behind the other */
    bool written;
    struct field *next;
} field;

struct weir_state_gathered {
    weir_trainer *t;
    weir_arena *arena;
    field *first, **last;
    size_t *off, *len; /* by worker: of a field that each has of its own */
};

/* A pass: the io that the state sees, and what is behind it. */
typedef struct pass {
    weir_io io;
    weir_state_gathered *g;
    weir_io *real; /* of the second pass */
} pass;

static field *find(weir_state_gathered *g, const char *name)
{
    field *f = g->first;

    while (f && strcmp(f->name, name))
        f = f->next;
    return f;
}

/* ---- collecting ---- */

static bool apart(weir_keep keep) { return keep == WEIR_KEEP_SUM || keep == WEIR_KEEP_MEAN; }

static field *add_field(weir_state_gathered *g, const char *name, size_t whole, bool each)
{
    field *f = WEIR_NEW(g->arena, field, 1);
    size_t rows = each && weir_group_leads(&g->t->mesh.all) ? (size_t)g->t->mesh.all.size : 1;

    if (!f || !(f->name = weir_copy_text(g->arena, name)) ||
        !(f->whole = WEIR_NEW(g->arena, float, whole *rows)))
        return NULL;
    f->n = whole;
    f->each = each;
    *g->last = f;
    g->last = &f->next;
    return f;
}

/* This worker's row, or all there is of the field. */
static float *own(const weir_state_gathered *g, const field *f)
{
    const weir_group *all = &g->t->mesh.all;

    return f->whole + (f->each && weir_group_leads(all) ? (size_t)all->me * f->n : 0);
}

static weir_err collect_range(weir_io *io, const char *name, const weir_io_piece *p)
{
    weir_state_gathered *g = ((pass *)io)->g;
    field *f;

    if (p->keep != WEIR_KEEP_STREAM && !apart(p->keep))
        return WEIR_OK;
    if (!(f = find(g, name)) && !(f = add_field(g, name, p->whole, apart(p->keep))))
        return weir_fail_nomem(p->whole * sizeof(float));
    if (p->n)
        memcpy(own(g, f) + p->at, p->x, p->n * sizeof *p->x);
    return WEIR_OK;
}

static weir_err collect_u64(weir_io *io, const char *name, uint64_t *x, size_t n, weir_keep keep)
{
    (void)io, (void)name, (void)x, (void)n, (void)keep;
    return WEIR_OK;
}

/* To the leader, who alone has room for all. */
static weir_err bring(weir_state_gathered *g, const field *f)
{
    weir_group *all = &g->t->mesh.all;
    weir_err err;

    for (int i = 0; i < all->size; i++) {
        g->off[i] = weir_group_leads(all) ? (size_t)i * f->n * sizeof(float) : 0;
        g->len[i] = f->n * sizeof(float);
    }
    err = weir_talk_gather_all(&g->t->coll, all, all->leader,
                               &(weir_pieces){f->whole, g->off, g->len});
    return err == WEIR_MISFIT ? weir_fail(err, "the state field %s: %s", f->name, weir_why_text())
                              : err;
}

static weir_err sum_job(void *arg)
{
    weir_state_gathered *g = arg;

    for (field *f = g->first; f; f = f->next)
        WEIR_TRY(f->each
                     ? bring(g, f)
                     : weir_allreduce(&g->t->coll, &g->t->mesh.all, f->whole, f->n, &weir_sum_f32));
    return WEIR_OK;
}

weir_err weir_state_gather(weir_trainer *t, weir_state_gathered **out)
{
    weir_arena *arena = weir_arena_new();
    weir_state_gathered *g = arena ? WEIR_NEW(arena, weir_state_gathered, 1) : NULL;
    weir_err err;

    if (!g)
        return weir_arena_free(arena), weir_fail_nomem(sizeof *g);
    *g = (weir_state_gathered){.t = t, .arena = arena, .last = &g->first};
    if (!(g->off = WEIR_NEW(arena, size_t, 2 * t->mesh.all.size)))
        return weir_arena_free(arena),
               weir_fail_nomem(2 * (size_t)t->mesh.all.size * sizeof *g->off);
    g->len = g->off + t->mesh.all.size;
    pass p = {.io = {.range = collect_range, .u64 = collect_u64}, .g = g};
    err = weir_trainer_state(t, &p.io);
    if (!err && g->first)
        err = weir_line_call(t->line, sum_job, g);
    if (err)
        return weir_state_gathered_free(g), err;
    *out = g;
    return WEIR_OK;
}

/* ---- writing ---- */

static weir_err write_range(weir_io *io, const char *name, const weir_io_piece *piece)
{
    pass *p = (pass *)io;
    bool gathered = piece->keep == WEIR_KEEP_STREAM || apart(piece->keep);
    field *f = gathered ? find(p->g, name) : NULL;
    size_t all;

    if (!f)
        return p->real->range(p->real, name, piece);
    if (f->written)
        return WEIR_OK;
    f->written = true;
    all = f->n * (f->each ? (size_t)p->g->t->mesh.all.size : 1);
    return p->real->range(p->real, name, &(weir_io_piece){f->whole, 0, all, all, WEIR_KEEP_SAME});
}

static weir_err write_u64(weir_io *io, const char *name, uint64_t *x, size_t n, weir_keep keep)
{
    pass *p = (pass *)io;

    return p->real->u64(p->real, name, x, n, keep);
}

weir_err weir_state_gathered_state(void *gathered, weir_io *real)
{
    weir_state_gathered *g = gathered;
    pass p = {.io = {.range = write_range, .u64 = write_u64}, .g = g, .real = real};

    for (field *f = g->first; f; f = f->next)
        f->written = false;
    return weir_trainer_state(g->t, &p.io);
}

void weir_state_gathered_free(weir_state_gathered *g)
{
    if (g)
        weir_arena_free(g->arena);
}

/* ---- reading ---- */

typedef struct dealing {
    weir_io io;
    const weir_state_dealt *d;
    weir_io *real;
} dealing;

/* Where worker `row` wrote this piece of its own: one behind the other. */
static weir_io_piece in_row(const dealing *d, const weir_io_piece *p, int row)
{
    weir_io_piece q = *p;

    q.at = (size_t)row * p->whole + p->at;
    q.whole = p->whole * (size_t)d->d->saved;
    q.keep = WEIR_KEEP_SAME;
    return q;
}

/* The piece += a times what worker `row` had. */
static weir_err add_row(dealing *d, const char *name, const weir_io_piece *p, int row, float a)
{
    weir_io_piece other = in_row(d, p, row);
    weir_err err;

    if (!(other.x = malloc(p->n * sizeof *other.x + 1)))
        return weir_fail_nomem(p->n * sizeof *other.x);
    err = d->real->range(d->real, name, &other);
    if (!err)
        weir_vec_best()->axpy(p->x, a, other.x, p->n);
    free(other.x);
    return err;
}

static weir_err deal_range(weir_io *io, const char *name, const weir_io_piece *p)
{
    dealing *d = (dealing *)io;
    int saved = d->d->saved, now = d->d->now, me = d->d->me;
    bool mean = p->keep == WEIR_KEEP_MEAN;

    if (!apart(p->keep))
        return d->real->range(d->real, name, p);
    if (saved == now) {
        weir_io_piece own = in_row(d, p, me);
        return d->real->range(d->real, name, &own);
    }
    memset(p->x, 0, p->n * sizeof *p->x);
    for (int row = 0; row < saved; row++)
        if (mean || row % now == me)
            WEIR_TRY(add_row(d, name, p, row, mean ? 1 / (float)saved : 1));
    return WEIR_OK;
}

static weir_err deal_u64(weir_io *io, const char *name, uint64_t *x, size_t n, weir_keep keep)
{
    dealing *d = (dealing *)io;

    return d->real->u64(d->real, name, x, n, keep);
}

weir_err weir_state_dealt_read(void *dealt, weir_io *real)
{
    dealing d = {.io = {.loading = true, .range = deal_range, .u64 = deal_u64},
                 .d = dealt,
                 .real = real};

    return d.d->state(d.d->arg, &d.io);
}
