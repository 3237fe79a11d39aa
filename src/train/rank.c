/* rank.c - a whole run of one rank: opens the world, trains, and says what ended it. The steps are
 * loop.c's. */
#include "core/log.h"
#include "net/rank_info.h"
#include "train/elastic.h"
#include "train/loop.h"
#include "train/resume.h"
#include "train/saver.h"
#include "train/stop.h"
#include "train/welcome.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One rank's whole run. */
typedef struct session {
    weir_trainer t;
    double begun;
    weir_settings *set;
    const weir_rank_info *rank_info;
    const weir_hooks *hooks;
    weir_result *result;
    weir_settings joined; /* of one that joins: the run's, where its user said nothing */
    weir_rundir dir;      /* the leader's */
    weir_loop loop;
    int stopped;
    weir_change change; /* of members, which is not in the log yet */
    weir_change told;   /* the last one that is, if the leader lived to write it */
    int64_t told_as;    /* its generation */
    uint64_t told_at;   /* its step */
    bool left;          /* by wish: others go on */
    bool apart;         /* by no wish: others may be going on */
    bool in;            /* it has joined */
    bool fresh;         /* has come, and does not know yet what the others are at */
    char doors[1024];   /* where it may join again */
    int counts; /* of the whole: how much the rank counts whose result it has; 0: it has none */
} session;

/* Before the first step, and after the last if nothing else has: replicas that drift are to be
 * compared. */
static weir_err settle_drift(weir_trainer *t)
{
    return t->exchange->drifts ? weir_trainer_settle(t) : WEIR_OK;
}

/* With the members that there are: to the end of the run, or of their generation. */
static weir_err run_generation(session *s)
{
    weir_trainer *t = &s->t;

    WEIR_TRY(settle_drift(t));
    WEIR_WITNESS(t, WEIR_SEEN_BEGUN, NULL);
    WEIR_TRY(weir_trainer_check(t));
    WEIR_TRY(weir_loop_run(&s->loop, t));
    if (t->change)
        return WEIR_OK;
    s->stopped = t->stopped;
    WEIR_TRY(settle_drift(t));
    weir_net_phase(t->net, WEIR_PHASE_END, t->step);
    return weir_report_end(s->loop.journal, t, &s->loop.tally, weir_now(t->rt) - s->begun,
                           s->stopped, s->result);
}

/* What the one who led had no time to write is written now. */
static weir_err tell_missing(session *s)
{
    weir_told log = weir_told_read(weir_journal_path(s->loop.journal));
    bool long_ago = s->t.step > s->told_at + WEIR_TOLD_LINES;

    if (log.any && log.generation < s->told_as && !long_ago)
        weir_change_add(&s->change, &s->told);
    return weir_loop_tell(&s->loop, &s->t, &log);
}

/* The one who led is gone: this one writes on, where it can see what was written so far. */
static weir_err take_over(session *s)
{
    weir_trainer *t = &s->t;

    if (!weir_group_leads(&t->mesh.all) || s->loop.journal)
        return WEIR_OK;
    WEIR_TRY(weir_rundir_take_over(&s->dir, &t->warned));
    WEIR_TRY(weir_rundir_open_journal(s->set, s->hooks, s->begun, t->rt, &s->loop.journal));
    weir_journal_go_on(s->loop.journal);
    weir_loop_owe(&s->loop, s->set->out);
    return tell_missing(s);
}

/* Whoever leads writes it. */
static weir_err tell_change(session *s)
{
    s->told = s->change;
    s->told_as = s->change.list->generation;
    s->told_at = s->t.step;
    s->change = (weir_change){0};
    return weir_report_change(s->loop.journal, &s->t, &s->told);
}

/* Too few are left: what they have is kept, and the run ends. */
static weir_err end_below(session *s, const weir_change *c)
{
    weir_trainer *t = &s->t;
    char why[WEIR_WHY_MAX];

    weir_fault_text(&c->fault, why, sizeof why);
    WEIR_TRY(weir_loop_save_last(&s->loop, t));
    return weir_fail(c->fault.code ? c->fault.code : WEIR_LOST,
                     "%s; %d workers are left, fewer than --min-workers %lld: the run %sends", why,
                     t->mesh.all.size, (long long)s->set->min_workers,
                     s->loop.keeps ? "was saved, and " : "");
}

