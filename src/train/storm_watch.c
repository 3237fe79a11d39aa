/* storm_watch.c - the witness of a storm: takes down what every rank does, and compares what can be
 * compared at once. See storm.h. */
#include "core/hash.h"
#include "core/json.h"
#include "train/storm_inside.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long ull;

void weir_storm_broken(storm_watch *w, const char *format, ...)
{
    va_list args;

    if (w->result->what[0])
        return;
    va_start(args, format);
    vsnprintf(w->result->what, sizeof w->result->what, format, args);
    va_end(args);
}

/* ---- what is kept ---- */

/* One more; it is zero. */
static void *more(storm_watch *w, void **list, int *count, int *room, size_t size)
{
    void *grown = *list;

    if (*count == *room) {
        if (!(grown = realloc(*list, (size_t)(2 * *room + 16) * size)))
            return w->nomem = true, NULL;
        *list = grown;
        *room = 2 * *room + 16;
    }
    return memset((char *)grown + (size_t)(*count)++ * size, 0, size);
}

storm_generation *weir_storm_generation(storm_watch *w, int number)
{
    for (int i = w->generations - 1; i >= 0; i--)
        if (w->generation[i].number == number)
            return &w->generation[i];
    return NULL;
}

static storm_attempt *find_attempt(const storm_watch *w, int generation, uint64_t step)
{
    for (int i = w->attempts - 1; i >= 0; i--)
        if (w->attempt[i].generation == generation && w->attempt[i].step == step)
            return &w->attempt[i];
    return NULL;
}

const storm_attempt *weir_storm_attempt(const storm_watch *w, int generation, uint64_t step)
{
    return find_attempt(w, generation, step);
}

bool weir_storm_member(const storm_generation *g, int rank)
{
    for (int i = 0; i < g->count; i++)
        if (g->rank[i] == rank)
            return true;
    return false;
}

static storm_state state_of(const weir_trainer *t)
{
    return (storm_state){t->step, t->samples, weir_trainer_hash(t), t->cursor};
}

static bool same_cursor(weir_cursor a, weir_cursor b)
{
    return a.epoch == b.epoch && a.used == b.used && a.rows == b.rows;
}

static bool same_state(const storm_state *a, const storm_state *b)
{
    return a->step == b->step && a->samples == b->samples && a->hash == b->hash &&
           same_cursor(a->cursor, b->cursor);
}

static storm_node *node_of(storm_watch *w, weir_net *net)
{
    storm_node *n = &w->node[weir_net_node(net)];
    double now = weir_net_now(net);

    if (n->seen && now - n->moved > n->waited)
        n->waited = now - n->moved;
    n->moved = now;
    return n;
}

/* ---- a generation begins ---- */

static storm_generation *new_generation(storm_watch *w, const weir_trainer *t)
{
    const weir_group *all = &t->mesh.all;
    storm_generation *g = more(w, (void **)&w->generation, &w->generations, &w->generation_room,
                               sizeof *w->generation);

    if (!g || all->size > WEIR_STORM_NODES)
        return w->nomem = true, NULL;
    g->number = weir_net_generation(t->net);
    g->count = all->size;
    g->begin = state_of(t);
    g->at = weir_net_now(t->net);
    for (int i = 0; i < all->size; i++) {
        g->rank[i] = all->member[i];
        g->node[i] = -1;
    }
    return g;
}

static void compare_lists(storm_watch *w, const storm_generation *g, const weir_trainer *t,
                          const storm_state *state)
{
    const weir_group *all = &t->mesh.all;
    bool same = g->count == all->size;

    for (int i = 0; same && i < g->count; i++)
        same = g->rank[i] == all->member[i];
    if (!same)
        weir_storm_broken(w, "one history: rank %d has another list of generation %d than others",
                          weir_net_rank(t->net), g->number);
    else if (!same_state(&g->begin, state))
        weir_storm_broken(
            w,
            "one history: generation %d begins at step %llu with hash %016llx, and on rank %d at "
            "step %llu with %016llx",
            g->number, (ull)g->begin.step, (ull)g->begin.hash, weir_net_rank(t->net),
            (ull)state->step, (ull)state->hash);
}

/* A rank is one process for ever. */
static void note_node(storm_watch *w, storm_generation *g, int rank, int node)
{
    for (int i = 0; i < WEIR_STORM_NODES; i++)
        if (i != node && w->node[i].seen && w->node[i].rank == rank)
            weir_storm_broken(w, "one history: rank %d is node %d, and node %d", rank, i, node);
    for (int i = 0; i < g->count; i++)
        if (g->rank[i] == rank)
            g->node[i] = node;
    g->came |= 1u << node;
}

static void on_begun(storm_watch *w, storm_node *n, const weir_trainer *t)
{
    storm_state state = state_of(t);
    storm_generation *g = weir_storm_generation(w, weir_net_generation(t->net));

    w->drifts = t->exchange->drifts;
    w->plan = t->plan;
    if (g)
        compare_lists(w, g, t, &state);
    else if (!(g = new_generation(w, t)))
        return;
    note_node(w, g, weir_net_rank(t->net), weir_net_node(t->net));
    weir_storm_sums_begin(w, n, t);
    n->seen = true;
    n->rank = weir_net_rank(t->net);
    n->generation = g->number;
    n->state = state;
}

