/* lane.h - all that belongs to one bucket on its way out and back: the bucket, its codec, its
 * optimiser, its memory. Which codec it goes by: lane_codec.h. How its gradient becomes a sum:
 * route.h.
 *
 * What is not sent waits here (error feedback), and momentum is kept here, before the codec, where
 * the optimiser has one and the codec keeps something back: momentum after the exchange would
 * amplify what comes late, in bursts. Both have a spare: what they were stays as it is until the
 * step is committed. */
#ifndef WEIR_EXCHANGE_LANE_H
#define WEIR_EXCHANGE_LANE_H
#include "exchange/lane_codec.h"
#include "optim/optim.h"

typedef struct weir_lane {
    weir_bucket *bucket;
    weir_lane_codec *codec;     /* the one of its candidates that the lane goes by */
    weir_lane_codec *candidate; /* what it may go by */
    int candidates;
    const struct weir_auto *choosing; /* what the user left open; NULL: nothing */
    const weir_optim *optim;
    void *stepper;
    weir_momentum momentum; /* taken over from the optimiser; factor 0: it keeps its own */
    /* NULLs where none is kept; they are the lane's, whichever codec it goes by */
    weir_pair held, speed;
    /* not all of what is held may be this codec's to send: a dense step lets it go */
    bool foreign;
    /* the step that is under way goes through the codec: something may be held back when it is
     * committed */
    bool leaves;
    /* its plain floats go with the next lane's, which has `before` of them in front of its own */
    bool waits;
    size_t before;
    float unit; /* what they hold is so many times a gradient; 0: once */
    /* floats behind the bucket's gradient that are summed with it (the last lane's, see
     * exchange.h) */
    size_t notes;
    /* the gradient with its notes as sums in double, which are exchanged in its place; NULL: floats
     * are */
    double *exact;
    void *owner;            /* whose lane it is: the exchange passes it on, unread */
    weir_codec_stats stats; /* of the step's message; in warm-up all of it is sent */
    /* seconds spent in the codec since the last look; in the rest of its way (route.h): on the
     * wire, and waiting for others */
    double codec_s, wire_s;
} weir_lane;

/* Specs as the user wrote them; dense buckets get the codec `none`. */
weir_err weir_lanes_make(weir_bucket *, int count, const char *codec, const char *optim,
                         weir_arena *, weir_lane **);
/* What the lane's codec is fed on member `me`, and afterwards the verdict: WEIR_NAN names the
 * tensor. `tile`: WEIR_FEED_TILE floats. */
weir_feed weir_lane_feed(const weir_lane *, uint64_t seed, int me, float scale, float *tile);
weir_err weir_lane_check(const weir_feed *, const weir_bucket *, weir_when);
/* From now on what is held back, and its momentum, are in this unit. */
void weir_lane_in_unit(weir_lane *, float unit);
/* Whether the codec's warm-up and ramp are over, those of all candidates; and whether one of these
 * sends single elements. */
bool weir_lane_warm(const weir_lane *, weir_when);
bool weir_lane_sparse(const weir_lane *);
/* The step is committed: what it wrote to spares counts, what codecs put aside becomes their
 * state. */
void weir_lane_commit(weir_lane *);
/* Adds to it what is held back in this lane. */
typedef struct weir_backlog {
    double sumsq; /* the square of its norm, as a gradient */
    /* the largest of it, as a multiple of its tensor's threshold; 0: there are no thresholds */
    double over;
} weir_backlog;
void weir_lane_backlog(const weir_lane *, weir_backlog *);
weir_err weir_lane_state(weir_lane *, weir_io *); /* as gradients, whatever the unit */
#endif
