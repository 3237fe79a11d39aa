/* storm_check.c - when all ranks of a storm have ended: is what they did one history, made by
 * quorums, of every sample once, and has everybody ended as it had to? See storm.h. */
#include "train/storm_inside.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long ull;

/* ---- what was ordered ---- */

static bool ordered(const weir_storm *s, int i) { return !(s->without >> i & 1); }

/* When this node was killed, or stopped for ever, if it was; else never. */
static double killed_at(const storm_watch *w, int node)
{
    const weir_storm *s = w->storm;
    double at = WEIR_NEVER;

    for (int i = 0; i < s->faults; i++) {
        const weir_storm_fault *f = &s->fault[i];
        bool ends = f->kind == WEIR_STORM_KILL || (f->kind == WEIR_STORM_PAUSE && f->lasts <= 0);
        if (ordered(s, i) && ends && f->a == node)
            at = fmin(at, f->at);
    }
    /* numbers of nine digits reach the run */
    return w->node[node].ended && w->node[node].ended_at < at * (1 - 1e-8) ? WEIR_NEVER : at;
}

/* It lasts so long that somebody is given up; a hair shorter may do, as it is noticed later. */
static bool is_long(const weir_storm *s, const weir_storm_fault *f)
{
    return (f->kind == WEIR_STORM_PAUSE || f->kind == WEIR_STORM_CUT) &&
           (f->lasts <= 0 || f->lasts > 0.99 * s->timeout);
}

static int count_faults(const weir_storm *s, weir_storm_kind kind)
{
    int n = 0;

    for (int i = 0; i < s->faults; i++)
        n += ordered(s, i) && s->fault[i].kind == kind;
    return n;
}

/* Pauses and cuts of the same ones that follow each other, or meet, may make a long one. */
static int count_long(const weir_storm *s)
{
    int n = 0, some = 0;

    for (int i = 0; i < s->faults; i++) {
        bool silent = s->fault[i].kind == WEIR_STORM_PAUSE || s->fault[i].kind == WEIR_STORM_CUT;
        n += ordered(s, i) && is_long(s, &s->fault[i]);
        some += ordered(s, i) && silent;
    }
    return some > 1 ? some : n;
}

static bool was_asked(const weir_storm *s, int node)
{
    for (int i = 0; i < s->faults; i++)
        if (ordered(s, i) && s->fault[i].kind == WEIR_STORM_LEAVE && s->fault[i].a == node)
            return true;
    return false;
}

/* ---- one history ---- */

static int by_number(const void *a, const void *b)
{
    return ((const storm_generation *)a)->number - ((const storm_generation *)b)->number;
}

/* The state with which a generation began, as the one before has it. */
static const storm_state *state_at(const storm_watch *w, const storm_generation *g, uint64_t step)
{
    const storm_attempt *a;

    if (step == g->begin.step)
        return &g->begin;
    a = weir_storm_attempt(w, g->number, step);
    return a && a->committed ? &a->end : NULL;
}

static void check_link(storm_watch *w, const storm_generation *g, const storm_generation *next)
{
    const storm_state *s = state_at(w, g, next->begin.step);

    if (!s || (!w->drifts && s->hash != next->begin.hash) || s->samples != next->begin.samples)
        weir_storm_broken(w,
                          "one history: generation %d begins at step %llu with hash %016llx, which "
                          "generation %d did not come to",
                          next->number, (ull)next->begin.step, (ull)next->begin.hash, g->number);
}

/* Whatever a generation committed beyond where the next one began is one step, and no member of
 * that has it. */
