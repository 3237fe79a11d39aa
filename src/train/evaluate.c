/* evaluate.c - the test part, shared by the workers, and other sums over them. */
#include "train/stop.h"
#include <math.h>
#include <string.h>

enum { MOST = 1024 }; /* samples scored at once */

typedef struct sums {
    weir_trainer *t;
    void *at;
    size_t n;
    const weir_sum *sum;
} sums;

static weir_err sum_job(void *arg)
{
    sums *s = arg;

    return weir_allreduce(&s->t->coll, &s->t->mesh.all, s->at, s->n, s->sum);
}

weir_err weir_trainer_sum(weir_trainer *t, double *x, int n)
{
    sums s = {t, x, (size_t)n, &weir_sum_f64};

    WEIR_TRY(weir_line_call(t->line, sum_job, &s));
    for (int i = 0; i < n && t->dry; i++)
        x[i] *= t->mesh.all.size; /* nothing was moved: the others have as much */
    return WEIR_OK;
}

typedef struct gathering {
    weir_trainer *t;
    uint64_t *all;
    size_t *off, *len;
} gathering;

static weir_err gather_job(void *arg)
{
    gathering *g = arg;

    return weir_allgather(&g->t->coll, &g->t->mesh.all, g->all, g->off, g->len);
}

weir_err weir_trainer_gather(weir_trainer *t, uint64_t mine, uint64_t *all)
{
    int p = t->mesh.all.size;
    size_t *off = WEIR_NEW(t->mesh.arena, size_t, p), *len = WEIR_NEW(t->mesh.arena, size_t, p);

    if (!off || !len)
        return weir_fail_nomem((size_t)p * 16);
    for (int i = 0; i < p; i++) {
        off[i] = (size_t)i * sizeof mine;
        len[i] = sizeof mine;
    }
    all[t->mesh.all.me] = mine;
    return weir_line_call(t->line, gather_job, &(gathering){t, all, off, len});
}

/* How many different numbers there are. */
static int distinct(const uint64_t *x, int n)
{
    int count = 0;

    for (int i = 0; i < n; i++) {
        int k = 0;
        while (k < i && x[k] != x[i])
            k++;
        count += k == i;
    }
    return count;
}

weir_err weir_trainer_replicas(weir_trainer *t, int *replicas)
{
    uint64_t *hash = WEIR_NEW(t->mesh.arena, uint64_t, t->mesh.all.size);

    if (!hash)
        return weir_fail_nomem(0);
    WEIR_TRY(weir_trainer_gather(t, weir_trainer_hash(t), hash));
    *replicas = t->dry ? 1 : distinct(hash, t->mesh.all.size);
    return WEIR_OK;
}

static weir_err check_job(void *replica) { return weir_replica_check(replica); }

weir_err weir_trainer_check(weir_trainer *t)
{
    t->replica.step = t->step;
    return t->mesh.all.size > 1 ? weir_line_call(t->line, check_job, &t->replica) : WEIR_OK;
}

static weir_err settle_job(void *arg)
{
    weir_trainer *t = arg;
    weir_net_count before = weir_net_counted(t->net), now;

    WEIR_TRY(t->exchange->settle(t->exchanger, (weir_when){.step = t->step}));
    now = weir_net_counted(t->net);
    t->traffic.sent += now.sent - before.sent;
    if (t->traffic.warm_steps)
        t->traffic.warm_sent += now.sent - before.sent;
    t->traffic.received += now.received - before.received;
    return WEIR_OK;
}

/* Running statistics are each worker's own: what evaluation and checkpoints use is their mean. */
static weir_err average_statistics(weir_trainer *t)
{
    size_t n;
    float *x = weir_model_still(t->model, &n);
    double *sum;

    if (!n || t->mesh.all.size == 1)
        return WEIR_OK;
    if (!t->still_sum && !(t->still_sum = WEIR_NEW(t->arena, double, n)))
        return weir_fail_nomem(n * sizeof *sum);
    sum = t->still_sum;
    for (size_t i = 0; i < n; i++)
        sum[i] = x[i];
    WEIR_TRY(weir_trainer_sum(t, sum, (int)n));
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(sum[i] / t->mesh.all.size);
    return WEIR_OK;
}

weir_err weir_trainer_settle(weir_trainer *t)
{
    if (t->exchange->settle) {
        WEIR_TRY(weir_line_call(t->line, settle_job, t));
        if (!t->dry)
            weir_model_refresh(t->model);
    }
    WEIR_TRY(average_statistics(t));
    t->settled = t->step;
    WEIR_WITNESS(t, WEIR_SEEN_SETTLED, NULL);
    return WEIR_OK;
}

