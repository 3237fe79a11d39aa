/* state_share.c - see state_share.h. The state is listed as for a checkpoint; the io behind counts,
 * packs or unpacks it. */
#include "train/state_share.h"
#include <stdlib.h>
#include <string.h>

/* What goes from the source to others: everything that is not each worker's own. */
static weir_err list_state(weir_trainer *t, weir_io *io)
{
    for (int i = 0; i < t->lanes; i++)
        WEIR_TRY(weir_lane_state(&t->lane[i], io));
    if (t->exchange->state)
        WEIR_TRY(t->exchange->state(t->exchanger, io));
    return weir_model_state(t->model, io);
}

/* ---- what is equal on all ---- */

typedef struct parcel {
    weir_io io;  /* first */
    bool fresh;  /* the receiver is new: it takes means as well */
    char *bytes; /* NULL: only counted */
    size_t n;
} parcel;

static void move(parcel *p, void *x, size_t n, bool takes)
{
    if (p->bytes && p->io.loading && takes)
        memcpy(x, p->bytes + p->n, n);
    else if (p->bytes && !p->io.loading)
        memcpy(p->bytes + p->n, x, n);
    p->n += n;
}

static weir_err move_range(weir_io *io, const char *name, const weir_io_piece *w)
{
    parcel *p = (parcel *)io;

    (void)name;
    if (w->n && (w->keep == WEIR_KEEP_SAME || w->keep == WEIR_KEEP_MEAN))
        move(p, w->x, w->n * sizeof *w->x, w->keep == WEIR_KEEP_SAME || p->fresh);
    return WEIR_OK;
}

static weir_err move_u64(weir_io *io, const char *name, uint64_t *x, size_t n, weir_keep keep)
{
    (void)name;
    if (keep == WEIR_KEEP_SAME)
        move((parcel *)io, x, n * sizeof *x, true);
    return WEIR_OK;
}

/* All of it, in the same order on all ranks. */
static weir_err move_all(weir_trainer *t, parcel *p, void *more, size_t bytes)
{
    p->n = 0;
    move(p, more, bytes, true);
    move(p, &t->step, sizeof t->step, true);
    move(p, &t->samples, sizeof t->samples, true);
    move(p, &t->cursor, sizeof t->cursor, true);
    move(p, &t->pending, sizeof t->pending, true);
    move(p, &t->flushed, sizeof t->flushed, true);
    if (!t->dry)
        move(p, t->param, t->params * sizeof *t->param, true);
    return t->dry ? WEIR_OK : list_state(t, &p->io);
}

/* How long it is, the same on all ranks. */
static weir_err make_parcel(weir_trainer *t, parcel *p, void *more, size_t bytes)
{
    WEIR_TRY(move_all(t, p, more, bytes));
    return (p->bytes = malloc(p->n)) ? WEIR_OK : weir_fail_nomem(p->n);
}

typedef struct transfer {
    weir_net *net;
    const weir_members *list;
    bool all;
    char *bytes;
    size_t n;
} transfer;

enum { ALIKE = 1, STEP_BITS = 40 }; /* bits of newness, from the lowest */

uint64_t weir_state_newness(const weir_trainer *t, int generation)
{
    bool alike = !t->exchange->drifts || t->settled == t->step;

    return ((uint64_t)generation + 1) << (STEP_BITS + 1) | t->step << 1 | (alike ? ALIKE : 0);
}

bool weir_state_goes_to(const weir_members *l, bool all, int rank)
{
    for (int i = 0; i < l->count; i++)
        if (l->member[i] == rank)
            return rank != l->source && (all || l->behind[i] || !(l->step & ALIKE));
    return false;
}

static int takers(const weir_members *l, bool all)
{
    int n = 0;

    for (int i = 0; i < l->count; i++)
        n += weir_state_goes_to(l, all, l->member[i]);
    return n;
}

static uint64_t tag_of(const weir_members *l)
{
    return weir_tag(WEIR_CHANNEL_STATE, (uint32_t)l->generation, 0);
}

/* On the comm task, to all at once. */
static weir_err send_job(void *arg)
{
    const transfer *f = arg;
    weir_net_op *op = calloc((size_t)f->list->count, sizeof *op);
    weir_net_op *one;
    int which;

    if (!op)
        return weir_fail_nomem((size_t)f->list->count * sizeof *op);
    for (int i = 0; i < f->list->count; i++) {
        op[i].done = true;
        if (weir_state_goes_to(f->list, f->all, f->list->member[i]))
            weir_net_send(f->net, f->list->member[i], tag_of(f->list), f->bytes, f->n, &op[i]);
    }
    for (int i = 0; i < f->list->count; i++) {
        one = &op[i];
        if (weir_net_wait(f->net, &one, 1, 0, &which))
            weir_net_cancel(f->net, &one, 1);
    }
    free(op);
    return WEIR_OK;
}

weir_err weir_state_send(weir_trainer *t, const weir_members *list, bool all, void *more,
                         size_t bytes)
{
    parcel p = {.io = {.range = move_range, .u64 = move_u64}};
    weir_err err;

    if (!takers(list, all))
        return WEIR_OK;
    err = make_parcel(t, &p, more, bytes);
    if (!err)
        err = move_all(t, &p, more, bytes);
    if (!err)
        err = weir_line_call(t->line, send_job, &(transfer){t->net, list, all, p.bytes, p.n});
    free(p.bytes);
    return err;
}

static weir_err receive_job(void *arg)
{
    const transfer *f = arg;
    size_t len;

    WEIR_TRY(weir_net_recv_wait(f->net, f->list->source, tag_of(f->list), f->bytes, f->n, &len));
    return len == f->n
               ? WEIR_OK
               : weir_fail(WEIR_MISFIT, "rank %d sent a state of %zu bytes, and %zu were expected",
                           f->list->source, len, f->n);
}

