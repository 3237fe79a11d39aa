/* loader.c - a task that stays `ahead` batches in front. Batches go round between two queues: free
 * ones to the task, full ones to the trainer. Each queue has room for all of them, so putting never
 * waits; shutting both ends the task wherever it is. */
#include "data/loader.h"
#include <stdlib.h>
#include <string.h>

struct weir_loader {
    const weir_data_use *data;
    weir_sample_plan plan;
    weir_loader_from next; /* to be prepared: the task's */
    weir_arena *arena;
    weir_data_batch *batch; /* `ahead` + 1 of them */
    uint64_t *index;        /* of the samples being fetched: the task's */
    weir_queue *free, *full;
    weir_task *task;       /* NULL after its end was seen */
    weir_data_batch *lent; /* what the last weir_loader_next gave */
    weir_err failed;       /* why the task ended, for every later call */
    char why[WEIR_WHY_MAX];
};

static weir_err fill(const weir_loader *l, int m, weir_data_batch *batch)
{
    weir_cursor at = l->next.at;
    weir_data_pick pick = {.part = WEIR_DATA_TRAIN,
                           .seed = l->plan.seed,
                           .step = l->next.step,
                           .index = l->index};

    weir_sample_plan_slice(&l->plan, at, m, &pick.first, &pick.n);
    for (int i = 0; i < pick.n; i++)
        l->index[i] = weir_sample_plan_index(&l->plan, at, pick.first + (uint64_t)i);
    batch->n = 0;
    return pick.n ? l->data->data->get(l->data->self, &pick, batch) : WEIR_OK;
}

static weir_err prepare(weir_loader *l)
{
    for (;; l->next.step++, weir_plan_advance(&l->plan, &l->next.at))
        for (int m = 0; m < l->plan.micro; m++) {
            void *batch;
            WEIR_TRY(weir_queue_get(l->free, &batch, WEIR_NEVER));
            WEIR_TRY(fill(l, m, batch));
            WEIR_TRY(weir_queue_put(l->full, batch));
        }
}

/* Its end, whatever the cause, wakes a trainer that waits: what was ready is still handed over
 * first. */
static weir_err run(void *arg)
{
    weir_loader *l = arg;
    weir_err err = prepare(l);

    weir_queue_shut(l->full);
    return err;
}

static weir_err allocate(weir_loader *l, weir_rt *rt, int batches)
{
    int room = weir_sample_plan_room(&l->plan);

    if (!(l->batch = WEIR_NEW(l->arena, weir_data_batch, batches)))
        return weir_fail_nomem((size_t)batches * sizeof *l->batch);
    if (!(l->index = WEIR_NEW(l->arena, uint64_t, room)))
        return weir_fail_nomem((size_t)room * sizeof *l->index);
    WEIR_TRY(weir_queue_new(rt, batches, &l->free));
    WEIR_TRY(weir_queue_new(rt, batches, &l->full));
    for (int i = 0; i < batches; i++) {
        WEIR_TRY(weir_data_batch_new(&l->data->facts, room, l->arena, &l->batch[i]));
        WEIR_TRY(weir_queue_put(l->free, &l->batch[i]));
    }
    return WEIR_OK;
}

weir_err weir_loader_open(weir_rt *rt, const weir_data_use *data, const weir_sample_plan *plan,
                          weir_loader_from from, int ahead, weir_loader **loader)
{
    weir_loader *l;
    weir_err err;

    WEIR_TRY(weir_sample_plan_check(plan));
    if (plan->count > data->facts.count[WEIR_DATA_TRAIN] || from.at.rows > plan->count ||
        from.at.used >= from.at.rows ||
        plan->streams != (uint64_t)data->facts.streams[WEIR_DATA_TRAIN] || ahead < 1 ||
        ahead > 1024)
        return weir_fail(WEIR_FAILED,
                         "a loader of %llu samples in %llu streams, %d batches ahead, does not fit "
                         "data of %llu in %lld",
                         (unsigned long long)plan->count, (unsigned long long)plan->streams, ahead,
                         (unsigned long long)data->facts.count[WEIR_DATA_TRAIN],
                         (long long)data->facts.streams[WEIR_DATA_TRAIN]);
    if (!(l = calloc(1, sizeof *l)))
        return weir_fail_nomem(sizeof *l);
    *l = (weir_loader){.data = data, .plan = *plan, .next = from, .arena = weir_arena_new()};
    err = l->arena ? allocate(l, rt, ahead + 1) : weir_fail_nomem(0);
    if (!err)
        err = weir_task_start(rt, "loader", run, l, &l->task);
    if (err)
        weir_loader_close(l);
    else
        *loader = l;
    return err;
}

/* The full queue is shut and empty: the task has ended, and says why. */
static weir_err ended(weir_loader *l)
{
    if (l->task) {
        l->failed = weir_task_join(l->task);
        snprintf(l->why, sizeof l->why, "%s", weir_why_text());
        l->task = NULL;
    }
    return weir_fail(l->failed, "%s", l->why);
}

weir_err weir_loader_next(weir_loader *l, const weir_data_batch **batch)
{
    void *item;
    weir_err err;

    if (l->lent) {
        err = weir_queue_put(l->free, l->lent);
        l->lent = NULL;
        WEIR_TRY(err);
    }
    if ((err = weir_queue_get(l->full, &item, WEIR_NEVER)) == WEIR_SHUT)
        return ended(l);
    WEIR_TRY(err);
    *batch = l->lent = item;
    return WEIR_OK;
}

/* Why the task ended is nobody's concern here: the sentence of an error that is being unwound
 * stays. */
void weir_loader_close(weir_loader *l)
{
    weir_why spare, *mine;

    if (!l)
        return;
    if (l->task) {
        weir_queue_shut(l->full);
        weir_queue_shut(l->free);
        mine = weir_why_use(&spare);
        weir_task_join(l->task);
        weir_why_use(mine);
    }
    weir_queue_free(l->full);
    weir_queue_free(l->free);
    weir_arena_free(l->arena);
    free(l);
}
