/* step.c - the step, on one page.
 *
 *   begin: what is fixed for all of it
 *   data -> forward -> backward -> bucket full -> comm task: exchange   (while backward goes on)
 *   all buckets in -> finish: the exchange commits -> commit: layer state -> parameters ready */
#include "train/elastic.h"
#include "train/progress.h"
#include "train/stop.h"
#include <math.h>
#include <string.h>

static float *notes(const weir_trainer *t) { return t->grad + t->params; }

/* In a dry world there are none. */
static weir_noted read_notes(const weir_trainer *t)
{
    return t->dry ? (weir_noted){.loss = NAN, .sent = NAN, .received = NAN}
                  : weir_notes_read(notes(t));
}

double weir_trainer_loss(const weir_trainer *t) { return read_notes(t).loss; }

/* ---- the beginning ---- */

/* Of the step's samples those that this worker computes. */
static uint64_t own_samples(const weir_trainer *t)
{
    uint64_t first, samples = 0;
    int n;

    for (int m = 0; m < t->plan.micro; m++) {
        weir_sample_plan_slice(&t->plan, t->cursor, m, &first, &n);
        samples += (uint64_t)n;
    }
    return samples;
}

static void begin_step(weir_trainer *t)
{
    uint64_t samples = weir_sample_plan_samples(&t->plan, t->cursor);
    weir_when when = {.step = t->step,
                      .epochs = t->steady ? 1e9 : weir_progress_epochs(t),
                      .rate = weir_progress_rate(t)};

    t->now = (weir_step){
        .begun = weir_now(t->rt),
        .samples = samples,
        .divisor = (double)samples * t->per_sample,
        .commit = {.when = when, .rate = when.rate, .clip = t->set->clip, .keep = true}};
    weir_net_phase(t->net, WEIR_PHASE_COMPUTE, t->step + 1);
    weir_profile_begin(t->profile, own_samples(t));
}

/* ---- on the comm task ---- */

static void count_bytes(weir_trainer *t, weir_net_count before)
{
    weir_net_count now = weir_net_counted(t->net);

    t->now.sent += now.sent - before.sent;
    t->now.received += now.received - before.received;
}

static weir_err exchange_bucket(void *lane)
{
    weir_lane *l = lane;
    weir_trainer *t = l->owner;
    weir_net_count before = weir_net_counted(t->net);

    WEIR_WITNESS(t, WEIR_SEEN_LEAVES, l);
#ifdef WEIR_BUG_BUCKET /* tests/check_storm: what the first one gives is lost after a change */
    if (l == t->lane && t->mesh.all.me == 0 && weir_net_generation(t->net) > 0)
        memset(l->bucket->grad, 0, l->bucket->n * sizeof *l->bucket->grad);
#endif
    WEIR_TRY(t->exchange->bucket(t->exchanger, l, t->now.commit.when));
    count_bytes(t, before);
    return WEIR_OK;
}

static weir_err exchange_finish(void *trainer)
{
    weir_trainer *t = trainer;
    weir_net_count before = weir_net_counted(t->net);

    if (!t->dry && !isfinite(weir_trainer_loss(t)))
        return weir_fail(WEIR_NAN, "step %llu: the loss is not a number",
                         (unsigned long long)t->step + 1);
    weir_net_phase(t->net, WEIR_PHASE_UPDATE, t->step + 1);
    weir_profile_go_on(t->profile);
    WEIR_TRY(t->exchange->finish(t->exchanger, &t->now.commit));
    count_bytes(t, before);
    return WEIR_OK;
}

/* ---- on the compute thread: forward, backward, buckets leave ---- */

/* Those that are full when backward has finished the tensors up to number k. */
static void buckets_leave(weir_trainer *t, int k)
{
    weir_step *s = &t->now;

    while (!s->posting && s->next_lane < t->lanes && t->lane[s->next_lane].bucket->ready <= k)
        s->posting = weir_line_post(t->line, exchange_bucket, &t->lane[s->next_lane++]);
}

static void forward_over(weir_trainer *t)
{
    weir_profile_over(t->profile, WEIR_COST_FORWARD);
    t->now.forwarded = weir_now(t->rt);
}

static void stage_over(void *trainer, int k)
{
    weir_trainer *t = trainer;

    weir_profile_over(t->profile, WEIR_COST_BACK + k);
    buckets_leave(t, k);
}

static weir_err backward_over(weir_trainer *t)
{
    weir_profile_over(t->profile, WEIR_COST_BACK + t->stages);
    buckets_leave(t, INT32_MAX);
    t->now.computed = weir_now(t->rt);
    return t->now.posting;
}

