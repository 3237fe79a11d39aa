/* help_peers.c - see help_peers.h. */
#include "help_peers.h"
#include "exchange/buckets.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

const weir_exchange_env *rank_env(rank *r)
{
    r->env = (weir_exchange_env){.same = &r->g,
                                 .all = &r->g,
                                 .coll = &r->coll,
                                 .lane = r->lane,
                                 .lanes = r->lanes,
                                 .arena = r->arena,
                                 .group_arena = r->arena,
                                 .seed = 7};
    return &r->env;
}

const double FIRST_RATE = 0.0625;

float first_param(int i) { return (float)(i % 31 - 15) / 32; }

weir_err peer_open(rank *r, weir_net *net, const plan *p)
{
    weir_bucket *b;
    bool dry = weir_net_dry(net);

    r->t[0] = (weir_tensor){"w", 0, ROWS * COLS, 2, {ROWS, COLS}, true, 0};
    r->t[1] = (weir_tensor){"v", ROWS * COLS, 2000, 2, {20, 100}, true, 1};
    r->t[2] = (weir_tensor){"b", N - 100, 100, 1, {100}, false, 1};
    for (int i = 0; i < N; i++)
        r->param[i] = first_param(i);
    WEIR_TRY(weir_group_all(net, r->arena, &r->g));
    WEIR_TRY(weir_coll_open("ring:segment=4096", &r->g, r->arena, &r->coll));
    WEIR_TRY(weir_buckets_cut(&(weir_flat){r->t, 3, dry ? NULL : r->param, dry ? NULL : r->grad},
                              &(weir_cut_rules){.bytes = 8192, .small = WEIR_SMALL}, r->arena, &b,
                              &r->lanes));
    CHECK(r->lanes >= 4);
    WEIR_TRY(weir_lanes_make(b, r->lanes, p->codec, p->optim, r->arena, &r->lane));
    r->lane[r->lanes - 1].notes = WEIR_EXCHANGE_NOTES;
    WEIR_TRY(weir_plug_make(&p->exchange->plug, "exchange", p->spec, r->arena, &r->self));
    return p->exchange->init(r->self, rank_env(r));
}

void make_gradient(rank *r, plan *p, uint64_t step, double rate)
{
    int me = r->g.me;

    for (int i = 0; i < N; i++) {
        r->grad[i] = (float)((i * 3 + me * 5 + (int)step * 7) % 17 - 8) / 16 +
                     (i == (int)step * 11 % N ? 3.0f : 0);
        if (p->pulls)
            r->grad[i] += 0.3f * r->param[i];
        p->input[me][i] += rate * (double)r->grad[i];
        p->size[me][i] += rate * fabs((double)r->grad[i]);
    }
    for (int i = 0; i < WEIR_EXCHANGE_NOTES; i++)
        r->grad[N + i] = (float)(1000 * (int)step + 10 * i + me);
}

/* How far the last of the others is behind in what it has sent. */
static int behind(plan *p, int me, int steps, int ranks)
{
    int most = 0;

    for (int m = 0; m < ranks; m++)
        if (m != me && steps - atomic_load(&p->sent[m]) > most)
            most = steps - atomic_load(&p->sent[m]);
    return most;
}

weir_err one_step(rank *r, plan *p, uint64_t step)
{
    double rate = FIRST_RATE * pow(p->fall, (double)step);
    weir_commit c = {.when = {.step = step, .epochs = (double)step, .rate = rate},
                     .rate = rate,
                     .keep = true};
    int me = r->g.me, apart;

    if (p->spend > 0)
        WEIR_TRY(weir_net_spend(r->g.net, weir_net_cost(r->g.net, p->spend)));
    if (!weir_net_dry(r->g.net))
        make_gradient(r, p, step, rate);
    for (int i = 0; i < r->lanes; i++) {
        if (me == p->leaves && step == 3 && i == 2)
            return weir_fail(WEIR_FAILED, "left");
        if (i == r->lanes - 1)
            atomic_fetch_add(&p->sent[me],
                             1); /* before: another thread may have it before this one goes on */
        WEIR_TRY(p->exchange->bucket(r->self, &r->lane[i], c.when));
    }
    WEIR_TRY(p->exchange->finish(r->self, &c));
    apart = behind(p, me, (int)step + 1, r->g.size);
    p->apart[me] = apart > p->apart[me] ? apart : p->apart[me];
    p->said[me] = c.apart > p->said[me] ? c.apart : p->said[me];
    return WEIR_OK;
}

