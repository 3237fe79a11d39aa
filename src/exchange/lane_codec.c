/* lane_codec.c - see lane_codec.h. */
#include "exchange/lane_codec.h"
#include "codec/codec_auto.h"
#include "exchange/lane.h"

static weir_err make(weir_lane_codec *c, const char *spec, weir_arena *arena)
{
    const weir_plug *plug;

    c->spec = spec;
    WEIR_TRY(weir_plug_find(weir_codecs, "codec", spec, &plug));
    WEIR_TRY(weir_plug_make(plug, "codec", spec, arena, &c->self));
    c->kind = (const weir_codec *)plug;
    c->feedback = c->kind->raw ? NULL : c->self;
    return WEIR_OK;
}

weir_err weir_lane_codecs_make(weir_lane *l, const char *spec, weir_arena *arena)
{
    weir_lane_codec first = {0};
    weir_auto *choosing = NULL;

    WEIR_TRY(make(&first, spec, arena));
    if (first.kind->chooses) {
        choosing = first.self;
        WEIR_TRY(weir_auto_read(choosing, arena));
    }
    l->choosing = choosing;
    l->candidates = choosing ? choosing->count : 1;
    if (!(l->candidate = WEIR_NEW(arena, weir_lane_codec, l->candidates)))
        return weir_fail_nomem((size_t)l->candidates * sizeof *l->candidate);
    l->candidate[0] = first;
    for (int k = 0; k < l->candidates && choosing; k++)
        WEIR_TRY(make(&l->candidate[k], choosing->spec[k], arena));
    l->codec = l->candidate;
    return WEIR_OK;
}

weir_err weir_lane_codecs_init(weir_lane *l, weir_arena *arena)
{
    for (weir_lane_codec *c = l->candidate; c < l->candidate + l->candidates; c++)
        WEIR_TRY(c->kind->init(c->self, l->bucket, arena));
    return WEIR_OK;
}

void weir_lane_choose(weir_lane *l, int candidate)
{
    if (l->codec == &l->candidate[candidate])
        return;
    weir_stripes_fold(l, l->codec);
    l->codec = &l->candidate[candidate];
}