static void check_beyond(storm_watch *w, const storm_generation *g, const storm_generation *next)
{
    for (int i = 0; i < w->attempts; i++) {
        const storm_attempt *a = &w->attempt[i];
        if (a->generation != g->number || !a->committed || a->step <= next->begin.step)
            continue;
        if (a->step > next->begin.step + 1)
            weir_storm_broken(w,
                              "one history: generation %d committed step %llu, and generation %d "
                              "begins at %llu",
                              g->number, (ull)a->step, next->number, (ull)next->begin.step);
        for (int m = 0; m < next->count; m++)
            if (next->node[m] >= 0 && a->stepped >> next->node[m] & 1)
                weir_storm_broken(w,
                                  "one history: rank %d had step %llu, and is in generation %d, "
                                  "which begins at %llu",
                                  next->rank[m], (ull)a->step, next->number, (ull)next->begin.step);
    }
}

/* ---- quorum ---- */

/* Those who agreed on the next one were alive then, and those who are in it certainly were. */
static void check_quorum(storm_watch *w, const storm_generation *g, const storm_generation *next)
{
    int alive = 0;
    bool lowest = false;

    if (next->number != g->number + 1)
        return; /* there was one between them, which nobody began in */
    for (int i = 0; i < g->count; i++) {
        bool lives = g->node[i] < 0 || killed_at(w, g->node[i]) >= next->at ||
                     weir_storm_member(next, g->rank[i]);
        alive += lives;
        lowest |= !i && lives;
    }
    if (!(2 * alive > g->count || (2 * alive == g->count && lowest)))
        weir_storm_broken(w, "quorum: generation %d goes on with %d of %d of generation %d alive",
                          next->number, alive, g->count, g->number);
}

/* ---- samples ---- */

/* Along the one history: a generation's steps up to where the next one begins. */
static const storm_attempt *step_of_history(const storm_watch *w, uint64_t step)
{
    const storm_generation *g = NULL;

    for (int i = 0; i < w->generations; i++)
        if (w->generation[i].begin.step < step)
            g = &w->generation[i];
    return g ? weir_storm_attempt(w, g->number, step) : NULL;
}

static uint64_t last_step(const storm_watch *w)
{
    uint64_t last = w->generations ? w->generation[w->generations - 1].begin.step : 0;

    for (int i = 0; w->generations && i < w->attempts; i++)
        if (w->attempt[i].generation == w->generation[w->generations - 1].number &&
            w->attempt[i].committed && w->attempt[i].step > last)
            last = w->attempt[i].step;
    return last;
}

/* All members of its generation had made this step, or what others lacked of it, when it ended:
 * another generation begins behind it, or ranks end well. */
static bool is_complete(const storm_watch *w, const storm_attempt *a)
{
    if (w->generations && a->generation < w->generation[w->generations - 1].number)
        return true;
    for (int i = 0; i < WEIR_STORM_NODES; i++)
        if (w->node[i].ended && !w->node[i].err && !w->node[i].left && w->node[i].seen)
            return true;
    return false;
}

static void check_epochs(storm_watch *w)
{
    int *times = calloc(w->sample_count + 1, sizeof *times);
    uint64_t epoch = 0, last = last_step(w);

    for (uint64_t step = 1; times && step <= last; step++) {
        const storm_attempt *a = step_of_history(w, step);
        if (!a || !a->committed) {
            weir_storm_broken(w, "one history: step %llu of %llu is nobody's", (ull)step,
                              (ull)last);
            break;
        }
        if (w->drifts && is_complete(w, a))
            weir_storm_check_samples(w, a);
        for (int i = 0; i < a->indices; i++)
            times[a->index[i]]++;
        if (a->end.cursor.epoch == epoch)
            continue;
        for (uint64_t i = 0; i < w->sample_count; i++) {
            if (times[i] != 1 && is_complete(w, a))
                weir_storm_broken(w, "samples: sample %llu counts %d times in epoch %llu", (ull)i,
                                  times[i], (ull)epoch);
            times[i] = 0;
        }
        epoch = a->end.cursor.epoch;
    }
    w->result->steps = last;
    free(times);
}

/* ---- the log ---- */

/* Where replicas drift a loss takes steps back that were told: they are told again, or the run does
 * not come to them any more. */
static bool is_taken_back(const storm_watch *w, int line)
{
    if (w->drifts && w->line[line].step > last_step(w))
        return true;
    for (int i = line + 1; w->drifts && i < w->lines; i++)
        if (w->line[i].step == w->line[line].step)
            return true;
    return false;
}