/* ---- samples ---- */

static uint64_t hash_of(const weir_trainer *t, const weir_data_batch *b, int i)
{
    const weir_data_facts *f = &t->data.facts;
    size_t n = 1;

    for (int d = 0; d < f->dims; d++)
        n *= (size_t)f->dim[d];
    return weir_hash(b->x + (size_t)i * n, n * sizeof *b->x, (uint64_t)b->label[i]);
}

/* Samples are known by their content. */
static bool know_samples(storm_watch *w, const weir_trainer *t)
{
    uint64_t count = t->data.facts.count[WEIR_DATA_TRAIN];
    weir_data_batch one;

    if (w->sample)
        return true;
    if (!(w->sample = WEIR_NEW(w->arena, uint64_t, count)) ||
        weir_data_batch_new(&t->data.facts, 1, w->arena, &one))
        return w->nomem = true, false;
    for (uint64_t i = 0; i < count; i++) {
        weir_data_pick pick = {.part = WEIR_DATA_TRAIN, .index = &i, .n = 1};
        if (t->data.data->get(t->data.self, &pick, &one))
            return w->nomem = true, false;
        w->sample[i] = hash_of(t, &one, 0);
    }
    w->sample_count = count;
    return true;
}

static uint64_t index_of(const storm_watch *w, uint64_t hash)
{
    uint64_t i = 0;

    while (i < w->sample_count && w->sample[i] != hash)
        i++;
    return i;
}

/* The step that is under way. */
static storm_attempt *attempt_of(storm_watch *w, const weir_trainer *t)
{
    int generation = weir_net_generation(t->net);
    storm_attempt *a = find_attempt(w, generation, t->step + 1);

    if (a) {
        if (!same_cursor(a->cursor, t->cursor))
            weir_storm_broken(w, "samples: ranks make step %llu of other samples",
                              (ull)t->step + 1);
        return a;
    }
    a = more(w, (void **)&w->attempt, &w->attempts, &w->attempt_room, sizeof *w->attempt);
    if (!a)
        return NULL;
    a->generation = generation;
    a->step = t->step + 1;
    a->cursor = t->cursor;
    a->in = WEIR_NEW(w->arena, double, 4 * w->params);
    a->index = WEIR_NEW(w->arena, uint64_t, 4 * (size_t)w->storm->batch);
    if (!a->in || !a->index)
        return w->nomem = true, NULL;
    a->size = a->in + w->params;
    a->out = a->size + w->params;
    a->sum = a->out + w->params;
    return a;
}

static void on_batch(storm_watch *w, const weir_trainer *t, const weir_data_batch *b)
{
    storm_attempt *a = attempt_of(w, t);

    for (int i = 0; a && know_samples(w, t) && i < b->n; i++)
        if (a->indices < 4 * w->storm->batch)
            a->index[a->indices++] = index_of(w, hash_of(t, b, i));
}

void weir_storm_check_samples(storm_watch *w, const storm_attempt *a)
{
    uint64_t n = weir_sample_plan_samples(&w->plan, a->cursor), index;
    int times;

    for (uint64_t place = 0; place < n; place++) {
        index = weir_sample_plan_index(&w->plan, a->cursor, place);
        times = 0;
        for (int i = 0; i < a->indices; i++)
            times += a->index[i] == index;
        if (times != 1)
            weir_storm_broken(w,
                              "samples: sample %llu went %d times into step %llu of generation %d",
                              (ull)index, times, (ull)a->step, a->generation);
    }
    if ((uint64_t)a->indices != n)
        weir_storm_broken(w,
                          "samples: step %llu of generation %d has %llu samples, and %d were used",
                          (ull)a->step, a->generation, (ull)n, a->indices);
}

/* ---- steps ---- */

static void on_commit(storm_watch *w, storm_node *n, const weir_trainer *t)
{
    int generation = weir_net_generation(t->net);
    storm_attempt *a = find_attempt(w, generation, t->step);
    const storm_generation *g = weir_storm_generation(w, generation);
    bool first = a && !a->committed, equal = !t->exchange->drifts;

    if (!a || !g) {
        weir_storm_broken(w, "one history: rank %d commits step %llu of generation %d out of order",
                          weir_net_rank(t->net), (ull)t->step, generation);
        return;
    }
    n->state = state_of(t);
    if (first) {
        a->end = n->state;
        a->loss = weir_trainer_loss(t);
    }
    a->committed |= 1u << (n - w->node);
    if (!equal)
        return;
    if (first) /* all have gone forward by then */
        weir_storm_check_samples(w, a);
    if (first && a->left != w->lanes * g->count)
        weir_storm_broken(
            w, "sums: step %llu of generation %d is committed, and %d of %d buckets left",
            (ull)a->step, generation, a->left, w->lanes * g->count);
    if (!same_state(&a->end, &n->state))
        weir_storm_broken(w,
                          "one history: after step %llu of generation %d rank %d has hash %016llx, "
                          "another %016llx",
                          (ull)a->step, generation, n->rank, (ull)n->state.hash, (ull)a->end.hash);
    weir_storm_sums_commit(w, a, n, t, first);
}

