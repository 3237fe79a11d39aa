/* report.c - the log's events and the lines for people. */
#include "train/report.h"
#include "core/log.h"
#include "core/vec.h"
#include "exchange/choose.h"
#include "train/progress.h"
#include "train/saver.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void weir_tally_step(weir_tally *y, const weir_step_report *r)
{
    y->steps++;
    y->samples += r->samples;
    y->train_s += r->seconds;
    y->loss = r->loss;
    y->loss_sum += r->loss * (double)r->samples;
    y->loss_n += (double)r->samples;
}

void weir_tally_evaluated(weir_tally *y, const weir_trainer *t, const weir_score *score,
                          double seconds)
{
    bool more_is_better = t->data.facts.target == WEIR_TARGET_CLASSES;

    y->value = weir_trainer_value(t, score);
    y->eval_loss = score->loss / score->count;
    y->eval_s += seconds;
    if (!y->evaluated || (more_is_better ? y->value > y->best : y->value < y->best))
        y->best = y->value;
    y->evaluated = true;
}

weir_err weir_report_start(weir_journal *j, const weir_trainer *t)
{
    const weir_settings *s = t->set;
    weir_json *e = weir_journal_event(j, "start");
    uint64_t unknown = t->data.facts.unknown[WEIR_DATA_TEST];

    if (t->step)
        weir_journal_say(j, "resumed from %s at step %llu", s->resume, (unsigned long long)t->step);
    weir_journal_say(j,
                     "weir %s: %s, %zu parameters, on %s: %d worker%s x %d thread%s, batch %lld, "
                     "%s, codec %s, %s over %s",
                     WEIR_VERSION, s->model, t->params, s->data, t->mesh.all.size,
                     t->mesh.all.size > 1 ? "s" : "", t->threads, t->threads > 1 ? "s" : "",
                     (long long)s->batch, s->exchange, s->codec, t->coll.coll->plug.name,
                     weir_net_name(t->net));
    if (unknown && !t->learnt)
        weir_journal_say(j, "%llu tokens of the test part are not in the training part: <unk>",
                         (unsigned long long)unknown);
    if (!e)
        return WEIR_OK;
    weir_json_put_text(e, "version", WEIR_VERSION);
    weir_json_put_text(e, "model", s->model);
    weir_json_put_int(e, "params", (int64_t)t->params);
    weir_json_put_text(e, "data", s->data);
    weir_json_put_int(e, "workers", t->mesh.all.size);
    weir_json_put_int(e, "threads", t->threads);
    weir_json_put_int(e, "batch", s->batch);
    weir_json_put_text(e, "exchange", s->exchange);
    weir_json_put_text(e, "codec", s->codec);
    weir_json_put_text(e, "coll", t->coll.coll->plug.name);
    weir_json_put_text(e, "net", weir_net_name(t->net));
    weir_json_put_int(e, "seed", s->seed);
    weir_json_put_text(e, "rank_source", t->rank_info->source);
    weir_json_put_text(e, "isa", weir_vec_best()->isa);
    weir_json_put_int(e, "step", (int64_t)t->step);
    if (t->data.facts.tokens_in)
        weir_json_put_int(e, "unknown", (int64_t)unknown);
    return weir_journal_write(j, e);
}

weir_err weir_report_warning(weir_journal *j, const char *text)
{
    weir_json *e = weir_journal_event(j, "warning");

    weir_log(WEIR_LOG_WARN, "train", "%s", text);
    if (e)
        weir_json_put_text(e, "what", text);
    return weir_journal_write(j, e);
}

static weir_err warn_of(weir_journal *j, const weir_trainer *t, const weir_lane_codec *c)
{
    char text[WEIR_WARN_MOST][WEIR_WHY_MAX];
    weir_warn_facts facts = {c->kind,    c->feedback,      t->lane->optim,        t->set->codec,
                             t->set->lr, (double)t->steps, (double)t->epoch_steps};
    int n = weir_warn_all(&facts, text);

    for (int i = 0; i < n; i++)
        WEIR_TRY(weir_report_warning(j, text[i]));
    return WEIR_OK;
}

/* What was noted so far, and what is known of each codec that the first lane may go by. */
weir_err weir_report_warnings(weir_journal *j, const weir_trainer *t)
{
    for (int i = 0; i < t->warned.n && j; i++)
        WEIR_TRY(weir_report_warning(j, t->warned.text[i]));
    for (int k = 0; k < t->lane->candidates && j; k++)
        WEIR_TRY(warn_of(j, t, &t->lane->candidate[k]));
    return WEIR_OK;
}

