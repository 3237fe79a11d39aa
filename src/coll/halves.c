/* halves.c - powers of two: halving, its way back, the fold of who is left over, and the dealing
 * out of pieces. */
#include "coll/halves.h"

int weir_halves_floor2(int n)
{
    int q = 1;

    while (q <= n / 2)
        q *= 2;
    return q;
}

static int member_of(const weir_halves *h, int id)
{
    return h->first + (id < h->fold ? 2 * id + 1 : id + h->fold);
}

/* ---- the fold ---- */

weir_halves weir_halves_fold(const weir_group *g)
{
    int q = weir_halves_floor2(g->size), fold = g->size - q, id = g->me - fold;

    if (g->me < 2 * fold)
        id = g->me % 2 ? g->me / 2 : -1;
    return (weir_halves){.fold = fold, .size = q, .whole = q, .id = id};
}

static weir_talk_leg everything(const weir_talk *t, int member)
{
    return (weir_talk_leg){.member = member, .bytes = t->units * t->unit};
}

weir_err weir_halves_fold_in(weir_talk *t, const weir_halves *h)
{
    int me = t->group->me;

    if (me >= 2 * h->fold)
        return WEIR_OK;
    if (h->id < 0)
        return weir_talk_swap(t, everything(t, me + 1), WEIR_TALK_NO_LEG, WEIR_TALK_LAND);
    return weir_talk_swap(t, WEIR_TALK_NO_LEG, everything(t, me - 1), WEIR_TALK_BEFORE);
}

weir_err weir_halves_fold_out(weir_talk *t, const weir_halves *h)
{
    int me = t->group->me;

    if (me >= 2 * h->fold)
        return WEIR_OK;
    if (h->id < 0)
        return weir_talk_swap(t, WEIR_TALK_NO_LEG, everything(t, me + 1), WEIR_TALK_LAND);
    return weir_talk_swap(t, everything(t, me - 1), WEIR_TALK_NO_LEG, WEIR_TALK_LAND);
}

/* ---- halving and back ---- */

/* Where piece `id` begins, in bytes. */
static size_t edge(const weir_talk *t, const weir_halves *h, int id)
{
    return weir_coll_cut(t->units, h->whole, id * (h->whole / h->size)) * t->unit;
}

void weir_halves_piece(const weir_talk *t, const weir_halves *h, int id, size_t *at, size_t *bytes)
{
    *at = edge(t, h, id);
    *bytes = edge(t, h, id + 1) - *at;
}

/* Pieces [id, id + n) to or from the one who has id `partner`. */
static weir_talk_leg pieces(const weir_talk *t, const weir_halves *h, int partner, int id, int n)
{
    size_t at = edge(t, h, id);

    return (
        weir_talk_leg){.member = member_of(h, partner), .at = at, .bytes = edge(t, h, id + n) - at};
}

weir_err weir_halves_reduce(weir_talk *t, const weir_halves *h)
{
    for (int d = h->size / 2; d && h->id >= 0; d /= 2) {
        int other = h->id ^ d, ours = h->id & ~(d - 1), theirs = ours ^ d;
        WEIR_TRY(weir_talk_swap(t, pieces(t, h, other, theirs, d), pieces(t, h, other, ours, d),
                                WEIR_TALK_AFTER));
    }
    return WEIR_OK;
}

weir_err weir_halves_gather(weir_talk *t, const weir_halves *h)
{
    for (int d = 1; d < h->size && h->id >= 0; d *= 2) {
        int other = h->id ^ d, ours = h->id & ~(d - 1), theirs = ours ^ d;
        WEIR_TRY(weir_talk_swap(t, pieces(t, h, other, ours, d), pieces(t, h, other, theirs, d),
                                WEIR_TALK_LAND));
    }
    return WEIR_OK;
}

/* ---- dealing out ---- */

/* The part of member i's piece that lies in piece `id`; false: none. Of an empty piece one id is in
 * charge. */
static bool common(const weir_talk *t, const weir_halves *h, int id, int i, weir_talk_leg *leg)
{
    int p = t->group->size;
    size_t lo = weir_coll_cut(t->units, p, i) * t->unit,
           hi = weir_coll_cut(t->units, p, i + 1) * t->unit, at, bytes;

    if (lo == hi) {
        *leg = (weir_talk_leg){.at = lo};
        return id == (int)((long long)i * h->size / p);
    }
    weir_halves_piece(t, h, id, &at, &bytes);
    lo = lo > at ? lo : at;
    hi = hi < at + bytes ? hi : at + bytes;
    *leg = (weir_talk_leg){.at = lo, .bytes = hi - lo};
    return lo < hi;
}

/* a piece is shorter than an id's: it meets two of them, and those meet three pieces */
enum { LEGS = WEIR_TALK_FLOWS / 2 };

weir_err weir_halves_deal(weir_talk *t, const weir_halves *h)
{
    weir_talk_leg in[LEGS], out[LEGS], leg;
    int ins = 0, outs = 0, me = t->group->me;

    if (h->size == t->group->size)
        return WEIR_OK;
    for (int id = 0; id < h->size; id++)
        if (id != h->id && ins < LEGS && common(t, h, id, me, &leg)) {
            leg.member = member_of(h, id);
            in[ins++] = leg;
        }
    for (int i = 0; i < t->group->size && h->id >= 0; i++)
        if (i != me && outs < LEGS && common(t, h, h->id, i, &leg)) {
            leg.member = i;
            out[outs++] = leg;
        }
    return weir_talk_trade(t, out, outs, in, ins, WEIR_TALK_LAND);
}
