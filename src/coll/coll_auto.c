/* coll_auto.c - several collectives, and for each size the one that suits it: by the fixed table
 * (coll_auto_table.c), or as measured on this group.
 *
 * Every member has the same rows, so all pick alike: the table is fixed, and what was measured is
 * agreed upon before use. Measuring waits for the first call, the first time that all members are
 * surely on their comm tasks. */
#include "coll/coll.h"
#include "core/log.h"
#include <stdio.h>
#include <string.h>

enum { ROWS = 16, USES = 16, SIZES = 4, TRIALS = 4 };
static const size_t sizes[SIZES] = {1 << 10, 1 << 14, 1 << 18, 1 << 22};
enum { APART = 4 }; /* a size counts up to so many times itself */

typedef struct choice {
    bool measure, waiting; /* waiting: has yet to be measured */
    struct row {
        size_t up_to;
        int use;
    } row[ROWS]; /* the last row's up_to is SIZE_MAX */
    int rows, uses;
    weir_coll_use use[USES];
    void *trial; /* a buffer for measuring */
    weir_arena *arena;
    bool apart; /* common memory was tried, and cannot be had */
} choice;

static const weir_opt options[] = {
    {"measure", WEIR_OPT_BOOL, offsetof(choice, measure), "no",
     "time all that fit on this group, at its first use, instead"},
    {0},
};

/* ---- rows ---- */

/* Up to so many bytes: that one. Rows come in rising order. */
static void add_row(choice *c, size_t up_to, int use)
{
    if (c->rows && c->row[c->rows - 1].use == use)
        c->rows--;
    else if (c->rows == ROWS)
        return; /* the row before counts on */
    c->row[c->rows++] = (struct row){up_to, use};
}

static weir_coll_use *use_for(choice *c, size_t bytes)
{
    int i = 0;

    while (i < c->rows - 1 && bytes > c->row[i].up_to)
        i++;
    return &c->use[c->row[i].use];
}

static void tell_rows(const choice *c, const weir_group *g)
{
    char text[400] = "";
    size_t n = 0;

    if (!weir_group_leads(g) || !weir_log_on(WEIR_LOG_INFO, "coll"))
        return;
    for (int i = 0; i < c->rows && n < sizeof text; i++)
        n += (size_t)snprintf(text + n, sizeof text - n,
                              i < c->rows - 1 ? "%s up to %zu bytes, " : "%s",
                              c->use[c->row[i].use].coll->plug.name, c->row[i].up_to);
    weir_log(WEIR_LOG_INFO, "coll", "auto, %d ranks: %s", g->size, text);
}

/* ---- opening ---- */

static int find_use(const choice *c, const char *name)
{
    for (int i = 0; i < c->uses; i++)
        if (!strcmp(c->use[i].coll->plug.name, name))
            return i;
    return -1;
}

static weir_err open_fixed(choice *c, const weir_group *g, weir_arena *a)
{
    weir_coll_form form = weir_coll_look(g);

    form.shm = form.shm && !c->apart;
    for (int bit = 6; bit <= 40; bit++) {
        const char *name = weir_coll_pick(g, &form, (size_t)1 << bit);
        int use = find_use(c, name);
        if (use < 0) {
            WEIR_TRY(weir_coll_open(name, g, a, &c->use[use = c->uses]));
            c->uses++;
        }
        add_row(c, bit < 40 ? (size_t)3 << (bit - 1) : SIZE_MAX, use);
    }
    tell_rows(c, g);
    return WEIR_OK;
}

static weir_err open_measured(choice *c, const weir_group *g, weir_arena *a)
{
    weir_coll_form form = weir_coll_look(g);

    for (weir_plugs p = weir_colls; *p && c->uses < USES; p++) {
        weir_err err;
        if (!strcmp((*p)->name, "auto") ||
            (!strcmp((*p)->name, "hier") && !(form.apart && form.shared)))
            continue; /* on one level hier is another one */
        err = weir_coll_open((*p)->name, g, a, &c->use[c->uses]);
        if (err && err != WEIR_MISFIT)
            return err;
        c->uses += !err;
    }
    c->waiting = true;
    if (!(c->trial = weir_alloc(a, sizes[SIZES - 1])))
        return weir_fail_nomem(sizes[SIZES - 1]);
    return WEIR_OK;
}

