/* lane.c - one bucket's memory: made, committed, saved. */
#include "exchange/lane.h"
#include "core/vec.h"
#include <math.h>
#include <stdio.h>

static const float SLOWED = 1.f / 16; /* of the rate since all last agreed */

static weir_err make_memory(weir_lane *lane, weir_arena *arena)
{
    bool residual = false, correct = false;

    for (int k = 0; k < lane->candidates; k++) {
        const weir_feedback *f = lane->candidate[k].feedback;
        residual |= f && f->residual;
        correct |= f && f->residual && f->correct;
    }
    if (!residual || lane->bucket->dry)
        return WEIR_OK;
    WEIR_TRY(weir_pair_make(&lane->held, lane->bucket->grad, lane->bucket->n, arena));
    if (!(lane->stats.tau = WEIR_NEW(arena, float, lane->bucket->views)))
        return weir_fail_nomem((size_t)lane->bucket->views * sizeof(float));
    if (!correct || !lane->optim->momentum ||
        !lane->optim->momentum(lane->stepper, &lane->momentum))
        return WEIR_OK;
    return weir_pair_make(&lane->speed, lane->bucket->grad, lane->bucket->n, arena);
}

static weir_err make_lane(weir_lane *lane, weir_bucket *bucket, const char *codec,
                          const char *optim, weir_arena *arena)
{
    const weir_plug *plug;

    lane->bucket = bucket;
    WEIR_TRY(weir_lane_codecs_make(lane, bucket->dense ? "none" : codec, arena));
    WEIR_TRY(weir_plug_find(weir_optims, "optimiser", optim, &plug));
    WEIR_TRY(weir_plug_make(plug, "optimiser", optim, arena, &lane->stepper));
    lane->optim = (const weir_optim *)plug;
    /* before the optimiser makes its own: it may have less to keep */
    WEIR_TRY(make_memory(lane, arena));
    WEIR_TRY(weir_lane_codecs_init(lane, arena));
    return lane->optim->init(lane->stepper, bucket, arena);
}

weir_err weir_lanes_make(weir_bucket *bucket, int count, const char *codec, const char *optim,
                         weir_arena *arena, weir_lane **lanes)
{
    weir_lane *made = WEIR_NEW(arena, weir_lane, count);

    if (!made)
        return weir_fail_nomem((size_t)count * sizeof *made);
    for (int i = 0; i < count; i++)
        WEIR_TRY(make_lane(&made[i], &bucket[i], codec, optim, arena));
    *lanes = made;
    return WEIR_OK;
}

weir_feed weir_lane_feed(const weir_lane *l, uint64_t seed, int me, float scale, float *tile)
{
    return (weir_feed){.n = l->bucket->n,
                       .bad = l->bucket->n,
                       .grad = l->bucket->grad,
                       .scale = scale,
                       .held = l->held.now,
                       .hold = l->held.next,
                       .speed = l->speed.now,
                       .sped = l->speed.next,
                       .momentum = l->momentum.factor,
                       .nesterov = l->momentum.nesterov,
                       .mask = l->speed.now && l->codec->kind->sparse &&
                               weir_codec_masks(l->codec->feedback),
                       .key = seed ^ ((uint64_t)me << 24 | (uint64_t)l->bucket->id << 1),
                       .tile = tile};
}

/* The tile in which something was not finite has been noted, and may hold parts of several tensors:
 * which of them was it? If all gradients are finite there, they were too large for what waited: the
 * tile's first. */
weir_err weir_lane_check(const weir_feed *f, const weir_bucket *b, weir_when when)
{
    size_t at = f->bad, end = f->n - f->bad < WEIR_FEED_TILE ? f->n : f->bad + WEIR_FEED_TILE;

    if (f->bad == f->n)
        return WEIR_OK;
    while (at < end && isfinite(f->grad[at]))
        at++;
    at = at < end ? at : f->bad;
    for (int v = b->views - 1; v >= 0; v--)
        if (b->view[v].at <= at || v == 0)
            return weir_fail(WEIR_NAN, "step %llu: the gradient of %s is not finite",
                             (unsigned long long)when.step + 1, b->view[v].tensor->name);
    return WEIR_OK;
}

static float unit_of(const weir_lane *lane) { return lane->unit > 0 ? lane->unit : 1; }

/* What is held back was so while the rate fell: as gradients of a rate that has come down to nearly
 * nothing it would be enormous, and do great harm if a run goes on from there with a high one. */
static float unit_held(const weir_lane *lane)
{
    return unit_of(lane) > SLOWED ? unit_of(lane) : SLOWED;
}

void weir_lane_in_unit(weir_lane *lane, float unit)
{
    float *memory[] = {lane->held.now, lane->speed.now},
          before[] = {unit_held(lane), unit_of(lane)};

    for (int i = 0; i < 2; i++)
        if (memory[i] && unit != before[i])
            weir_vec_best()->scale(memory[i], unit / before[i], lane->bucket->n);
    lane->unit = unit;
}

