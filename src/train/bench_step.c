/* bench_step.c - whole steps, timed: weir bench compute|train. */
#include "train/report.h"
#include "train/run.h"
#include "train/trainer.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { UNTIMED = 3, WATCHED = 1000 /* steps of which each worker's are told apart */ };

double weir_report_peak_rss_mib(void)
{
    struct rusage use;

    getrusage(RUSAGE_SELF, &use);
    return (double)use.ru_maxrss / 1024;
}

weir_err weir_bench_print(FILE *out, weir_json *line, bool json, const char *text)
{
    char *all = json ? weir_json_text(line) : NULL;

    weir_json_free(line);
    fprintf(out, "%s\n", all ? all : text);
    fflush(out);
    free(all);
    return WEIR_OK;
}

typedef struct stepping {
    const weir_settings *set;
    const weir_rank_info *rank_info;
    const weir_bench *bench;
    weir_trainer t;
} stepping;

/* What is watched on every worker: forward; forward and backward. */
enum { WATCH_FORWARD, WATCH_COMPUTE, WATCHES };

/* What the timed steps came to. */
typedef struct timed {
    uint64_t samples;
    double seconds, wall_s, sent, loss;
    int replicas;
    const weir_choice *choice;
    double mean_s[WATCHES], slowest_s[WATCHES];
} timed;

/* As `end` of a run's log, with the options measured. Nothing is evaluated. */
static void put_train(weir_json *j, const weir_trainer *t, const weir_bench *b, const timed *m)
{
    double dense = 8.0 * (double)t->params * (t->mesh.all.size - 1) * (double)b->steps,
           ratio = m->sent > 0 ? dense / m->sent : 1;
    char hash[24];

    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)weir_trainer_hash(t));
    weir_json_put_int(j, "workers", t->mesh.all.size);
    weir_json_put_int(j, "steps", (int64_t)b->steps);
    weir_json_put_int(j, "samples", (int64_t)m->samples);
    weir_json_put_real(j, "wall_s", m->wall_s);
    weir_json_put_real(j, "train_s", m->seconds);
    if (m->mean_s[WATCH_COMPUTE] > 0) {
        weir_json_put_real(j, "forward_ms", m->mean_s[WATCH_FORWARD] * 1e3);
        weir_json_put_real(j, "slowest_forward_ms", m->slowest_s[WATCH_FORWARD] * 1e3);
        weir_json_put_real(j, "compute_ms", m->mean_s[WATCH_COMPUTE] * 1e3);
        weir_json_put_real(j, "slowest_ms", m->slowest_s[WATCH_COMPUTE] * 1e3);
    }
    weir_json_put_real(j, "loss", m->loss);
    weir_json_put_text(j, "metric", weir_trainer_metric(t));
    weir_json_put_real(j, "value", NAN);
    weir_json_put_real(j, "best", NAN);
    weir_json_put_text(j, "exchange", t->set->exchange);
    weir_json_put_text(j, "codec", t->set->codec);
    if (m->choice) {
        weir_json *choice = weir_json_object();
        weir_report_put_choice(choice, m->choice);
        weir_json_put(j, "choice", choice);
    }
    weir_json_put_text(j, "coll", t->coll.coll->plug.name);
    weir_json_put_text(j, "net", weir_net_name(t->net));
    weir_json_put_text(j, "optim", t->set->optim);
    weir_json_put_int(j, "sent_bytes", (int64_t)m->sent);
    weir_json_put_int(j, "dense_bytes", (int64_t)dense);
    weir_json_put_real(j, "ratio", ratio);
    weir_json_put_real(j, "ratio_all", ratio);
    weir_json_put_int(j, "faults", 0);
    weir_json_put_text(j, "params_hash", hash);
    weir_json_put_int(j, "replicas", m->replicas);
    weir_json_put_int(j, "exit", 0);
}

/* Whose word it is what computing costs, where nobody computes by the clock. */
static void put_virtual(weir_json *j, const weir_trainer *t, const weir_net_facts *facts)
{
    const char *given = facts->costs ? "cost" : t->profile ? "profile" : "free";

    weir_json_put_bool(j, "virtual", facts->simulated);
    if (facts->simulated)
        weir_json_put_text(j, "computing", given);
    if (facts->simulated && !strcmp(given, "profile"))
        weir_json_put_real(j, "profile_samples", t->profile->samples);
}

