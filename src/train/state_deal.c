/* state_deal.c - see state_deal.h. */
#include "train/state_deal.h"
#include "core/vec.h"
#include <stdlib.h>
#include <string.h>

static bool apart(weir_keep keep) { return keep == WEIR_KEEP_SUM || keep == WEIR_KEEP_MEAN; }

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