/* First of all in a generation that is not the run's first. */
static weir_err meet(session *s)
{
    WEIR_TRY(weir_loop_agree(&s->loop, &s->t, s->fresh));
    s->fresh = false;
    return WEIR_OK;
}

/* With other members, or without this one. */
static weir_err follow(session *s)
{
    s->left = s->change.left;
    if (s->left)
        s->stopped = weir_stop_here(&s->t);
    if (s->left || s->t.stopped)
        return WEIR_OK;
    WEIR_TRY(take_over(s));
    WEIR_TRY(meet(s));
    WEIR_TRY(tell_change(s));
    return s->t.mesh.all.size < s->set->min_workers ? end_below(s, &s->told) : WEIR_OK;
}

static weir_err go_on(session *s, bool by_wish)
{
    weir_trainer *t = &s->t;
    bool leaves = by_wish && weir_elastic_leaves(t);

    if (leaves) /* as long as the directory is this one's */
        WEIR_TRY(weir_saver_wait(t, s->loop.journal, &s->dir));
    WEIR_TRY(by_wish ? weir_elastic_change(t, leaves, &s->change)
                     : weir_elastic_go_on(t, &s->change));
    return follow(s);
}

static weir_err doors_job(void *session_of)
{
    session *s = session_of;

    weir_net_doors(s->t.net, s->doors, sizeof s->doors);
    return WEIR_OK;
}

static void part(session *s)
{
    s->apart = true;
    weir_line_clear(s->t.line);
    weir_line_call(s->t.line, doors_job, s);
}

/* One generation after the other. Members may be lost at any time, also while others are. */
static weir_err run_members(session *s)
{
    weir_err err = s->fresh ? meet(s) : WEIR_OK;

    if (!err)
        err = run_generation(s);
    while (!s->left && (s->t.change || (err && weir_elastic_can(&s->t, err)))) {
        err = go_on(s, !err);
        if (!err && !s->left)
            err = run_generation(s);
    }
    if (err && weir_elastic_apart(&s->t))
        part(s);
    return err;
}

static void begin_session(weir_comm *comm, session *s)
{
    s->t = (weir_trainer){.set = s->set,
                          .rank_info = s->rank_info,
                          .stop = s->hooks->stop,
                          .witness = s->hooks->witness,
                          .comm = comm};
    s->dir = (weir_rundir){.set = s->set, .host = s->rank_info->host, .model = &s->t.model_file};
    s->loop.dir = &s->dir;
    s->begun = weir_now(weir_net_rt(weir_comm_net(comm)));
}

/* Whoever comes later is told what this run is. */
static weir_err invite(session *s)
{
    size_t n;
    void *welcome;

    if (!s->t.elastic || !s->rank_info->guests)
        return WEIR_OK;
    if (!(welcome = weir_welcome_write(&s->t, &n)))
        return weir_fail_nomem(0);
    return weir_elastic_invite(&s->t, welcome, n);
}

static weir_err run(weir_comm *comm, session *s)
{
    weir_trainer *t = &s->t;

    begin_session(comm, s);
    WEIR_TRY(weir_trainer_enter(t));
    if (weir_group_leads(&t->mesh.all))
        WEIR_TRY(weir_rundir_take(&s->dir, &t->warned));
    WEIR_TRY(weir_trainer_open(t));
    WEIR_TRY(weir_resume_load(t));
    WEIR_TRY(weir_loop_open(&s->loop, t));
    WEIR_TRY(weir_loop_agree(&s->loop, t, false));
    WEIR_TRY(weir_elastic_open(t));
    if (weir_group_leads(&t->mesh.all)) {
        WEIR_TRY(weir_rundir_fill(&s->dir, &t->warned));
        WEIR_TRY(weir_rundir_open_journal(s->set, s->hooks, s->begun, t->rt, &s->loop.journal));
    }
    weir_log(WEIR_LOG_INFO, "train",
             "rank and size by %s; %d buckets, %zu parameters, step %llu of %llu",
             s->rank_info->source, t->lanes, t->params, (unsigned long long)t->step,
             (unsigned long long)t->steps);
    WEIR_TRY(weir_report_start(s->loop.journal, t));
    WEIR_TRY(weir_report_warnings(s->loop.journal, t));
    WEIR_TRY(invite(s));
    WEIR_TRY(weir_trainer_begin(t));
    return run_members(s);
}

