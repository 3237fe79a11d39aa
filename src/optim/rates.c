/* rates.c - the schedules: constant, step, cosine, linear. Ends are exact: the first step has
 * `rate`, the end `floor`. */
#include "optim/optim.h"
#include "optim/rate.h"

/* ---- constant ---- */

static double constant_at(const void *self, double time, uint64_t span)
{
    (void)time, (void)span;
    return ((const weir_rate_base *)self)->rate;
}

static const weir_opt constant_options[] = {WEIR_RATE_OPTIONS, {0}};

const weir_rate weir_rate_constant = {
    .plug = {"constant", "the same rate throughout", sizeof(weir_rate_base), constant_options},
    .at = constant_at,
};

/* ---- step: rate * factor^n after n times `every` steps ---- */

typedef struct stairs {
    weir_rate_base base;
    const char *every;
    double factor;
    uint64_t steps;
} stairs;

static weir_err stairs_init(void *self, uint64_t epoch_steps)
{
    stairs *s = self;

    WEIR_TRY(weir_steps_read("lr step: every", s->every, epoch_steps, &s->steps));
    return s->steps ? WEIR_OK
                    : weir_fail(WEIR_USAGE, "lr step: every=%s: at least one step was expected",
                                s->every);
}

static double stairs_at(const void *self, double time, uint64_t span)
{
    const stairs *s = self;

    (void)span;
    return s->base.rate * weir_power(s->factor, (uint64_t)time / s->steps);
}

static const weir_opt stairs_options[] = {
    WEIR_RATE_OPTIONS,
    {"every", WEIR_OPT_TEXT, offsetof(stairs, every), "30e",
     .help = "steps, or epochs (2e), between changes"},
    {"factor", WEIR_OPT_REAL, offsetof(stairs, factor), "0.1", "what the rate is multiplied by",
     .min = 0, .max = 1},
    {0},
};

const weir_rate weir_rate_step = {
    .plug = {"step", "multiplied by a factor now and then", sizeof(stairs), stairs_options},
    .init = stairs_init,
    .at = stairs_at,
};

/* ---- cosine and linear: from rate down to floor ---- */

typedef struct slope {
    weir_rate_base base;
    double floor;
} slope;

/* How much of the way is left: 1 at the first step, 0 at the end. */
static double left(double time, uint64_t span)
{
    return time < (double)span ? 1 - time / (double)span : 0;
}

static double between(const slope *s, double portion)
{
    return s->base.rate * portion + s->floor * (1 - portion);
}

/* cos(pi x / 2) for x in 0..1 by its series; cut after the term of order 22 the rest is below
 * 1e-18. */
static double quarter_cosine(double x)
{
    double a = x * 1.57079632679489661923, c = 1;

    for (int k = 22; k > 0; k -= 2)
        c = 1 - c * (a * a) / (k * (k - 1));
    return c;
}

/* (1 - cos(pi x)) / 2 = sin(pi x / 2)^2, and likewise cos(...)^2 from the other end: each half from
 * the end where it is exact. */
static double cosine_at(const void *self, double time, uint64_t span)
{
    double x = left(time, span), c = quarter_cosine(x > 0.5 ? 1 - x : x);

    c = c * c;
    return between(self, x > 0.5 ? c : 1 - c);
}

static double linear_at(const void *self, double time, uint64_t span)
{
    return between(self, left(time, span));
}

static const weir_opt slope_options[] = {
    WEIR_RATE_OPTIONS,
    {"floor", WEIR_OPT_REAL, offsetof(slope, floor), "0", "the rate it comes down to", .min = 0,
     .max = 1e18},
    {0},
};

const weir_rate weir_rate_cosine = {
    .plug = {"cosine", "down along half a cosine", sizeof(slope), slope_options},
    .at = cosine_at,
};
const weir_rate weir_rate_linear = {
    .plug = {"linear", "down along a line", sizeof(slope), slope_options},
    .at = linear_at,
};