/* What a dense float32 ring all-reduce sends in one step, over all ranks. */
static double dense_bytes(const weir_trainer *t)
{
    return 8.0 * (double)t->params * (t->mesh.all.size - 1);
}

void weir_report_live(weir_journal *j, const weir_trainer *t, const weir_step_report *r)
{
    weir_journal_live(j, "step %llu of %llu  epoch %.2f  loss %.4f  rate %.4g  %.0f samples/s",
                      (unsigned long long)r->step, (unsigned long long)t->steps, r->epoch, r->loss,
                      r->rate, (double)r->samples / r->seconds);
}

weir_err weir_report_step(weir_journal *j, const weir_trainer *t, const weir_step_report *r)
{
    weir_json *e = weir_journal_event(j, "step");

    if (!e)
        return WEIR_OK;
    weir_json_put_int(e, "step", (int64_t)r->step);
    weir_json_put_real(e, "epoch", r->epoch);
    weir_json_put_int(e, "samples", (int64_t)r->samples);
    weir_json_put_real(e, "loss", r->loss);
    weir_json_put_real(e, "lr", r->rate);
    weir_json_put_real(e, "grad_norm", r->norm);
    weir_json_put_real(e, "samples_per_s", (double)r->samples / r->seconds);
    weir_json_put_int(e, "sent_bytes", (int64_t)r->sent);
    weir_json_put_int(e, "received_bytes", (int64_t)r->received);
    weir_json_put_int(e, "dense_bytes", (int64_t)dense_bytes(t));
    weir_json_put_real(e, "wait_ms", r->wait_s * 1e3);
    weir_json_put_real(e, "compute_ms", r->compute_s * 1e3);
    weir_json_put_real(e, "codec_ms", r->codec_s * 1e3);
    weir_json_put_real(e, "wire_ms", r->wire_s * 1e3);
    weir_json_put_real(e, "density", r->density);
    weir_json_put_real(e, "residual_norm", r->held);
    weir_json_put_real(e, "residual_over_tau", r->over);
    if (t->exchange->drifts)
        weir_json_put_int(e, "apart", r->apart);
    return weir_journal_write(j, e);
}

/* Of every policy that was looked at; those that were not tried have null for a time. */
static weir_json *policy_times(const weir_choice *c, bool measured)
{
    weir_json *j = weir_json_object();

    for (const weir_policy *p = c->policy; p < c->policy + c->policies; p++)
        if (!isnan(p->predicted) || p->tried)
            weir_json_put_real(j, p->name, 1e3 * (measured ? p->measured : p->predicted));
    return j;
}

void weir_report_put_choice(weir_json *e, const weir_choice *c)
{
    const int *pick = c->policy[c->taken].pick;
    weir_json *buckets = weir_json_array();

    for (int i = 0; i < c->lanes; i++)
        weir_json_add_text(buckets, c->lane[i].candidate[pick[i]].spec);
    weir_json_put_text(e, "why", c->why);
    weir_json_put_text(e, "taken", c->policy[c->taken].name);
    weir_json_put_text(e, "before", c->policy[c->before].name);
    weir_json_put(e, "predicted_ms", policy_times(c, false));
    weir_json_put(e, "measured_ms", policy_times(c, true));
    weir_json_put_real(e, "collective_us", 1e6 * c->collective);
    weir_json_put_real(e, "link_mbit_per_s", c->byte > 0 ? 8e-6 / c->byte : NAN);
    weir_json_put(e, "buckets", buckets);
}

weir_err weir_report_choice(weir_journal *j, const weir_trainer *t)
{
    bool trying;
    const weir_choice *c = t->exchange->choice ? t->exchange->choice(t->exchanger, &trying) : NULL;
    weir_json *e;

    if (!c)
        return WEIR_OK;
    if (c->taken != c->before || !strcmp(c->why, "first"))
        weir_journal_say(j, "step %llu  codec %s taken: %.2f ms a step, predicted %.2f; dense %.2f",
                         (unsigned long long)c->step, c->policy[c->taken].name,
                         1e3 * c->policy[c->taken].measured, 1e3 * c->policy[c->taken].predicted,
                         1e3 * c->policy[0].last);
    if (!(e = weir_journal_event(j, "choice")))
        return WEIR_OK;
    weir_json_put_int(e, "step", (int64_t)c->step);
    weir_report_put_choice(e, c);
    return weir_journal_write(j, e);
}