/* What this rank adds to the step's sums besides its gradient. */
static void write_notes(weir_trainer *t)
{
    weir_notes mine = {.loss = t->now.score.loss / t->now.divisor,
                       .stop = weir_stop_here(t),
                       .leaves = weir_elastic_leaves(t),
                       .guests = weir_elastic_invites(t),
                       .sent = t->traffic.last_sent,
                       .received = t->traffic.last_received};

    weir_notes_write(&mine, notes(t), t->exact ? t->exact + t->params : NULL);
}

static weir_err forward(weir_trainer *t, int m)
{
    weir_pass pass = {.training = true,
                      .seed = t->plan.seed,
                      .step = t->step,
                      .micro = m,
                      .fresh = t->cursor.used == 0};
    const weir_data_batch *b;
    int n;

    WEIR_TRY(weir_loader_next(t->loader, &b));
    WEIR_WITNESS(t, WEIR_SEEN_BATCH, b);
    weir_sample_plan_slice(&t->plan, t->cursor, m, &pass.first, &n);
    weir_model_batch batch = {
        .n = b->n, .x = b->x, .token = b->token, .label = b->label, .value = b->value};
    weir_trainer_heed(t, &pass);
    return weir_model_forward(t->model, &batch, &pass, &t->now.score);
}

/* Micro-batch by micro-batch; buckets fill in the last one's backward. */
static weir_err fill_gradient(weir_trainer *t)
{
    float scale = (float)(1 / t->now.divisor);
    int last = t->plan.micro - 1;

    for (int m = 0; m < last; m++) {
        WEIR_TRY(forward(t, m));
        WEIR_TRY(weir_model_backward(t->model, scale, m > 0, NULL, NULL));
    }
    WEIR_TRY(forward(t, last));
    write_notes(t);
    forward_over(t);
    WEIR_TRY(weir_model_backward(t->model, scale, last > 0, stage_over, t));
    return backward_over(t);
}

/* The same without a model: what it costs, and when its buckets leave. */
static weir_err rehearse(weir_trainer *t)
{
    forward_over(t);
    for (int k = 0; k < t->stages; k++)
        stage_over(t, k);
    return backward_over(t);
}

/* ---- the end ---- */

/* The exchange's word that something is not a number, with the layer where it began if that was
 * here. */
static weir_err blame(weir_trainer *t, weir_err err)
{
    const char *layer = err == WEIR_NAN ? weir_model_blame(t->model) : NULL;

    return layer ? weir_fail(err,
                             "step %llu: the loss is not a number: the output of layer %s is the "
                             "first that is not finite; try a smaller --lr or --clip",
                             (unsigned long long)t->step + 1, layer)
                 : err;
}

/* When it has ended well all ranks have new parameters. */
static weir_err finish_step(weir_trainer *t)
{
    weir_net_phase(t->net, WEIR_PHASE_EXCHANGE, t->step + 1);
    weir_err err = weir_line_call(t->line, exchange_finish, t);
    return err ? blame(t, err) : WEIR_OK;
}

static void count_traffic(weir_traffic *all, const weir_step *s, bool warm)
{
    all->last_sent = s->sent;
    all->last_received = s->received;
    all->sent += s->sent;
    all->received += s->received;
    all->warm_sent += warm ? s->sent : 0;
    all->warm_steps += warm;
}

static void commit_step(weir_trainer *t)
{
    if (!t->dry) {
        weir_model_commit(t->model);
        weir_model_refresh(t->model);
    }
    weir_profile_over(t->profile, WEIR_COST_BACK + t->stages + 1);
    weir_profile_commit(t->profile);
    count_traffic(&t->traffic, &t->now, weir_lane_warm(&t->lane[0], t->now.commit.when));
    weir_progress_advance(t);
    WEIR_WITNESS(t, WEIR_SEEN_COMMIT, NULL);
}

weir_err weir_trainer_step(weir_trainer *t, weir_step_report *whole)
{
    weir_err err;

    begin_step(t);
    if ((err = t->dry ? rehearse(t) : fill_gradient(t)))
        return weir_trainer_lost(t, err);
    WEIR_TRY(finish_step(t));
    commit_step(t);
    weir_noted all = read_notes(t);
    weir_elastic_heed(t, &all);
    weir_step_report_take(t, all.sent, all.received, whole);
    weir_step_report_make(t);
    return WEIR_OK;
}
