/* snapshot.c - the state lists its fields once; then there is room for all of them, they are
 * copied, and what differs between workers is brought together. */
#include "train/snapshot.h"
#include <stdlib.h>
#include <string.h>

/* SHORT: bytes up to which a field is copied while it is listed, as it may be a local of the
 * function that lists it (checkpoint.h) */
enum { ALIGN = 64, SHORT = 4096 };

typedef struct piece {
    const void *from;
    size_t at, n; /* of the field's numbers */
    struct piece *next;
} piece;

typedef struct field {
    char *name;
    bool counts; /* whole numbers, and not floats */
    weir_keep keep;
    size_t n;           /* of one worker, or of all streams */
    size_t rows;        /* workers that have it here, one behind the other */
    piece *first, *end; /* what this worker has of it */
    char *data;
    struct field *next;
} field;

struct weir_snapshot {
    weir_arena *kept; /* has the room */
    char *room;
    size_t size;
    weir_arena *arena; /* of this one: names and texts */
    field *first, **last;
    float *param;
    weir_checkpoint_info info;
    weir_checkpoint_body body;
};

weir_snapshot *weir_snapshot_new(void) { return calloc(1, sizeof(weir_snapshot)); }

uint64_t weir_snapshot_step(const weir_snapshot *s) { return s->info.step; }

void weir_snapshot_free(weir_snapshot *s)
{
    if (!s)
        return;
    weir_arena_free(s->arena);
    weir_arena_free(s->kept);
    free(s);
}

/* ---- listing ---- */

typedef struct listing {
    weir_io io;
    weir_snapshot *s;
    const weir_group *all;
} listing;

/* Every worker has its own. */
static bool each(weir_keep keep) { return keep == WEIR_KEEP_SUM || keep == WEIR_KEEP_MEAN; }

static bool differs(const field *f)
{
    return !f->counts && (each(f->keep) || f->keep == WEIR_KEEP_STREAM);
}

static size_t unit(const field *f) { return f->counts ? sizeof(uint64_t) : sizeof(float); }

static bool is_like(const field *a, const field *b)
{
    return a->counts == b->counts && a->n == b->n && a->keep == b->keep &&
           !strcmp(a->name, b->name);
}

/* The field, which has come before if a tensor lies in several buckets. */
static field *find(weir_snapshot *s, const field *like)
{
    field *f = s->first;

    while (f && !is_like(f, like))
        f = f->next;
    if (f || !(f = WEIR_NEW(s->arena, field, 1)))
        return f;
    *f = *like;
    if (!(f->name = weir_copy_text(s->arena, like->name)))
        return NULL;
    *s->last = f;
    s->last = &f->next;
    return f;
}

static weir_err list(listing *l, const field *like, const void *from, size_t at, size_t n)
{
    weir_snapshot *s = l->s;
    size_t bytes = n * unit(like);
    field *f;
    piece *p;

    if (!differs(like) && !weir_group_leads(l->all))
        return WEIR_OK;
    if (!(f = find(s, like)) || !(p = WEIR_NEW(s->arena, piece, 1)))
        return weir_fail_nomem(sizeof *f);
    *p = (piece){.from = from, .at = at, .n = n};
    if (bytes && bytes <= SHORT) {
        void *copy = weir_alloc(s->arena, bytes);
        if (!copy)
            return weir_fail_nomem(bytes);
        p->from = memcpy(copy, from, bytes);
    }
    *(f->end ? &f->end->next : &f->first) = p;
    f->end = p;
    return WEIR_OK;
}

static weir_err list_range(weir_io *io, const char *name, const weir_io_piece *p)
{
    listing *l = (listing *)io;
    bool gathers = each(p->keep) && weir_group_leads(l->all);
    field like = {.name = (char *)name,
                  .keep = p->keep,
                  .n = p->whole,
                  .rows = gathers ? (size_t)l->all->size : 1};

    return list(l, &like, p->x, p->at, p->n);
}

static weir_err list_u64(weir_io *io, const char *name, uint64_t *x, size_t n, weir_keep keep)
{
    field like = {.name = (char *)name, .counts = true, .keep = keep, .n = n, .rows = 1};

    return list((listing *)io, &like, x, 0, n);
}

static weir_err list_state(weir_snapshot *s, weir_trainer *t)
{
    listing l = {.io = {.range = list_range, .u64 = list_u64}, .s = s, .all = &t->mesh.all};

    weir_arena_free(s->arena);
    s->first = NULL;
    s->last = &s->first;
    if (!(s->arena = weir_arena_new()))
        return weir_fail_nomem(0);
    return weir_trainer_state(t, &l.io);
}

/* ---- copying ---- */

static size_t bytes_of(const field *f)
{
    return (f->rows * f->n * unit(f) + ALIGN - 1) / ALIGN * ALIGN;
}

/* What was there before is of no use to anybody. */
static weir_err make_room(weir_snapshot *s, size_t bytes)
{
    if (s->kept && bytes <= s->size)
        return WEIR_OK;
    weir_arena_free(s->kept);
    s->size = 0;
    s->kept = weir_arena_new();
    s->room = s->kept ? weir_alloc(s->kept, bytes) : NULL;
    if (!s->room)
        return weir_fail_nomem(bytes);
    s->size = bytes;
    return WEIR_OK;
}