weir_err weir_report_eval(weir_journal *j, const weir_trainer *t, weir_tally *y)
{
    weir_json *e = weir_journal_event(j, "eval");
    char trained[40] = ""; /* nothing, where a resumed run has no step left */

    if (y->steps)
        snprintf(trained, sizeof trained, "  train loss %.4f",
                 y->loss_n > 0 ? y->loss_sum / y->loss_n : y->loss);
    weir_journal_say(j, "epoch %.2f  step %llu%s  test loss %.4f  %s %.4f  %.0f samples/s",
                     weir_progress_epochs(t), (unsigned long long)t->step, trained, y->eval_loss,
                     weir_trainer_metric(t), y->value,
                     y->train_s > 0 ? (double)y->samples / y->train_s : 0);
    y->loss_sum = y->loss_n = 0;
    if (!e)
        return WEIR_OK;
    weir_json_put_int(e, "step", (int64_t)t->step);
    weir_json_put_real(e, "epoch", weir_progress_epochs(t));
    weir_json_put_real(e, "loss", y->eval_loss);
    weir_json_put_text(e, "metric", weir_trainer_metric(t));
    weir_json_put_real(e, "value", y->value);
    return weir_journal_write(j, e);
}

weir_err weir_report_checkpoint(weir_journal *j, const weir_checkpoint_report *r)
{
    weir_json *e = weir_journal_event(j, "checkpoint");

    if (!e)
        return WEIR_OK;
    weir_json_put_int(e, "step", (int64_t)r->step);
    weir_json_put_text(e, "path", r->saved->path);
    weir_json_put_int(e, "bytes", (int64_t)r->saved->bytes);
    weir_json_put_real(e, "seconds", r->saved->seconds);
    weir_json_put_real(e, "stood_s", r->stood_s);
    weir_json_put_real(e, "waited_s", r->waited_s);
    return weir_journal_write(j, e);
}

weir_err weir_report_fault(weir_journal *j, const weir_fault *f, const char *action)
{
    weir_json *e = f->code ? weir_journal_event(j, "fault") : NULL;

    if (!e)
        return WEIR_OK;
    weir_json_put_int(e, "step", (int64_t)f->step);
    weir_json_put_int(e, "rank", f->rank);
    weir_json_put_text(e, "host", f->host);
    weir_json_put_text(e, "phase", weir_phase_name(f->phase));
    weir_json_put_text(e, "what", f->what);
    weir_json_put_text(e, "action", action);
    weir_json_put_real(e, "seconds", f->silent);
    return weir_journal_write(j, e);
}

static weir_json *ranks_of(const weir_members *l)
{
    weir_json *a = weir_json_array();

    for (int i = 0; i < l->count; i++)
        weir_json_add_int(a, l->member[i]);
    return a;
}

weir_err weir_report_change(weir_journal *j, const weir_trainer *t, const weir_change *c)
{
    const weir_group *all = &t->mesh.all;
    char why[300] = "";
    weir_json *e;

    if (c->fault.code)
        weir_fault_text(&c->fault, why, sizeof why);
    weir_journal_say(j, "%s%s%d worker%s go on from step %llu, after %.2f s", why,
                     why[0] ? "; " : "", all->size, all->size > 1 ? "s" : "",
                     (unsigned long long)t->step, c->seconds);
    WEIR_TRY(weir_report_fault(j, &c->fault, "go on"));
    if (!(e = weir_journal_event(j, "member")))
        return WEIR_OK;
    weir_json_put_int(e, "generation", c->list->generation);
    weir_json_put(e, "members", ranks_of(c->list));
    weir_json_put_int(e, "joined", c->joined);
    weir_json_put_int(e, "lost", c->lost);
    weir_json_put_int(e, "left", c->went);
    weir_json_put_int(e, "leader", all->member[all->leader]);
    weir_json_put_int(e, "step", (int64_t)t->step);
    weir_json_put_int(e, "repeated_samples", (int64_t)c->repeated);
    weir_json_put_real(e, "seconds", c->seconds);
    return weir_journal_write(j, e);
}

/* What is known only when a run is over. */
typedef struct ending {
    double wall_s;
    int stopped, replicas;
    double sent[2]; /* bytes of all ranks: in all, and after a codec's warm-up */
} ending;

