/* step.c - the step, on one page.
 *
 *   data -> forward -> backward -> bucket full -> comm task: exchange   (while backward goes on)
 *                                  all buckets in -> commit: optimiser, layer state -> parameters
 *
 * ready */
#include "train/trainer.h"
#include <math.h>
#include <signal.h>
#include <string.h>

static float *notes(weir_trainer *t) { return t->grad + t->params; }

double weir_trainer_loss(weir_trainer *t) { return t->dry ? NAN : notes(t)[WEIR_NOTE_LOSS]; }

static void note_bytes(float *at, uint64_t bytes)
{
    for (int i = 0; i < 3; i++)
        at[i] = (float)(bytes >> 14 * i & 0x3fff);
}
static double noted_bytes(const float *at)
{
    return (double)at[0] + 16384.0 * ((double)at[1] + 16384.0 * (double)at[2]);
}

/* What this rank adds to the step's sums besides its gradient. */
static void write_notes(weir_trainer *t, const weir_score *score, double divisor)
{
    int stop = t->stop ? atomic_load(t->stop) : 0;
    float *note = notes(t);

    memset(note, 0, WEIR_NOTES * sizeof *note);
    note[WEIR_NOTE_LOSS] = (float)(score->loss / divisor);
    note[WEIR_NOTE_INT] = stop == SIGINT;
    note[WEIR_NOTE_HUP] = stop == SIGHUP;
    note[WEIR_NOTE_TERM] = stop && stop != SIGINT && stop != SIGHUP;
    note_bytes(&note[WEIR_NOTE_SENT], t->step_sent);
    note_bytes(&note[WEIR_NOTE_RECEIVED], t->step_received);
    for (int i = 0; i < WEIR_NOTES && t->exact; i++)
        t->exact[t->params + (size_t)i] =
            i == WEIR_NOTE_LOSS ? score->loss / divisor : (double)note[i];
}

static int stop_signal(const float *note)
{
    return note[WEIR_NOTE_TERM] > 0  ? SIGTERM
           : note[WEIR_NOTE_INT] > 0 ? SIGINT
           : note[WEIR_NOTE_HUP] > 0 ? SIGHUP
                                     : 0;
}

/* ---- on the comm task ---- */

static void count_bytes(weir_trainer *t, weir_net_count before)
{
    weir_net_count now = weir_net_counted(t->net);

    t->step_sent += now.sent - before.sent;
    t->step_received += now.received - before.received;
}

static weir_err exchange_bucket(void *lane)
{
    weir_lane *l = lane;
    weir_trainer *t = l->owner;
    weir_net_count before = weir_net_counted(t->net);

    if (l == t->lane)
        t->step_sent = t->step_received = 0;
    WEIR_TRY(t->exchange->bucket(t->exchanger, l, t->commit.turn));
    count_bytes(t, before);
    return WEIR_OK;
}

static weir_err exchange_finish(void *trainer)
{
    weir_trainer *t = trainer;
    weir_net_count before = weir_net_counted(t->net);

    if (!t->dry && !isfinite(notes(t)[WEIR_NOTE_LOSS]))
        return weir_fail(WEIR_NAN, "step %llu: the loss is not a number",
                         (unsigned long long)t->step + 1);
    weir_net_phase(t->net, WEIR_PHASE_UPDATE, t->step + 1);
    weir_profile_go_on(t->profile);
    WEIR_TRY(t->exchange->finish(t->exchanger, &t->commit));
    count_bytes(t, before);
    return WEIR_OK;
}

/* ---- on the compute thread ---- */

/* Backward has finished the tensors up to number k: the buckets they fill may leave. */
static void ready(void *trainer, int k)
{
    weir_trainer *t = trainer;

    if (k < t->stages)
        weir_profile_over(t->profile, WEIR_COST_BACK + k);
    while (!t->posting && t->next_lane < t->lanes && t->lane[t->next_lane].bucket->ready <= k)
        t->posting = weir_comm_post(t->comm, exchange_bucket, &t->lane[t->next_lane++]);
}

static bool is_over(const void *net) { return weir_net_over(net); }

/* In a simulated world computing takes no time of its own. */
void weir_trainer_heed(const weir_trainer *t, weir_pass *pass)
{
    pass->halt = weir_net_simulated(t->net) ? NULL : is_over;
    pass->halt_arg = t->net;
}

/* Not by exchanging something: where memory is common, what a lost rank did last stands there
 * still, and is taken for an answer. */
static weir_err lost_job(void *net) { return weir_net_lost(net); }

weir_err weir_trainer_lost(weir_trainer *t, weir_err halted)
{
    if (halted == WEIR_LOST)
        WEIR_TRY(weir_comm_call(t->comm, lost_job, t->net));
    return halted;
}

