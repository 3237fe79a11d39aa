/* choose_next.c - which policy is worth trying next: by what the others took, and by what is
 * foreseen. */
#include "exchange/choose_inside.h"
#include <string.h>

/* what is foreseen to take that many times the best is not tried */
static const double NARROW = 1.25;
/* of the time since it was tried last, that a trial of something slow may take */
static const double PORTION = 0.05;

double weir_choose_best(const weir_choose *c, int *which)
{
    double best = 0;

    for (int k = 0; k < c->policies; k++)
        if (c->policy[k].tried && (best == 0 || c->policy[k].measured < best)) {
            best = c->policy[k].measured;
            *which = k;
        }
    return best;
}

static bool worth(const weir_choose *c, const weir_policy *p, double best)
{
    double cost = p->last > p->predicted ? p->last : p->predicted;

    return p->predicted <= NARROW * best ||
           WEIR_CHOOSE_HOPELESS * cost <= PORTION * (c->clock - p->at);
}

/* Makes the mix. It is worth trying if no other policy says the same, and if it is foreseen to
 * win. */
static bool mix_worth(weir_choose *c, weir_policy *mix, double best, weir_when when)
{
    weir_forecast_best(&c->forecast, when, mix->pick);
    for (const weir_policy *p = c->policy; p < c->policy + c->policies; p++)
        if (p != mix && (p->tried || p < c->policy + c->plain) &&
            !memcmp(p->pick, mix->pick, (size_t)c->env.lanes * sizeof *p->pick))
            return false;
    mix->predicted = weir_forecast_step(&c->forecast, mix->pick, when);
    return mix->predicted < best;
}

/* Those near the best are tried once more: dense, the second, the best, in this order. A machine
 * has bad moments, and the first of a round most of them. */
static int next_again(const weir_choose *c)
{
    int best = 0, second = -1;
    double least = weir_choose_best(c, &best);

    for (int k = 0; k < c->policies; k++)
        if (k != best && c->policy[k].tried && c->policy[k].measured <= NARROW * least &&
            (second < 0 || c->policy[k].measured < c->policy[second].measured))
            second = k;
    if (second < 0)
        return -1;
    if (c->policy[0].tried == 1 && c->policy[0].measured <= NARROW * least)
        return 0;
    return c->policy[second].tried == 1 ? second : c->policy[best].tried == 1 ? best : -1;
}

/* Dense is tried in any case where nothing is known, or not any more: the link is read off it. */
int weir_choose_next(weir_choose *c, weir_when when)
{
    int next = -1, which = 0, mix = c->chosen == c->plain ? c->plain + 1 : c->plain;
    double best = weir_choose_best(c, &which);

    if (!c->policy[0].tried && c->reason != DUE)
        return 0;
    for (int k = 0; k < c->plain; k++) {
        weir_policy *p = &c->policy[k];
        if (p->tried)
            continue;
        p->predicted = weir_forecast_step(&c->forecast, p->pick, when);
        if (worth(c, p, best) && (next < 0 || p->predicted < c->policy[next].predicted))
            next = k;
    }
    if (next >= 0)
        return next;
    return !c->policy[mix].tried && mix_worth(c, &c->policy[mix], best, when) ? mix : next_again(c);
}
