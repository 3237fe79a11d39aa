/* choose.c - see choose.h. */
#include "core/log.h"
#include "exchange/choose_inside.h"
#include <math.h>
#include <stdio.h>

enum {
    UNTRIED = 3 /* steps before the first trial: memory is touched for the first time */,
    LOOK = 10 /* steps between looks */,
    NUMBERS = 4 /* a lane */
};
/* seconds of trial that are enough, however few steps they are */
static const double LONG = 3;
static const double ALIKE = 1.03; /* so near to the best is as good */
static const double CHANGE = 1.3; /* a step that takes so many times as long, or as short */
static const char *const reason_name[] = {[FIRST] = "first", [DUE] = "due", [CHANGED] = "changed"};

/* ---- making ---- */

static weir_err make_policy(weir_choose *c, int k, const char *name)
{
    weir_policy *p = &c->policy[k];

    *p = (weir_policy){.name = name,
                       .predicted = NAN,
                       .measured = NAN,
                       .pick = WEIR_NEW(c->env.group_arena, int, c->env.lanes)};
    if (!p->pick)
        return weir_fail_nomem((size_t)c->env.lanes * sizeof *p->pick);
    for (int i = 0; i < c->env.lanes; i++)
        p->pick[i] = k < c->env.lane[i].candidates ? k : 0;
    return WEIR_OK;
}

static const weir_lane *first_open(const weir_exchange_env *env)
{
    for (int i = 0; i < env->lanes; i++)
        if (env->lane[i].candidates > 1)
            return &env->lane[i];
    return NULL;
}

static weir_err make_room(weir_choose *c, const weir_lane *open)
{
    int lanes = c->env.lanes;

    c->seen = WEIR_NEW(c->env.group_arena, weir_sight, 3 * lanes);
    c->poll = WEIR_NEW(c->env.group_arena, weir_poll, 1 + NUMBERS * lanes);
    if (!c->seen || !c->poll)
        return weir_fail_nomem((size_t)lanes * 5 * sizeof *c->seen);
    c->least = c->seen + lanes;
    c->agreed = c->least + lanes;
    for (int k = 0; k < open->candidates; k++) {
        const weir_feedback *f = open->candidate[k].feedback;
        c->warmup = f ? fmax(c->warmup, f->warmup) : c->warmup;
        c->ramped = f ? fmax(c->ramped, f->warmup + f->ramp) : c->ramped;
        WEIR_TRY(make_policy(c, k, open->candidate[k].spec));
    }
    c->plain = open->candidates;
    c->policies = c->plain + 2;
    WEIR_TRY(make_policy(c, c->plain, "mix"));
    WEIR_TRY(make_policy(c, c->plain + 1, "other mix"));
    return weir_forecast_make(&c->forecast, c->env.lane, lanes, c->env.same->size,
                              c->env.group_arena);
}

/* Lanes go by this policy from the next step on. */
static void run(weir_choose *c, int policy)
{
    const int *pick = c->policy[policy].pick;
    weir_lane *last = &c->env.lane[c->env.lanes - 1];

    for (int i = 0; i < c->env.lanes; i++)
        weir_lane_choose(&c->env.lane[i], pick[i]);
    if (c->forecast.joins) {
        last[-1].waits = weir_forecast_joined(&c->forecast, pick);
        last->before = last[-1].waits ? last[-1].bucket->n : 0;
    }
    c->skip = policy != c->running;
    c->running = policy;
    c->steps = 0;
    c->left = -1;
}

/* What another group chose does not count in this one. */
static void all_dense(const weir_exchange_env *env)
{
    for (weir_lane *l = env->lane; l < env->lane + env->lanes; l++) {
        weir_lane_choose(l, 0);
        l->waits = false;
        l->before = 0;
    }
}

weir_err weir_choose_make(const weir_exchange_env *env, weir_choose **out)
{
    const weir_lane *open = first_open(env);
    weir_choose *c;

    *out = NULL;
    if (!open)
        return WEIR_OK;
    all_dense(env);
    if (env->same->size == 1)
        return WEIR_OK;
    if (!(c = WEIR_NEW(env->group_arena, weir_choose, 1)))
        return weir_fail_nomem(sizeof *c);
    c->env = *env;
    c->set = open->choosing;
    WEIR_TRY(make_room(c, open));
    run(c, 0);
    *out = c;
    return WEIR_OK;
}

/* ---- times ---- */

