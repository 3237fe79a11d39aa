/* storm_sums.c - what ranks give to a step, what of it moves the weights, and what is held back.
 *
 * Of every step, by parameter: the gradients of all members, with what they held back before, come
 * to the sum that moves the weights and what they hold back after. Numbers are floats, so this
 * holds up to what rounding may do: each of the numbers that go in is rounded a few times on its
 * way, and every sum of p of them p - 1 times, in whatever order. So the difference is at most
 *
 *   (2 p + 8) u S,   u = 2^-24, S = all absolute values that go in, and those that come out
 *
 * A codec that multiplies matrices (rounds > 1) rounds products of whole rows: there S is the
 * largest of its lane, times the lane's length. What a codec drops for good (residual=no) cannot be
 * found again, nor what momentum before the codec has made of a gradient: such lanes are left
 * out. A mistake is of the size of a gradient, millions of times the bound. */
#include "train/storm_inside.h"
#include <math.h>
#include <string.h>

typedef unsigned long long ull;

static const double U = 0x1p-24;

/* ---- what is held back ---- */

/* Of one element of a lane, everything: also as the owner of a stripe. *size: without signs, as
 * the two may cancel. */
static double held_at(const weir_lane *l, size_t i, double *size)
{
    double held = l->held.now ? (double)l->held.now[i] : 0;

    *size = fabs(held);
    for (const weir_lane_codec *c = l->candidate; c < l->candidate + l->candidates; c++) {
        const weir_stripe *mine = weir_stripes_own(&c->stripes);
        if (!c->stripes.owned.now || i < mine->at || i >= mine->at + mine->bucket.n)
            continue;
        held += (double)c->stripes.owned.now[i - mine->at];
        *size += fabs((double)c->stripes.owned.now[i - mine->at]);
    }
    return held;
}

static void look_at_held(const weir_trainer *t, storm_node *n)
{
    for (const weir_lane *l = t->lane; l < t->lane + t->lanes; l++)
        for (size_t i = 0, at = l->bucket->at; i < l->bucket->n; i++, at++)
            n->held[at] = held_at(l, i, &n->size[at]);
}

static bool make_room(storm_watch *w, storm_node *n)
{
    if (!n->held) {
        n->held = WEIR_NEW(w->arena, double, 2 * w->params);
        n->size = n->held ? n->held + w->params : NULL;
        n->param = WEIR_NEW(w->arena, float, w->params);
    }
    w->nomem |= !n->held || !n->param;
    return !w->nomem;
}

static void keep(storm_watch *w, storm_node *n, const weir_trainer *t)
{
    if (!make_room(w, n))
        return;
    look_at_held(t, n);
    memcpy(n->param, t->param, w->params * sizeof *n->param);
    n->known = true;
}

/* Nothing of it changes between steps, but that folding a stripe's into the rest rounds once. */
static void compare_lane(storm_watch *w, const storm_node *n, const weir_trainer *t,
                         const weir_lane *l)
{
    for (size_t i = 0; i < l->bucket->n; i++) {
        double size, now = held_at(l, i, &size), before = n->held[l->bucket->at + i];
        if (fabs(now - before) > 4 * U * (size + n->size[l->bucket->at + i])) {
            weir_storm_broken(w,
                              "held back: rank %d held back %g of parameter %zu after step %llu, "
                              "and %g in generation %d",
                              weir_net_rank(t->net), before, l->bucket->at + i, (ull)t->step, now,
                              weir_net_generation(t->net));
            return;
        }
    }
}

/* Members of a machine give what they hold back to their first one in the step after a change. */
static bool stays_put(const weir_trainer *t) { return !t->facts.options.levels; }

void weir_storm_sums_begin(storm_watch *w, storm_node *n, const weir_trainer *t)
{
    const storm_generation *last = n->seen ? weir_storm_generation(w, n->generation) : NULL;
    bool handed = last && last->handed && last->handed < last->count;

    if (t->exchange->drifts) /* a loss may have committed some of it: sums_settle */
        return;
    for (int i = 0; n->known && stays_put(t) && !handed && i < t->lanes; i++)
        compare_lane(w, n, t, &t->lane[i]);
    keep(w, n, t);
}