/* Scores `n` test samples, whose indices are `every` apart, in one batch. */
static weir_err score_batch(weir_trainer *t, uint64_t at, uint64_t every, int n, weir_pass *pass,
                            weir_score *score)
{
    uint64_t index[MOST];
    weir_data_pick pick = {.part = WEIR_DATA_TEST, .first = at, .index = index, .n = n};
    weir_data_batch *batch = &t->eval_room;

    if (weir_stop_told(t))
        return WEIR_STALE;
    for (int i = 0; i < n; i++)
        index[i] = at + (uint64_t)i * every;
    WEIR_TRY(t->data.data->get(t->data.self, &pick, batch));
    weir_model_batch b = {.n = batch->n,
                          .x = batch->x,
                          .token = batch->token,
                          .label = batch->label,
                          .value = batch->value};
    return weir_model_forward(t->model, &b, pass, score);
}

static int at_most(const weir_trainer *t, uint64_t left)
{
    int most = t->eval_room.room < MOST ? t->eval_room.room : MOST;

    return left < (uint64_t)most ? (int)left : most;
}

/* Samples that stand alone: [from, to) in batches. */
static weir_err score_range(weir_trainer *t, uint64_t from, uint64_t to, weir_score *score)
{
    weir_pass pass = {.fresh = true};
    int n;

    weir_trainer_heed(t, &pass);
    for (uint64_t at = from; at < to; at += (uint64_t)n) {
        n = at_most(t, to - at);
        WEIR_TRY(score_batch(t, at, 1, n, &pass, score));
    }
    return WEIR_OK;
}

/* Streams [from, to), some at a time, each from its first window to its last. */
static weir_err score_streams(weir_trainer *t, uint64_t from, uint64_t to, uint64_t windows,
                              weir_score *score)
{
    int n;

    for (uint64_t at = from; at < to; at += (uint64_t)n) {
        n = at_most(t, to - at);
        for (uint64_t w = 0; w < windows; w++) {
            weir_pass pass = {.first = at, .fresh = w == 0};
            weir_trainer_heed(t, &pass);
            WEIR_TRY(score_batch(t, at * windows + w, windows, n, &pass, score));
        }
    }
    return WEIR_OK;
}

weir_err weir_trainer_evaluate(weir_trainer *t, weir_score *score)
{
    uint64_t n = t->data.facts.count[WEIR_DATA_TEST],
             streams = (uint64_t)t->data.facts.streams[WEIR_DATA_TEST],
             whole = streams ? streams : n;
    int p = t->mesh.all.size, me = t->mesh.all.me;
    uint64_t from = weir_coll_cut(whole, p, me), to = weir_coll_cut(whole, p, me + 1);
    weir_score mine = {0};
    weir_err err;

    weir_net_phase(t->net, WEIR_PHASE_EVAL, t->step);
    if (!t->eval_room.room)
        WEIR_TRY(weir_data_batch_new(&t->data.facts, t->eval_batch, t->arena, &t->eval_room));
    err =
        streams ? score_streams(t, from, to, n / streams, &mine) : score_range(t, from, to, &mine);
    if (err && err != WEIR_STALE)
        return weir_trainer_lost(t, err);
    WEIR_TRY(weir_stop_agree(t, err == WEIR_STALE));
    if (t->stopped || t->change)
        return WEIR_OK;
    double sum[] = {mine.loss, mine.count, mine.right, mine.squares};
    WEIR_TRY(weir_trainer_sum(t, sum, 4));
    *score = (weir_score){sum[0], sum[1], sum[2], sum[3]};
    return WEIR_OK;
}

const char *weir_trainer_metric(const weir_trainer *t)
{
    static const char *const name[] = {[WEIR_TARGET_CLASSES] = "accuracy",
                                       [WEIR_TARGET_TOKENS] = "perplexity",
                                       [WEIR_TARGET_VALUES] = "rmse"};

    return name[t->data.facts.target];
}

double weir_trainer_value(const weir_trainer *t, const weir_score *s)
{
    if (s->count <= 0)
        return NAN;
    switch (t->data.facts.target) {
    case WEIR_TARGET_TOKENS:
        return exp(s->loss / s->count);
    case WEIR_TARGET_VALUES:
        return sqrt(s->squares / s->count) * t->data.facts.value_scale;
    default:
        return s->right / s->count;
    }
}
