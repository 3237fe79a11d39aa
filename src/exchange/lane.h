/* lane.h - all that belongs to one bucket on its way out and back: the bucket, its codec, its
 * optimiser, its memory.
 *
 * What is not sent waits here (error feedback), and momentum is kept here, before the codec, where
 * the optimiser has one and the codec keeps something back: momentum after the exchange would
 * amplify what comes late, in bursts. Both have two places: the old one stays as it is until the
 * step is committed. */
#ifndef WEIR_EXCHANGE_LANE_H
#define WEIR_EXCHANGE_LANE_H
#include "codec/codec.h"
#include "coll/coll.h"
#include "core/bucket.h"
#include "optim/optim.h"

/* A memory with a spare: what is written to the spare counts from the commit on. */
typedef struct weir_pair {
    float *now, *next;
    bool fresh;
} weir_pair;

/* A stripe of the bucket, and who encodes it. */
typedef struct weir_stripe {
    weir_bucket bucket;
    size_t at, bytes;
    void *coder;
} weir_stripe;

/* A codec that a lane may go by, with all that it needs there: most lanes have one, those under
 * `auto` several. */
typedef struct weir_rival {
    const weir_codec *codec;
    const char *spec;
    void *coder;
    const weir_feedback *feedback;
    weir_stripe *stripe;
    int stripes, mine;
    void *owner_coder;
    weir_pair owned;
} weir_rival;

typedef struct weir_lane {
    weir_bucket *bucket;
    weir_rival *rival; /* the one the lane goes by now is spread out below */
    int rivals, now;
    const struct weir_auto *choosing; /* what the user left open; NULL: nothing */
    const weir_codec *codec;
    const char *spec;
    void *coder;
    const weir_feedback *feedback; /* the first thing in the coder; NULL: floats as they are */
    const weir_optim *optim;
    void *stepper;
    weir_momentum momentum; /* taken over from the optimiser; factor 0: it keeps its own */
    /* NULLs where none is kept; they are the lane's, whichever codec it goes by */
    weir_pair held, speed;
    /* not all of what is held may be this codec's to send: a dense step lets it go */
    bool stray;
    /* the step that is under way goes through the codec: something may be held back when it is
     * committed */
    bool leaves;
    /* its plain floats go with the next lane's, which has `before` of them in front of its own */
    bool waits;
    size_t before;
    float unit; /* what they hold is so many times a gradient; 0: once */
    /* STRIPE: one a member; what is held back of this one's own, as its owner, is `owned` */
    weir_stripe *stripe;
    int stripes, mine;
    void *owner_coder;
    weir_pair owned;
    /* floats behind the bucket's gradient that are summed with it (the last lane's, see
     * exchange.h) */
    size_t notes;
    /* the gradient with its notes as sums in double, which are exchanged in its place; NULL: floats
     * are */
    double *exact;
    void *owner;    /* whose lane it is: the exchange passes it on, unread */
    weir_told told; /* of the step's message; in warm-up all of it is sent */
    /* seconds spent in the codec since the last look; in the rest of weir_lane_sum: on the wire,
     * and waiting for others */
    double codec_s, wire_s;
} weir_lane;

/* Cuts the flat vector into buckets of about `bytes` (the first ones smaller, so that the wire
 * starts early), never a tensor that must stay whole; the dense tail is the last bucket or the end
 * of it. */
typedef struct weir_cut_rules {
    size_t bytes;
    bool whole;   /* tensors are not cut */
    bool fuse;    /* all is dense: the tail is no bucket of its own */
    size_t small; /* elements below which a tensor belongs to the tail */
} weir_cut_rules;
weir_err weir_buckets_cut(const weir_tensor *, int tensors, const weir_cut_rules *, float *param,
                          float *grad, weir_arena *, weir_bucket **, int *count);
/* Specs as the user wrote them; dense buckets get the codec `none`. */
weir_err weir_lanes_make(weir_bucket *, int count, const char *codec, const char *optim,
                         weir_arena *, weir_lane **);

/* From the next step on the lane goes by this one. What the last one's owner held back waits with
 * the rest of what this worker holds back. Between steps. */
void weir_lane_choose(weir_lane *, int rival);

/* Cuts the bucket anew, for these members; NULL: this worker is none of them, and owns nothing.
 * What was held back of the stripe owned so far waits with the rest of what this worker holds back:
 * so it does when stripes are dropped. */
weir_err weir_stripes_make(weir_lane *, const weir_group *, weir_arena *);
void weir_stripes_drop(weir_lane *);
void weir_stripes_drop_all(weir_lane *); /* those of all that the lane may go by */

/* Memory in which lanes take turns, for a group. */
typedef struct weir_ways weir_ways;
weir_err weir_ways_make(weir_lane *, int lanes, const weir_group *, uint64_t seed, weir_arena *,
                        weir_ways **);
/* The gradient of this lane, times `scale`, becomes the sum over the group, through the lane's
 * codec; of doubles the sum is rounded once. What is not finite is WEIR_NAN and names the tensor.
 * Nothing counts before weir_lane_commit. [blocks] */
weir_err weir_lane_sum(weir_lane *, weir_ways *, weir_coll_use *, weir_group *, weir_turn,
                       float scale);
/* The same as if the codec's warm-up were not over. [blocks] */
weir_err weir_lane_dense(weir_lane *, weir_ways *, weir_coll_use *, weir_group *, weir_turn,
                         float scale);
/* What the lane's codec is fed on member `me`, and afterwards the verdict: WEIR_NAN names the
 * tensor. `tile`: WEIR_TILE floats. */
weir_feed weir_lane_feed(const weir_lane *, uint64_t seed, int me, float scale, float *tile);
weir_err weir_lane_check(const weir_feed *, const weir_bucket *, weir_turn);
/* From now on what is held back, and its momentum, are in this unit. */
void weir_lane_in_unit(weir_lane *, float unit);
/* Whether the codec's warm-up and ramp are over, those of all that may be chosen; and whether one
 * of these sends single elements. */
bool weir_lane_warm(const weir_lane *, weir_turn);
bool weir_lane_sparse(const weir_lane *);
void weir_lane_commit(weir_lane *);
/* For those who go through all rivals (rival.c): spreads this one out; makes them for a spec; what
 * an owner held back joins what is held back. */
void weir_lane_turn_to(weir_lane *, int rival);
weir_err weir_rivals_make(weir_lane *, const char *spec, weir_arena *);
weir_err weir_rivals_init(weir_lane *, weir_arena *);
void weir_lane_fold(weir_lane *);

/* to be gone through together with these gradients */
weir_err weir_pair_make(weir_pair *, const float *grad, size_t n, weir_arena *);
/* what is fresh counts */
void weir_pair_turn(weir_pair *);

/* Adds to it what is held back in this lane. */
typedef struct weir_backlog {
    double sumsq; /* the square of its norm, as a gradient */
    /* the largest of it, as a multiple of its tensor's threshold; 0: there are no thresholds */
    double over;
} weir_backlog;
void weir_lane_backlog(const weir_lane *, weir_backlog *);
weir_err weir_lane_state(weir_lane *, weir_io *); /* as gradients, whatever the unit */
#endif