static bool is_loss_of(const storm_attempt *a, const storm_line *l)
{
    return a && a->committed && a->step == l->step &&
           fabs(a->loss - l->loss) <= 1e-6 * (fabs(a->loss) + 1);
}

/* Where replicas drift a loss takes some steps back, and they are made again. One who wrote, was
 * stopped for long and does not know of it yet adds its own as it had made them. */
static bool was_made(const storm_watch *w, const storm_line *l)
{
    for (int i = 0; w->drifts && count_long(w->storm) && i < w->attempts; i++)
        if (is_loss_of(&w->attempt[i], l))
            return true;
    return is_loss_of(step_of_history(w, l->step), l);
}

static void check_log(storm_watch *w)
{
    uint64_t last = 0;

    for (int i = 0; i < w->lines; i++) {
        const storm_line *l = &w->line[i];
        const storm_attempt *a = step_of_history(w, l->step);
        if (is_taken_back(w, i))
            continue;
        if (l->step < last && !count_long(w->storm))
            weir_storm_broken(w, "log: step %llu stands behind step %llu", (ull)l->step, (ull)last);
        if (!was_made(w, l))
            weir_storm_broken(w, "log: step %llu has loss %.9g, and %.9g in the history",
                              (ull)l->step, l->loss, a ? a->loss : NAN);
        last = l->step;
    }
}

/* ---- ending ---- */

/* Seconds that one may wait, beside its own pauses: for each fault until it is noticed and agreed
 * on (a second for a round that leads to nothing, a quarter more for each who is lower), for a
 * newcomer who never greets, and for what packets cost that are dropped often. */
static double longest_wait(const storm_watch *w, int node)
{
    const weir_storm *s = w->storm;
    double each = 2 * s->timeout + 1 + 0.25 * (s->ranks + s->joins) + 1, own = 0;

    for (int i = 0; i < s->faults; i++)
        if (ordered(s, i) && s->fault[i].kind == WEIR_STORM_PAUSE && s->fault[i].a == node)
            own += s->fault[i].lasts > 0 ? s->fault[i].lasts : WEIR_NEVER;
    return (s->faults + 1) * each + own;
}

static void check_waiting(storm_watch *w)
{
    for (int i = 0; i < WEIR_STORM_NODES; i++) {
        const storm_node *n = &w->node[i];
        if (n->seen && n->waited > longest_wait(w, i) && killed_at(w, i) >= WEIR_NEVER)
            weir_storm_broken(w, "waiting: rank %d waited %.3g s, and %.3g s is the most", n->rank,
                              n->waited, longest_wait(w, i));
    }
}

/* Who has this rank; -1: it has never begun. */
static int node_of(const storm_watch *w, int rank)
{
    for (int i = 0; i < WEIR_STORM_NODES; i++)
        if (w->node[i].seen && w->node[i].rank == rank)
            return i;
    return -1;
}

/* Of the list that it agreed on last, in which it may never have begun, too many are dead, have
 * ended, or never came. */
static bool agreed_on_too_few(const storm_watch *w, const storm_node *n)
{
    int here = 0;
    bool lowest = false;

    for (int i = 0; i < n->agreed_count; i++) {
        int k = node_of(w, n->agreed[i]);
        bool lives = k >= 0 && killed_at(w, k) > n->ended_at &&
                     !(w->node[k].ended && w->node[k].ended_at < n->ended_at);
        here += lives;
        lowest |= !i && lives;
    }
    return n->agreed_count &&
           !(2 * here > n->agreed_count || (2 * here == n->agreed_count && lowest));
}

