/* stripes.c - a bucket cut in stripes of whole rows, one a member, who sums and encodes it for
 * all. */
#include "exchange/lane.h"

/* Of a view, the first row that begins at or after `place`. */
static size_t row_at(const weir_view *v, size_t place)
{
    size_t row = place > v->at && v->cols ? (place - v->at + v->cols - 1) / v->cols : 0;

    return row < v->rows ? row : v->rows;
}

/* Stripe i: the rows that begin in the i-th of p equal parts of the bucket. They lie in a row. */
static weir_err cut_stripe(const weir_bucket *b, int p, int i, weir_arena *arena, weir_stripe *s)
{
    size_t low = weir_cut(b->n, p, i), high = weir_cut(b->n, p, i + 1);
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

static weir_err make_coder(const weir_lane *l, const weir_bucket *b, weir_arena *arena,
                           void **coder)
{
    WEIR_TRY(weir_plug_make(&l->codec->plug, "codec", l->spec, arena, coder));
    return l->codec->init(*coder, b, arena);
}

void weir_stripes_drop(weir_lane *l)
{
    weir_lane_fold(l);
    l->stripe = NULL;
    l->stripes = l->mine = 0;
    l->owner_coder = NULL;
    l->owned = (weir_pair){0};
}

void weir_stripes_drop_all(weir_lane *l)
{
    int now = l->now;

    for (int k = 0; k < l->rivals; k++) {
        weir_lane_turn_to(l, k);
        weir_stripes_drop(l);
    }
    weir_lane_turn_to(l, now);
}

static weir_err make_owned(weir_lane *l, size_t at, size_t n, weir_arena *arena)
{
    if (!l->feedback->residual || l->bucket->dry)
        return WEIR_OK;
    return weir_pair_make(&l->owned, l->bucket->grad + at, n, arena);
}

/* A stripe of nothing: for whom it is to say that it owns nothing. */
static weir_err make_none(weir_lane *l, weir_arena *arena)
{
    weir_stripe *s = WEIR_NEW(arena, weir_stripe, 1);

    if (!s)
        return weir_fail_nomem(sizeof *s);
    weir_stripes_drop(l);
    l->stripe = s;
    l->mine = 0;
    return make_owned(l, 0, 0, arena);
}

weir_err weir_stripes_make(weir_lane *l, const weir_group *g, weir_arena *arena)
{
    weir_stripe *s = g ? WEIR_NEW(arena, weir_stripe, g->size) : NULL;
    void *owner;

    if (!g)
        return make_none(l, arena);
    if (!s)
        return weir_fail_nomem((size_t)g->size * sizeof *s);
    for (int i = 0; i < g->size; i++) {
        WEIR_TRY(cut_stripe(l->bucket, g->size, i, arena, &s[i]));
        WEIR_TRY(make_coder(l, &s[i].bucket, arena, &s[i].coder));
        s[i].bytes = l->codec->bound(s[i].coder);
    }
    WEIR_TRY(make_coder(l, &s[g->me].bucket, arena, &owner));
    weir_stripes_drop(l);
    l->owner_coder = owner;
    l->stripe = s;
    l->stripes = g->size;
    l->mine = g->me;
    return make_owned(l, s[g->me].at, s[g->me].bucket.n, arena);
}
