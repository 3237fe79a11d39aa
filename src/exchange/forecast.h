/* forecast.h - what a step would take if its lanes went by other codecs.
 *
 * Lanes leave one after the other, each when its gradient is there and the one before is through;
 * the last is followed by what ends a step. A lane takes what it was seen to take; else what its
 * codec was last seen to cost here (nothing, before it was ever tried: it is tried then) and the
 * wire: `collective` seconds and `byte` for each byte that goes through a member's link, a line
 * through the lanes of a dense step. With p members a message of m bytes costs the link
 *
 *   dense, m summed   2 (p - 1)/p m         add, m a round   2 (p - 1)/p m
 *   gather            (p - 1) m             stripe           2 (p - 1)/p m
 *
 * All times are of all workers, as agreed upon: so every rank foresees the same. */
#ifndef WEIR_EXCHANGE_FORECAST_H
#define WEIR_EXCHANGE_FORECAST_H
#include "codec/codec_auto.h"
#include "exchange/lane.h"

/* A lane in one step, in seconds, as seen here. */
/* start: since the step began; idle: since the lane before was through */
typedef struct weir_sight {
    double start, idle, took, codec;
} weir_sight;

typedef struct weir_forecast {
    const weir_lane *lane;
    int lanes, members;
    double collective, byte;
    double rest;   /* of a step, behind its last lane */
    double *ready; /* by lane: when it can leave, since the step began */
    /* by lane and candidate; took 0: not seen in this round */
    struct weir_taken {
        double took, codec;
    } (*taken)[WEIR_AUTO_MOST];
    bool joins; /* the last two lanes lie in a row: dense, they go as one */
} weir_forecast;

weir_err weir_forecast_make(weir_forecast *, const weir_lane *, int lanes, int members,
                            weir_arena *);
/* What was taken before does not count any more; what codecs cost does, unless that has changed
 * too. */
void weir_forecast_forget(weir_forecast *, bool codecs);
/* A step by these candidates, one a lane, was seen. */
void weir_forecast_see(weir_forecast *, const int *pick, const weir_sight *);
/* All lanes went dense, were seen, and the whole step took that long: fits the link. */
void weir_forecast_fit(weir_forecast *, const int *dense, const weir_sight *, double step);
double weir_forecast_step(const weir_forecast *, const int *pick, weir_when);
/* For each lane by itself the candidate that takes least. */
void weir_forecast_best(const weir_forecast *, weir_when, int *pick);
/* Whether the last two lanes go as one. */
bool weir_forecast_joined(const weir_forecast *, const int *pick);
#endif
