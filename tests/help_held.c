/* help_held.c - see help_held.h. */
#include "help_held.h"
#include "exchange/buckets.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

const double held_rounding = 0x1p-24;
static const double RATE = 0.125; /* a power of two: moves are as exact as sums */

const weir_exchange *held_exchange(const held_job *j)
{
    const weir_plug *plug;

    assert_int_equal(weir_plug_find(weir_exchanges, "exchange", j->exchange, &plug), WEIR_OK);
    return (const weir_exchange *)plug;
}

uint64_t held_fold(uint64_t h, const void *data, size_t n)
{
    const unsigned char *c = data;

    for (size_t i = 0; i < n; i++)
        h = (h ^ c[i]) * 1099511628211ull;
    return h;
}

weir_exchange_env held_env(held_model *m, const held_job *j, weir_arena *a)
{
    return (weir_exchange_env){.same = &m->g,
                               .all = &m->g,
                               .coll = &m->coll,
                               .lane = m->lane,
                               .lanes = m->lanes,
                               .arena = a,
                               .group_arena = a,
                               .seed = 7,
                               .clip = j->clip};
}

static float held_start(int i) { return (float)(i % 31) / 32; }

weir_err held_open(held_model *m, const held_job *j, weir_arena *a)
{
    weir_bucket *b;
    weir_exchange_env e;

    m->t[0] = (weir_tensor){"u", 0, 4000, 2, {40, 100}, true, 0};
    m->t[1] = (weir_tensor){"w", 4000, 2000, 2, {20, 100}, true, 1};
    m->t[2] = (weir_tensor){"b", 6000, 100, 1, {100}, false, 1};
    for (int i = 0; i < HELD_N; i++)
        m->param[i] = held_start(i);
    WEIR_TRY(weir_buckets_cut(&(weir_flat){m->t, 3, m->param, m->grad},
                              &(weir_cut_rules){.bytes = 8192, .small = WEIR_SMALL}, a, &b,
                              &m->lanes));
    WEIR_TRY(weir_lanes_make(b, m->lanes, j->codec, j->optim, a, &m->lane));
    m->lane[m->lanes - 1].notes = WEIR_EXCHANGE_NOTES;
    WEIR_TRY(weir_plug_make(&held_exchange(j)->plug, "exchange", j->exchange, a, &m->self));
    e = held_env(m, j, a);
    return held_exchange(j)->init(m->self, &e);
}

/* What a machine puts in; its workers' parts add up to it. Whole numbers of up to 13 bits: what
 * fits into 16 bits of a float would never wait, and sums of all of it fit into a float. */
static float whole(int machine, uint64_t step, int i)
{
    return 1025 * (float)((i * 7 + machine * 5 + (int)step * 3 + i * i % 11) % 15 - 7);
}

static float part(int machine, int member, int split, uint64_t step, int i)
{
    float other = (float)(i % 3);

    if (split == 1)
        return whole(machine, step, i);
    return member ? other : whole(machine, step, i) - (float)(split - 1) * other;
}

/* What a rank's part of a step comes to in size, element by element: what it holds back before and
 * after, as a worker and as the owner of a stripe, its momentum and its gradient. */
static void step_sizes(const held_model *m, bool gradient, double *size)
{
    static held_sum now; /* a simulated world has one thread */

    memset(&now, 0, sizeof now);
    held_add(m, &now);
    for (int i = 0; i < HELD_N; i++)
        size[i] += now.size[HELD_BACK][i] + now.size[HELD_SPEED][i] +
                   (gradient ? fabs((double)m->grad[i]) : 0);
}

/* Roundings of a step, each of something that is at most as large as these sizes together: two
 * where momentum and gradient become what goes on, one where that meets what was held back, one of
 * what is held back now; as many as there are ranks where their messages are added; two where the
 * owner of a stripe encodes the sum. Products of thin matrices mix a column's elements (see
 * test_codec.c), of 40 rows at most here. And the parameters' own. */
static void add_room(const held_model *m, held_job *j, const double *size)
{
    double roundings = (m->g.size + 6) * held_rounding, most = 0;
    bool mixes = m->lane[0].codec->kind->rounds > 1;

    for (int i = 0; i < HELD_N; i++)
        most = fmax(most, size[i]);
    for (int i = 0; i < HELD_N; i++) {
        j->room[i] += roundings * (mixes ? sqrt(40) * most : size[i]);
        if (!m->g.me)
            j->room[i] += m->g.size * held_rounding * fabs((double)m->param[i]) / RATE;
    }
}

weir_err held_step(held_model *m, held_job *j, int machine, int member, uint64_t step)
{
    const weir_exchange *x = held_exchange(j);
    double *size = calloc(HELD_N, sizeof *size);
    weir_commit c = {.when = {.step = step, .epochs = 10, .rate = RATE},
                     .rate = RATE,
                     .clip = j->clip,
                     .keep = true};
    weir_err err = size ? WEIR_OK : weir_fail_nomem(0);

    for (int i = 0; i < HELD_N + WEIR_EXCHANGE_NOTES; i++)
        m->grad[i] = part(machine, member, j->split, step, i);
    for (int i = 0; i < HELD_N; i++)
        j->put[i] += (double)m->grad[i];
    if (!err)
        step_sizes(m, true, size);
    for (int i = 0; i < m->lanes && !err; i++)
        err = x->bucket(m->self, &m->lane[i], c.when);
    if (!err)
        err = x->finish(m->self, &c);
    if (!err) {
        step_sizes(m, false, size);
        add_room(m, j, size);
    }
    free(size);
    return err;
}

static void add_to(held_sum *sum, int kind, size_t at, float x)
{
    sum->of[kind][at] += (double)x;
    sum->size[kind][at] += fabs((double)x);
}

void held_add(const held_model *m, held_sum *sum)
{
    for (const weir_lane *l = m->lane; l < m->lane + m->lanes; l++) {
        const weir_stripes *own = &l->codec->stripes;
        const weir_stripe *s = own->owned.now ? weir_stripes_own(own) : NULL;
        for (size_t i = 0; l->held.now && i < l->bucket->n; i++)
            add_to(sum, HELD_BACK, l->bucket->at + i, l->held.now[i]);
        for (size_t i = 0; l->speed.now && i < l->bucket->n; i++)
            add_to(sum, HELD_SPEED, l->bucket->at + i, l->speed.now[i]);
        for (size_t i = 0; s && i < s->bucket.n; i++)
            add_to(sum, HELD_BACK, l->bucket->at + s->at + i, own->owned.now[i]);
    }
}

void held_take_sent(const held_model *m, held_job *j)
{
    for (int i = 0; i < HELD_N; i++)
        j->sent[i] = ((double)held_start(i) - (double)m->param[i]) / RATE;
}