/* ---- from hand to hand ---- */

static bool compare_hands(storm_watch *w, const storm_generation *g, size_t i)
{
    double apart = fabs(g->before[i] - g->after[i]);

    if (apart <= (2 * g->count + 8) * U * g->size[i])
        return true;
    weir_storm_broken(w,
                      "held back: those of generation %d held back %g of parameter %zu, and %g "
                      "when some had handed theirs over",
                      g->number, g->before[i], i, g->after[i]);
    return false;
}

/* All of its members are there: in sum they hold what they held. */
void weir_storm_sums_hand_over(storm_watch *w, storm_generation *g, storm_node *n,
                               const weir_trainer *t)
{
    if (!g->before) {
        g->before = WEIR_NEW(w->arena, double, 3 * w->params);
        if (!g->before) {
            w->nomem = true;
            return;
        }
        g->after = g->before + w->params;
        g->size = g->after + w->params;
    }
    for (size_t i = 0; n->known && i < w->params; i++) {
        g->before[i] += n->held[i];
        g->size[i] += n->size[i];
    }
    keep(w, n, t);
    for (size_t i = 0; i < w->params; i++) {
        g->after[i] += n->held[i];
        g->size[i] += n->size[i];
    }
    g->handed++;
    for (size_t i = 0; g->handed == g->count && i < w->params; i++)
        if (!compare_hands(w, g, i))
            return;
}

/* ---- steps ---- */

void weir_storm_sums_leave(storm_watch *w, storm_attempt *a, storm_node *n, const weir_trainer *t,
                           const weir_lane *l)
{
    const weir_bucket *b = l->bucket;
    bool together = !t->exchange->drifts;

    if (n->known && stays_put(t) && together)
        compare_lane(w, n, t, l);
    for (size_t i = 0; i < b->n; i++) {
        double size = 0, held = together ? held_at(l, i, &size) : 0, grad = (double)b->grad[i];
        a->in[b->at + i] += grad + held;
        a->size[b->at + i] += fabs(grad) + size;
    }
    a->left++;
}

/* Something is gone for good, or was changed on the way. */
static bool is_open(const weir_lane *l)
{
    bool open = l->speed.now != NULL;

    for (const weir_lane_codec *c = l->candidate; c < l->candidate + l->candidates; c++)
        open |= !c->kind->raw && !c->kind->exact && !c->feedback->residual;
    return open;
}

static bool multiplies(const weir_lane *l)
{
    for (const weir_lane_codec *c = l->candidate; c < l->candidate + l->candidates; c++)
        if (c->kind->rounds > 1)
            return true;
    return false;
}

static void check_lane(storm_watch *w, const storm_attempt *a, const storm_generation *g,
                       const weir_lane *l)
{
    double most = 0, size;

    for (size_t i = l->bucket->at; i < l->bucket->at + l->bucket->n; i++)
        most = fmax(most, a->size[i] + fabs(a->sum[i]));
    for (size_t i = l->bucket->at; i < l->bucket->at + l->bucket->n; i++) {
        size = multiplies(l) ? most * (double)l->bucket->n : a->size[i] + fabs(a->sum[i]);
        w->result->checked++;
        if (fabs(a->in[i] - a->out[i] - a->sum[i]) <= (2 * g->count + 8) * U * size)
            continue;
        weir_storm_broken(
            w,
            "sums: step %llu of generation %d: of parameter %zu %g was given and held "
            "back, %g moves the weights and %g is held back after",
            (ull)a->step, a->generation, i, a->in[i], a->sum[i], a->out[i]);
        return;
    }
}

/* Those that hold nothing back can be compared when the first has committed; the others when it is
 * known what all of them hold now. */
static void check_step(storm_watch *w, const storm_attempt *a, const weir_trainer *t, bool first)
{
    const storm_generation *g = weir_storm_generation(w, a->generation);
    bool all = __builtin_popcount(a->stepped) == g->count;

    for (const weir_lane *l = t->lane; l < t->lane + t->lanes; l++)
        if (!is_open(l) && (l->held.now ? all : first))
            check_lane(w, a, g, l);
}