static void say_virtual(char *text, size_t room, const weir_trainer *t, const weir_net_facts *facts)
{
    if (!facts->simulated)
        text[0] = 0;
    else if (facts->costs)
        snprintf(text, room, " (virtual: computing costs what --net says)");
    else if (!t->profile)
        snprintf(text, room, " (virtual: computing taken as free, no --profile)");
    else
        snprintf(text, room, " (virtual: computing as in %.100s, taken at %g samples a worker)",
                 t->set->profile, t->profile->samples);
}

static weir_err report_steps(const weir_trainer *t, const weir_bench *b, const timed *m)
{
    weir_json *j;
    char text[480], clock[240];
    weir_net_facts facts;

    WEIR_TRY(weir_net_check(t->set->net, &facts));
    if (!(j = weir_json_object()))
        return weir_fail_nomem(0);
    weir_json_put_text(j, "bench", b->kind);
    weir_json_put_text(j, "model", t->set->model);
    weir_json_put_int(j, "params", (int64_t)t->params);
    weir_json_put_int(j, "batch", t->set->batch);
    weir_json_put_int(j, "threads", t->threads);
    weir_json_put_real(j, "step_ms", m->seconds / (double)b->steps * 1e3);
    weir_json_put_real(j, "samples_per_s", (double)m->samples / m->seconds);
    weir_json_put_real(j, "peak_rss_mib", weir_report_peak_rss_mib());
    put_virtual(j, t, &facts);
    if (!strcmp(b->kind, "train"))
        put_train(j, t, b, m);
    say_virtual(clock, sizeof clock, t, &facts);
    snprintf(text, sizeof text,
             "%s: %.60s, batch %lld, %d worker%s x %d thread%s: %.3f ms a step%s, %.1f samples/s, "
             "%.0f MiB",
             b->kind, t->set->model, (long long)t->set->batch, t->mesh.all.size,
             t->mesh.all.size > 1 ? "s" : "", t->threads, t->threads > 1 ? "s" : "",
             m->seconds / (double)b->steps * 1e3, clock, (double)m->samples / m->seconds,
             weir_report_peak_rss_mib());
    return weir_bench_print(b->out, j, b->json, text);
}

/* The mean over the workers, in the file that --profile names. */
static weir_err save_profile(weir_trainer *t)
{
    if (!t->profile || weir_net_simulated(t->net))
        return WEIR_OK;
    WEIR_TRY(weir_trainer_sum(t, t->profile->second, weir_profile_pieces(t->profile)));
    WEIR_TRY(weir_trainer_sum(t, &t->profile->samples, 1));
    t->profile->steps *= t->mesh.all.size;
    return weir_group_leads(&t->mesh.all) ? weir_profile_save(t->profile, t->set->profile)
                                          : WEIR_OK;
}

/* Steps that are not timed: memory is touched for the first time, codecs are tried. */
static weir_err run_in(weir_trainer *t, const weir_choice **choice)
{
    weir_step_report report;
    bool trying = false;

    *choice = NULL;
    for (int i = 0; i < UNTIMED || trying; i++) {
        WEIR_TRY(weir_trainer_step(t, &report));
        const weir_choice *c =
            t->exchange->choice ? t->exchange->choice(t->exchanger, &trying) : NULL;
        *choice = c ? c : *choice;
    }
    return WEIR_OK;
}

/* The mean of all workers, and of those that were last in each step. `took`: by step, what is
 * watched, worker. */
static weir_err watch(weir_trainer *t, double *took, int steps, timed *m)
{
    int size = t->mesh.all.size;

    WEIR_TRY(weir_trainer_sum(t, took, WATCHES * size * steps));
    for (int i = 0; i < steps * WATCHES; i++) {
        double slowest = 0;
        for (int k = 0; k < size; k++) {
            m->mean_s[i % WATCHES] += took[i * size + k] / steps / size;
            slowest = fmax(slowest, took[i * size + k]);
        }
        m->slowest_s[i % WATCHES] += slowest / steps;
    }
    return WEIR_OK;
}