static weir_err write_end(weir_journal *j, const weir_trainer *t, const weir_tally *y,
                          const ending *over, const weir_result *result)
{
    double dense = dense_bytes(t) * (double)y->steps,
           warm = dense_bytes(t) * (double)t->traffic.warm_steps;
    const double *sent = over->sent;
    weir_elastic_count c = weir_elastic_counted(t);
    weir_saver_count saving = weir_saver_counted(t);
    weir_json *e = weir_journal_event(j, "end");
    char hash[24];

    if (!e)
        return WEIR_OK;
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)result->params_hash);
    weir_json_put_int(e, "steps", (int64_t)t->step);
    weir_json_put_int(e, "samples", (int64_t)t->samples);
    weir_json_put_real(e, "wall_s", over->wall_s);
    weir_json_put_real(e, "train_s", y->train_s);
    weir_json_put_real(e, "samples_per_s", result->samples_per_s);
    weir_json_put_real(e, "loss", y->steps ? y->loss : NAN);
    weir_json_put_text(e, "metric", result->metric);
    weir_json_put_real(e, "value", y->evaluated ? y->value : NAN);
    weir_json_put_real(e, "best", y->evaluated ? y->best : NAN);
    weir_json_put_int(e, "workers", t->mesh.all.size);
    weir_json_put_int(e, "sent_bytes", (int64_t)sent[0]);
    weir_json_put_int(e, "dense_bytes", (int64_t)dense);
    weir_json_put_real(e, "ratio", sent[1] > 0 ? warm / sent[1] : 1);
    weir_json_put_real(e, "ratio_all", sent[0] > 0 ? dense / sent[0] : 1);
    weir_json_put_int(e, "faults", (int64_t)c.losses);
    weir_json_put_int(e, "generations", (int64_t)c.generations);
    weir_json_put_int(e, "joins", (int64_t)c.joins);
    weir_json_put_int(e, "losses", (int64_t)c.losses);
    weir_json_put_int(e, "repeated_samples", (int64_t)c.repeated_samples);
    weir_json_put_real(e, "lost_residual", c.lost_residual);
    weir_json_put_real(e, "saving_s", saving.stood_s);
    weir_json_put_int(e, "saving_waits", (int64_t)saving.waits);
    weir_json_put_text(e, "params_hash", hash);
    weir_json_put_int(e, "replicas", over->replicas);
    weir_json_put_real(e, "peak_rss_mib", weir_report_peak_rss_mib());
    weir_json_put_int(e, "exit", over->stopped ? 128 + over->stopped : 0);
    return weir_journal_write(j, e);
}

static void say_end(weir_journal *j, const weir_trainer *t, const weir_tally *y, const ending *over,
                    const weir_result *result)
{
    const double *sent = over->sent;
    char less[120] = "";

    if (strcmp(t->set->codec, "none") && sent[0] > 0 && t->traffic.warm_steps)
        snprintf(less, sizeof less,
                 ", 1/%.1f of the bytes of dense training (1/%.1f after warm-up)",
                 dense_bytes(t) * (double)y->steps / sent[0],
                 dense_bytes(t) * (double)t->traffic.warm_steps / sent[1]);
    if (over->stopped)
        weir_journal_say(j, "stopped by signal %d at step %llu%s%s", over->stopped,
                         (unsigned long long)t->step, t->set->out ? ", saved in " : "",
                         t->set->out ? t->set->out : "");
    else
        weir_journal_say(j, "done: %s %.4f (best %.4f), %llu samples in %.1f s, %.0f samples/s%s",
                         result->metric, y->value, y->best, (unsigned long long)y->samples,
                         over->wall_s, result->samples_per_s, less);
}

weir_err weir_report_end(weir_journal *j, weir_trainer *t, const weir_tally *y, double wall_s,
                         int stopped, weir_result *result)
{
    ending over = {.wall_s = wall_s,
                   .stopped = stopped,
                   .sent = {(double)t->traffic.sent, (double)t->traffic.warm_sent}};

    *result = (weir_result){.steps = t->step,
                            .samples = t->samples,
                            .loss = y->loss,
                            .metric = weir_trainer_metric(t),
                            .value = y->value,
                            .samples_per_s = y->train_s > 0 ? (double)y->samples / y->train_s : 0,
                            .params_hash = weir_trainer_hash(t)};
    WEIR_TRY(weir_trainer_replicas(t, &over.replicas));
    WEIR_TRY(weir_trainer_sum(t, over.sent, 2));
    WEIR_TRY(write_end(j, t, y, &over, result));
    say_end(j, t, y, &over, result);
    if (over.replicas > 1)
        return weir_fail(WEIR_DIVERGED,
                         "the replicas disagree: %d different parameter vectors on %d ranks",
                         over.replicas, t->mesh.all.size);
    return WEIR_OK;
}