weir_err weir_choose_sum(weir_choose *c, weir_lane *l, weir_route *route, weir_when when,
                         float scale)
{
    int i = (int)(l - c->env.lane);
    double begun = weir_net_now(c->env.same->net), codec = l->codec_s;

    WEIR_TRY(weir_route_sum(route, l, when, scale));
    c->seen[i].start = begun - c->mark;
    c->seen[i].idle = i ? begun - c->ended : 0;
    c->ended = weir_net_now(c->env.same->net);
    c->seen[i].took = c->ended - begun;
    c->seen[i].codec = l->codec_s - codec;
    return WEIR_OK;
}

/* Of those above 0; `other` if there is none. */
static double median(const double *x, int64_t n, double other)
{
    double y[WEIR_CHOOSE_TRIES + 2];
    int count = 0;

    for (int64_t i = 0; i < n; i++) {
        int k = count;
        if (x[i] <= 0)
            continue;
        for (; k > 0 && y[k - 1] > x[i]; k--)
            y[k] = y[k - 1];
        y[k] = x[i];
        count++;
    }
    return count ? y[count / 2] : other;
}

/* Of the lanes in a trial: the least they took, as the rest was waiting for others; and when they
 * left in its last step. */
static void record_lanes(weir_choose *c)
{
    bool first = c->steps <= c->skip;

    for (int i = 0; i < c->env.lanes; i++) {
        weir_sight *s = &c->least[i], now = c->seen[i];
        now.took = first || now.took < s->took ? now.took : s->took;
        now.codec = first || now.codec < s->codec ? now.codec : s->codec;
        *s = now;
    }
}

static void add_polls(void *to, const void *from, size_t n)
{
    weir_poll *x = to;
    const weir_poll *y = from;

    for (size_t i = 0; i < n; i++) {
        x[i].sum += y[i].sum;
        x[i].most = y[i].most > x[i].most ? y[i].most : x[i].most;
    }
}
static const weir_sum polls = {sizeof(weir_poll), add_polls};

static size_t write_poll(weir_choose *c, double step)
{
    weir_poll *to = c->poll;

    *to++ = (weir_poll){step, c->paused ? WEIR_NEVER : step};
    for (int i = 0; i < c->env.lanes && c->state == TRYING; i++) {
        *to++ = (weir_poll){0, c->least[i].start};
        *to++ = (weir_poll){0, c->least[i].idle};
        *to++ = (weir_poll){0, -c->least[i].took};
        *to++ = (weir_poll){0, c->least[i].codec};
    }
    return (size_t)(to - c->poll);
}

static void read_poll(weir_choose *c)
{
    const weir_poll *from = c->poll + 1;

    for (int i = 0; i < c->env.lanes && c->state == TRYING; i++, from += NUMBERS)
        c->agreed[i] = (weir_sight){from[0].most, from[1].most, -from[2].most, from[3].most};
}

/* Trials are agreed upon after their first step, which says how many they have, and after their
 * last: steps in between are as they would always be. */
static bool is_poll_due(const weir_choose *c)
{
    return c->state == TRYING ? c->left < 0 || c->left == 1
                              : c->state == STEADY && c->steps % LOOK == LOOK - 1;
}

weir_err weir_choose_agree(weir_choose *c)
{
    double step;

    c->until = weir_net_now(c->env.same->net);
    step = c->until - c->mark;
    if (c->state == WARMING)
        return WEIR_OK;
    c->time[c->state == TRYING ? c->steps : c->steps % LOOK] = c->paused ? 0 : step;
    if (c->state == TRYING)
        record_lanes(c);
    if (!is_poll_due(c))
        return WEIR_OK;
    if (c->state == STEADY)
        step = median(c->time, LOOK, c->base);
    else if (c->left == 1)
        step = median(c->time + c->skip, c->steps + 1 - c->skip, step);
    WEIR_TRY(weir_allreduce(c->env.coll, c->env.same, c->poll, write_poll(c, step), &polls));
    read_poll(c);
    return WEIR_OK;
}

/* ---- choosing ---- */

/* The policy in use comes first: what the others are measured against. */
static weir_choose_state begin_round(weir_choose *c, weir_choose_reason reason, weir_when when)
{
    weir_policy *p = &c->policy[c->chosen];

    c->reason = reason;
    weir_forecast_forget(&c->forecast, false);
    for (int k = 0; k < c->policies; k++) {
        c->policy[k].tried = 0;
        c->policy[k].measured = c->policy[k].predicted = NAN;
    }
    if (c->fitted)
        p->predicted = weir_forecast_step(&c->forecast, p->pick, when);
    run(c, c->chosen);
    return TRYING;
}

