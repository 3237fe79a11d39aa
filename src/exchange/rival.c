/* rival.c - the codecs that a lane may go by: one, or under `auto` several, of which one is spread
 * out in the lane. */
#include "codec/auto.h"
#include "core/vec.h"
#include "exchange/lane.h"
#include <string.h>

static weir_err make(weir_rival *r, const char *spec, weir_arena *arena)
{
    const weir_plug *plug;

    r->spec = spec;
    WEIR_TRY(weir_plug_find(weir_codecs, "codec", spec, &plug));
    WEIR_TRY(weir_plug_make(plug, "codec", spec, arena, &r->coder));
    r->codec = (const weir_codec *)plug;
    r->feedback = r->codec->raw ? NULL : r->coder;
    return WEIR_OK;
}

static void spread(weir_lane *l, int k)
{
    const weir_rival *r = &l->rival[k];

    l->now = k;
    l->codec = r->codec;
    l->spec = r->spec;
    l->coder = r->coder;
    l->feedback = r->feedback;
    l->stripe = r->stripe;
    l->stripes = r->stripes;
    l->mine = r->mine;
    l->owner_coder = r->owner_coder;
    l->owned = r->owned;
}

weir_err weir_rivals_make(weir_lane *l, const char *spec, weir_arena *arena)
{
    weir_rival first = {0};
    weir_auto *choosing = NULL;

    WEIR_TRY(make(&first, spec, arena));
    if (first.codec->chooses) {
        choosing = first.coder;
        WEIR_TRY(weir_auto_read(choosing, arena));
    }
    l->choosing = choosing;
    l->rivals = choosing ? choosing->count : 1;
    if (!(l->rival = WEIR_NEW(arena, weir_rival, l->rivals)))
        return weir_fail_nomem((size_t)l->rivals * sizeof *l->rival);
    l->rival[0] = first;
    for (int k = 0; k < l->rivals && choosing; k++)
        WEIR_TRY(make(&l->rival[k], choosing->spec[k], arena));
    spread(l, 0);
    return WEIR_OK;
}

weir_err weir_rivals_init(weir_lane *l, weir_arena *arena)
{
    for (int k = 0; k < l->rivals; k++)
        WEIR_TRY(l->rival[k].codec->init(l->rival[k].coder, l->bucket, arena));
    return WEIR_OK;
}

void weir_lane_turn_to(weir_lane *l, int k)
{
    weir_rival *r = &l->rival[l->now];

    r->stripe = l->stripe;
    r->stripes = l->stripes;
    r->mine = l->mine;
    r->owner_coder = l->owner_coder;
    r->owned = l->owned;
    spread(l, k);
}

void weir_lane_fold(weir_lane *l)
{
    const weir_stripe *mine = l->stripe ? &l->stripe[l->mine] : NULL;

    if (!l->owned.now)
        return;
    weir_vec_best()->add(l->held.now + mine->at, l->owned.now, mine->bucket.n);
    memset(l->owned.now, 0, mine->bucket.n * sizeof(float));
    l->stray = true;
}

void weir_lane_choose(weir_lane *l, int k)
{
    if (k == l->now)
        return;
    weir_lane_fold(l);
    weir_lane_turn_to(l, k);
}
