/* train.c - the run: steps, evaluations, checkpoints, and the log of them. */
#include "coll/flight.h"
#include "core/file.h"
#include "core/log.h"
#include "core/vec.h"
#include "train/checkpoint.h"
#include "train/gather.h"
#include "train/report.h"
#include "train/run.h"
#include "train/warn.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* One rank's whole run. */
typedef struct session {
    weir_trainer t;
    double begun;
    weir_step_report last; /* made, not yet logged: its bytes are not known */
    const weir_settings *set;
    const weir_place *place;
    const weir_hooks *hooks;
    weir_result *result;
    weir_tally tally;
    weir_journal *journal; /* rank 0 */
    int stopped;
    bool saves; /* rank 0 has an --out: all take part in its checkpoints */
} session;

static weir_ckpt_body body(weir_trainer *t)
{
    weir_ckpt_body b = {.param = t->param, .state = weir_trainer_state, .arg = t};

    b.tensor = weir_model_tensors(t->model, &b.tensors);
    return b;
}

/* ---- the run directory ---- */

static bool holds_run(const char *out)
{
    char path[4200];

    snprintf(path, sizeof path, "%s/config", out);
    if (weir_path_exists(path))
        return true;
    snprintf(path, sizeof path, "%s/latest", out);
    return weir_path_exists(path);
}

