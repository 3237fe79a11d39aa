/* saver.c - see saver.h. */
#include "train/saver.h"
#include "core/vec.h"
#include "train/report.h"
#include "train/snapshot.h"
#include <stdatomic.h>
#include <stdlib.h>

struct weir_saver {
    weir_snapshot *snapshot;
    /* ---- of the write that is under way ---- */
    weir_task *task;     /* NULL: there is none */
    bool here;           /* no thread was to be had: whoever looks for it writes */
    atomic_bool written; /* the task's last word: joining it takes no time */
    weir_rt *rt;
    weir_checkpoint_place place;
    weir_checkpoint_saved saved;
    double stood_s, waited_s; /* for its snapshot; of which for the write before */
    bool anew;                /* in a directory that was made anew for it */
    /* ---- what the last one came to ---- */
    weir_err failed; /* WEIR_DISK, or WEIR_OK */
    unsigned row;    /* so many have, one after the other */
    bool told;
    char why[WEIR_WHY_MAX];
    /* ---- of the whole run ---- */
    uint64_t whole; /* the step of the last one that became so; 0: none has */
    weir_saver_count count;
};

static weir_err open_saver(weir_trainer *t)
{
    weir_saver *s;

    if (t->saver)
        return WEIR_OK;
    if (!(s = calloc(1, sizeof *s)) || !(s->snapshot = weir_snapshot_new()))
        return free(s), weir_fail_nomem(sizeof *s);
    s->rt = t->rt;
    t->saver = s;
    return WEIR_OK;
}

void weir_saver_close(weir_trainer *t)
{
    weir_saver *s = t->saver;
    weir_why spare, *mine;

    if (!s)
        return;
    mine = weir_why_use(&spare); /* the sentence of an error that is being unwound stays */
    if (s->task)
        weir_task_join(s->task);
    weir_why_use(mine);
    weir_snapshot_free(s->snapshot);
    free(s);
    t->saver = NULL;
}

weir_saver_count weir_saver_counted(const weir_trainer *t)
{
    return t->saver ? t->saver->count : (weir_saver_count){0};
}

/* ---- writing ---- */

static weir_err write_job(void *saver)
{
    weir_saver *s = saver;
    weir_err err = weir_snapshot_write(s->snapshot, s->rt, &s->place, &s->saved);

    atomic_store(&s->written, true);
    return err;
}

/* The disk's fault is kept; others are passed on. */
static weir_err keep_failure(weir_saver *s, weir_err err)
{
    if (err != WEIR_DISK)
        return err;
    s->failed = err;
    s->row++;
    s->told = false;
    snprintf(s->why, sizeof s->why, "%s", weir_why_text());
    return WEIR_OK;
}

static weir_err start_write(weir_saver *s, weir_journal *journal, weir_rundir *dir)
{
    WEIR_TRY(weir_rundir_keep(dir, journal));
    s->place = (weir_checkpoint_place){.out = dir->set->out,
                                       .keep = (int)dir->set->keep,
                                       .held = weir_rundir_held,
                                       .arg = dir};
    atomic_store(&s->written, false);
    s->here = weir_task_start(s->rt, "saver", write_job, s, &s->task) != WEIR_OK;
    return WEIR_OK;
}

static bool under_way(const weir_saver *s) { return s && (s->task || s->here); }

static weir_err await_write(weir_saver *s)
{
    weir_task *task = s->task;

    s->task = NULL;
    s->here = false;
    return task ? weir_task_join(task) : write_job(s);
}

/* ---- telling ---- */

static weir_err tell_whole(weir_saver *s, weir_journal *journal)
{
    s->row = 0;
    s->whole = weir_snapshot_step(s->snapshot);
    return weir_report_checkpoint(journal,
                                  &(weir_checkpoint_report){weir_snapshot_step(s->snapshot),
                                                            &s->saved, s->stood_s, s->waited_s});
}

/* Of a row of failures the first, second, fourth, eighth and so on: a disk may stay full for
 * long. */
static weir_err tell_failure(weir_saver *s, weir_journal *journal)
{
    bool due = !(s->row & (s->row - 1));
    char text[WEIR_WHY_MAX];

    if (!s->failed || s->told)
        return WEIR_OK;
    s->told = true;
    if (!due)
        return WEIR_OK;
    snprintf(text, sizeof text,
             "step %llu was not saved: %.800s; training goes on, and what was saved before stays",
             (unsigned long long)weir_snapshot_step(s->snapshot), s->why);
    return weir_report_warning(journal, text);
}

/* A directory that was deleted while it was written to is made anew, once, and another task
 * writes. */
static weir_err take(weir_saver *s, weir_journal *journal, weir_rundir *dir)
{
    weir_err err = await_write(s);

    if (!err)
        return tell_whole(s, journal);
    if (err == WEIR_DISK && !s->anew && !weir_rundir_is_there(dir)) {
        s->anew = true;
        err = start_write(s, journal, dir);
    }
    return keep_failure(s, err);
}

