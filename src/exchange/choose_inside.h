/* choose_inside.h - inside choose*.c: what a rank knows while it chooses. choose.c runs and times,
 * choose_next.c says what is to be tried next. */
#ifndef WEIR_EXCHANGE_CHOOSE_INSIDE_H
#define WEIR_EXCHANGE_CHOOSE_INSIDE_H
#include "exchange/choose.h"
#include "exchange/forecast.h"

enum { WEIR_CHOOSE_TRIES = 64 /* at most */ };

/* A number of every worker: their sum, and the largest. */
typedef struct weir_poll {
    double sum, most;
} weir_poll;
/* so many times the best: one step is enough to know */
static const double WEIR_CHOOSE_HOPELESS = 2;

/* As drawn in choose.h; and why a round of trials was begun. */
typedef enum { WARMING, TRYING, STEADY } weir_choose_state;
typedef enum { FIRST, DUE, CHANGED } weir_choose_reason;

struct weir_choose {
    weir_exchange_env env;
    const weir_auto *set;
    /* the longest of the candidates', in epochs; when the last is as sparse as it gets */
    double warmup, ramped;
    bool ramping; /* the choice is of before that */
    weir_forecast forecast;
    bool fitted;
    /* one a candidate, dense first; two mixes: the one in use, and another */
    weir_policy policy[WEIR_AUTO_MOST + 2];
    int policies, plain, running, chosen; /* plain: those that are no mix */
    weir_choose_state state;
    weir_choose_reason reason; /* of the last round */
    int64_t steps, calm;       /* steps in this state, or trial; so many are left alone */
    int64_t left;              /* steps that the trial has yet to go; -1: its first one will say */
    /* the trial's first step is the first of its policy, and does not count; this step does not */
    bool skip, paused;
    double time[WEIR_CHOOSE_TRIES + 2]; /* of steps here; 0: does not count */
    /* when the step before ended; when this one did; when its last lane was through */
    double mark, until, ended;
    weir_sight *seen, *least, *agreed; /* by lane: in this step; in the trial; of all */
    weir_poll *poll;                   /* the step, then four numbers a lane */
    double base, clock; /* what a step took in the trial; seconds of steps so far, as agreed */
    weir_choice choice;
    bool news;
};

/* The fastest of those that were tried this time: its seconds, 0 if there is none. */
double weir_choose_best(const weir_choose *, int *which);
/* The next to be tried, -1: that was all. */
int weir_choose_next(weir_choose *, weir_when);
#endif
