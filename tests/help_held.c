/* help_held.c - see help_held.h. */
#include "help_held.h"

const weir_exchange *const held_exchange = &weir_exchange_allreduce;

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

weir_err held_open(held_model *m, const held_job *j, weir_arena *a)
{
    weir_bucket *b;
    weir_exchange_env e;

    m->t[0] = (weir_tensor){"u", 0, 4000, 2, {40, 100}, true, 0};
    m->t[1] = (weir_tensor){"w", 4000, 2000, 2, {20, 100}, true, 1};
    m->t[2] = (weir_tensor){"b", 6000, 100, 1, {100}, false, 1};
    for (int i = 0; i < HELD_N; i++)
        m->param[i] = (float)(i % 31) / 32;
    WEIR_TRY(weir_buckets_cut(m->t, 3, &(weir_cut_rules){.bytes = 8192, .small = WEIR_SMALL},
                              m->param, m->grad, a, &b, &m->lanes));
    WEIR_TRY(weir_lanes_make(b, m->lanes, j->codec, j->optim, a, &m->lane));
    m->lane[m->lanes - 1].notes = WEIR_NOTES;
    WEIR_TRY(weir_plug_make(&held_exchange->plug, "exchange", j->exchange, a, &m->self));
    e = held_env(m, j, a);
    return held_exchange->init(m->self, &e);
}

/* What a machine puts in; its workers' parts add up to it. */
static float whole(int machine, uint64_t step, int i)
{
    return (float)((i * 7 + machine * 5 + (int)step * 3 + i * i % 11) % 15 - 7);
}

static float part(int machine, int member, int split, uint64_t step, int i)
{
    float other = (float)(i % 3);

    if (split == 1)
        return whole(machine, step, i);
    return member ? other : whole(machine, step, i) - (float)(split - 1) * other;
}

weir_err held_step(held_model *m, held_job *j, int machine, int member, uint64_t step)
{
    weir_commit c = {.turn = {.step = step, .epochs = 10},
                     .rate = 0.125,
                     .clip = j->clip,
                     .keep = true};

    for (int i = 0; i < HELD_N + WEIR_NOTES; i++)
        m->grad[i] = part(machine, member, j->split, step, i);
    for (int i = 0; i < HELD_N; i++)
        j->put[i] += (double)m->grad[i];
    for (int i = 0; i < m->lanes; i++)
        WEIR_TRY(held_exchange->bucket(m->self, &m->lane[i], c.turn));
    return held_exchange->finish(m->self, &c);
}

void held_add(const held_model *m, double *held, double *speed)
{
    for (const weir_lane *l = m->lane; l < m->lane + m->lanes; l++) {
        const weir_stripe *s = l->owned.now ? &l->stripe[l->mine] : NULL;
        for (size_t i = 0; i < l->bucket->n; i++) {
            held[l->bucket->at + i] += l->held.now ? (double)l->held.now[i] : 0;
            speed[l->bucket->at + i] += l->speed.now ? (double)l->speed.now[i] : 0;
        }
        for (size_t i = 0; s && i < s->bucket.n; i++)
            held[l->bucket->at + s->at + i] += (double)l->owned.now[i];
    }
}

void held_add_sent(const held_model *m, held_job *j)
{
    for (int i = 0; i < HELD_N; i++)
        j->sent[i] += (double)m->grad[i];
}