/* All have met: from now on nobody leaves without a word. */
static void stop_at_steps(const session *s)
{
    int apart = WEIR_STOP_AT_ONCE;

    if (s->hooks->stop)
        atomic_compare_exchange_strong(s->hooks->stop, &apart, 0);
}

/* ---- one that joins ---- */

typedef struct knocking {
    weir_net *net;
    void *bytes;
    size_t n;
} knocking;

static weir_err knock_job(void *arg)
{
    knocking *k = arg;

    return weir_net_knock(k->net, &k->bytes, &k->n);
}

/* What the run is: its settings, where the user of this process said nothing. */
static weir_err ask_at_door(session *s, weir_welcome *w)
{
    weir_trainer *t = &s->t;
    knocking k = {.net = weir_comm_net(t->comm)};
    weir_err err = weir_line_call(weir_comm_line(t->comm), knock_job, &k);

    if (!err)
        err = weir_welcome_read(k.bytes, k.n, s->set->arena, w);
    free(k.bytes);
    return err ? err : weir_settings_take(s->set, w->settings);
}

static weir_err run_guest(weir_comm *comm, session *s)
{
    weir_trainer *t = &s->t;
    weir_welcome w;
    weir_change change = {0}; /* the others' to tell */

    s->joined = *s->set; /* ranks of one process must not change each other's */
    s->set = &s->joined;
    begin_session(comm, s);
    WEIR_TRY(ask_at_door(s, &w));
    t->model_file = (weir_model_file){s->set->model, w.model, strlen(w.model)};
    t->learnt = t->learnt_at = w.lessons[0] ? w.lessons : NULL;
    WEIR_TRY(weir_trainer_enter(t));
    WEIR_TRY(weir_trainer_open(t));
    WEIR_TRY(weir_welcome_check(t, &w));
    WEIR_TRY(weir_elastic_join(t, w.most, &change));
    s->in = true;
    stop_at_steps(s);
    WEIR_TRY(invite(s));
    WEIR_TRY(weir_loop_open(&s->loop, t));
    s->fresh = true;
    return run_members(s);
}

static weir_err train_rank(weir_comm *comm, void *arg)
{
    session *s = arg;
    weir_err err = weir_net_joins(weir_comm_net(comm)) ? run_guest(comm, s) : run(comm, s);

    if (err == WEIR_SILENT) {
        char why[WEIR_WHY_MAX];
        snprintf(why, sizeof why, "%s", weir_why_text());
        weir_rundir_write_flight(&s->t);
        return weir_fail(err, "%s", why);
    }
    return err;
}

/* What is still being written gets its line in the log, unless that is another's by now. How the
 * run ended is known. */
static void close_trainer(void *arg)
{
    session *s = arg;

    if (s->loop.journal && s->t.saver && weir_rundir_held(&s->dir) &&
        weir_saver_wait(&s->t, s->loop.journal, &s->dir))
        weir_log(WEIR_LOG_WARN, "train", "%s", weir_why_text());
    weir_trainer_close(&s->t);
}

/* What ended the run, for its log: a peer, as the net tells it, or an error of this rank's own. */
static weir_fault ended_by(weir_net *net, const weir_rank_info *rank_info, weir_err err,
                           const char *why)
{
    weir_fault f = {.code = err, .rank = weir_net_rank(net)};

    if (err == WEIR_LOST || err == WEIR_SILENT) {
        weir_net_fault(net, &f);
        return f;
    }
    f.phase = weir_net_doing(net, &f.step);
    snprintf(f.host, sizeof f.host, "%s", rank_info->host);
    snprintf(f.what, sizeof f.what, "%.199s", why);
    return f;
}

/* Several ranks may live in this process: each has a session of its own, and the first's is the one
 * that counts. Where it left, another's does, which saw the end of the run. */