static weir_err compute(weir_trainer *t, weir_score *score, double divisor)
{
    int micro = t->plan.micro;

    t->next_lane = 0;
    for (int m = 0; m < micro; m++) {
        const weir_batch *b;
        uint64_t first;
        int n;
        WEIR_TRY(weir_loader_next(t->loader, &b));
        weir_plan_share(&t->plan, t->step, m, &first, &n);
        weir_model_batch batch = {
            .n = b->n, .x = b->x, .token = b->token, .label = b->label, .value = b->value};
        weir_pass pass = {.training = true,
                          .seed = t->plan.seed,
                          .step = t->step,
                          .first = first,
                          .micro = m,
                          .fresh = t->step % t->epoch_steps == 0};
        bool last = m == micro - 1;
        weir_trainer_heed(t, &pass);
        WEIR_TRY(weir_model_forward(t->model, &batch, &pass, score));
        if (last) {
            write_notes(t, score, divisor);
            weir_profile_over(t->profile, WEIR_COST_FORWARD);
            t->forwarded = weir_now(t->rt);
        }
        WEIR_TRY(
            weir_model_backward(t->model, (float)(1 / divisor), m > 0, last ? ready : NULL, t));
    }
    weir_profile_over(t->profile, WEIR_COST_BACK + t->stages);
    ready(t, INT32_MAX);
    return t->posting;
}

/* Of the step's samples those that this worker computes. */
static uint64_t own_samples(const weir_trainer *t)
{
    uint64_t first, samples = 0;
    int n;

    for (int m = 0; m < t->plan.micro; m++) {
        weir_plan_share(&t->plan, t->step, m, &first, &n);
        samples += (uint64_t)n;
    }
    return samples;
}

/* The same without a model: what it costs, and when its buckets leave. */
static weir_err rehearse(weir_trainer *t)
{
    t->next_lane = 0;
    weir_profile_over(t->profile, WEIR_COST_FORWARD);
    t->forwarded = weir_now(t->rt);
    for (int k = 0; k < t->stages; k++)
        ready(t, k);
    weir_profile_over(t->profile, WEIR_COST_BACK + t->stages);
    ready(t, INT32_MAX);
    return t->posting;
}

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

/* The step is committed on all ranks. */
static void settle_accounts(weir_trainer *t, uint64_t samples)
{
    t->step++;
    t->samples += samples;
    t->sent += t->step_sent;
    if (weir_lane_warm(&t->lane[0], t->commit.turn)) {
        t->warm_sent += t->step_sent;
        t->warm_steps++;
    }
    t->received += t->step_received;
    weir_profile_commit(t->profile);
    if (t->dry)
        return;
    t->stopped = stop_signal(notes(t));
    t->last.sent = noted_bytes(&notes(t)[WEIR_NOTE_SENT]);
    t->last.received = noted_bytes(&notes(t)[WEIR_NOTE_RECEIVED]);
    t->last.whole = true;
}

/* What codecs have counted; the next step's count begins anew. */
static void report_codecs(weir_trainer *t, weir_step_report *report)
{
    double sent = 0, all = 0;

    for (weir_lane *l = t->lane; l < t->lane + t->lanes; l++) {
        report->codec_s += l->codec_s;
        report->wire_s += l->wire_s;
        l->codec_s = l->wire_s = 0;
        sent += weir_lane_sparse(l) ? (double)l->told.sent : 0;
        all += weir_lane_sparse(l) ? (double)l->bucket->n : 0;
    }
    report->density = t->dry ? NAN : all > 0 ? sent / all : 1;
}

weir_err weir_trainer_step(weir_trainer *t, weir_step_report *report)
{
    uint64_t samples = weir_plan_samples(&t->plan, t->step);
    double begun = weir_now(t->rt), computed;
    weir_score score = {0};
    weir_err err;

    weir_net_phase(t->net, WEIR_PHASE_COMPUTE, t->step + 1);
    t->commit =
        (weir_commit){.turn = {.step = t->step,
                               .epochs = t->steady ? 1e9 : (double)t->step / (double)t->epoch_steps,
                               .rate = weir_rate_at(&t->rate, t->step)},
                      .clip = t->set->clip,
                      .keep = true};
    t->commit.rate = t->commit.turn.rate;
    weir_profile_begin(t->profile, own_samples(t));
    if ((err = t->dry ? rehearse(t) : compute(t, &score, (double)samples * t->per_sample)))
        return weir_trainer_lost(t, err);
    computed = weir_now(t->rt);
    weir_net_phase(t->net, WEIR_PHASE_EXCHANGE, t->step + 1);
    if ((err = weir_comm_call(t->comm, exchange_finish, t)))
        return blame(t, err);
    if (!t->dry) {
        weir_model_commit(t->model);
        weir_model_refresh(t->model);
    }
    weir_profile_over(t->profile, WEIR_COST_BACK + t->stages + 1);
    settle_accounts(t, samples);
    *report = (weir_step_report){.step = t->step,
                                 .samples = samples,
                                 .epoch = (double)t->step / (double)t->epoch_steps,
                                 .loss = weir_trainer_loss(t),
                                 .rate = t->commit.rate,
                                 .norm = t->commit.norm,
                                 .seconds = weir_now(t->rt) - begun,
                                 .forward_s = t->forwarded - begun,
                                 .compute_s = computed - begun,
                                 .wait_s = weir_now(t->rt) - computed,
                                 .apart = t->commit.apart};
    report_codecs(t, report);
    return WEIR_OK;
}

weir_err weir_trainer_flush(weir_trainer *t, weir_step_report *report)
{
    double bytes[] = {(double)t->step_sent, (double)t->step_received};

    WEIR_TRY(weir_trainer_sum(t, bytes, 2));
    report->sent = bytes[0];
    report->received = bytes[1];
    report->whole = true;
    return WEIR_OK;
}
