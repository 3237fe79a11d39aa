/* choose.h - which codec each lane goes by, where the user left that open (--codec auto).
 *
 * A policy names a codec for every lane: all dense, all by one candidate, or the mix of what is
 * foreseen to be best for each lane by itself. Codecs take time from the computing that they run
 * beside, so a forecast (forecast.h) only says which policies are worth trying; what decides is
 * whole steps, from commit to commit, of each policy in turn: the median of a trial, the mean of
 * all workers; those near the best, dense among them, are tried once more. Of two within 3 % dense
 * is taken, then the one in use.
 *
 * States, changed by commits alone:
 *
 *                three steps, and every warm-up is over: first
 *      WARMING ------------------------------------------------> TRYING <--. a trial is over, and
 *      all lanes                                                  |   ^ `---' another is worth it:
 *      go dense                  all is tried that is worth it:   |   |       the next policy
 *                                one is taken                     v   |
 *                                                                STEADY
 *
 * Back from STEADY to TRYING it goes when that is due, after `every` steps: what is known to be
 * slow is tried then only if that costs little of the time since it was tried last. And at once,
 * for all of them, when something has changed: ten steps take 30 % more or less than they did in
 * the trial, or the last ramp is over, whose messages were longer.
 *
 * Steps that take seconds are tried less often.
 *
 * Every rank decides alike, from numbers that all agree upon before the commit: a step that fails
 * leaves the choice as it was. Time is the net's: in a simulated world codecs cost none. */
#ifndef WEIR_EXCHANGE_CHOOSE_H
#define WEIR_EXCHANGE_CHOOSE_H
#include "exchange/route.h"

typedef struct weir_policy {
    const char *name;           /* none, a candidate as the user wrote it, mix */
    double predicted, measured; /* seconds a step; NAN: was not foreseen, not tried this time */
    int *pick;                  /* by lane: which of its candidates */
    double last, at;            /* what it was last measured at, and when */
    int tried;                  /* this time: so often. Of two trials the faster one counts */
} weir_policy;

struct weir_choice {
    uint64_t step;   /* committed so far */
    const char *why; /* a round's reason: first, due, changed */
    const weir_policy *policy;
    int policies, taken, before;
    const weir_lane *lane;
    int lanes;
    double collective, byte; /* the link, as fitted (forecast.h) */
};

typedef struct weir_choose weir_choose;

/* NULL where there is nothing to choose, or nobody to send to. All lanes go dense at first. Not in
 * a dry world: no rank could tell another what it measured. */
weir_err weir_choose_make(const weir_exchange_env *, weir_choose **);
/* weir_route_sum, timed. [blocks] */
weir_err weir_choose_sum(weir_choose *, weir_lane *, weir_route *, weir_when, float scale);
/* All lanes are in; the step can be committed. [blocks] */
weir_err weir_choose_agree(weir_choose *);
/* It has been: lanes may go by others from now on. */
void weir_choose_committed(weir_choose *, weir_when);
/* Something else happens before the next step, on all ranks: that one is not timed. */
void weir_choose_pause(weir_choose *);
const weir_choice *weir_choose_news(weir_choose *, bool *trying);
#endif
