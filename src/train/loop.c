/* loop.c - see loop.h. */
#include "train/loop.h"
#include "train/progress.h"
#include "train/resume.h"

/* Takes down a step, as soon as all is known of it. */
static weir_err log_step(weir_loop *l, weir_trainer *t, const weir_step_report *whole)
{
    if (!whole->step)
        return WEIR_OK;
    weir_tally_step(&l->tally, whole);
    return weir_report_step(l->journal, t, whole);
}

/* The last one, which no other has followed. Called on all ranks alike. */
static weir_err log_last(weir_loop *l, weir_trainer *t)
{
    weir_step_report whole;

    WEIR_TRY(weir_trainer_flush(t, &whole));
    return log_step(l, t, &whole);
}

static weir_err one_step(weir_loop *l, weir_trainer *t)
{
    weir_step_report whole;

    WEIR_TRY(weir_trainer_step(t, &whole));
    weir_report_live(l->journal, t, &t->pending);
    WEIR_TRY(log_step(l, t, &whole));
    return weir_report_choice(l->journal, t);
}

static weir_err evaluate(weir_loop *l, weir_trainer *t)
{
    weir_score score;
    double begun = weir_now(t->rt);

    WEIR_TRY(log_last(l, t));
    WEIR_TRY(weir_trainer_settle(t));
    if (l->tally.steps)
        l->tally.loss = weir_trainer_loss(t);
    WEIR_TRY(weir_trainer_evaluate(t, &score));
    if (t->stopped)
        return WEIR_OK;
    weir_tally_evaluated(&l->tally, t, &score, weir_now(t->rt) - begun);
    return weir_report_eval(l->journal, t, &l->tally);
}

static weir_err save(weir_loop *l, weir_trainer *t)
{
    if (!l->saves)
        return WEIR_OK;
    WEIR_TRY(log_last(l, t)); /* whoever resumes finds in the log what was saved */
    return weir_resume_save(t, l->journal, l->dir);
}

weir_err weir_loop_run(weir_loop *l, weir_trainer *t)
{
    const weir_settings *set = t->set;
    weir_every eval, saving, check = {.n = (uint64_t)set->check_every};
    uint64_t evaluated = UINT64_MAX, saved = t->step;

    WEIR_TRY(weir_every_read("--eval-every", set->eval_every, &eval));
    WEIR_TRY(weir_every_read("--save-every", set->save_every, &saving));
    t->looks = weir_journal_logs(l->journal);
    while (!weir_progress_over(t) && !t->stopped) {
        WEIR_TRY(one_step(l, t));
        /* it compares where it settles */
        if (weir_every_due(check, t) && !t->exchange->drifts)
            WEIR_TRY(weir_trainer_check(t));
        /* what has been trained is kept before it is looked at, which may take long */
        if (weir_every_due(saving, t) || weir_progress_over(t)) {
            WEIR_TRY(save(l, t));
            saved = t->step;
        }
        if (weir_every_due(eval, t) && !t->stopped) {
            WEIR_TRY(evaluate(l, t));
            evaluated = t->step;
        }
    }
    WEIR_TRY(log_last(l, t));
    if (saved != t->step)
        WEIR_TRY(save(l, t));
    /* a run that was told to leave leaves; one that has come to its end says how good it is */
    return evaluated == t->step || t->stopped ? WEIR_OK : evaluate(l, t);
}
