/* mesh.c - see mesh.h. */
#include "net/mesh.h"

/* ---- ids ---- */

enum { ALL = 0, STEP_BITS = 2, STEPS = 4, INSIDE = 1, OUTSIDE = 2 };

/* The path to a group inside or outside of this one's machine. */
static weir_err id_below(unsigned id, unsigned which, unsigned *below)
{
    for (int step = 1; step < STEPS; step++)
        if (!(id >> step * STEP_BITS & 3)) {
            *below = id | which << step * STEP_BITS;
            return WEIR_OK;
        }
    return weir_fail(WEIR_MISFIT,
                     "machines within machines within machines: three levels of groups are the "
                     "most; take a plain collective for the innermost");
}

/* ---- generations ---- */

static int lowest(const weir_group *g)
{
    int low = 0;

    for (int i = 1; i < g->size; i++)
        if (g->member[i] < g->member[low])
            low = i;
    return low;
}

static void choose_leader(weir_mesh *m)
{
    m->all.leader = lowest(&m->all);
    for (int i = 0; i < m->all.size; i++)
        if (m->all.member[i] == m->asked)
            m->all.leader = i;
}

static weir_err make(weir_mesh *m, const int *members, int count)
{
    weir_err err;

    if (!(m->arena = weir_arena_new()))
        return weir_fail_nomem(0);
    err = members ? weir_group_make(m->net, ALL, members, count, m->arena, &m->all)
                  : weir_group_all(m->net, m->arena, &m->all);
    if (err) {
        weir_mesh_close(m);
        return err;
    }
    m->same = &m->all;
    m->all.flight = m->flight;
    choose_leader(m);
    return WEIR_OK;
}

weir_err weir_mesh_open(weir_mesh *m, weir_net *net)
{
    *m = (weir_mesh){.net = net, .asked = -1};
    return make(m, NULL, 0);
}

weir_err weir_mesh_renew(weir_mesh *m, int generation, const int *members, int count)
{
    weir_mesh_close(m);
    weir_net_renew(m->net, generation, members, count);
    return make(m, members, count);
}

void weir_mesh_close(weir_mesh *m)
{
    weir_arena_free(m->arena);
    m->arena = NULL;
    m->all = (weir_group){0};
    m->same = NULL;
}

weir_err weir_mesh_lead(weir_mesh *m, int rank)
{
    if (rank < -1 || rank >= weir_net_size(m->net))
        return weir_fail(WEIR_USAGE, "rank %d cannot lead a run of %d: ranks count from 0", rank,
                         weir_net_size(m->net));
    m->asked = rank;
    choose_leader(m);
    return WEIR_OK;
}

void weir_mesh_record(weir_mesh *m, struct weir_flight *flight)
{
    m->flight = flight;
    m->all.flight = flight;
}

/* ---- machines ---- */

static weir_err make_tables(weir_machines *m, size_t p, weir_arena *a)
{
    m->machine = WEIR_NEW(a, int, p);
    m->position = WEIR_NEW(a, int, p);
    m->table = WEIR_NEW(a, int, p);
    m->first = WEIR_NEW(a, int, p + 1);
    return m->machine && m->position && m->table && m->first ? WEIR_OK
                                                             : weir_fail_nomem(4 * p * sizeof(int));
}

/* Numbers the machines in the order in which members meet them; `seen` has room for every rank. */
static void number(weir_machines *m, const weir_group *g, int64_t each, int *seen)
{
    int *size = m->first + 1;

    for (int i = 0; i < g->size; i++) {
        int label = each ? (int)(i / each) : weir_net_machine(g->net, g->member[i]);
        if (!seen[label])
            seen[label] = ++m->count;
        m->machine[i] = seen[label] - 1;
        m->position[i] = size[m->machine[i]]++;
    }
    m->equal = true;
    for (int k = 1; k < m->count; k++)
        m->equal = m->equal && size[k] == size[0];
    for (int k = 1; k < m->count; k++)
        size[k] += size[k - 1];
    for (int i = 0; i < g->size; i++)
        m->table[m->first[m->machine[i]] + m->position[i]] = i;
}

static weir_err make_inside(weir_machines *m, const weir_group *g, int *ranks, weir_arena *a)
{
    int here = m->machine[g->me], n = weir_machines_size(m, here);
    unsigned id = 0;

    WEIR_TRY(id_below(g->id, INSIDE, &id));
    for (int i = 0; i < n; i++)
        ranks[i] = g->member[weir_machines_member(m, here, i)];
    return weir_group_make(g->net, id, ranks, n, a, &m->inside);
}

static weir_err make_outside(weir_machines *m, const weir_group *g, int *ranks, weir_arena *a)
{
    int position = m->position[g->me];
    unsigned id = 0;

    if (position && !m->equal)
        return WEIR_OK;
    WEIR_TRY(id_below(g->id, OUTSIDE, &id));
    for (int k = 0; k < m->count; k++)
        ranks[k] = g->member[weir_machines_member(m, k, position)];
    return weir_group_make(g->net, id, ranks, m->count, a, &m->outside);
}

weir_err weir_mesh_machines(const weir_group *g, int64_t each, weir_arena *arena,
                            weir_machines *out)
{
    size_t most = (size_t)weir_net_size(g->net);
    int *seen = WEIR_NEW(arena, int, most), *ranks = WEIR_NEW(arena, int, g->size);

    *out = (weir_machines){0};
    if (!seen || !ranks)
        return weir_fail_nomem(2 * most * sizeof *seen);
    WEIR_TRY(make_tables(out, (size_t)g->size, arena));
    number(out, g, each, seen);
    WEIR_TRY(make_inside(out, g, ranks, arena));
    return make_outside(out, g, ranks, arena);
}