/* Parameters first, where they are wanted. */
static weir_err place(weir_snapshot *s, size_t params)
{
    size_t before = (params * sizeof(float) + ALIGN - 1) / ALIGN * ALIGN, bytes = before;

    for (const field *f = s->first; f; f = f->next)
        bytes += bytes_of(f);
    WEIR_TRY(make_room(s, bytes));
    s->param = (float *)s->room;
    bytes = before;
    for (field *f = s->first; f; f = f->next) {
        f->data = s->room + bytes;
        bytes += bytes_of(f);
    }
    return WEIR_OK;
}

/* To this worker's row. What it has not got is zero. */
static void copy(field *f, int me)
{
    char *row = f->data + (f->rows > 1 ? (size_t)me : 0) * f->n * unit(f);
    size_t have = 0;

    for (const piece *p = f->first; p; p = p->next)
        have += p->n;
    if (have < f->n)
        memset(row, 0, f->n * unit(f));
    for (const piece *p = f->first; p; p = p->next)
        if (p->n)
            memcpy(row + p->at * unit(f), p->from, p->n * unit(f));
}

/* ---- bringing together ---- */

typedef struct gathering {
    weir_snapshot *s;
    weir_trainer *t;
    size_t *off, *len; /* by worker: of a field that each has of its own */
} gathering;

/* To the leader, who alone has room for all. */
static weir_err bring(gathering *g, const field *f)
{
    weir_group *all = &g->t->mesh.all;
    weir_err err;

    for (int i = 0; i < all->size; i++) {
        g->off[i] = weir_group_leads(all) ? (size_t)i * f->n * unit(f) : 0;
        g->len[i] = f->n * unit(f);
    }
    err = weir_talk_gather_all(&g->t->coll, all, all->leader,
                               &(weir_pieces){f->data, g->off, g->len});
    return err == WEIR_MISFIT ? weir_fail(err, "the state field %s: %s", f->name, weir_why_text())
                              : err;
}

static weir_err gather_job(void *arg)
{
    gathering *g = arg;
    weir_trainer *t = g->t;

    for (field *f = g->s->first; f; f = f->next)
        if (each(f->keep) && differs(f))
            WEIR_TRY(bring(g, f));
        else if (differs(f))
            WEIR_TRY(weir_allreduce(&t->coll, &t->mesh.all, f->data, f->n, &weir_sum_f32));
    return WEIR_OK;
}

static weir_err gather(weir_snapshot *s, weir_trainer *t)
{
    gathering g = {.s = s, .t = t};
    const field *f = s->first;
    int p = t->mesh.all.size;

    while (f && !differs(f))
        f = f->next;
    if (!f)
        return WEIR_OK;
    if (!(g.off = WEIR_NEW(s->arena, size_t, 2 * p)))
        return weir_fail_nomem(2 * (size_t)p * sizeof *g.off);
    g.len = g.off + p;
    return weir_line_call(t->line, gather_job, &g);
}

/* ---- as a checkpoint ---- */

/* The pieces as they came, so that one that is missing is seen. */
static weir_err give(const field *f, weir_io *io)
{
    float *x = (float *)f->data;
    size_t all = f->rows * f->n;

    if (f->counts)
        return io->u64(io, f->name, (uint64_t *)f->data, f->n, f->keep);
    if (differs(f))
        return io->range(io, f->name, &(weir_io_piece){x, 0, all, all, WEIR_KEEP_SAME});
    for (const piece *p = f->first; p; p = p->next)
        WEIR_TRY(io->range(io, f->name, &(weir_io_piece){x + p->at, p->at, p->n, f->n, f->keep}));
    return WEIR_OK;
}

static weir_err give_all(void *snapshot, weir_io *io)
{
    weir_snapshot *s = snapshot;

    for (const field *f = s->first; f; f = f->next)
        WEIR_TRY(give(f, io));
    return WEIR_OK;
}

/* Takes the text, which was malloc'ed. */
static const char *keep_text(weir_snapshot *s, char *text)
{
    const char *copy = text ? weir_copy_text(s->arena, text) : NULL;

    free(text);
    return copy;
}

static weir_err describe(weir_snapshot *s, const weir_trainer *t)
{
    const weir_settings *set = t->set;

    s->info = (weir_checkpoint_info){.step = t->step,
                                     .seed = (uint64_t)set->seed,
                                     .samples = t->samples,
                                     .epoch = t->cursor.epoch,
                                     .used = t->cursor.used,
                                     .rows = t->cursor.rows,
                                     .workers = t->mesh.all.size,
                                     .model = keep_text(s, weir_settings_model(set)),
                                     .data = keep_text(s, weir_settings_data(set)),
                                     .settings = keep_text(s, weir_settings_text(set)),
                                     .lessons = t->lessons};
    s->body = (weir_checkpoint_body){.param = s->param, .state = give_all, .arg = s};
    s->body.tensor = weir_model_tensors(t->model, &s->body.tensors);
    return s->info.model && s->info.data && s->info.settings ? WEIR_OK : weir_fail_nomem(0);
}

weir_err weir_snapshot_take(weir_snapshot *s, weir_trainer *t)
{
    const weir_group *all = &t->mesh.all;
    bool leads = weir_group_leads(all);

    WEIR_TRY(list_state(s, t));
    WEIR_TRY(place(s, leads ? t->params : 0));
    if (leads)
        memcpy(s->param, t->param, t->params * sizeof(float));
    for (field *f = s->first; f; f = f->next)
        copy(f, all->me);
    WEIR_TRY(gather(s, t));
    return leads ? describe(s, t) : WEIR_OK;
}

weir_err weir_snapshot_write(weir_snapshot *s, weir_rt *rt, const weir_checkpoint_place *place,
                             weir_checkpoint_saved *saved)
{
    return weir_checkpoint_save(rt, place, &s->info, &s->body, saved);
}