/* Of its last generation too many have died or left. */
static bool has_too_few(const storm_watch *w, const storm_node *n)
{
    storm_generation *g = weir_storm_generation((storm_watch *)(uintptr_t)w, n->generation);
    int here = 0;
    bool lowest = false;

    for (int i = 0; g && i < g->count; i++) {
        const storm_node *m = g->node[i] >= 0 ? &w->node[g->node[i]] : NULL;
        bool lives =
            m && killed_at(w, g->node[i]) > n->ended_at && !(m->ended && m->ended_at < n->ended_at);
        here += lives;
        lowest |= !i && lives;
    }
    return !g || !(2 * here > g->count || (2 * here == g->count && lowest));
}

/* Without --elastic one loss ends all. */
static bool anything_bad(const weir_storm *s)
{
    return count_faults(s, WEIR_STORM_KILL) || count_long(s) > 0;
}

/* It did not end well: does it say why, and is it true? */
static void check_error(storm_watch *w, int node)
{
    const storm_node *n = &w->node[node];
    bool silence = count_long(w->storm) > 0, known = false;

    known |= n->err == WEIR_LOST || n->err == WEIR_SILENT || n->err == WEIR_STALE;
    if (!known)
        weir_storm_broken(w, "ending: node %d ended with %s: %.200s", node, weir_err_name(n->err),
                          n->why);
    else if (!w->storm->elastic
                 ? !anything_bad(w->storm)
                 : n->seen && !silence && !has_too_few(w, n) && !agreed_on_too_few(w, n))
        weir_storm_broken(w, "ending: rank %d ended though nobody was silent: %.200s", n->rank,
                          n->why);
}

static void check_end(storm_watch *w, int node, const storm_node **well)
{
    const storm_node *n = &w->node[node];

    if (!n->ended || killed_at(w, node) < WEIR_NEVER) {
        w->result->lost += n->seen;
        return;
    }
    if (n->err) {
        w->result->lost += n->seen;
        check_error(w, node);
        return;
    }
    w->result->left += n->left;
    if (n->left && !was_asked(w->storm, node))
        weir_storm_broken(w, "ending: rank %d left, and nobody had told it to", n->rank);
    if (n->left || !n->seen)
        return;
    if (*well && ((*well)->state.step != n->state.step || (*well)->state.hash != n->state.hash))
        weir_storm_broken(w, "one history: two ranks ended well with steps %llu and %llu",
                          (ull)n->state.step, (ull)(*well)->state.step);
    if (n->state.step != (uint64_t)w->storm->steps && !n->stopped)
        weir_storm_broken(w, "ending: rank %d ended at step %llu of %d", n->rank,
                          (ull)n->state.step, w->storm->steps);
    *well = n;
}

/* Until all have met and have what they need, a death ends whoever has not begun. */
static bool all_began(const storm_watch *w)
{
    for (int i = 0; i < w->storm->ranks; i++)
        if (!w->node[i].seen)
            return false;
    return true;
}

/* Where fewer than half are ever lost at once, some come to the end. */
static void check_ends(storm_watch *w)
{
    const weir_storm *s = w->storm;
    const storm_node *well = NULL;
    int lost =
        count_faults(s, WEIR_STORM_KILL) + count_faults(s, WEIR_STORM_LEAVE) + 2 * count_long(s);

    for (int i = 0; i < WEIR_STORM_NODES; i++)
        check_end(w, i, &well);
    if (!well && (s->elastic ? 2 * lost < s->ranks && all_began(w) : !anything_bad(s)))
        weir_storm_broken(w, "ending: no rank came to the end, and at most %d of %d were lost",
                          lost, s->ranks);
}

void weir_storm_check(storm_watch *w)
{
    qsort(w->generation, (size_t)w->generations, sizeof *w->generation, by_number);
    for (int i = 0; i + 1 < w->generations; i++) {
        check_link(w, &w->generation[i], &w->generation[i + 1]);
        if (!w->drifts)
            check_beyond(w, &w->generation[i], &w->generation[i + 1]);
        check_quorum(w, &w->generation[i], &w->generation[i + 1]);
    }
    w->result->generations = (uint64_t)w->generations;
    check_epochs(w);
    check_log(w);
    check_waiting(w);
    check_ends(w);
}
