/* loop.c - see loop.h. */
#include "train/loop.h"
#include "train/progress.h"
#include "train/saver.h"

/* Takes down a step, as soon as all is known of it. */
static weir_err log_step(weir_loop *l, weir_trainer *t, const weir_step_report *whole)
{
    if (!whole->step || whole->step == l->logged)
        return WEIR_OK;
    l->logged = whole->step;
    weir_tally_step(&l->tally, whole);
    if (whole->step == l->found)
        return WEIR_OK;
    if (weir_rundir_others(l->dir)) /* stopped for long: another leads, and writes the log */
        return WEIR_OK;
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
    if (t->stopped || t->change) /* it was broken off */
        return WEIR_OK;
    l->evaluated = t->step;
    if (l->scored == t->step) /* others had not heard how good it is */
        return WEIR_OK;
    l->scored = t->step;
    weir_tally_evaluated(&l->tally, t, &score, weir_now(t->rt) - begun);
    return weir_report_eval(l->journal, t, &l->tally);
}

/* What has been trained is kept before it is looked at for the last time: there it is waited
 * for. */
static weir_err save(weir_loop *l, weir_trainer *t)
{
    if (l->keeps) {
        WEIR_TRY(log_last(l, t)); /* whoever resumes finds in the log what was saved */
        WEIR_TRY(weir_saver_save(t, l->journal, l->dir));
        l->begun = t->step;
    }
    l->saved = t->step;
    l->owed = false;
    return l->keeps && weir_progress_over(t) ? weir_saver_end(t, l->journal, l->dir) : WEIR_OK;
}

weir_err weir_loop_open(weir_loop *l, weir_trainer *t)
{
    const weir_settings *set = t->set;

    l->began = l->checked = l->saved = t->step;
    l->evaluated = l->scored = UINT64_MAX;
    l->checks = (weir_every){.n = (uint64_t)set->check_every};
    WEIR_TRY(weir_every_read("--eval-every", set->eval_every, &l->evals));
    return weir_every_read("--save-every", set->save_every, &l->saves);
}

void weir_loop_owe(weir_loop *l, const char *out)
{
    l->owed = l->begun && out && !weir_checkpoint_is_latest(out, l->begun);
}

weir_err weir_loop_tell(weir_loop *l, weir_trainer *t, const weir_told *log)
{
    const weir_step_report *last = &t->flushed;

    l->found = (uint64_t)log->step;
    if (!log->any || last->step != l->found + 1) /* or workers have steps of their own */
        return WEIR_OK;
    l->found = last->step;
    return weir_report_step(l->journal, t, last);
}

weir_err weir_loop_agree(weir_loop *l, weir_trainer *t, bool fresh)
{
    enum { PENDING, STEPPED, CHECK, SAVE, EVALUATE, KEEPS, OWED, BEGUN, VOTES };
    double votes[VOTES] = {0};
    uint64_t done = t->step, open = UINT64_MAX;

    if (!fresh) {
        votes[PENDING] = t->pending.step != 0;
        votes[STEPPED] = l->began != t->step;
        votes[CHECK] = l->checked != t->step;
        votes[SAVE] = l->saved != t->step;
        votes[EVALUATE] = l->evaluated != t->step;
    }
    if (weir_group_leads(&t->mesh.all)) { /* this one's word alone */
        votes[KEEPS] = t->set->out != NULL;
        votes[OWED] = l->owed;
        votes[BEGUN] = (double)l->begun;
    }
    WEIR_TRY(weir_trainer_sum(t, votes, VOTES));
    if (l->logged > t->step)
        l->logged = t->step; /* what is made again is told again */
    if (l->found > t->step)
        l->found = t->step;
    if (votes[PENDING] > 0 && !t->pending.step) {
        t->pending = t->flushed;
        t->pending.step = t->step;
    }
    if (fresh)
        l->began = votes[STEPPED] > 0 ? open : done;
    l->checked = votes[CHECK] > 0 ? open : done;
    l->saved = votes[SAVE] > 0 ? open : done;
    l->evaluated = votes[EVALUATE] > 0 ? open : done;
    l->keeps = votes[KEEPS] > 0;
    l->owed = votes[OWED] > 0;
    l->begun = (uint64_t)votes[BEGUN];
    return WEIR_OK;
}

/* What is due at this step and has not been done: a step that a loss has interrupted comes back to
 * it. */
static weir_err do_what_is_due(weir_loop *l, weir_trainer *t)
{
    bool stepped = t->step != l->began;

    /* it compares where it settles */
    if (stepped && weir_every_due(l->checks, t) && l->checked != t->step && !t->exchange->drifts) {
        WEIR_TRY(weir_trainer_check(t));
        l->checked = t->step;
    }
    if (l->owed ||
        (stepped && l->saved != t->step && (weir_every_due(l->saves, t) || weir_progress_over(t))))
        WEIR_TRY(save(l, t));
    if (stepped && weir_every_due(l->evals, t) && l->evaluated != t->step && !t->stopped)
        return evaluate(l, t);
    return WEIR_OK;
}

weir_err weir_loop_save_last(weir_loop *l, weir_trainer *t)
{
    WEIR_TRY(log_last(l, t));
    if (l->owed || l->saved != t->step)
        WEIR_TRY(save(l, t));
    return l->keeps ? weir_saver_end(t, l->journal, l->dir) : WEIR_OK;
}

weir_err weir_loop_run(weir_loop *l, weir_trainer *t)
{
    t->looks = weir_journal_logs(l->journal);
    WEIR_TRY(do_what_is_due(l, t));
    while (!weir_progress_over(t) && !t->stopped) {
        WEIR_TRY(one_step(l, t));
        WEIR_TRY(weir_saver_look(t, l->journal, l->dir));
        WEIR_TRY(do_what_is_due(l, t));
        if (t->change && !weir_progress_over(t)) /* members come or go here */
            return WEIR_OK;
    }
    t->change = false;
    WEIR_TRY(weir_loop_save_last(l, t));
    /* a run that was told to leave leaves; one that has come to its end says how good it is */
    if (l->evaluated == t->step || t->stopped)
        return WEIR_OK;
    return evaluate(l, t);
}
