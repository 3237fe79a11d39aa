/* resume.c - see resume.h. */
#include "train/resume.h"
#include "core/file.h"
#include "core/log.h"
#include "core/vec.h"
#include "train/checkpoint.h"
#include "train/state_gather.h"
#include "train/progress.h"
#include "train/report.h"
#include "train/warn.h"
#include <stdlib.h>

static weir_checkpoint_body body(weir_trainer *t)
{
    weir_checkpoint_body b = {.param = t->param, .state = weir_trainer_state, .arg = t};

    b.tensor = weir_model_tensors(t->model, &b.tensors);
    return b;
}

/* ---- saving ---- */

weir_err weir_resume_agree(weir_trainer *t, bool *saves)
{
    uint64_t *out = WEIR_NEW(t->mesh.arena, uint64_t, t->mesh.all.size);

    if (!out)
        return weir_fail_nomem((size_t)t->mesh.all.size * sizeof *out);
    WEIR_TRY(weir_trainer_gather(t, t->set->out != NULL, out));
    *saves = out[t->mesh.all.leader] != 0;
    return WEIR_OK;
}

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

/* The leader's part of a save. */
static weir_err write_checkpoint(weir_trainer *t, weir_journal *journal, weir_state_gathered *state)
{
    const weir_settings *set = t->set;
    char *text = weir_settings_text(set), *model = weir_settings_model(set),
         *data = weir_settings_data(set);
    weir_checkpoint_saved saved;
    weir_err err;

    weir_checkpoint_info info = {.step = t->step,
                                 .seed = (uint64_t)set->seed,
                                 .samples = t->samples,
                                 .epoch = t->cursor.epoch,
                                 .used = t->cursor.used,
                                 .rows = t->cursor.rows,
                                 .workers = t->mesh.all.size,
                                 .model = model,
                                 .data = data,
                                 .settings = text,
                                 .lessons = t->lessons};
    weir_checkpoint_body what = body(t);
    what.state = weir_state_gathered_state;
    what.arg = state;
    err = text && model && data
              ? weir_checkpoint_save(t->rt, set->out, (int)set->keep, &info, &what, &saved)
              : weir_fail_nomem(0);
    free(text);
    free(model);
    free(data);
    return err ? err
               : weir_report_checkpoint(journal, t->step, saved.path, saved.bytes, saved.seconds);
}

/* A directory that is deleted while it is written to is made anew, once. */
static weir_err write_kept(weir_trainer *t, weir_journal *journal, weir_rundir *dir,
                           weir_state_gathered *state)
{
    weir_err err;

    WEIR_TRY(weir_rundir_keep(dir, journal));
    err = write_checkpoint(t, journal, state);
    if (err != WEIR_DISK || weir_rundir_is_there(dir))
        return err;
    WEIR_TRY(weir_rundir_keep(dir, journal));
    return write_checkpoint(t, journal, state);
}

weir_err weir_resume_save(weir_trainer *t, weir_journal *journal, weir_rundir *dir)
{
    weir_state_gathered *state;
    weir_err err;

    weir_net_phase(t->net, WEIR_PHASE_SAVE, t->step);
    WEIR_TRY(weir_trainer_settle(t));
    WEIR_TRY(check_finite(t));
    WEIR_TRY(weir_state_gather(t, &state));
    err = weir_group_leads(&t->mesh.all) ? write_kept(t, journal, dir, state) : WEIR_OK;
    weir_state_gathered_free(state);
    return err;
}

/* ---- loading ---- */

/* Ranks that read different disks may find different checkpoints. */
static weir_err agree_step(weir_trainer *t)
{
    uint64_t *step = WEIR_NEW(t->mesh.arena, uint64_t, t->mesh.all.size);
    const int *member = t->mesh.all.member;

    if (!step)
        return weir_fail_nomem(0);
    WEIR_TRY(weir_trainer_gather(t, t->step, step));
    for (int i = 1; i < t->mesh.all.size; i++)
        if (step[i] != step[0])
            return weir_fail(WEIR_MISFIT,
                             "rank %d resumes from step %llu, rank %d from step %llu: do all ranks "
                             "see the same directory?",
                             member[0], (unsigned long long)step[0], member[i],
                             (unsigned long long)step[i]);
    return WEIR_OK;
}

/* It was stopped before its first checkpoint. */
static bool never_saved(const char *dir)
{
    char path[WEIR_CHECKPOINT_PATH + 8];

    snprintf(path, sizeof path, "%s/config", dir);
    return weir_path_exists(path) && !weir_checkpoint_any(dir);
}

struct weir_resumed {
    char path[WEIR_CHECKPOINT_PATH];
    weir_checkpoint_info info;
};

weir_err weir_resume_find(weir_trainer *t)
{
    struct weir_resumed *found;

    if (!t->set->resume)
        return WEIR_OK;
    if (never_saved(t->set->resume)) {
        weir_warned_add(&t->warned, "%s has no checkpoint yet: the run begins at its beginning",
                        t->set->resume);
        return WEIR_OK;
    }
    if (!(found = WEIR_NEW(t->arena, struct weir_resumed, 1)))
        return weir_fail_nomem(sizeof *found);
    WEIR_TRY(weir_checkpoint_find(t->set->resume, found->path));
    WEIR_TRY(weir_checkpoint_peek(found->path, t->arena, &found->info));
    t->resumed = found;
    t->learnt = found->info.lessons;
    t->learnt_at = found->path;
    if (!t->learnt)
        weir_warned_add(&t->warned,
                        "%s does not say what the run's data taught it, as an older weir saved it: "
                        "today's training part teaches it anew",
                        found->path);
    return WEIR_OK;
}

weir_err weir_resume_load(weir_trainer *t)
{
    size_t left;
    weir_checkpoint_body what = body(t);

    if (!t->resumed)
        return t->set->resume ? agree_step(t) : WEIR_OK;
    const char *path = t->resumed->path;
    const weir_checkpoint_info info = t->resumed->info;
    what.state = weir_state_dealt_read;
    what.arg =
        &(weir_state_dealt){info.workers, t->mesh.all.size, t->mesh.all.me, weir_trainer_state, t};
    /* a rank that was not there when it was saved takes nothing of what each had */
    what.unused = t->mesh.all.me < info.workers ? weir_warn_never_lost : NULL;
    WEIR_TRY(weir_warn_saved_with(weir_checkpoint_load(path, t->mesh.all.size, &what, &left),
                                  info.settings));
    if (left && weir_group_leads(&t->mesh.all))
        weir_log(WEIR_LOG_WARN, "train",
                 "%s: %zu fields of the saved state are not used by these settings", path, left);
    WEIR_TRY(weir_progress_resume(t, &info));
    return agree_step(t);
}
