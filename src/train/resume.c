/* resume.c - see resume.h. */
#include "train/resume.h"
#include "core/file.h"
#include "core/log.h"
#include "train/checkpoint.h"
#include "train/progress.h"
#include "train/state_deal.h"
#include "train/warn.h"

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
    weir_checkpoint_body what = {.param = t->param, .state = weir_state_dealt_read};

    if (!t->resumed)
        return t->set->resume ? agree_step(t) : WEIR_OK;
    const char *path = t->resumed->path;
    const weir_checkpoint_info info = t->resumed->info;
    what.tensor = weir_model_tensors(t->model, &what.tensors);
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