static void take_result(session *whole, const session *s, bool first)
{
    int counts = s->left ? 1 : first ? 3 : 2;

    if (counts <= whole->counts)
        return;
    whole->counts = counts;
    *whole->result = *s->result;
    whole->stopped = s->stopped;
}

static weir_err rank_main(weir_net *net, void *arg)
{
    session *whole = arg, *s = malloc(sizeof *s);
    bool first = weir_net_rank(net) == whole->rank_info->rank &&
                 weir_net_joins(net) == (whole->rank_info->join[0] != 0);
    weir_result result = *whole->result;
    char why[WEIR_WHY_MAX];

    if (!s)
        return weir_fail_nomem(sizeof *s);
    *s = *whole;
    if (!weir_net_joins(net))
        stop_at_steps(s);
    s->result = &result;
    weir_err err = weir_comm_run(net, &(weir_compute){train_rank, close_trainer, s}),
             closing = WEIR_OK;
    snprintf(why, sizeof why, "%s", weir_why_text());
    if (err && !weir_rundir_others(&s->dir)) {
        weir_fault fault = ended_by(net, s->rank_info, err, why);
        closing = weir_report_fault(s->loop.journal, &fault, "leave");
    }
    if (s->hooks->witness)
        s->hooks->witness->end(s->hooks->witness->arg, net,
                               &(weir_seen_end){err, why, s->left, s->stopped});
    weir_err shut = weir_journal_close(s->loop.journal);
    weir_rundir_leave(&s->dir);
    if (first) {
        whole->apart = s->apart;
        whole->in = s->in;
        memcpy(whole->doors, s->doors, sizeof whole->doors);
    }
    if (!err)
        take_result(whole, s, first);
    free(s);
    if (err)
        return weir_fail(err, "%s", why);
    return closing ? closing : shut;
}

/* Others may be going on without this one: it joins them as a new one, as often as it takes. Where
 * nobody takes it in, what had parted it is what ended it. */
static weir_err join_again(session *s, const weir_rank_info *was, weir_err err)
{
    weir_rank_info guest;
    char why[WEIR_WHY_MAX];

    while (s->apart && weir_rank_info_again(was, s->doors, &guest)) {
        int goes_on = 0;
        weir_err parted = err;
        snprintf(why, sizeof why, "%s", weir_why_text());
        s->apart = s->in = false;
        s->rank_info = &guest;
        if (s->hooks->stop &&
            !atomic_compare_exchange_strong(s->hooks->stop, &goes_on, WEIR_STOP_AT_ONCE)) {
            s->stopped = goes_on; /* by a signal, meanwhile */
            return WEIR_OK;
        }
        weir_log(WEIR_LOG_WARN, "train", "%s: this worker joins the run again, as a new one", why);
        err = weir_net_run(s->set->net, &guest, rank_main, s);
        if (err && !s->in)
            return weir_fail(parted, "%s", why);
    }
    return err;
}

/* What a world of this kind cannot do for a training run. */
static weir_err check_world(const weir_settings *set, weir_net_facts *facts)
{
    WEIR_TRY(weir_net_check(set->net, facts));
    if (set->profile && !facts->simulated) /* it is spent by simulated runs */
        return weir_fail(WEIR_USAGE,
                         "--profile %s: training takes the time it takes; weir bench train "
                         "--profile writes such a file, --net sim reads it",
                         set->profile);
    return WEIR_OK;
}

weir_err weir_train_run(const weir_settings *set, const weir_rank_info *rank_info,
                        const weir_hooks *hooks, weir_result *result, int *stopped)
{
    char from[PATH_MAX];
    weir_settings own = *set;
    weir_rank_info mine = *rank_info;
    session s = {.set = &own, .rank_info = &mine, .hooks = hooks, .result = result};
    weir_net_facts facts;
    weir_err err;

    *result = (weir_result){.metric = ""};
    *stopped = 0;
    if (getcwd(from, sizeof from) && from[0] == '/')
        own.from = from;
    WEIR_TRY(check_world(set, &facts));
    mine.guests |= set->elastic && facts.simulated && facts.joins;
    err = weir_net_run(set->net, &mine, rank_main, &s);
    if (err)
        err = join_again(&s, &mine, err);
    *stopped = s.stopped;
    return err;
}