/* In a dry net no rank can tell another what it measured. */
static weir_err open_all(void *self, const weir_group *g, weir_arena *a)
{
    choice *c = self;

    c->arena = a;
    if (g->size == 1)
        return WEIR_OK;
    return c->measure && !weir_net_dry(g->net) ? open_measured(c, g, a) : open_fixed(c, g, a);
}

/* ---- measuring ---- */

static void add_max(void *to, const void *from, size_t n)
{
    double *x = to;
    const double *y = from;

    for (size_t i = 0; i < n; i++)
        x[i] = y[i] > x[i] ? y[i] : x[i];
}
static const weir_sum most = {sizeof(double), add_max};

/* The best of some rounds, the first untimed. */
static weir_err time_one(choice *c, weir_group *g, weir_coll_use *use, size_t bytes, double *best)
{
    for (int i = 0; i < TRIALS; i++) {
        double t;
        WEIR_TRY(weir_barrier(use, g));
        t = weir_net_now(g->net);
        WEIR_TRY(weir_allreduce(use, g, c->trial, bytes / sizeof(float), &weir_sum_f32));
        t = weir_net_now(g->net) - t;
        if (i == 1 || (i && t < *best))
            *best = t;
    }
    return WEIR_OK;
}

static void tell_times(const choice *c, const weir_group *g, size_t bytes, const double *took,
                       int best)
{
    char text[600] = "";
    size_t n = 0;

    if (!weir_group_leads(g) || !weir_log_on(WEIR_LOG_INFO, "coll"))
        return;
    for (int i = 0; i < c->uses && n < sizeof text; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s %.1f us", i ? ", " : "",
                              c->use[i].coll->plug.name, took[i] * 1e6);
    weir_log(WEIR_LOG_INFO, "coll", "measured %zu bytes: %s; taken: %s", bytes, text,
             c->use[best].coll->plug.name);
}

static weir_err measure(choice *c, weir_group *g)
{
    double took[SIZES * USES] = {0};

    for (int s = 0; s < SIZES; s++)
        for (int i = 0; i < c->uses; i++)
            WEIR_TRY(time_one(c, g, &c->use[i], sizes[s], &took[s * c->uses + i]));
    WEIR_TRY(
        weir_allreduce(&c->use[find_use(c, "ring")], g, took, (size_t)(SIZES * c->uses), &most));
    for (int s = 0; s < SIZES; s++) {
        const double *row = &took[s * c->uses];
        int best = 0;
        for (int i = 1; i < c->uses; i++)
            if (row[i] < row[best])
                best = i;
        tell_times(c, g, sizes[s], row, best);
        add_row(c, s < SIZES - 1 ? sizes[s] * APART : SIZE_MAX, best);
    }
    c->waiting = false;
    tell_rows(c, g);
    return WEIR_OK;
}

/* ---- what was measured, kept with a run ---- */

/* A name as a number: no collective's is longer. */
static uint64_t spell(const char *name)
{
    uint64_t x = 0;

    for (int i = 0; i < 8 && name[i]; i++)
        x |= (uint64_t)(unsigned char)name[i] << 8 * i;
    return x;
}

static int find_spelt(const choice *c, uint64_t name)
{
    for (int i = 0; i < c->uses; i++)
        if (spell(c->use[i].coll->plug.name) == name)
            return i;
    return -1;
}

static weir_err state_row(choice *c, weir_io *io, int i, bool *known)
{
    struct row *r = &c->row[i];
    char text[16];
    uint64_t up_to = r->up_to, name = io->loading ? 0 : spell(c->use[r->use].coll->plug.name);
    size_t mark;

    snprintf(text, sizeof text, "row%d", i);
    mark = weir_io_in(io, text);
    WEIR_TRY(weir_io_u64(io, "up_to", &up_to, WEIR_KEEP_DROP));
    WEIR_TRY(weir_io_u64(io, "name", &name, WEIR_KEEP_DROP));
    weir_io_out(io, mark);
    if (io->loading)
        *r = (struct row){(size_t)up_to, find_spelt(c, name)};
    *known &= r->use >= 0;
    return WEIR_OK;
}

