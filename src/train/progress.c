/* progress.c - see progress.h. */
#include "train/progress.h"
#include <math.h>
#include <string.h>

/* ---- where a run is ---- */

static weir_place *place_of(const weir_trainer *t, uint64_t step)
{
    return &t->place[step % (uint64_t)t->places];
}

void weir_progress_jumped(weir_trainer *t)
{
    *place_of(t, t->step) = (weir_place){t->step, t->samples, t->cursor};
}

static weir_err make_places(weir_trainer *t)
{
    t->places = t->facts.options.apart + 1;
    t->place = WEIR_NEW(t->arena, weir_place, t->places);
    return t->place ? WEIR_OK : weir_fail_nomem((size_t)t->places * sizeof *t->place);
}

/* How many updates it will have made at its end. */
static uint64_t count_steps(const weir_trainer *t)
{
    weir_cursor at = t->cursor;
    uint64_t epochs = (uint64_t)t->set->epochs, begun = (at.rows - at.used - 1) / t->plan.batch + 1;

    if (t->set->steps)
        return (uint64_t)t->set->steps;
    return at.epoch < epochs ? t->step + begun + (epochs - at.epoch - 1) * t->epoch_steps : t->step;
}

weir_err weir_progress_open(weir_trainer *t)
{
    const weir_settings *s = t->set;

    const uint64_t *count = t->data.facts.count;

    /* who only evaluates may have no training part, and needs the sizes of a batch all the same */
    t->plan = (weir_sample_plan){.seed = (uint64_t)s->seed,
                                 .count = count[WEIR_DATA_TRAIN] ? count[WEIR_DATA_TRAIN]
                                                                 : count[WEIR_DATA_TEST],
                                 .batch = (uint64_t)s->batch,
                                 .streams = (uint64_t)t->data.facts.streams[WEIR_DATA_TRAIN],
                                 .rank = t->mesh.same->me,
                                 .size = t->mesh.same->size,
                                 .micro = (int)s->accumulate};
    t->epoch_steps = weir_sample_plan_epoch_steps(&t->plan);
    t->cursor = weir_plan_at(&t->plan, 0);
    t->steps = count_steps(t);
    WEIR_TRY(make_places(t));
    weir_progress_jumped(t);
    return weir_rate_open(s->lr, t->steps, t->epoch_steps, t->arena, &t->rate);
}

double weir_progress_epochs(const weir_trainer *t)
{
    return weir_plan_time(&t->plan, t->cursor) / (double)t->epoch_steps;
}

double weir_progress_rate(const weir_trainer *t)
{
    return weir_rate_at(&t->rate,
                        t->set->steps ? (double)t->step : weir_plan_time(&t->plan, t->cursor));
}

bool weir_progress_over(const weir_trainer *t)
{
    return t->set->steps ? t->step >= (uint64_t)t->set->steps
                         : t->cursor.epoch >= (uint64_t)t->set->epochs;
}

void weir_progress_advance(weir_trainer *t)
{
    t->step++;
    t->samples += weir_sample_plan_samples(&t->plan, t->cursor);
    weir_plan_advance(&t->plan, &t->cursor);
    weir_progress_jumped(t);
}

static weir_err go_back(weir_trainer *t, uint64_t step)
{
    const weir_place *p = place_of(t, step);

    if (p->step != step)
        return weir_fail(WEIR_FAILED, "after step %llu the way back to step %llu is not known",
                         (unsigned long long)t->step, (unsigned long long)step);
    t->step = p->step;
    t->samples = p->samples;
    t->cursor = p->cursor;
    t->pending.step = 0; /* it will be told of again */
    if (t->flushed.step > t->step)
        t->flushed.step = 0;
    return WEIR_OK;
}

weir_err weir_progress_back(weir_trainer *t, uint64_t step, uint64_t end, uint64_t *samples)
{
    if (step < t->step)
        WEIR_TRY(go_back(t, step));
    weir_cursor at = t->cursor;
    *samples = 0;
    for (uint64_t s = t->step; s < end; s++) {
        *samples += weir_sample_plan_samples(&t->plan, at);
        weir_plan_advance(&t->plan, &at);
    }
    return WEIR_OK;
}

/* ---- what is due ---- */

weir_err weir_every_read(const char *what, const char *text, weir_every *every)
{
    WEIR_TRY(weir_steps_read(what, text, 1, &every->n));
    every->epochs = text[strlen(text) - 1] == 'e';
    return WEIR_OK;
}

/* An epoch's last step is short rather than beyond its end, so the end of every epoch is met. */
bool weir_every_due(weir_every every, const weir_trainer *t)
{
    if (!every.n)
        return false;
    return every.epochs ? !t->cursor.used && t->cursor.epoch % every.n == 0
                        : t->step % every.n == 0;
}

/* ---- going on ---- */

/* What the run was when it was saved. */
typedef struct past {
    weir_settings set;
    weir_sample_plan plan;
    weir_cursor at;
    uint64_t step;
} past;

/* A checkpoint from before cursors were saved says how many steps and samples were made: with one
 * batch throughout, that is a place in today's data; else its samples tell as much as they can. */
static weir_cursor guess(const past *p, uint64_t samples)
{
    weir_cursor at = weir_plan_at(&p->plan, p->step);
    uint64_t rows = p->plan.count;

    if (samples == at.epoch * rows + at.used)
        return at;
    return (weir_cursor){.epoch = samples / rows, .used = samples % rows, .rows = rows};
}