weir_err weir_state_receive(weir_trainer *t, const weir_members *list, bool fresh, void *more,
                            size_t bytes)
{
    parcel p = {.io = {.range = move_range, .u64 = move_u64}, .fresh = fresh};
    weir_err err = make_parcel(t, &p, more, bytes);

    if (!err)
        err = weir_line_call(t->line, receive_job, &(transfer){t->net, list, false, p.bytes, p.n});
    if (!err) {
        p.io.loading = true;
        err = move_all(t, &p, more, bytes);
    }
    free(p.bytes);
    return err;
}

/* ---- carried state ---- */

typedef struct field {
    struct field *next;
    size_t n;
    float *whole; /* of all streams; zeros where this worker had none */
} field;

struct weir_carried {
    weir_arena *arena;
    field *first, **last, *at;
    bool has;
    double *had; /* by stream: 1 where somebody brought its state */
    uint64_t streams, begin, count;
};

typedef struct carrying {
    weir_io io; /* first */
    weir_carried *c;
} carrying;

static weir_err take_range(weir_io *io, const char *name, const weir_io_piece *w)
{
    weir_carried *c = ((carrying *)io)->c;
    field *f;

    (void)name;
    if (w->keep != WEIR_KEEP_STREAM)
        return WEIR_OK;
    f = WEIR_NEW(c->arena, field, 1);
    if (!f || !(f->whole = WEIR_NEW(c->arena, float, w->whole)))
        return weir_fail_nomem(w->whole * sizeof(float));
    f->n = w->whole;
    if (w->n && c->has)
        memcpy(f->whole + w->at, w->x, w->n * sizeof *w->x);
    *c->last = f;
    c->last = &f->next;
    return WEIR_OK;
}

static weir_err give_range(weir_io *io, const char *name, const weir_io_piece *w)
{
    weir_carried *c = ((carrying *)io)->c;

    (void)name;
    if (w->keep != WEIR_KEEP_STREAM)
        return WEIR_OK;
    if (w->n)
        memcpy(w->x, c->at->whole + w->at, w->n * sizeof *w->x);
    c->at = c->at->next;
    return WEIR_OK;
}

static weir_err pass_u64(weir_io *io, const char *name, uint64_t *x, size_t n, weir_keep keep)
{
    (void)io, (void)name, (void)x, (void)n, (void)keep;
    return WEIR_OK;
}

/* Which streams this worker has. */
static void own_streams(const weir_trainer *t, weir_carried *c)
{
    weir_cursor begin = weir_plan_at(&t->plan, 0);
    uint64_t at;
    int n;

    weir_sample_plan_slice(&t->plan, begin, 0, &c->begin, &n);
    for (int m = 0; m < t->plan.micro; m++) {
        weir_sample_plan_slice(&t->plan, begin, m, &at, &n);
        c->count += (uint64_t)n;
    }
}

weir_err weir_carried_take(weir_trainer *t, bool has, weir_carried **out)
{
    weir_arena *arena = weir_arena_new();
    weir_carried *c = *out = arena ? WEIR_NEW(arena, weir_carried, 1) : NULL;
    carrying io = {.io = {.range = take_range, .u64 = pass_u64}, .c = c};

    if (!c)
        return weir_arena_free(arena), weir_fail_nomem(0);
    *c = (weir_carried){.arena = arena, .has = has, .last = &c->first};
    c->streams = t->dry ? 0 : (uint64_t)t->data.facts.streams[WEIR_DATA_TRAIN];
    if (!c->streams)
        return WEIR_OK;
    if (!(c->had = WEIR_NEW(arena, double, c->streams)))
        return weir_fail_nomem(c->streams * sizeof *c->had);
    if (has)
        own_streams(t, c);
    for (uint64_t i = c->begin; i < c->begin + c->count; i++)
        c->had[i] = 1;
    return weir_model_state(t->model, &io.io);
}

typedef struct summing {
    weir_trainer *t;
    weir_carried *c;
} summing;

static weir_err sum_fields(void *arg)
{
    const summing *s = arg;

    for (field *f = s->c->first; f; f = f->next)
        WEIR_TRY(weir_allreduce(&s->t->coll, &s->t->mesh.all, f->whole, f->n, &weir_sum_f32));
    return WEIR_OK;
}

/* Where a change of groups was broken off and begun again, two may have brought the same: the mean
 * of both is it. */
static void divide(field *f, const weir_carried *c)
{
    size_t each = f->n / (size_t)c->streams;

    for (uint64_t i = 0; i < c->streams; i++)
        for (size_t k = 0; c->had[i] > 1 && k < each; k++)
            f->whole[i * each + k] /= (float)c->had[i];
}

weir_err weir_carried_give(weir_trainer *t, weir_carried *c, uint64_t *lost)
{
    carrying io = {.io = {.loading = true, .range = give_range, .u64 = pass_u64}, .c = c};

    *lost = 0;
    if (!c->streams)
        return WEIR_OK;
    WEIR_TRY(weir_trainer_sum(t, c->had, (int)c->streams));
    WEIR_TRY(weir_line_call(t->line, sum_fields, &(summing){t, c}));
    for (uint64_t i = 0; i < c->streams; i++)
        *lost += !(c->had[i] > 0);
    for (field *f = c->first; f; f = f->next)
        divide(f, c);
    c->at = c->first;
    return weir_model_state(t->model, &io.io);
}

void weir_carried_free(weir_carried *c)
{
    if (c)
        weir_arena_free(c->arena);
}
