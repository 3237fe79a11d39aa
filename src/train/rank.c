/* rank.c - a whole run of one rank: opens the world, trains, and says what ended it. The steps are
 * loop.c's. */
#include "core/log.h"
#include "train/loop.h"
#include "train/resume.h"
#include "train/rundir.h"
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

/* One rank's whole run. */
typedef struct session {
    weir_trainer t;
    double begun;
    const weir_settings *set;
    const weir_rank_info *rank_info;
    const weir_hooks *hooks;
    weir_result *result;
    weir_rundir dir; /* the leader's */
    weir_loop loop;
    int stopped;
} session;

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

    *t = (weir_trainer){.set = s->set,
                        .rank_info = s->rank_info,
                        .stop = s->hooks->stop,
                        .comm = comm};
    s->dir = (weir_rundir){.set = s->set, .host = s->rank_info->host, .model = &t->model_file};
    s->loop.dir = &s->dir;
    s->begun = weir_now(weir_net_rt(net));
    WEIR_TRY(weir_trainer_enter(t));
    if (weir_group_leads(&t->mesh.all))
        WEIR_TRY(weir_rundir_take(&s->dir, &t->warned));
    WEIR_TRY(weir_trainer_open(t));
    WEIR_TRY(weir_resume_load(t));
    WEIR_TRY(weir_resume_agree(t, &s->loop.saves));
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
    WEIR_TRY(weir_trainer_begin(t));
    WEIR_TRY(settle_drift(t));
    WEIR_TRY(weir_trainer_check(t));
    WEIR_TRY(weir_loop_run(&s->loop, t));
    s->stopped = t->stopped;
    WEIR_TRY(settle_drift(t));
    weir_net_phase(t->net, WEIR_PHASE_END, t->step);
    return weir_report_end(s->loop.journal, t, &s->loop.tally, weir_now(t->rt) - s->begun,
                           s->stopped, s->result);
}

static weir_err train_rank(weir_comm *comm, void *arg)
{
    weir_err err = run(comm, arg);

    if (err == WEIR_SILENT) {
        char why[WEIR_WHY_MAX];
        snprintf(why, sizeof why, "%s", weir_why_text());
        weir_rundir_write_flight(&((session *)arg)->t);
        return weir_fail(err, "%s", why);
    }
    return err;
}

static void close_trainer(void *arg) { weir_trainer_close(&((session *)arg)->t); }

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
    if (weir_net_rank(net) != whole->rank_info->rank)
        s->result = &other;
    weir_err err = weir_comm_run(net, &(weir_compute){train_rank, close_trainer, s}),
             closing = WEIR_OK;
    snprintf(why, sizeof why, "%s", weir_why_text());
    if (err) {
        weir_fault fault = ended_by(net, s->rank_info, err, why);
        closing = weir_report_fault(s->loop.journal, &fault, "leave");
    }
    weir_err shut = weir_journal_close(s->loop.journal);
    weir_rundir_leave(&s->dir);
    if (s->result == whole->result)
        whole->stopped = s->stopped;
    free(s);
    if (err)
        return weir_fail(err, "%s", why);
    return closing ? closing : shut;
}

/* What a world of this kind cannot do for a training run. */
static weir_err check_world(const weir_settings *set)
{
    weir_net_facts facts;

    WEIR_TRY(weir_net_check(set->net, &facts));
    if (set->profile && !facts.simulated) /* it is spent by simulated runs */
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
    session s = {.set = &own, .rank_info = rank_info, .hooks = hooks, .result = result};
    weir_err err;

    *result = (weir_result){.metric = ""};
    *stopped = 0;
    if (getcwd(from, sizeof from) && from[0] == '/')
        own.from = from;
    WEIR_TRY(check_world(set));
    err = weir_net_run(set->net, rank_info, rank_main, &s);
    *stopped = s.stopped;
    return err;
}
