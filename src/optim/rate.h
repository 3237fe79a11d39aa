/* rate.h - the learning rate as a pure function of the step. --lr takes a number, or one of these with options:
 * constant:rate=R | step:rate=R,every=E,factor=F | cosine:rate=R,floor=L | linear:rate=R,floor=L; all with warmup=W steps,
 * during which the rate rises linearly: at step s < W (counted from 0) it is (s + 1) / W of the schedule's first value, and the schedule
 * itself runs over the steps after it. `every` may be given in epochs (2e). */
#ifndef WEIR_OPTIM_RATE_H
#define WEIR_OPTIM_RATE_H
#include "core/plug.h"

typedef struct weir_rate weir_rate;
struct weir_rate {
    weir_plug plug;
    double (*at)(const void *self, uint64_t step, uint64_t steps, uint64_t epoch_steps); /* without warm-up */
    double (*first)(const void *self);
    double (*warmup)(const void *self);
};
typedef struct weir_rate_use { const weir_rate *rate; void *self; uint64_t steps, epoch_steps; } weir_rate_use;

/* A bare number is constant:rate=NUMBER. steps: of the whole run. */
weir_err weir_rate_open(const char *spec, uint64_t steps, uint64_t epoch_steps, weir_arena *, weir_rate_use *);
double weir_rate_at(const weir_rate_use *, uint64_t step); /* step counts from 0 */
#define X(name) extern const weir_rate weir_rate_##name;
#include "optim/rates.h"
#undef X
extern weir_plugs weir_rates;
#endif