/* One rank's portion of what is watched, while there is room for it. */
typedef struct watched {
    uint64_t after; /* the last step that is not timed: its report comes with the first that is */
    double *took;   /* by step, what is watched, worker */
    int steps, room;
} watched;

static void take_down(const weir_trainer *t, const weir_step_report *r, timed *m, watched *w)
{
    int size = t->mesh.all.size;

    if (r->step <= w->after)
        return;
    m->samples += r->samples;
    m->loss = r->loss;
    if (w->steps == w->room)
        return;
    double *mine = w->took + w->steps++ * WATCHES * size + t->mesh.all.me;
    mine[WATCH_FORWARD * size] = r->forward_s;
    mine[WATCH_COMPUTE * size] = r->compute_s;
}

static weir_err run_timed(weir_trainer *t, const weir_bench *b, timed *m)
{
    int room = weir_net_simulated(t->net) ? 0 : b->steps < WATCHED ? (int)b->steps : WATCHED;
    size_t numbers = (size_t)room * WATCHES * (size_t)t->mesh.all.size;
    watched w = {.after = t->step, .took = WEIR_NEW(t->arena, double, numbers + 1), .room = room};
    weir_step_report report;

    if (!w.took)
        return weir_fail_nomem(numbers * sizeof *w.took);
    double begun = weir_now(t->rt);
    for (uint64_t i = 0; i < b->steps; i++) {
        WEIR_TRY(weir_trainer_step(t, &report));
        take_down(t, &report, m, &w);
    }
    m->seconds = weir_now(t->rt) - begun;
    WEIR_TRY(weir_trainer_flush(t, &report));
    take_down(t, &report, m, &w);
    return w.steps ? watch(t, w.took, w.steps, m) : WEIR_OK;
}

static weir_err time_steps(weir_trainer *t, const weir_bench *b)
{
    double opened = weir_now(weir_net_rt(weir_comm_net(t->comm)));
    uint64_t before;
    timed m = {0};

    t->steady = true;
    WEIR_TRY(weir_trainer_enter(t));
    WEIR_TRY(weir_trainer_open(t));
    WEIR_TRY(weir_trainer_begin(t));
    WEIR_TRY(run_in(t, &m.choice));
    before = t->traffic.sent;
    if (t->profile && !weir_net_simulated(t->net))
        weir_profile_clear(t->profile);
    WEIR_TRY(run_timed(t, b, &m));
    m.wall_s = weir_now(t->rt) - opened;
    m.sent = (double)(t->traffic.sent - before);
    WEIR_TRY(weir_trainer_sum(t, &m.sent, 1));
    if (t->exchange->drifts)
        WEIR_TRY(weir_trainer_settle(t));
    WEIR_TRY(weir_trainer_replicas(t, &m.replicas));
    WEIR_TRY(save_profile(t));
    return weir_group_leads(&t->mesh.all) ? report_steps(t, b, &m) : WEIR_OK;
}

static weir_err time_rank(weir_comm *comm, void *arg)
{
    stepping *s = arg;

    s->t = (weir_trainer){.set = s->set, .rank_info = s->rank_info, .comm = comm};
    return time_steps(&s->t, s->bench);
}

static void steps_close(void *arg) { weir_trainer_close(&((stepping *)arg)->t); }

/* Several ranks may live in this process. */
static weir_err steps_rank(weir_net *net, void *arg)
{
    stepping *mine = malloc(sizeof *mine);
    weir_err err;

    if (!mine)
        return weir_fail_nomem(sizeof *mine);
    *mine = *(stepping *)arg;
    err = weir_comm_run(net, &(weir_compute){time_rank, steps_close, mine});
    free(mine);
    return err;
}

weir_err weir_bench_run(const weir_settings *set, const weir_rank_info *rank_info,
                        const weir_bench *bench)
{
    weir_settings s = *set;
    char data[256];

    if (!s.data) {
        WEIR_TRY(weir_model_bench_data(s.model, data, sizeof data));
        s.data = data;
    }
    s.steps = (int64_t)bench->steps + UNTIMED;
    s.epochs = 0;
    return weir_net_run(s.net, rank_info, steps_rank,
                        &(stepping){.set = &s, .rank_info = rank_info, .bench = bench});
}
