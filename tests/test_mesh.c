/* The mesh: which groups there are, what tells them apart, who leads, and what a generation leaves
 * behind. */
#include "net/mesh.h"
#include "coll/coll.h"
#include "coll/flight.h"
#include "help_ranks.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* ---- ids ---- */

enum { NODES = 18, GROUPS = 400 };

/* Every group that any rank has made: all ranks of a simulated world write here. */
typedef struct seen {
    int groups;
    struct {
        unsigned id;
        int size, member[NODES];
    } group[GROUPS];
} seen;

static void note(seen *s, const weir_group *g)
{
    s->group[s->groups].id = g->id;
    s->group[s->groups].size = g->size;
    memcpy(s->group[s->groups].member, g->member, (size_t)g->size * sizeof(int));
    s->groups++;
}

/* Machines of machines, as deep as they go: of this group, of its inside, of its outside. */
static weir_err descend(seen *s, const weir_group *g, int depth, weir_arena *a)
{
    static const int each[] = {6, 2, 1};
    weir_machines m;

    note(s, g);
    if (depth == 3) {
        CHECK(weir_mesh_machines(g, 1, a, &m) == WEIR_MISFIT);
        CHECK(strstr(weir_why_text(), "three levels"));
        return WEIR_OK;
    }
    WEIR_TRY(weir_mesh_machines(g, each[depth], a, &m));
    CHECK(m.inside.member[m.inside.me] == weir_net_rank(g->net));
    WEIR_TRY(descend(s, &m.inside, depth + 1, a));
    if (!m.outside.size)
        return WEIR_OK;
    CHECK(m.outside.member[m.outside.me] == weir_net_rank(g->net));
    return descend(s, &m.outside, depth + 1, a);
}

static weir_err ids_rank(weir_net *net, void *arg)
{
    weir_mesh m;

    WEIR_TRY(weir_mesh_open(&m, net));
    weir_err err = descend(arg, &m.all, 0, m.arena);
    weir_mesh_close(&m);
    return err;
}

static bool meet(const seen *s, int a, int b)
{
    for (int i = 0; i < s->group[a].size; i++)
        for (int k = 0; k < s->group[b].size; k++)
            if (s->group[a].member[i] == s->group[b].member[k])
                return true;
    return false;
}

/* Groups of one id are one group, as its members each have made it, or have nobody in common. */
static void ids_tell_groups_apart(void **state)
{
    seen *s = calloc(1, sizeof *s);

    (void)state;
    ranks_all_ok(&(ranks){.net = "sim", .size = NODES, .fn = ids_rank, .arg = s});
    assert_true(s->groups > 3 * NODES);
    for (int a = 0; a < s->groups; a++) {
        assert_true(s->group[a].id < 256); /* eight bits of a tag */
        for (int b = 0; b < a; b++)
            if (s->group[a].id == s->group[b].id && meet(s, a, b) &&
                (s->group[a].size != s->group[b].size ||
                 memcmp(s->group[a].member, s->group[b].member,
                        (size_t)s->group[a].size * sizeof(int))))
                fail_msg("two groups of rank %d have the id %u", s->group[a].member[0],
                         s->group[a].id);
    }
    free(s);
}

/* ---- machines ---- */

static weir_err machines_rank(weir_net *net, void *arg)
{
    static const int odd[] = {4, 0, 3, 1, 2}; /* two machines of two, one of one; 4 comes first */
    weir_arena *a = weir_arena_new();
    int me = weir_net_rank(net);
    weir_group g;
    weir_machines m;

    (void)arg;
    WEIR_TRY(weir_group_make(net, 1, odd, 5, a, &g));
    WEIR_TRY(weir_mesh_machines(&g, 0, a, &m));
    CHECK(m.count == 3 && !m.equal);
    CHECK(weir_machines_size(&m, 0) == 1 && weir_machines_size(&m, 1) == 2);
    for (int i = 0; i < 5; i++)
        CHECK(weir_machines_member(&m, m.machine[i], m.position[i]) == i);
    CHECK(m.inside.size == (me == 4 ? 1 : 2));
    CHECK(m.outside.size == (me == 1 || me == 2 ? 0 : 3)); /* the first of each machine */
    WEIR_TRY(weir_mesh_machines(&g, 1, a, &m));
    CHECK(m.count == 5 && m.equal && m.outside.size == 5 && m.outside.me == g.me);
    WEIR_TRY(weir_mesh_machines(&g, 3, a, &m));
    CHECK(m.count == 2 && !m.equal && m.inside.size == (g.me < 3 ? 3 : 2));
    weir_arena_free(a);
    return WEIR_OK;
}

