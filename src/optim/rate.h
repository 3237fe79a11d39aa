/* rate.h - the learning rate as a pure function of the time, in steps. --lr takes a number, or one
 * of these with options: constant:rate=R | step:rate=R,every=E,factor=F | cosine:rate=R,floor=L |
 * linear:rate=R,floor=L; all with warmup=W steps, during which the rate rises linearly: at step s <
 * W (counted from 0) it is (s + 1) / W of the schedule's first value, and the schedule itself runs
 * over the steps after it: its first step has the whole rate, and `floor` is what the step after
 * the last would have, so that no step is wasted on a rate of 0. `every` and `warmup` may be given
 * in epochs (2e). A run that was resumed with another batch stands between two whole steps. Same
 * bits on every machine: nothing here calls the C library's mathematics, which differ by
 * instruction set. */
#ifndef WEIR_OPTIM_RATE_H
#define WEIR_OPTIM_RATE_H
#include "core/plug.h"

/* What the private state of every schedule begins with. */
typedef struct weir_rate_base {
    double rate;
    const char *warmup; /* as given: steps, or epochs */
} weir_rate_base;
/* The options of that part, to stand first in each schedule's table. */
#define WEIR_RATE_OPTIONS                                                                        \
    {"rate", WEIR_OPT_REAL, offsetof(weir_rate_base, rate), "0.1", "the rate it begins with", 0, \
     1e18,   .bare = true},                                                                      \
    {                                                                                            \
        "warmup", WEIR_OPT_TEXT, offsetof(weir_rate_base, warmup), "0",                          \
            .help = "steps, or epochs (2e), in which the rate rises to that"                     \
    }

typedef struct weir_rate {
    weir_plug plug;
    /* Called once: reads what was given in epochs. NULL: nothing to do. */
    weir_err (*init)(void *self, uint64_t epoch_steps);
    /* At `time` (0 or more) of `span` (1 or more) steps, both without the warm-up; it may be past
     * the end. */
    double (*at)(const void *self, double time, uint64_t span);
} weir_rate;
typedef struct weir_rate_use {
    const weir_rate *rate;
    void *self;
    uint64_t steps, warmup;
} weir_rate_use;

/* A bare number is constant:rate=NUMBER. steps: of the whole run; what is no rate is WEIR_USAGE. */
weir_err weir_rate_open(const char *spec, uint64_t steps, uint64_t epoch_steps, weir_arena *,
                        weir_rate_use *);
double weir_rate_at(const weir_rate_use *, double time); /* 0: the first step */

/* "500" is 500 steps, "2e" two epochs. `what` names the option in the error (WEIR_USAGE). */
weir_err weir_steps_read(const char *what, const char *text, uint64_t epoch_steps, uint64_t *steps);

#define X(name) extern const weir_rate weir_rate_##name;
#include "optim/rates.h"
#undef X
extern weir_plugs weir_rates;
#endif