static void tell(const weir_choose *c)
{
    char text[400] = "";
    size_t n = 0;

    if (!weir_group_leads(c->env.same) || !weir_log_on(WEIR_LOG_INFO, "codec"))
        return;
    for (int k = 0; k < c->policies && n < sizeof text; k++)
        if (k < c->plain || c->policy[k].tried)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s %.2f ms (predicted %.2f)",
                                  k ? ", " : "", c->policy[k].name, 1e3 * c->policy[k].measured,
                                  1e3 * c->policy[k].predicted);
    weir_log(WEIR_LOG_INFO, "codec", "auto, step %llu, %s: %s; taken: %s",
             (unsigned long long)c->choice.step, c->choice.why, text, c->policy[c->chosen].name);
}

static weir_choose_state decide(weir_choose *c, weir_when when)
{
    int taken = 0, before = c->chosen;
    double best = weir_choose_best(c, &taken);

    if (c->policy[before].measured <= ALIKE * best)
        taken = before;
    if (c->policy[0].tried && c->policy[0].measured <= ALIKE * best)
        taken = 0;
    c->calm = taken != before || c->reason != CHANGED ? LOOK
              : 2 * c->calm < c->set->every           ? 2 * c->calm
                                                      : c->set->every;
    c->chosen = taken;
    c->base = c->policy[taken].measured;
    c->choice = (weir_choice){when.step + 1,
                              reason_name[c->reason],
                              c->policy,
                              c->policies,
                              taken,
                              before,
                              c->env.lane,
                              c->env.lanes,
                              c->forecast.collective,
                              c->forecast.byte};
    c->news = true;
    run(c, taken);
    tell(c);
    return STEADY;
}

static weir_choose_state end_trial(weir_choose *c, double step, weir_when when)
{
    weir_policy *p = &c->policy[c->running];
    int next;

    c->clock += step * (double)c->steps;
    p->measured = p->last = p->tried && p->measured < step ? p->measured : step;
    p->at = c->clock;
    p->tried++;
    weir_forecast_see(&c->forecast, p->pick, c->agreed);
    if (c->running == 0) {
        weir_forecast_fit(&c->forecast, p->pick, c->agreed, p->measured);
        c->fitted = true;
        if (isnan(p->predicted))
            p->predicted = weir_forecast_step(&c->forecast, p->pick, when);
    }
    next = weir_choose_next(c, when);
    if (next < 0)
        return decide(c, when);
    run(c, next);
    return TRYING;
}

/* How many steps a trial has after its first. */
static int64_t steps_more(const weir_choose *c, double first)
{
    int which;
    double best = weir_choose_best(c, &which), most = LONG / first;

    if (first >= LONG)
        return 0;
    if (best > 0 && first > WEIR_CHOOSE_HOPELESS * best)
        return 1;
    return most < (double)(c->set->tries - !c->skip) ? (int64_t)most : c->set->tries - !c->skip;
}

static double mean_step(const weir_choose *c) { return c->poll[0].sum / c->env.same->size; }

/* ---- a step in each state: which one is next ---- */

static weir_choose_state warming_step(weir_choose *c, weir_when when)
{
    if (++c->steps < UNTRIED || when.epochs < c->warmup)
        return WARMING;
    c->ramping = when.epochs < c->ramped;
    return begin_round(c, FIRST, when);
}

static weir_choose_state trying_step(weir_choose *c, weir_when when)
{
    if (c->left < 0 && c->poll[0].most >= WEIR_NEVER)
        return TRYING; /* somebody had something else to do: the next one is the first */
    c->left = c->left < 0 ? steps_more(c, mean_step(c)) : c->left - 1;
    c->steps++;
    return c->left ? TRYING : end_trial(c, mean_step(c), when);
}

static weir_choose_state steady_step(weir_choose *c, weir_when when)
{
    double step = mean_step(c);

    if (c->ramping && when.epochs >= c->ramped) {
        c->ramping = false;
        /* a ramp's first messages are many times as long */
        weir_forecast_forget(&c->forecast, true);
        return begin_round(c, CHANGED, when);
    }
    if (++c->steps % LOOK)
        return STEADY;
    c->clock += LOOK * step;
    if (c->steps >= c->calm && (step > CHANGE * c->base || step < c->base / CHANGE))
        return begin_round(c, CHANGED, when);
    return c->steps >= c->set->every ? begin_round(c, DUE, when) : STEADY;
}

void weir_choose_committed(weir_choose *c, weir_when when)
{
    static weir_choose_state (*const step[])(weir_choose *, weir_when) = {
        [WARMING] = warming_step, [TRYING] = trying_step, [STEADY] = steady_step};

    c->mark = c->until;
    c->state = step[c->state](c, when);
    c->paused = false;
}

void weir_choose_pause(weir_choose *c) { c->paused = true; }

const weir_choice *weir_choose_news(weir_choose *c, bool *trying)
{
    bool news = c->news;

    *trying = c->state != STEADY;
    c->news = false;
    return news ? &c->choice : NULL;
}
