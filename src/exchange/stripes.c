/* stripes.c - see stripes.h. */
#include "exchange/stripes.h"
#include "coll/coll.h"
#include "core/vec.h"
#include "exchange/lane.h"
#include <string.h>

/* Of a view, the first row that begins at or after `place`. */
static size_t row_at(const weir_view *v, size_t place)
{
    size_t row = place > v->at && v->cols ? (place - v->at + v->cols - 1) / v->cols : 0;

    return row < v->rows ? row : v->rows;
}

/* Stripe i: the rows that begin in the i-th of p equal parts of the bucket. They lie in a row. */
static weir_err cut_stripe(const weir_bucket *b, int p, int i, weir_arena *arena, weir_stripe *s)
{
    size_t low = weir_coll_cut(b->n, p, i), high = weir_coll_cut(b->n, p, i + 1);
    weir_view *view = WEIR_NEW(arena, weir_view, b->views);

    if (!view)
        return weir_fail_nomem((size_t)b->views * sizeof *view);
    s->bucket = (weir_bucket){.id = b->id, .view = view, .dry = b->dry};
    for (int v = 0; v < b->views; v++) {
        const weir_view *w = &b->view[v];
        size_t from = row_at(w, low), to = i == p - 1 ? w->rows : row_at(w, high);
        if (from == to)
            continue;
        if (!s->bucket.views)
            s->at = w->at + from * w->cols;
        view[s->bucket.views++] =
            (weir_view){w->tensor, s->bucket.n, to - from, w->cols, w->first + from * w->cols};
        s->bucket.n += (to - from) * w->cols;
    }
    s->bucket.at = b->at + s->at;
    return WEIR_OK;
}

static weir_err make_coder(const weir_lane_codec *c, const weir_bucket *b, weir_arena *arena,
                           void **coder)
{
    WEIR_TRY(weir_plug_make(&c->kind->plug, "codec", c->spec, arena, coder));
    return c->kind->init(*coder, b, arena);
}

void weir_stripes_fold(weir_lane *l, weir_lane_codec *c)
{
    const weir_stripes *s = &c->stripes;
    const weir_stripe *mine = weir_stripes_own(s);

    if (!s->owned.now)
        return;
    weir_vec_best()->add(l->held.now + mine->at, s->owned.now, mine->bucket.n);
    memset(s->owned.now, 0, mine->bucket.n * sizeof(float));
    l->foreign = true;
}

void weir_stripes_drop(weir_lane *l, weir_lane_codec *c)
{
    weir_stripes_fold(l, c);
    c->stripes = (weir_stripes){0};
}

void weir_stripes_drop_all(weir_lane *l)
{
    for (int k = 0; k < l->candidates; k++)
        weir_stripes_drop(l, &l->candidate[k]);
}

/* A stripe of nothing: for whom it is to say that it owns nothing. */
static weir_err make_none(weir_stripes *made, weir_arena *arena)
{
    *made = (weir_stripes){.stripe = WEIR_NEW(arena, weir_stripe, 1)};
    return made->stripe ? WEIR_OK : weir_fail_nomem(sizeof *made->stripe);
}

static weir_err make_all(const weir_lane *l, const weir_lane_codec *c, const weir_group *g,
                         weir_arena *arena, weir_stripes *made)
{
    weir_stripe *s = WEIR_NEW(arena, weir_stripe, g->size);

    if (!s)
        return weir_fail_nomem((size_t)g->size * sizeof *s);
    for (int i = 0; i < g->size; i++) {
        WEIR_TRY(cut_stripe(l->bucket, g->size, i, arena, &s[i]));
        WEIR_TRY(make_coder(c, &s[i].bucket, arena, &s[i].coder));
        s[i].bytes = c->kind->bound(s[i].coder);
    }
    *made = (weir_stripes){.stripe = s, .count = g->size, .mine = g->me};
    return make_coder(c, &s[g->me].bucket, arena, &made->owner);
}

weir_err weir_stripes_make(weir_lane *l, weir_lane_codec *c, const weir_group *g, weir_arena *arena)
{
    weir_stripes made;
    const weir_stripe *mine;

    WEIR_TRY(g ? make_all(l, c, g, arena, &made) : make_none(&made, arena));
    mine = weir_stripes_own(&made);
    if (c->feedback->residual && !l->bucket->dry)
        WEIR_TRY(weir_pair_make(&made.owned, l->bucket->grad + mine->at, mine->bucket.n, arena));
    weir_stripes_drop(l, c);
    c->stripes = made;
    return WEIR_OK;
}