static void machines(void **state)
{
    (void)state;
    ranks_all_ok(&(ranks){.net = "sim:nodes=5,machine=2", .size = 5, .fn = machines_rank});
}

/* Three levels of machines: every message finds its group. */
static weir_err deep_rank(weir_net *net, void *arg)
{
    const char *spec = "hier:each=8,outer=ring,inner=[hier:each=4,outer=ring,inner=[hier:each=2]]";
    weir_mesh m;
    weir_coll_use use;
    float x[100];

    (void)arg;
    WEIR_TRY(weir_mesh_open(&m, net));
    WEIR_TRY(weir_coll_open(spec, &m.all, m.arena, &use));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 100; i++)
            x[i] = (float)(i + round + m.all.me);
        WEIR_TRY(weir_allreduce(&use, &m.all, x, 100, &weir_sum_f32));
        for (int i = 0; i < 100; i++)
            CHECK(x[i] == (float)(16 * (i + round) + 120));
    }
    weir_mesh_close(&m);
    return WEIR_OK;
}

static void levels(void **state)
{
    (void)state;
    ranks_all_ok(&(ranks){.net = "sim", .size = 16, .fn = deep_rank});
}

/* ---- who leads ---- */

static int leader(const weir_mesh *m) { return m->all.member[m->all.leader]; }

static weir_err lead_rank(weir_net *net, void *arg)
{
    static const int some[] = {3, 1, 2}, all[] = {2, 3, 0, 1};
    int me = weir_net_rank(net);
    weir_mesh m;

    (void)arg;
    WEIR_TRY(weir_mesh_open(&m, net));
    CHECK(leader(&m) == 0 && weir_group_leads(&m.all) == (me == 0));
    CHECK(m.same == &m.all);
    CHECK(weir_mesh_lead(&m, 4) == WEIR_USAGE && weir_mesh_lead(&m, -2) == WEIR_USAGE);
    CHECK(leader(&m) == 0);
    if (me == 0) /* it goes, and comes back */
        weir_mesh_close(&m);
    else {
        WEIR_TRY(weir_mesh_renew(&m, 1, some, 3));
        CHECK(leader(&m) == 1); /* the lowest, wherever it stands */
        WEIR_TRY(weir_mesh_lead(&m, 3));
        CHECK(leader(&m) == 3 && weir_group_leads(&m.all) == (me == 3));
        WEIR_TRY(weir_mesh_lead(&m, 0));
        CHECK(leader(&m) == 1); /* whom all ask for is not here */
    }
    WEIR_TRY(weir_mesh_renew(&m, 2, all, 4));
    CHECK(leader(&m) == 0);
    weir_mesh_close(&m);
    weir_mesh_close(&m);
    return WEIR_OK;
}

static void somebody_leads(void **state)
{
    (void)state;
    ranks_all_ok(&(ranks){.net = "sim", .size = 4, .fn = lead_rank});
    ranks_all_ok(&(ranks){.net = "zmq", .size = 4, .fn = lead_rank});
}

/* ---- where collectives are recorded ---- */

static weir_err meet_all(weir_mesh *m)
{
    weir_coll_use ring;

    WEIR_TRY(weir_coll_open("ring", &m->all, m->arena, &ring));
    return weir_barrier(&ring, &m->all);
}

static weir_err record_rank(weir_net *net, void *arg)
{
    static const int some[] = {1, 2}, all[] = {0, 1, 2};
    int me = weir_net_rank(net);
    weir_flight flight = {0};
    weir_mesh m;

    (void)arg;
    WEIR_TRY(weir_mesh_open(&m, net));
    weir_mesh_record(&m, &flight);
    WEIR_TRY(meet_all(&m));
    if (me == 0) { /* it goes, and comes back */
        weir_mesh_close(&m);
    } else {
        WEIR_TRY(weir_mesh_renew(&m, 1, some, 2));
        WEIR_TRY(meet_all(&m));
    }
    WEIR_TRY(weir_mesh_renew(&m, 2, all, 3));
    WEIR_TRY(meet_all(&m));
    weir_mesh_close(&m);
    CHECK(flight.entries == (me ? 3 : 2));
    return WEIR_OK;
}

static void collectives_of_every_generation_are_recorded(void **state)
{
    (void)state;
    ranks_all_ok(&(ranks){.net = "sim", .size = 3, .fn = record_rank});
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ids_tell_groups_apart),
                                       cmocka_unit_test(machines), cmocka_unit_test(levels),
                                       cmocka_unit_test(somebody_leads),
                                       cmocka_unit_test(
                                           collectives_of_every_generation_are_recorded)};

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