bool weir_lane_warm(const weir_lane *lane, weir_when when)
{
    for (const weir_lane_codec *c = lane->candidate; c < lane->candidate + lane->candidates; c++)
        if (c->feedback && when.epochs < c->feedback->warmup + c->feedback->ramp)
            return false;
    return true;
}

bool weir_lane_sparse(const weir_lane *lane)
{
    for (const weir_lane_codec *c = lane->candidate; c < lane->candidate + lane->candidates; c++)
        if (c->kind->sparse)
            return true;
    return false;
}

static void keep_learned(const weir_lane_codec *c)
{
    const weir_stripes *s = &c->stripes;

    if (!c->kind->keep)
        return;
    c->kind->keep(c->self);
    for (int i = 0; i < s->count; i++)
        c->kind->keep(s->stripe[i].coder);
    if (s->count)
        c->kind->keep(s->owner);
}

void weir_lane_commit(weir_lane *lane)
{
    weir_pair_commit(&lane->held);
    weir_pair_commit(&lane->speed);
    weir_pair_commit(&lane->codec->stripes.owned);
    lane->foreign = lane->leaves;
    if (lane->leaves)
        keep_learned(lane->codec);
}

/* By tiles: twice looked at, read once. */
void weir_lane_backlog(const weir_lane *lane, weir_backlog *to)
{
    const weir_vec *vec = weir_vec_best();
    double unit = (double)unit_held(lane) * (double)unit_held(lane);

    for (int v = 0; v < lane->bucket->views && lane->held.now; v++) {
        const weir_view *w = &lane->bucket->view[v];
        float tau = lane->stats.tau[v], most = 0, here;
        for (size_t n = weir_view_length(w), k = 0; k < n; k += WEIR_FEED_TILE) {
            size_t some = n - k < WEIR_FEED_TILE ? n - k : WEIR_FEED_TILE;
            const float *x = lane->held.now + w->at + k;
            to->sumsq += vec->sumsq(x, some) / unit;
            if (!(tau > 0))
                continue;
            here = vec->most(x, some);
            most = here > most ? here : most;
        }
        if (tau > 0)
            to->over = fmax(to->over, (double)most / (double)tau);
    }
}

/* ---- saved ---- */

/* Every element has one owner. All ranks name all tensors, if only to say that they own nothing of
 * them. */
static weir_err keep_owned(const weir_bucket *b, const weir_stripes *own, weir_io *io)
{
    const weir_stripe *s = weir_stripes_own(own);

    for (const weir_view *v = b->view; v < b->view + b->views; v++) {
        size_t end = v->at + weir_view_length(v), low = s->at > v->at ? s->at : v->at,
               high = s->at + s->bucket.n < end ? s->at + s->bucket.n : end;
        size_t n = high > low ? high - low : 0, mark = weir_io_in(io, v->tensor->name);
        weir_io_piece piece = {.x = own->owned.now + (n ? low - s->at : 0),
                               .at = n ? v->first + low - v->at : 0,
                               .n = n,
                               .whole = v->tensor->n,
                               .keep = WEIR_KEEP_STREAM};
        weir_err err = weir_io_range(io, "owner-residual", &piece);
        weir_io_out(io, mark);
        WEIR_TRY(err);
    }
    return WEIR_OK;
}

static weir_err keep_codec(const weir_lane *lane, const weir_lane_codec *c, weir_io *io)
{
    if (c->stripes.owned.now)
        WEIR_TRY(keep_owned(lane->bucket, &c->stripes, io));
    return c->kind->state ? c->kind->state(c->self, io) : WEIR_OK;
}

/* Each candidate's own stands behind its number and name. What an owner held back when it was saved
 * is held back now: which candidate comes next is open. */
static weir_err keep_candidates(weir_lane *lane, weir_io *io)
{
    for (int k = 0; k < lane->candidates; k++) {
        weir_lane_codec *c = &lane->candidate[k];
        char part[64];
        snprintf(part, sizeof part, "%d-%s", k, c->kind->plug.name);
        size_t mark = weir_io_in(io, part);
        weir_err err = keep_codec(lane, c, io);
        weir_io_out(io, mark);
        WEIR_TRY(err);
        if (io->loading)
            weir_stripes_fold(lane, c);
    }
    return WEIR_OK;
}

weir_err weir_lane_state(weir_lane *lane, weir_io *io)
{
    const weir_bucket *b = lane->bucket;

    lane->foreign |= io->loading;
    weir_lane_in_unit(lane, 1);
    if (lane->optim->state)
        WEIR_TRY(lane->optim->state(lane->stepper, b, io));
    if (lane->held.now)
        WEIR_TRY(weir_bucket_keep(b, "residual", lane->held.now, WEIR_KEEP_SUM, io));
    if (lane->speed.now)
        WEIR_TRY(weir_bucket_keep(b, "corrected", lane->speed.now, WEIR_KEEP_SUM, io));
    return lane->candidates > 1 ? keep_candidates(lane, io) : keep_codec(lane, lane->codec, io);
}
