/* groups.c - see groups.h. */
#include "train/groups.h"
#include "nn/parallel.h"

/* ---- memory that is summed ---- */

/* On the comm task: where the collective sums it best. */
static weir_err place(weir_trainer *t, size_t width, void **at)
{
    return weir_coll_memory(&t->coll, &t->mesh.all, (t->params + WEIR_EXCHANGE_NOTES) * width,
                            t->mesh.arena, at);
}

static weir_err place_all(void *trainer)
{
    weir_trainer *t = trainer;
    void *grad, *exact = NULL;

    WEIR_TRY(place(t, sizeof(float), &grad));
    if (t->set->exact)
        WEIR_TRY(place(t, sizeof(double), &exact));
    t->grad = grad;
    t->exact = exact;
    return WEIR_OK;
}

static weir_err sum_for_model(void *trainer, double *x, size_t n)
{
    return weir_trainer_sum(trainer, x, (int)n);
}

/* Which streams this worker carries state of: its slice of every step. */
static weir_err name_streams(weir_trainer *t)
{
    uint64_t first, at, count = 0;
    int n;

    if (!t->data.facts.streams[WEIR_DATA_TRAIN])
        return WEIR_OK;
    weir_cursor begin = weir_plan_at(&t->plan, 0);
    weir_sample_plan_slice(&t->plan, begin, 0, &first, &n);
    for (int m = 0; m < t->plan.micro; m++) {
        weir_sample_plan_slice(&t->plan, begin, m, &at, &n);
        count += (uint64_t)n;
    }
    return weir_model_streams(t->model, first, count,
                              (uint64_t)t->data.facts.streams[WEIR_DATA_TRAIN]);
}

static weir_err attach_model(weir_trainer *t)
{
    WEIR_TRY(weir_line_call(t->line, place_all, t));
    weir_model_attach(t->model, t->param, t->grad);
    if (t->exact)
        WEIR_TRY(weir_model_exact(t->model, t->exact));
    weir_model_on_sum(t->model, t->mesh.all.size > 1 ? sum_for_model : NULL, t);
    weir_model_room(t->model, weir_sample_plan_room(&t->plan));
    return name_streams(t);
}

weir_err weir_groups_open(weir_trainer *t)
{
    WEIR_TRY(weir_coll_open(t->set->coll, &t->mesh.all, t->mesh.arena, &t->coll));
#ifdef WEIR_BUG_SAMPLE /* tests/check_storm: samples are dealt to members as they were numbered */
    if (weir_net_generation(t->net) == 0 || t->mesh.same->me == 0)
#endif
        t->plan.rank = t->mesh.same->me;
    t->plan.size = t->mesh.same->size;
    if (!t->dry)
        WEIR_TRY(attach_model(t));
    t->replica = (weir_replica){.coll = &t->coll, .group = &t->mesh.all, .param = t->param};
    t->replica.tensor = weir_model_tensors(t->model, &t->replica.tensors);
    return weir_replica_open(&t->replica, t->mesh.arena);
}

/* ---- the exchange ---- */

/* A loop over the threads of the model. */
typedef struct lent_loop {
    int64_t n;
    void (*part)(void *, int64_t, int64_t);
    void *arg;
} lent_loop;

static void run_loop(void *loop)
{
    const lent_loop *l = loop;

    weir_parallel_for(l->n, 1, l->part, l->arg);
}

static void parallel_for(void *trainer, int64_t n, void (*part)(void *, int64_t, int64_t),
                         void *arg)
{
    weir_line_lend(((weir_trainer *)trainer)->line, run_loop, &(lent_loop){n, part, arg});
}

static weir_exchange_env env(weir_trainer *t)
{
    return (weir_exchange_env){.same = t->mesh.same,
                               .all = &t->mesh.all,
                               .coll = &t->coll,
                               .lane = t->lane,
                               .lanes = t->lanes,
                               .arena = t->arena,
                               .group_arena = t->mesh.arena,
                               .parallel_for = t->threads > 1 ? parallel_for : NULL,
                               .parallel_self = t,
                               .seed = (uint64_t)t->set->seed,
                               .clip = t->set->clip};
}

void weir_groups_point_lanes(weir_trainer *t)
{
    for (weir_lane *l = t->lane; l < t->lane + t->lanes; l++) {
        if (!t->dry)
            l->bucket->grad = t->grad + l->bucket->at;
        l->exact = t->exact ? t->exact + l->bucket->at : NULL;
    }
}

weir_err weir_groups_enter(weir_trainer *t)
{
    weir_exchange_env e = env(t);

    return t->exchange->init(t->exchanger, &e);
}

/* ---- other members ---- */

typedef struct renewal {
    weir_trainer *t;
    const weir_members *members;
} renewal;

/* On the comm task, as something may be in flight. */
static weir_err leave(void *trainer)
{
    weir_trainer *t = trainer;

    if (t->exchanger && t->exchange->close)
        t->exchange->close(t->exchanger);
    t->coll = (weir_coll_use){0};
    return WEIR_OK;
}

static weir_err leave_and_renew(void *renewing)
{
    const renewal *r = renewing;

    leave(r->t);
    return weir_mesh_renew(&r->t->mesh, r->members->generation, r->members->member,
                           r->members->count);
}

static weir_err regroup(void *trainer)
{
    weir_trainer *t = trainer;
    weir_exchange_env e = env(t);

    return t->exchange->regroup(t->exchanger, &e);
}

weir_err weir_groups_renew(weir_trainer *t, const weir_members *m)
{
    WEIR_TRY(weir_line_call(t->line, leave_and_renew, &(renewal){t, m}));
    WEIR_TRY(weir_groups_open(t));
    weir_groups_point_lanes(t);
    return weir_line_call(t->line, regroup, t);
}

static weir_err leave_all(void *trainer)
{
    leave(trainer);
    weir_mesh_close(&((weir_trainer *)trainer)->mesh);
    return WEIR_OK;
}

void weir_groups_close(weir_trainer *t) { weir_line_call(t->line, leave_all, t); }
