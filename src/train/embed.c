/* embed.c - the embedding API: settings by name, one call that trains. */
#include "train/run.h"
#include <stdlib.h>

struct weir_run {
    weir_arena *arena;
    weir_settings set;
    weir_hooks hooks;
    char why[WEIR_WHY_MAX];
};

const char *weir_version(void) { return WEIR_VERSION; }

static weir_err kept(weir_run *run, weir_err err)
{
    snprintf(run->why, sizeof run->why, "%s", err ? weir_why_text() : "");
    return err;
}

weir_err weir_run_new(weir_run **run)
{
    weir_run *r = calloc(1, sizeof *r);
    weir_err err;

    if (!r || !(r->arena = weir_arena_new())) {
        free(r);
        return weir_fail_nomem(sizeof *r);
    }
    if ((err = weir_settings_init(&r->set, r->arena)))
        return weir_run_free(r), err;
    *run = r;
    return WEIR_OK;
}

weir_err weir_run_set(weir_run *run, const char *key, const char *value)
{
    return kept(run, weir_settings_set(&run->set, key, value));
}

void weir_run_on_event(weir_run *run, void (*event)(void *, const char *), void *arg)
{
    run->hooks.event = event;
    run->hooks.arg = arg;
}

static weir_err train(weir_run *run, weir_result *result)
{
    weir_settings s = run->set;
    weir_rank_info rank_info;
    bool simulated;
    int stopped;

    WEIR_TRY(weir_settings_resume(&s));
    WEIR_TRY(weir_settings_check(&s));
    WEIR_TRY(weir_settings_rank_info(&s, &rank_info));
    WEIR_TRY(weir_settings_simulated(&s, &rank_info, &simulated));
    /* what a resumed run had says nothing of this one */
    if (weir_settings_given(&s, "workers") && s.workers > 1 && rank_info.size == 1 && !simulated)
        return weir_fail(WEIR_MISFIT,
                         "a run in a process of yours is one rank: start the process %lld times "
                         "with RANK and WORLD_SIZE set",
                         (long long)s.workers);
    return weir_train_run(&s, &rank_info, &run->hooks, result, &stopped);
}

weir_err weir_run_train(weir_run *run, weir_result *result)
{
    return kept(run, train(run, result));
}

const char *weir_run_error(const weir_run *run) { return run->why; }

void weir_run_free(weir_run *run)
{
    if (!run)
        return;
    weir_arena_free(run->arena);
    free(run);
}