/* Plain SGD: what the sum is says by how much weights move. */
static void check_move(storm_watch *w, const storm_attempt *a, const storm_node *n,
                       const weir_trainer *t)
{
    double rate = t->now.commit.rate;

    if (strcmp(t->set->optim, "sgd") || t->exchange->drifts || !n->known)
        return;
    for (size_t i = 0; i < w->params; i++) {
        double before = (double)n->param[i], by = rate * a->sum[i], now = (double)t->param[i];
        if (fabs(before - by - now) <= 4 * U * (fabs(before) + fabs(by)))
            continue;
        weir_storm_broken(w,
                          "sums: step %llu of generation %d: parameter %zu moves by %g on rank %d, "
                          "where the rate times the sum is %g",
                          (ull)a->step, a->generation, i, before - now, n->rank, by);
        return;
    }
}

void weir_storm_sums_commit(storm_watch *w, storm_attempt *a, storm_node *n, const weir_trainer *t,
                            bool first)
{
    if (first)
        for (size_t i = 0; i < w->params; i++)
            a->sum[i] = (double)t->grad[i];
    check_move(w, a, n, t);
    keep(w, n, t);
    for (size_t i = 0; i < w->params && !w->nomem; i++) {
        a->out[i] += n->held[i];
        a->size[i] += n->size[i];
    }
    a->stepped |= 1u << (n - w->node);
    check_step(w, a, t, first);
}

/* ---- where replicas drift ---- */

static bool can_compare(const weir_trainer *t)
{
    return !strcmp(t->set->optim, "sgd") && t->now.commit.rate > 0;
}

/* All that any member gave to steps from one settle to the next has moved the weights, times the
 * rate, or is held back. Weights are rounded each time they move. */
static void check_between(storm_watch *w, const storm_settled *last, const storm_settled *now,
                          const storm_generation *g, const weir_trainer *t)
{
    double rate = t->now.commit.rate, moves = (double)(now->step - last->step) * g->count;

    for (const weir_lane *l = t->lane; l < t->lane + t->lanes; l++) {
        for (size_t i = l->bucket->at; !is_open(l) && i < l->bucket->at + l->bucket->n; i++) {
            double in = last->held[i], size = last->size[i] + now->size[i];
            for (uint64_t step = last->step + 1; step <= now->step; step++) {
                const storm_attempt *a = weir_storm_attempt(w, g->number, step);
                in += a ? a->in[i] : 0;
                size += a ? a->size[i] : 0;
            }
            double moved = (last->param[i] - now->param[i]) / rate,
                   weight = (fabs(last->param[i]) + rate * size) / rate;
            w->result->checked++;
            if (fabs(in - now->held[i] - moved) <=
                (2 * g->count + 8) * U * size + 2 * (moves + 1) * U * weight)
                continue;
            weir_storm_broken(w,
                              "sums: from step %llu to %llu of generation %d: of parameter %zu %g "
                              "was given and held back, %g moved the weights and %g is held back",
                              (ull)last->step, (ull)now->step, g->number, i, in, moved,
                              now->held[i]);
            return;
        }
    }
}

void weir_storm_sums_settle(storm_watch *w, storm_settled *now, const storm_settled *last,
                            storm_node *n, const weir_trainer *t)
{
    const storm_generation *g = weir_storm_generation(w, now->generation);
    uint32_t me = 1u << (n - w->node);

    if (now->came & me)
        return;
    if (!now->param && !(now->param = WEIR_NEW(w->arena, double, 3 * w->params))) {
        w->nomem = true;
        return;
    }
    now->held = now->param + w->params;
    now->size = now->held + w->params;
    keep(w, n, t);
    for (size_t i = 0; i < w->params && !w->nomem; i++) {
        now->param[i] = (double)t->param[i];
        now->held[i] += n->held[i];
        now->size[i] += n->size[i];
    }
    if (g && last && last->param && can_compare(t) &&
        __builtin_popcount(now->came | me) == g->count &&
        __builtin_popcount(last->came) == g->count)
        check_between(w, last, now, g, t);
}