/* Settings that cannot be read any more are taken to have been today's. */
static weir_err read_past(const weir_trainer *t, const weir_checkpoint_info *info, past *p)
{
    if (weir_settings_parse(info->settings, t->arena, &p->set))
        p->set = *t->set;
    p->plan = t->plan;
    p->plan.batch = (uint64_t)p->set.batch;
    p->step = info->step;
    p->at = (weir_cursor){.epoch = info->epoch, .used = info->used, .rows = info->rows};
    if (!info->rows)
        p->at = guess(p, info->samples);
    p->plan.count = p->at.rows;
    return p->at.used < p->at.rows
               ? WEIR_OK
               : weir_fail(WEIR_DAMAGED, "the checkpoint is at sample %llu of an epoch of %llu",
                           (unsigned long long)p->at.used, (unsigned long long)p->at.rows);
}

/* Texts are cut into as many streams as the batch: another cut has other windows, and each stream
 * goes on at its portion of the epoch. */
static void resume_streams(weir_trainer *t, const past *p)
{
    uint64_t rows = t->plan.count, batch = t->plan.batch, steps = t->epoch_steps;
    double portion = (double)p->at.used / (double)p->at.rows;

    if (p->at.rows == rows && p->plan.batch == batch)
        return;
    t->cursor = (weir_cursor){.epoch = p->at.epoch,
                              .used = (uint64_t)(portion * (double)steps) * batch,
                              .rows = rows};
    if (p->at.used)
        weir_warned_add(&t->warned,
                        "the text is cut into %llu streams of %llu windows, and was into %llu of "
                        "%llu: each goes on after %.3g of this epoch, so that some windows of it "
                        "come twice and some not at all",
                        (unsigned long long)batch, (unsigned long long)steps,
                        (unsigned long long)p->plan.batch,
                        (unsigned long long)(p->at.rows / p->plan.batch), portion);
}

/* An epoch goes on with the rows that it began with, if they are there. */
static void resume_rows(weir_trainer *t, const past *p)
{
    uint64_t rows = t->plan.count;
    const char *what = "all of them are used from here on";

    if (p->at.rows == rows)
        return;
    if (!p->at.used) {
        t->cursor.rows = rows;
    } else if (rows > p->at.rows) {
        what = "the epoch that has begun goes on without the new ones";
    } else {
        t->cursor = (weir_cursor){.epoch = p->at.epoch, .rows = rows};
        what = "the epoch that had begun begins anew";
    }
    weir_warned_add(&t->warned, "the data have %llu training samples, and had %llu: %s",
                    (unsigned long long)rows, (unsigned long long)p->at.rows, what);
}

/* The rate that the run would have gone on with, `off` steps from where it was. */
static weir_err past_rate(const weir_trainer *t, const past *p, double off, double *rate)
{
    weir_rate_use use;
    uint64_t epoch = weir_sample_plan_epoch_steps(&p->plan),
             steps = p->set.steps ? (uint64_t)p->set.steps : (uint64_t)p->set.epochs * epoch;
    double time = (p->set.steps ? (double)p->step : weir_plan_time(&p->plan, p->at)) + off;

    WEIR_TRY(weir_rate_open(p->set.lr, steps, epoch, t->arena, &use));
    *rate = weir_rate_at(&use, time > 0 ? time : 0);
    return WEIR_OK;
}

static void show_length(const weir_settings *s, char *text, size_t room)
{
    snprintf(text, room, "%lld %s of batch %lld", (long long)(s->steps ? s->steps : s->epochs),
             s->steps ? "steps" : "epochs", (long long)s->batch);
}

/* Nobody asked for another rate, and yet it is another: by more than the schedule moves in the
 * steps that lie between the old place and the new, which are one at most in each batch's count. */
static void check_jump(weir_trainer *t, const past *p)
{
    double slack = 1 + (double)t->plan.batch / (double)p->plan.batch, old, low, high,
           now = weir_progress_rate(t);
    char was[80], is[80];

    if (p->set.batch == t->set->batch)
        slack = 0;
    if (strcmp(p->set.lr, t->set->lr) || weir_progress_over(t) || past_rate(t, p, 0, &old) ||
        past_rate(t, p, -slack, &low) || past_rate(t, p, slack, &high))
        return;
    double least = fmin(old, fmin(low, high)), most = fmax(old, fmax(low, high));
    if (now >= least * (1 - 1e-9) && now <= most * (1 + 1e-9))
        return;
    show_length(&p->set, was, sizeof was);
    show_length(t->set, is, sizeof is);
    weir_warned_add(&t->warned,
                    "the rate jumps from %.4g to %.4g here: --lr %s runs over %s now, and ran over "
                    "%s",
                    old, now, t->set->lr, is, was);
}

static void check_over(weir_trainer *t)
{
    long long n = t->set->steps ? t->set->steps : t->set->epochs;
    const char *what = t->set->steps ? "steps" : "epochs";

    if (weir_progress_over(t))
        weir_warned_add(
            &t->warned,
            "this run is finished: it has made %llu steps, and --%s is %lld. Nothing is "
            "trained; to go on, give more --%s",
            (unsigned long long)t->step, what, n, what);
}

weir_err weir_progress_resume(weir_trainer *t, const weir_checkpoint_info *info)
{
    past p;

    WEIR_TRY(read_past(t, info, &p));
    t->cursor = p.at;
    if (t->plan.streams)
        resume_streams(t, &p);
    else
        resume_rows(t, &p);
    t->steps = count_steps(t);
    weir_progress_jumped(t);
    check_over(t);
    check_jump(t, &p);
    return WEIR_OK;
}