/* Sums behind the last lane: of step t - bound, the first one's to begin with, on everybody. */
static weir_err check_notes(const rank *r, const plan *p, int step)
{
    int of = step > p->bound ? step - p->bound : 0;

    for (int i = 0; i < WEIR_EXCHANGE_NOTES; i++) {
        float sum = 0;
        for (int m = 0; m < r->g.size; m++)
            sum += (float)(1000 * of + 10 * i + m);
        CHECK(r->grad[N + i] == sum);
    }
    return WEIR_OK;
}

void leave_results(const rank *r, plan *p)
{
    int me = r->g.me;

    memcpy(p->param[me], r->param, sizeof r->param);
    for (int i = 0; i < r->lanes; i++)
        if (r->lane[i].held.now)
            memcpy(p->held[me] + r->lane[i].bucket->at, r->lane[i].held.now,
                   r->lane[i].bucket->n * sizeof(float));
    p->last[me] = r->grad[N];
}

weir_err all_steps(rank *r, plan *p)
{
    const weir_exchange *x = p->exchange;

    for (int step = 0; step < p->steps; step++) {
        WEIR_TRY(one_step(r, p, (uint64_t)step));
        if (!weir_net_dry(r->g.net))
            WEIR_TRY(check_notes(r, p, step));
    }
    if (p->spoils == r->g.me)
        r->param[ROWS * COLS + 5] += 0.01f;
    for (int twice = 0; twice < 2 && x->settle; twice++)
        WEIR_TRY(x->settle(r->self, (weir_when){.step = (uint64_t)p->steps}));
    leave_results(r, p);
    return WEIR_OK;
}

weir_err run_rank(weir_net *net, void *arg)
{
    plan *p = arg;
    rank *r = calloc(1, sizeof *r);
    weir_err err;
    char why[WEIR_WHY_MAX];

    if (!r || !(r->arena = weir_arena_new()))
        return weir_fail_nomem(0);
    err = peer_open(r, net, p);
    if (!err)
        err = p->run(r, p);
    snprintf(why, sizeof why, "%s", weir_why_text());
    if (r->self && p->exchange->close)
        p->exchange->close(r->self);
    weir_arena_free(r->arena);
    free(r);
    return err ? weir_fail(err, "%s", why) : WEIR_OK;
}

plan *new_plan(const char *spec, int bound, const char *codec)
{
    plan *p = calloc(1, sizeof *p);

    assert_non_null(p);
    *p = (plan){.run = all_steps,
                .exchange =
                    strncmp(spec, "peers", 5) ? &weir_exchange_allreduce : &weir_exchange_peers,
                .spec = spec,
                .codec = codec,
                .optim = "sgd",
                .steps = 12,
                .bound = bound,
                .fall = 1,
                .leaves = -1,
                .spoils = -1};
    return p;
}

void all_well(plan *p, const char *net, int size)
{
    ranks_all_ok(
        &(ranks){.net = net, .size = size, .timeout = 10, .stall = 60, .fn = run_rank, .arg = p});
}

double distance(const float *a, const float *b, size_t n)
{
    double far = 0, most = 0;

    for (size_t i = 0; i < n; i++) {
        far = fmax(far, fabs((double)a[i] - (double)b[i]));
        most = fmax(most, fabs((double)b[i]));
    }
    return far / most;
}
