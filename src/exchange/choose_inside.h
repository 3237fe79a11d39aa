/* choose_inside.h - inside choose*.c: what a rank knows while it chooses. choose.c runs and times, choose_next.c says what is to be tried next. */
#ifndef WEIR_EXCHANGE_CHOOSE_INSIDE_H
#define WEIR_EXCHANGE_CHOOSE_INSIDE_H
#include "exchange/choose.h"
#include "exchange/forecast.h"

enum { WEIR_CHOOSE_TRIES = 64 /* at most */ };
static const double WEIR_CHOOSE_HOPELESS = 2; /* so many times the best: one step is enough to know */

typedef enum { WARMING, TRYING, STEADY } weir_choose_phase;

struct weir_choose {
    weir_exchange_env env;
    const weir_auto *set;
    double warmup; /* the longest of the candidates', in epochs */
    weir_forecast forecast;
    bool fitted;
    weir_policy policy[WEIR_AUTO_MOST + 2]; /* one a candidate, dense first; two mixes: the one in use, and another */
    int policies, plain, running, chosen; /* plain: those that are no mix */
    weir_choose_phase phase;
    int64_t steps, calm; /* steps in this phase; so many are left alone */
    bool skip, paused;   /* the next step is the first of its policy; it is not timed */
    double time[WEIR_CHOOSE_TRIES], spent;
    int times;
    double mark, until, ended; /* when the step before ended; when this one did; when its last lane was through */
    weir_sight *seen, *agreed, *line; /* by lane: here; of all; of all, in dense steps */
    double *told;
    double base, clock; /* what a step took in the trial; seconds of steps so far, as agreed */
    weir_choice choice;
    bool news;
};

/* The fastest of those that were tried this time: its seconds, 0 if there is none. */
double weir_choose_best(const weir_choose *, int *which);
/* The next to be tried, -1: that was all. */
int weir_choose_next(weir_choose *, weir_turn);
#endif