static weir_err take_all(weir_saver *s, weir_journal *journal, weir_rundir *dir)
{
    while (under_way(s))
        WEIR_TRY(take(s, journal, dir));
    return WEIR_OK;
}

weir_err weir_saver_look(weir_trainer *t, weir_journal *journal, weir_rundir *dir)
{
    weir_saver *s = t->saver;

    if (under_way(s) && (s->here || atomic_load(&s->written)))
        WEIR_TRY(take(s, journal, dir));
    return s ? tell_failure(s, journal) : WEIR_OK;
}

weir_err weir_saver_wait(weir_trainer *t, weir_journal *journal, weir_rundir *dir)
{
    weir_saver *s = t->saver;

    WEIR_TRY(take_all(s, journal, dir));
    return s ? tell_failure(s, journal) : WEIR_OK;
}

/* ---- a save, on all ranks ---- */

/* All ranks hold the same, and come to the same. */
static weir_err check_finite(const weir_trainer *t)
{
    int tensors;
    const weir_tensor *tensor = weir_model_tensors(t->model, &tensors);

    for (int i = 0; i < tensors; i++)
        if (!weir_vec_best()->finite(t->param + tensor[i].at, tensor[i].n))
            return weir_fail(WEIR_NAN,
                             "step %llu: the weights of %s are not finite: nothing is saved; try a "
                             "smaller --lr or --clip",
                             (unsigned long long)t->step, tensor[i].name);
    return WEIR_OK;
}

/* The snapshot is what the one before is being written from. */
static weir_err wait_for_the_one_before(weir_trainer *t, weir_journal *journal, weir_rundir *dir)
{
    weir_saver *s = t->saver;
    double begun = weir_now(t->rt);

    s->count.waits += under_way(s) && !atomic_load(&s->written);
    WEIR_TRY(weir_saver_wait(t, journal, dir));
    s->waited_s = weir_now(t->rt) - begun;
    return WEIR_OK;
}

weir_err weir_saver_save(weir_trainer *t, weir_journal *journal, weir_rundir *dir)
{
    double begun = weir_now(t->rt);
    weir_saver *s;

    weir_net_phase(t->net, WEIR_PHASE_SAVE, t->step);
    WEIR_TRY(open_saver(t));
    s = t->saver;
    WEIR_TRY(wait_for_the_one_before(t, journal, dir));
    WEIR_TRY(weir_trainer_settle(t));
    WEIR_TRY(check_finite(t));
    WEIR_TRY(weir_snapshot_take(s->snapshot, t));
    s->failed = WEIR_OK;
    s->anew = false;
    s->stood_s = weir_now(t->rt) - begun;
    s->count.stood_s += s->stood_s;
    /* others that were lost in the middle of it may not know that there is one of this step */
    if (!weir_group_leads(&t->mesh.all) || (s->whole == t->step && weir_rundir_is_there(dir)))
        return WEIR_OK;
    if (weir_rundir_is_there(dir) && weir_rundir_others(dir))
        return WEIR_OK; /* another leads: this one was given up, and will hear of it */
    return keep_failure(s, start_write(s, journal, dir));
}

/* ---- the last one ---- */

/* What it came to, as the leader tells it. */
typedef struct verdict {
    weir_trainer *t;
    struct {
        uint32_t failed;
        char why[WEIR_WHY_MAX];
    } word;
} verdict;

/* Where it went wrong all leave: nobody before all have heard it. */
static weir_err share_job(void *arg)
{
    verdict *v = arg;
    weir_group *all = &v->t->mesh.all;

    WEIR_TRY(weir_broadcast(&v->t->coll, all, all->leader, &v->word, sizeof v->word));
    return v->word.failed ? weir_barrier(&v->t->coll, all) : WEIR_OK;
}

static weir_err refuse_end(const weir_trainer *t, const char *why)
{
    const weir_group *all = &t->mesh.all;

    return weir_group_leads(all)
               ? weir_fail(WEIR_DISK, "%s", why)
               : weir_fail(WEIR_DISK, "rank %d, which leads, could not save: %.900s",
                           all->member[all->leader], why);
}

weir_err weir_saver_end(weir_trainer *t, weir_journal *journal, weir_rundir *dir)
{
    double begun = weir_now(t->rt);
    verdict v = {.t = t};
    weir_saver *s = weir_group_leads(&t->mesh.all) ? t->saver : NULL;

    weir_net_phase(t->net, WEIR_PHASE_SAVE, t->step);
    WEIR_TRY(take_all(s, journal, dir));
    if (s && s->failed) {
        s->told = true; /* by what this returns */
        v.word.failed = (uint32_t)s->failed;
        snprintf(v.word.why, sizeof v.word.why, "%s", s->why);
    }
    WEIR_TRY(weir_line_call(t->line, share_job, &v));
    if (s)
        s->count.stood_s += weir_now(t->rt) - begun;
    v.word.why[sizeof v.word.why - 1] = 0;
    return v.word.failed ? refuse_end(t, v.word.why) : WEIR_OK;
}