/* Replicas of a generation that settle at the same step are the same. */
static void on_settled(storm_watch *w, storm_node *n, const weir_trainer *t)
{
    int generation = weir_net_generation(t->net);
    const storm_settled *last = NULL;
    storm_settled *now = NULL;

    for (int i = 0; i < w->settles; i++) {
        storm_settled *s = &w->settled[i];
        if (s->generation == generation && s->step == t->step)
            now = s;
    }
    n->state.hash = weir_trainer_hash(t);
    if (!now && !(now = more(w, (void **)&w->settled, &w->settles, &w->settled_room, sizeof *now)))
        return;
    if (!now->came)
        *now = (storm_settled){.generation = generation, .step = t->step, .hash = n->state.hash};
    if (now->hash != n->state.hash)
        weir_storm_broken(w,
                          "one history: settled at step %llu of generation %d rank %d has hash "
                          "%016llx, another %016llx",
                          (ull)t->step, generation, weir_net_rank(t->net), (ull)n->state.hash,
                          (ull)now->hash);
    for (int i = 0; i < w->settles; i++) {
        const storm_settled *s = &w->settled[i];
        if (s->generation == generation && s->step < t->step && (!last || s->step > last->step))
            last = s;
    }
    if (t->exchange->drifts)
        weir_storm_sums_settle(w, now, last, n, t);
    now->came |= 1u << (n - w->node);
}

/* Another's state: the step is one that others have committed. */
static void on_catch_up(storm_watch *w, storm_node *n, const weir_trainer *t)
{
    storm_attempt *a = find_attempt(w, weir_net_generation(t->net), t->step);

    w->result->behind++;
    n->state = state_of(t);
    if (t->exchange->drifts)
        return;
    if (!a || !a->committed || !same_state(&a->end, &n->state)) {
        weir_storm_broken(w,
                          "one history: rank %d takes a state of step %llu that nobody committed",
                          n->rank, (ull)t->step);
        return;
    }
    weir_storm_sums_commit(w, a, n, t, false);
}

/* ---- the witness ---- */

static void on_agreed(storm_node *n, const weir_members *l)
{
    n->agreed_count = l->count < WEIR_STORM_NODES ? l->count : WEIR_STORM_NODES;
    for (int i = 0; i < n->agreed_count; i++)
        n->agreed[i] = l->member[i];
}

void weir_storm_see(void *watch, weir_seen what, const weir_trainer *t, const void *thing)
{
    storm_watch *w = watch;
    storm_node *n = node_of(w, t->net);
    storm_attempt *a;
    storm_generation *g;

    w->params = t->params;
    w->lanes = t->lanes;
    if (w->nomem)
        return;
    if (what == WEIR_SEEN_BEGUN)
        on_begun(w, n, t);
    else if (what == WEIR_SEEN_AGREED)
        on_agreed(n, thing);
    else if (what == WEIR_SEEN_BATCH)
        on_batch(w, t, thing);
    else if (what == WEIR_SEEN_LEAVES && (a = attempt_of(w, t)))
        weir_storm_sums_leave(w, a, n, t, thing);
    else if (what == WEIR_SEEN_COMMIT)
        on_commit(w, n, t);
    else if (what == WEIR_SEEN_CATCH_UP)
        on_catch_up(w, n, t);
    else if (what == WEIR_SEEN_SETTLED)
        on_settled(w, n, t);
    else if (what == WEIR_SEEN_HAND_OVER &&
             (g = weir_storm_generation(w, weir_net_generation(t->net))))
        weir_storm_sums_hand_over(w, g, n, t);
}

void weir_storm_end(void *watch, weir_net *net, const weir_seen_end *e)
{
    storm_watch *w = watch;
    storm_node *n = node_of(w, net);

    n->ended = true;
    n->left = e->left;
    n->err = e->err;
    n->stopped = e->stopped;
    n->ended_at = weir_net_now(net);
    snprintf(n->why, sizeof n->why, "%.299s", e->err ? e->why : "");
    w->result->happened = weir_net_happened(net);
}

void weir_storm_event(void *watch, const char *text)
{
    storm_watch *w = watch;
    weir_json *j = NULL;
    const char *kind;
    int64_t step;
    storm_line line;
    storm_line *to;

    if (weir_json_parse(text, strlen(text), "an event", &j))
        return;
    if (!weir_json_get_text(j, "event", &kind))
        kind = "";
    w->result->saved += !strcmp(kind, "checkpoint");
    if (!strcmp(kind, "step") && weir_json_get_int(j, "step", &step) &&
        weir_json_get_real(j, "loss", &line.loss)) {
        line.step = (uint64_t)step;
        if ((to = more(w, (void **)&w->line, &w->lines, &w->line_room, sizeof line)))
            *to = line;
    }
    weir_json_free(j);
}
