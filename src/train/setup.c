/* setup.c - opening and closing a trainer. */
#include "coll/flight.h"
#include "core/hash.h"
#include "exchange/buckets.h"
#include "train/elastic.h"
#include "train/groups.h"
#include "train/progress.h"
#include "train/resume.h"
#include "train/run_data.h"
#include "train/run_model.h"
#include "train/saver.h"
#include <string.h>
#include <unistd.h>

enum { EVAL_BATCH = 128 };
/* bytes; so many at least, if they are not too small to be worth a message */
enum { MOST_BUCKET = 4 << 20, LEAST_BUCKET = 128 << 10, BUCKETS = 4 };

static weir_model_input model_input(const weir_data_facts *f)
{
    static const weir_score_kind kind[] = {[WEIR_TARGET_CLASSES] = WEIR_SCORE_CLASSES,
                                           [WEIR_TARGET_TOKENS] = WEIR_SCORE_TOKENS,
                                           [WEIR_TARGET_VALUES] = WEIR_SCORE_VALUES};
    weir_model_input in = {.dims = f->dims,
                           .tokens = f->tokens_in,
                           .kind = kind[f->target],
                           .classes = f->classes};

    memcpy(in.dim, f->dim, sizeof in.dim);
    return in;
}

static void count_stages(weir_trainer *t)
{
    int tensors;
    const weir_tensor *tensor = weir_model_tensors(t->model, &tensors);

    for (int i = 0; i < tensors; i++)
        t->stages = tensor[i].ready >= t->stages ? tensor[i].ready + 1 : t->stages;
}

/* What a profile is of. Threads that nobody asked for are no reason to refuse one. */
static weir_workload workload(const weir_trainer *t)
{
    const weir_data_facts *f = &t->data.facts;
    bool asked = t->set->threads || !weir_net_simulated(t->net);
    weir_workload of = {.model = t->set->model,
                        .params = t->params,
                        .stages = t->stages,
                        .threads = asked ? t->threads : 0};
    size_t n = 0;

    for (int i = 0; i < f->dims && n < sizeof of.input; i++)
        n += (size_t)snprintf(of.input + n, sizeof of.input - n, "%s%lld", i ? "x" : "",
                              (long long)f->dim[i]);
    return of;
}

/* A real world takes it down from nothing, a simulated one has it from a file. Without a file:
 * where the net says what a piece of work costs, there are pieces all the same. */
static weir_err open_profile(weir_trainer *t)
{
    const char *path = t->set->profile;
    weir_workload of = workload(t);

    if (!path && !t->facts.net.costs)
        return WEIR_OK;
    if (!path || !weir_net_simulated(t->net))
        return weir_profile_new(t->net, &of, t->arena, &t->profile);
    WEIR_TRY(weir_profile_load(path, t->net, &of, t->arena, &t->profile));
    if (t->dry) /* nothing is computed: the threads are those of the file */
        t->threads = t->profile->of.threads;
    return WEIR_OK;
}

/* With the model all facts are known: before anything is made that depends on their fitting. */
static weir_err judge(weir_trainer *t)
{
    t->facts.ranks = t->mesh.all.size;
    t->facts.model = weir_model_look(t->model);
    return weir_refuse(&t->facts);
}

static weir_err open_model(weir_trainer *t)
{
    weir_model_input in = model_input(&t->data.facts);
    int room = weir_sample_plan_room(&t->plan);

    in.file = &t->model_file;
    t->small = in.small = t->facts.feedback ? (size_t)t->facts.feedback->small : WEIR_SMALL;
    t->per_sample = t->data.facts.target == WEIR_TARGET_TOKENS ? (double)t->data.facts.dim[0] : 1;
    /* windows of text are large: evaluation takes no more of them than training */
    t->eval_batch = room > EVAL_BATCH || (t->per_sample > 1 && room) ? room : EVAL_BATCH;
    t->threads = (int)t->set->threads;
    if (!t->threads) {
        long cores = sysconf(_SC_NPROCESSORS_ONLN) / weir_net_here(t->net);
        t->threads = cores > 1 ? (int)cores : 1;
    }
    weir_model_threads(t->threads);
    WEIR_TRY(weir_model_open(t->set->model, &in, t->eval_batch, t->arena, &t->model));
    WEIR_TRY(judge(t));
    t->params = weir_model_params(t->model);
    count_stages(t);
    if (t->dry)
        return WEIR_OK;
    t->param = WEIR_NEW(t->arena, float, t->params);
    return t->param ? WEIR_OK : weir_fail_nomem(t->params * sizeof(float));
}

