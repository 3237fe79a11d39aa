/* eval_run.c - the test part by the weights of a checkpoint. */
#include "train/checkpoint.h"
#include "train/run.h"
#include "train/run_data.h"
#include "train/run_model.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct evaluating {
    const char *checkpoint;
    weir_settings set;
    const weir_rank_info *rank_info;
    weir_warned *warned;
    weir_result *result;
    weir_arena *arena;
    weir_trainer t;
} evaluating;

/* The batch that the run was trained with, where its settings say so. */
static void take_batch(const char *settings, int64_t *batch)
{
    const char *line = settings && !strncmp(settings, "batch ", 6) ? settings
                       : settings                                  ? strstr(settings, "\nbatch ")
                                                                   : NULL;
    long long n = line ? strtoll(line + strcspn(line, " "), NULL, 10) : 0;

    if (n > 0)
        *batch = n;
}

/* The run's own copy lies in its directory, in which the checkpoint is. */
static weir_err take_model(evaluating *e, const char *path, const char *model)
{
    char dir[WEIR_CHECKPOINT_PATH + 4];

    e->set.model = model;
    snprintf(dir, sizeof dir, "%s/..", path);
    return weir_run_model_find(dir, e->arena, &e->set.model_copy);
}

/* The run's own data, unless the user names others: by another path, or with other options. */
static weir_err take_data(evaluating *e, weir_trainer *t, const char *path, const char *data)
{
    char dir[WEIR_CHECKPOINT_PATH + 4], *named;

    snprintf(dir, sizeof dir, "%s/..", path);
    t->own_data = !e->set.data;
    if (!e->set.data) {
        e->set.data = data;
        return weir_run_data_find(&e->set, dir);
    }
    if (!(named = weir_settings_data(&e->set)))
        return weir_fail_nomem(0);
    t->own_data = !strcmp(named, data);
    free(named);
    return WEIR_OK;
}

/* By what the run learnt. A checkpoint of an older weir does not say it. */
static weir_err open_trainer(evaluating *e, weir_trainer *t, const char *path,
                             const weir_checkpoint_info *info)
{
    weir_err err;

    t->learnt = info->lessons;
    t->learnt_at = path;
    t->test_only = true;
    if (!t->learnt)
        weir_warned_add(&t->warned,
                        "%s does not say what the run's data taught it, as an older weir saved it: "
                        "the training part of %s teaches it anew, and figures may be wrong",
                        path, e->set.data);
    err = weir_trainer_open(t);
    if (weir_group_leads(&t->mesh.all))
        *e->warned = t->warned;
    return err;
}

/* ---- the layers' state, but for what they carried through the training text ---- */

typedef struct still_io {
    weir_io io;
    weir_io *all;
} still_io;

static weir_err read_range(weir_io *io, const char *name, const weir_io_piece *p)
{
    weir_io *all = ((still_io *)io)->all;

    return p->keep == WEIR_KEEP_STREAM ? WEIR_OK : all->range(all, name, p);
}

static weir_err read_u64(weir_io *io, const char *name, uint64_t *x, size_t n, weir_keep keep)
{
    weir_io *all = ((still_io *)io)->all;

    return keep == WEIR_KEEP_STREAM ? WEIR_OK : all->u64(all, name, x, n, keep);
}

static weir_err read_layers(void *trainer, weir_io *io)
{
    still_io still = {.io = {.loading = true, .range = read_range, .u64 = read_u64}, .all = io};

    return weir_model_state(((weir_trainer *)trainer)->model, &still.io);
}

/* ---- the run ---- */

static weir_err evaluate(evaluating *e, weir_trainer *t)
{
    char path[WEIR_CHECKPOINT_PATH];
    weir_checkpoint_info info;
    weir_score score;
    size_t left;

    WEIR_TRY(weir_checkpoint_find(e->checkpoint, path));
    WEIR_TRY(weir_checkpoint_peek(path, e->arena, &info));
    if (!e->set.model)
        WEIR_TRY(take_model(e, path, info.model));
    WEIR_TRY(take_data(e, t, path, info.data));
    if (!weir_settings_given(&e->set, "batch")) /* texts are cut in as many streams */
        take_batch(info.settings, &e->set.batch);
    e->set.steps = 1;
    WEIR_TRY(weir_trainer_enter(t));
    WEIR_TRY(open_trainer(e, t, path, &info));
    weir_checkpoint_body body = {.param = t->param, .state = read_layers, .arg = t};
    body.tensor = weir_model_tensors(t->model, &body.tensors);
    WEIR_TRY(weir_checkpoint_load(path, t->mesh.all.size, &body, &left));
    weir_model_refresh(t->model);
    WEIR_TRY(weir_trainer_evaluate(t, &score));
    *e->result = (weir_result){.steps = info.step,
                               .samples = (uint64_t)score.count,
                               .loss = score.loss / score.count,
                               .metric = weir_trainer_metric(t),
                               .value = weir_trainer_value(t, &score),
                               .params_hash = weir_trainer_hash(t)};
    return WEIR_OK;
}

static weir_err evaluate_rank(weir_comm *comm, void *arg)
{
    evaluating *e = arg;

    e->t = (weir_trainer){.set = &e->set, .rank_info = e->rank_info, .comm = comm};
    return evaluate(e, &e->t);
}

static void close_trainer(void *arg) { weir_trainer_close(&((evaluating *)arg)->t); }

static weir_err rank_main(weir_net *net, void *arg)
{
    return weir_comm_run(net, &(weir_compute){evaluate_rank, close_trainer, arg});
}

weir_err weir_eval_run(const char *checkpoint, const weir_settings *set,
                       const weir_rank_info *rank_info, weir_warned *warned, weir_result *result)
{
    char from[PATH_MAX];
    evaluating e = {.checkpoint = checkpoint,
                    .set = *set,
                    .rank_info = rank_info,
                    .warned = warned,
                    .result = result,
                    .arena = weir_arena_new()};

    if (!e.arena)
        return weir_fail_nomem(0);
    if (getcwd(from, sizeof from) && from[0] == '/')
        e.set.from = from;
    weir_err err = weir_net_run(set->net, rank_info, rank_main, &e);
    weir_arena_free(e.arena);
    return err;
}