/* Another number of workers measures anew, as does a group that one of those taken no longer
 * fits. */
static weir_err state(void *self, weir_io *io)
{
    choice *c = self;
    uint64_t rows = io->loading || c->waiting ? 0 : (uint64_t)c->rows;
    size_t mark = weir_io_in(io, "coll");
    bool known = true;

    if (c->measure && c->uses) {
        WEIR_TRY(weir_io_u64(io, "rows", &rows, WEIR_KEEP_DROP));
        if (rows > ROWS)
            return weir_fail(WEIR_DAMAGED, "coll.rows is %llu, at most %d were expected",
                             (unsigned long long)rows, ROWS);
        for (int i = 0; i < (int)rows; i++)
            WEIR_TRY(state_row(c, io, i, &known));
    }
    weir_io_out(io, mark);
    if (io->loading && rows) {
        c->waiting = !known || c->row[rows - 1].up_to != SIZE_MAX;
        c->rows = c->waiting ? 0 : (int)rows;
    }
    return WEIR_OK;
}

/* ---- verbs ---- */

/* Use i cannot have memory. */
static weir_err do_without(choice *c, const weir_group *g, int i)
{
    c->rows = 0;
    if (c->measure) {
        memmove(&c->use[i], &c->use[i + 1], (size_t)(--c->uses - i) * sizeof *c->use);
        c->waiting = true;
        return WEIR_OK;
    }
    c->apart = true;
    return open_fixed(c, g, c->arena);
}

/* That of the first which asks for memory of its own; where such memory cannot be had, all members
 * hear so, and do without. */
static weir_err memory(void *self, weir_group *group, size_t bytes, void **out)
{
    choice *c = self;

    for (int i = 0; i < c->uses; i++) {
        weir_err err = c->use[i].coll->memory
                           ? c->use[i].coll->memory(c->use[i].self, group, bytes, out)
                           : WEIR_OK;
        if (err == WEIR_MISFIT)
            return weir_log(WEIR_LOG_WARN, "coll", "auto does without %s: %s",
                            c->use[i].coll->plug.name, weir_why_text()),
                   do_without(c, group, i);
        if (err || *out)
            return err;
    }
    return WEIR_OK;
}

static weir_err ready(choice *c, weir_group *g)
{
    if (!c->uses)
        return weir_fail(WEIR_MISFIT,
                         "auto was opened for one rank and is used by %d: open it anew", g->size);
    return c->waiting ? measure(c, g) : WEIR_OK;
}

static weir_err allreduce(void *self, weir_group *group, void *buf, size_t units,
                          const weir_sum *sum)
{
    WEIR_TRY(ready(self, group));
    return weir_allreduce(use_for(self, units * sum->unit), group, buf, units, sum);
}

static weir_err reduce_scatter(void *self, weir_group *group, void *buf, size_t units,
                               const weir_sum *sum)
{
    WEIR_TRY(ready(self, group));
    return weir_reduce_scatter(use_for(self, units * sum->unit), group, buf, units, sum);
}

static weir_err allgather(void *self, weir_group *group, void *all, const size_t *off,
                          const size_t *len)
{
    size_t bytes = 0;

    WEIR_TRY(ready(self, group));
    for (int i = 0; i < group->size; i++)
        bytes += len[i];
    return weir_allgather(use_for(self, bytes), group, all, off, len);
}

static weir_err broadcast(void *self, weir_group *group, int root, void *buf, size_t bytes)
{
    WEIR_TRY(ready(self, group));
    return weir_broadcast(use_for(self, bytes), group, root, buf, bytes);
}

const weir_coll weir_coll_auto = {
    .plug =
        {"auto",
         "by size: what a fixed table says of this net, ranks and machines, or what was measured",
         sizeof(choice), options},
    .open = open_all,
    .memory = memory,
    .allreduce = allreduce,
    .reduce_scatter = reduce_scatter,
    .allgather = allgather,
    .broadcast = broadcast,
    .state = state,
};
