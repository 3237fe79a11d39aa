/* rate.c - choosing a schedule, and the warm-up that all have in common. */
#include "optim/rate.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

weir_plugs weir_rates = (const weir_plug *const[]){
#define X(name) &weir_rate_##name.plug,
#include "optim/rates.h"
#undef X
    NULL,
};

weir_err weir_steps_read(const char *what, const char *text, uint64_t epoch_steps, uint64_t *steps)
{
    char *end;
    uint64_t n;
    bool epochs;

    errno = 0;
    n = strtoull(text, &end, 10);
    epochs = end != text && !strcmp(end, "e");
    if (text[0] < '0' || text[0] > '9' || (*end && !epochs) || errno ||
        (epochs && __builtin_mul_overflow(n, epoch_steps, &n)))
        return weir_fail(WEIR_USAGE,
                         "%s=%.200s: a number of steps, or of epochs as in 2e, was expected", what,
                         text);
    *steps = n;
    return WEIR_OK;
}

static bool is_number(const char *text)
{
    char *end;

    strtod(text, &end);
    return end != text && !*end;
}

static weir_err no_rate(const char *spec)
{
    char known[300] = "";
    size_t n = 0;

    for (weir_plugs p = weir_rates; *p && n < sizeof known; p++)
        n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", p == weir_rates ? "" : ", ",
                              (*p)->name);
    return weir_fail(WEIR_USAGE, "lr %.200s: a number, or one of %s, was expected", spec, known);
}

weir_err weir_rate_open(const char *spec, uint64_t steps, uint64_t epoch_steps, weir_arena *a,
                        weir_rate_use *use)
{
    weir_rate_use made = {.steps = steps};
    const weir_plug *plug = &weir_rate_constant.plug;
    bool number = is_number(spec);

    if (!number && weir_plug_find(weir_rates, "lr", spec, &plug))
        return no_rate(spec);
    made.rate = (const weir_rate *)plug;
    WEIR_TRY(weir_plug_make(plug, "lr", number ? plug->name : spec, a, &made.self));
    if (number)
        WEIR_TRY(weir_opt_set(plug->options, "lr", "rate", spec, a, made.self));
    WEIR_TRY(weir_steps_read("lr: warmup", ((weir_rate_base *)made.self)->warmup, epoch_steps,
                             &made.warmup));
    if (made.rate->init)
        WEIR_TRY(made.rate->init(made.self, epoch_steps));
    *use = made;
    return WEIR_OK;
}

double weir_rate_at(const weir_rate_use *u, double time)
{
    uint64_t span = u->steps > u->warmup ? u->steps - u->warmup : 1;
    double rest = time - (double)u->warmup;

    if (rest >= 0)
        return u->rate->at(u->self, rest, span);
    /* between the whole steps on both sides of the end it is no more than at the end */
    double portion = (time + 1) / (double)u->warmup;
    return u->rate->at(u->self, 0, span) * (portion < 1 ? portion : 1);
}