static size_t bucket_bytes(const weir_trainer *t)
{
    size_t bytes = t->params * sizeof(float) / BUCKETS;

    if (t->witness && t->witness->bucket)
        return t->witness->bucket;
    return bytes < LEAST_BUCKET ? LEAST_BUCKET : bytes > MOST_BUCKET ? MOST_BUCKET : bytes;
}

static weir_err open_lanes(weir_trainer *t)
{
    const weir_settings *s = t->set;
    const weir_facts *f = &t->facts;
    weir_bucket *bucket;
    weir_cut_rules rules = {bucket_bytes(t), f->codec->whole || f->optim->whole, f->codec->raw,
                            t->small};
    weir_flat flat = {.param = t->param, .grad = t->grad};
    flat.tensor = weir_model_tensors(t->model, &flat.tensors);
    WEIR_TRY(weir_buckets_cut(&flat, &rules, t->arena, &bucket, &t->lanes));
    /* dry: one without a memory */
    WEIR_TRY(
        weir_lanes_make(bucket, t->lanes, s->codec, t->dry ? "sgd" : s->optim, t->arena, &t->lane));
    t->lane[t->lanes - 1].notes = WEIR_EXCHANGE_NOTES;
    for (int i = 0; i < t->lanes; i++)
        t->lane[i].owner = t;
    weir_groups_point_lanes(t);
    t->exchange = f->exchange;
    return weir_plug_make(&f->exchange->plug, "exchange", s->exchange, t->arena, &t->exchanger);
}

weir_err weir_trainer_enter(weir_trainer *t)
{
    weir_flight *flight;

    t->net = weir_comm_net(t->comm);
    t->line = weir_comm_line(t->comm);
    t->rt = weir_net_rt(t->net);
    weir_net_phase(t->net, WEIR_PHASE_LOAD, 0);
    if (!(t->arena = weir_arena_new()))
        return weir_fail_nomem(0);
    t->dry = weir_net_dry(t->net);
    WEIR_TRY(weir_mesh_open(&t->mesh, t->net));
    WEIR_TRY(weir_mesh_lead(&t->mesh, (int)t->set->leader));
    if (!(flight = WEIR_NEW(t->arena, weir_flight, 1)))
        return weir_fail_nomem(sizeof *flight);
    weir_mesh_record(&t->mesh, flight);
    return WEIR_OK;
}

weir_err weir_trainer_open(weir_trainer *t)
{
    WEIR_TRY(weir_facts_read(t->set, t->arena, &t->facts));
    WEIR_TRY(weir_resume_find(t));
    WEIR_TRY(weir_run_model_read(t));
    WEIR_TRY(weir_run_data_open(t));
    WEIR_TRY(weir_progress_open(t));
    WEIR_TRY(open_model(t));
    WEIR_TRY(open_profile(t));
    WEIR_TRY(weir_groups_open(t));
    if (!t->dry)
        weir_model_init(t->model, (uint64_t)t->set->seed);
    WEIR_TRY(open_lanes(t));
    return weir_groups_enter(t);
}

void weir_trainer_close(weir_trainer *t)
{
    if (t->line) { /* whatever it was doing uses what goes now */
        weir_line_clear(t->line);
        weir_elastic_close(t);
        weir_groups_close(t);
    }
    weir_saver_close(t);
    weir_loader_close(t->loader);
    weir_model_close(t->model);
    if (t->data.data)
        weir_data_close(&t->data);
    weir_arena_free(t->arena);
}

uint64_t weir_trainer_hash(const weir_trainer *t)
{
    return weir_hash(t->param, t->dry ? 0 : t->params * sizeof(float), 0);
}

weir_err weir_trainer_state(void *trainer, weir_io *io)
{
    weir_trainer *t = trainer;

    WEIR_TRY(weir_io_u64(io, "step", &t->step, WEIR_KEEP_SAME));
    WEIR_TRY(weir_io_u64(io, "samples", &t->samples, WEIR_KEEP_SAME));
    for (int i = 0; i < t->lanes; i++)
        WEIR_TRY(weir_lane_state(&t->lane[i], io));
    if (t->exchange->state)
        WEIR_TRY(t->exchange->state(t->exchanger, io));
    if (t->coll.coll && t->coll.coll->state)
        WEIR_TRY(t->coll.coll->state(t->coll.self, io));
    return weir_model_state(t->model, io);
}
