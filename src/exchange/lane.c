/* lane.c - one bucket's way out and back. */
#include "exchange/lane.h"
#include "core/vec.h"

static weir_err make_lane(weir_lane *lane, weir_bucket *bucket, const char *codec, const char *optim, weir_arena *arena)
{
    const weir_plug *plug;

    lane->bucket = bucket;
    if (bucket->dense)
        codec = "none";
    WEIR_TRY(weir_plug_find(weir_codecs, "codec", codec, &plug));
    WEIR_TRY(weir_plug_make(plug, "codec", codec, arena, &lane->coder));
    lane->codec = (const weir_codec *)plug;
    WEIR_TRY(weir_plug_find(weir_optims, "optimiser", optim, &plug));
    WEIR_TRY(weir_plug_make(plug, "optimiser", optim, arena, &lane->stepper));
    lane->optim = (const weir_optim *)plug;
    WEIR_TRY(lane->codec->init(lane->coder, bucket, arena));
    return lane->optim->init(lane->stepper, bucket, arena);
}

weir_err weir_lanes_make(weir_bucket *bucket, int count, const char *codec, const char *optim, weir_arena *arena, weir_lane **lanes)
{
    weir_lane *made = WEIR_NEW(arena, weir_lane, count);

    if (!made)
        return weir_fail_nomem((size_t)count * sizeof *made);
    for (int i = 0; i < count; i++)
        WEIR_TRY(make_lane(&made[i], &bucket[i], codec, optim, arena));
    *lanes = made;
    return WEIR_OK;
}

weir_err weir_lane_sum(weir_lane *lane, weir_coll_use *coll, weir_group *group, weir_turn turn)
{
    size_t n = lane->bucket->n + lane->notes;

    (void)turn; /* codecs that draw or negotiate will need it */
    if (!lane->exact)
        return weir_allreduce(coll, group, lane->bucket->grad, n, &weir_sum_f32);
    WEIR_TRY(weir_allreduce(coll, group, lane->exact, n, &weir_sum_f64));
    weir_vec_best()->narrow(lane->bucket->grad, lane->exact, n);
    return WEIR_OK;
}

weir_err weir_lane_state(weir_lane *lane, weir_io *io)
{
    return lane->optim->state ? lane->optim->state(lane->stepper, lane->bucket, io) : WEIR_OK;
}