static bool same_place(const char *a, const char *b)
{
    struct stat x, y;

    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Looks, and changes nothing: what cannot go on must not have touched the run that is there. */
static weir_err check_out(const weir_settings *set)
{
    if (set->out && holds_run(set->out) && !(set->resume && same_place(set->out, set->resume)))
        return weir_fail(
            WEIR_USAGE,
            "--out %s holds a run already: go on with --resume %s, or take another directory",
            set->out, set->out);
    return WEIR_OK;
}

/* The run's settings, in its directory. */
static weir_err write_config(const weir_settings *set)
{
    char path[4200];
    weir_file *f;

    if (!set->out)
        return WEIR_OK;
    WEIR_TRY(weir_dir_make(set->out));
    snprintf(path, sizeof path, "%s/config", set->out);
    char *text = weir_settings_text(set);
    if (!text)
        return weir_fail_nomem(0);
    weir_err err = weir_file_create(path, &f);
    if (!err && (err = weir_file_write(f, text, strlen(text))))
        weir_file_drop(f);
    else if (!err)
        err = weir_file_commit(f);
    free(text);
    return err;
}

static weir_err open_journal(session *s, weir_rt *rt)
{
    const weir_settings *set = s->set;
    char path[4200] = "";

    if (set->log)
        snprintf(path, sizeof path, "%s", set->log);
    else if (set->out)
        snprintf(path, sizeof path, "%s/log.jsonl", set->out);
    weir_journal_setup setup = {.path = path[0] ? path : NULL,
                                .began = s->begun,
                                .people = s->hooks->people,
                                .live = s->hooks->live,
                                .event = s->hooks->event,
                                .arg = s->hooks->arg,
                                .rt = rt};
    return weir_journal_open(&setup, &s->journal);
}

/* ---- save and resume ---- */

/* Rank 0's part of a save. */
static weir_err write_checkpoint(session *s, weir_trainer *t, weir_gathered *state)
{
    char *text = weir_settings_text(s->set);
    weir_ckpt_saved saved;

    if (!text)
        return weir_fail_nomem(0);
    weir_ckpt_info info = {.step = t->step,
                           .seed = (uint64_t)s->set->seed,
                           .samples = t->samples,
                           .workers = t->all.size,
                           .model = s->set->model,
                           .data = s->set->data,
                           .settings = text};
    weir_ckpt_body what = body(t);
    what.state = weir_gathered_state;
    what.arg = state;
    weir_err err = weir_ckpt_save(t->rt, s->set->out, (int)s->set->keep, &info, &what, &saved);
    free(text);
    return err ? err
               : weir_report_checkpoint(s->journal, t->step, saved.path, saved.bytes,
                                        saved.seconds);
}

/* What is saved is fit to go on from: all ranks hold the same, and come to the same. */
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

/* Whether there is anything to save is rank 0's to say, as it alone writes. */
static weir_err agree_out(session *s, weir_trainer *t)
{
    uint64_t *out = WEIR_NEW(t->arena, uint64_t, t->all.size);

    if (!out)
        return weir_fail_nomem((size_t)t->all.size * sizeof *out);
    WEIR_TRY(weir_trainer_gather(t, s->set->out != NULL, out));
    s->saves = out[0] != 0;
    return WEIR_OK;
}

static weir_err save(session *s, weir_trainer *t)
{
    weir_gathered *state;
    weir_err err;

    if (!s->saves)
        return WEIR_OK;
    weir_net_phase(t->net, WEIR_PHASE_SAVE, t->step);
    WEIR_TRY(weir_trainer_settle(t));
    WEIR_TRY(check_finite(t));
    WEIR_TRY(weir_gather_state(t, &state));
    err = t->all.me ? WEIR_OK : write_checkpoint(s, t, state);
    weir_gathered_free(state);
    return err;
}

/* Ranks that read different disks may find different checkpoints. */
static weir_err agree(weir_trainer *t)
{
    uint64_t *step = WEIR_NEW(t->arena, uint64_t, t->all.size);

    if (!step)
        return weir_fail_nomem(0);
    WEIR_TRY(weir_trainer_gather(t, t->step, step));
    for (int i = 1; i < t->all.size; i++)
        if (step[i] != step[0])
            return weir_fail(WEIR_MISFIT,
                             "rank 0 resumes from step %llu, rank %d from step %llu: do all ranks "
                             "see the same directory?",
                             (unsigned long long)step[0], i, (unsigned long long)step[i]);
    return WEIR_OK;
}

static weir_err resume(session *s, weir_trainer *t)
{
    char path[WEIR_CKPT_PATH];
    size_t left;
    weir_ckpt_info info;
    weir_ckpt_body what = body(t);

    if (!s->set->resume)
        return WEIR_OK;
    WEIR_TRY(weir_ckpt_find(s->set->resume, path));
    WEIR_TRY(weir_ckpt_peek(path, t->arena, &info));
    what.state = weir_dealt_state,
    what.arg = &(weir_dealt){info.workers, t->all.size, t->all.me, weir_trainer_state, t};
    /* a rank that was not there when it was saved takes nothing of what each had */
    what.unused = t->all.me < info.workers ? weir_never_lost : NULL;
    WEIR_TRY(weir_saved_with(weir_ckpt_load(path, t->all.size, &what, &left), info.settings));
    if (left && t->all.me == 0)
        weir_log(WEIR_LOG_WARN, "train",
                 "%s: %zu fields of the saved state are not used by these settings", path, left);
    return agree(t);
}

/* ---- the loop ---- */

/* Logs the last step, whose bytes are fetched now if the next step has not brought them. Called on
 * all ranks alike. */
static weir_err log_last(session *s, weir_trainer *t)
{
    if (!s->last.step)
        return WEIR_OK;
    if (!s->last.whole)
        WEIR_TRY(weir_trainer_flush(t, &s->last));
    WEIR_TRY(weir_report_step(s->journal, t, &s->last));
    s->last.step = 0;
    return WEIR_OK;
}

static weir_err one_step(session *s, weir_trainer *t)
{
    weir_step_report report;

    t->last = s->last;
    WEIR_TRY(weir_trainer_step(t, &report));
    if (weir_journal_logs(s->journal))
        weir_trainer_look(t, &report);
    weir_tally_step(&s->tally, &report);
    weir_report_live(s->journal, t, &report);
    s->last = t->last;
    WEIR_TRY(log_last(s, t));
    s->last = report;
    return weir_report_choice(s->journal, t);
}

static weir_err evaluate(session *s, weir_trainer *t)
{
    weir_score score;
    double begun = weir_now(t->rt);

    WEIR_TRY(log_last(s, t));
    WEIR_TRY(weir_trainer_settle(t));
    if (s->tally.steps)
        s->tally.loss = weir_trainer_loss(t);
    WEIR_TRY(weir_trainer_evaluate(t, &score));
    weir_tally_evaluated(&s->tally, t, &score, weir_now(t->rt) - begun);
    return weir_report_eval(s->journal, t, &s->tally);
}

static bool due(uint64_t step, uint64_t every) { return every && step % every == 0; }

static weir_err steps(session *s, weir_trainer *t)
{
    uint64_t eval_every, save_every, evaluated = UINT64_MAX, saved = t->step;

    WEIR_TRY(weir_steps_read("--eval-every", s->set->eval_every, t->epoch_steps, &eval_every));
    WEIR_TRY(weir_steps_read("--save-every", s->set->save_every, t->epoch_steps, &save_every));
    while (t->step < t->steps && !t->stopped) {
        WEIR_TRY(one_step(s, t));
        /* it compares where it settles */
        if (due(t->step, (uint64_t)s->set->check_every) && !t->exchange->drifts)
            WEIR_TRY(weir_trainer_check(t));
        if (due(t->step, eval_every) && !t->stopped) {
            WEIR_TRY(evaluate(s, t));
            evaluated = t->step;
        }
        if (due(t->step, save_every)) {
            WEIR_TRY(save(s, t));
            saved = t->step;
        }
    }
    s->stopped = t->stopped;
    WEIR_TRY(log_last(s, t));
    if (saved != t->step)
        WEIR_TRY(save(s, t));
    /* a run that was told to leave leaves; one that has come to its end says how good it is */
    return evaluated == t->step || t->stopped ? WEIR_OK : evaluate(s, t);
}

/* Before the first step, and after the last if nothing else has: replicas that drift are to be
 * compared. */
static weir_err settle_drift(weir_trainer *t)
{
    return t->exchange->drifts ? weir_trainer_settle(t) : WEIR_OK;
}

static weir_err run(weir_comm *comm, session *s)
{
    weir_trainer *t = &s->t;
    weir_net *net = weir_comm_net(comm);

    *t = (weir_trainer){.set = s->set, .place = s->place, .stop = s->hooks->stop, .comm = comm};
    s->begun = weir_now(weir_net_rt(net));
    if (weir_net_rank(net) == 0)
        WEIR_TRY(check_out(s->set));
    WEIR_TRY(weir_trainer_open(t));
    WEIR_TRY(resume(s, t));
    WEIR_TRY(agree_out(s, t));
    if (weir_net_rank(net) == 0) {
        WEIR_TRY(write_config(s->set));
        WEIR_TRY(open_journal(s, t->rt));
    }
    weir_log(WEIR_LOG_INFO, "train",
             "rank and size by %s; %d buckets, %zu parameters, step %llu of %llu", s->place->source,
             t->lanes, t->params, (unsigned long long)t->step, (unsigned long long)t->steps);
    WEIR_TRY(weir_report_start(s->journal, t));
    WEIR_TRY(weir_report_warnings(s->journal, t));
    WEIR_TRY(weir_trainer_begin(t));
    WEIR_TRY(settle_drift(t));
    WEIR_TRY(weir_trainer_check(t));
    WEIR_TRY(steps(s, t));
    WEIR_TRY(settle_drift(t));
    weir_net_phase(t->net, WEIR_PHASE_END, t->step);
    return weir_report_end(s->journal, t, &s->tally, weir_now(t->rt) - s->begun, s->stopped,
                           s->result);
}

/* Somebody did not come: what this rank was at goes beside the log, for whoever has to find out.
 * Errors change nothing any more. */
static void write_flight(const session *s)
{
    const weir_trainer *t = &s->t;
    char path[4200];
    FILE *f;

    if (!s->set->out || !t->all.flight || !holds_run(s->set->out))
        return;
    snprintf(path, sizeof path, "%s/flight-%d.txt", s->set->out, t->all.me);
    if (!(f = fopen(path, "we")))
        return;
    fprintf(f, "rank %d of %d, step %llu: the last collectives, oldest first\n", t->all.me,
            t->all.size, (unsigned long long)t->step + 1);
    weir_flight_write(t->all.flight, weir_now(t->rt), f);
    fclose(f);
}

static weir_err compute(weir_comm *comm, void *arg)
{
    weir_err err = run(comm, arg);

    if (err == WEIR_SILENT) {
        char why[WEIR_WHY_MAX];
        snprintf(why, sizeof why, "%s", weir_why_text());
        write_flight(arg);
        return weir_fail(err, "%s", why);
    }
    return err;
}

static void close_trainer(void *arg) { weir_trainer_close(&((session *)arg)->t); }

/* What ended the run, for its log: a peer, as the net tells it, or an error of this rank's own. */
static weir_fault ended_by(weir_net *net, const weir_place *place, weir_err err, const char *why)
{
    weir_fault f = {.code = err, .rank = weir_net_rank(net)};

    if (err == WEIR_LOST || err == WEIR_SILENT) {
        weir_net_fault(net, &f);
        return f;
    }
    f.phase = weir_net_doing(net, &f.step);
    snprintf(f.host, sizeof f.host, "%s", place->host);
    snprintf(f.what, sizeof f.what, "%.199s", why);
    return f;
}

/* Several ranks may live in this process: each has a session of its own, and rank 0's is the one
 * that counts. */
static weir_err rank_main(weir_net *net, void *arg)
{
    session *whole = arg, *s = malloc(sizeof *s);
    int apart = WEIR_STOP_AT_ONCE;
    weir_result other;
    char why[WEIR_WHY_MAX];

    if (!s)
        return weir_fail_nomem(sizeof *s);
    *s = *whole;
    if (whole->hooks->stop)
        atomic_compare_exchange_strong(
            whole->hooks->stop, &apart,
            0); /* all have met: from now on nobody leaves without a word */
    if (weir_net_rank(net) != whole->place->rank)
        s->result = &other;
    weir_err err = weir_comm_run(net, compute, close_trainer, s), closing = WEIR_OK;
    snprintf(why, sizeof why, "%s", weir_why_text());
    if (err) {
        weir_fault fault = ended_by(net, s->place, err, why);
        closing = weir_report_fault(s->journal, &fault, "leave");
    }
    weir_err shut = weir_journal_close(s->journal);
    if (s->result == whole->result)
        whole->stopped = s->stopped;
    free(s);
    if (err)
        return weir_fail(err, "%s", why);
    return closing ? closing : shut;
}

/* It is spent by simulated runs. */
static weir_err check_profile(const weir_settings *set)
{
    weir_net_facts facts;

    WEIR_TRY(weir_net_check(set->net, &facts));
    return set->profile && !facts.simulated
               ? weir_fail(WEIR_USAGE,
                           "--profile %s: training takes the time it takes; weir bench train "
                           "--profile writes such a file, --net sim reads it",
                           set->profile)
               : WEIR_OK;
}

weir_err weir_train_run(const weir_settings *set, const weir_place *place, const weir_hooks *hooks,
                        weir_result *result, int *stopped)
{
    session s = {.set = set, .place = place, .hooks = hooks, .result = result};
    weir_err err;

    *result = (weir_result){.metric = ""};
    *stopped = 0;
    WEIR_TRY(check_profile(set));
    err = weir_net_run(set->net, place, rank_main, &s);
    *stopped = s.stopped;
    return err;
}
