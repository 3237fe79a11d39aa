/* evaluate.c - the test part, shared by the workers, and other sums over them. */
#include "train/trainer.h"
#include <math.h>
#include <string.h>

typedef struct sums { weir_trainer *t; void *at; size_t n; const weir_sum *sum; } sums;

static weir_err sum_job(void *arg)
{
    sums *s = arg;

    return weir_allreduce(&s->t->coll, &s->t->all, s->at, s->n, s->sum);
}

weir_err weir_trainer_sum(weir_trainer *t, double *x, int n)
{
    sums s = {t, x, (size_t)n, &weir_sum_f64};

    return weir_comm_call(t->comm, sum_job, &s);
}

typedef struct gathering { weir_trainer *t; uint64_t *all; size_t *off, *len; } gathering;

static weir_err gather_job(void *arg)
{
    gathering *g = arg;

    return weir_allgather(&g->t->coll, &g->t->all, g->all, g->off, g->len);
}

weir_err weir_trainer_gather(weir_trainer *t, uint64_t mine, uint64_t *all)
{
    int p = t->all.size;
    size_t *off = WEIR_NEW(t->arena, size_t, p), *len = WEIR_NEW(t->arena, size_t, p);

    if (!off || !len)
        return weir_fail_nomem((size_t)p * 16);
    for (int i = 0; i < p; i++) {
        off[i] = (size_t)i * sizeof mine;
        len[i] = sizeof mine;
    }
    all[t->all.me] = mine;
    return weir_comm_call(t->comm, gather_job, &(gathering){t, all, off, len});
}

static weir_err settle_job(void *arg)
{
    weir_trainer *t = arg;

    return t->exchange->settle(t->exchanger, (weir_turn){.step = t->step});
}

/* Running statistics are each worker's own until here. */
static weir_err average_still(weir_trainer *t)
{
    size_t n;
    float *still = weir_model_still(t->model, &n);

    if (!n || t->all.size == 1)
        return WEIR_OK;
    for (size_t i = 0; i < n; i++)
        t->still[i] = still[i];
    WEIR_TRY(weir_trainer_sum(t, t->still, (int)n));
    for (size_t i = 0; i < n; i++)
        still[i] = (float)(t->still[i] / t->all.size);
    return WEIR_OK;
}

weir_err weir_trainer_settle(weir_trainer *t)
{
    if (t->exchange->settle)
        WEIR_TRY(weir_comm_call(t->comm, settle_job, t));
    return average_still(t);
}

/* Scores test samples [from, to) in batches. */
static weir_err score_range(weir_trainer *t, uint64_t from, uint64_t to, weir_batch *batch, weir_score *score)
{
    uint64_t index[1024];
    int most = batch->room < 1024 ? batch->room : 1024;

    for (uint64_t at = from; at < to; at += (uint64_t)batch->n) {
        weir_pick pick = {.part = WEIR_TEST, .first = at, .index = index, .n = to - at < (uint64_t)most ? (int)(to - at) : most};
        for (int i = 0; i < pick.n; i++)
            index[i] = at + (uint64_t)i;
        WEIR_TRY(t->data.data->get(t->data.self, &pick, batch));
        weir_model_batch b = {.n = batch->n, .x = batch->x, .token = batch->token, .label = batch->label, .value = batch->value};
        WEIR_TRY(weir_model_forward(t->model, &b, &(weir_pass){.training = false}, score));
    }
    return WEIR_OK;
}

weir_err weir_trainer_evaluate(weir_trainer *t, weir_score *score)
{
    uint64_t n = t->data.facts.count[WEIR_TEST];
    int p = t->all.size, me = t->all.me;
    weir_score mine = {0};

    weir_net_phase(t->net, WEIR_PHASE_EVAL, t->step);
    if (!t->eval_room.room)
        WEIR_TRY(weir_batch_new(&t->data.facts, t->eval_batch, t->arena, &t->eval_room));
    WEIR_TRY(score_range(t, weir_cut(n, p, me), weir_cut(n, p, me + 1), &t->eval_room, &mine));
    double sum[] = {mine.loss, mine.count, mine.right, mine.squares};
    WEIR_TRY(weir_trainer_sum(t, sum, 4));
    *score = (weir_score){sum[0], sum[1], sum[2], sum[3]};
    return WEIR_OK;
}

const char *weir_trainer_metric(const weir_trainer *t)
{
    static const char *const name[] = {[WEIR_CLASSES] = "accuracy", [WEIR_TOKENS] = "perplexity", [WEIR_VALUES] = "rmse"};

    return name[t->data.facts.target];
}

double weir_trainer_value(const weir_trainer *t, const weir_score *s)
{
    if (s->count <= 0)
        return NAN;
    switch (t->data.facts.target) {
    case WEIR_TOKENS: return exp(s->loss / s->count);
    case WEIR_VALUES: return sqrt(s->squares / s->count);
    default: return s->right / s->count;
    }
}
