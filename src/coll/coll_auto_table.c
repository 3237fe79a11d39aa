/* coll_auto_table.c - what `--coll auto` stands for: a fixed table of what links cost, and the
 * formulas of coll.h; so that a run repeats. */
#include "coll/halves.h"
#include <string.h>

/* Seconds a message, bytes a second: round figures, on purpose. */
typedef struct path {
    const char *net; /* NULL: any other */
    bool apart;      /* between machines */
    double message, rate;
} path;

static const path paths[] = {
    {"zmq", false, 40e-6, 1.5e9}, {"zmq", true, 60e-6, 0.118e9}, {"mpi", false, 1.5e-6, 4e9},
    {"mpi", true, 3e-6, 1.2e9},   {NULL, false, 40e-6, 1.5e9},   {NULL, true, 60e-6, 0.118e9},
};

static const double ADD_RATE = 6e9; /* bytes added a second */
enum {
    TREE_SEGMENT = 32768,
    EAGER = 16384,
    FEW = 4096 /* bytes for which two levels are not worth their steps */
};

static const path *path_of(const weir_group *g, bool apart)
{
    const path *p = paths;

    while (p->net && !(p->apart == apart && !strcmp(p->net, weir_net_name(g->net))))
        p++;
    return p->net || !apart ? p : p + 1;
}

/* ---- what an all-reduce takes ---- */

/* wire: seconds for all bytes once; lg: of q */
typedef struct job {
    int p, q, lg;
    double bytes, wire, message;
} job;

static double ring(const job *j)
{
    return 2 * (j->p - 1) * (j->message + j->wire / j->p); /* adding overlaps */
}

static double doubling(const job *j)
{
    return (j->lg + 2 * (j->p > j->q)) * (j->message + j->wire) + j->lg * j->bytes / ADD_RATE;
}

static double halving(const job *j)
{
    double portion = (j->q - 1.0) / j->q, fold = j->p > j->q;

    return 2 * (j->lg + fold) * j->message + 2 * (portion + fold) * j->wire +
           (portion + fold) * j->bytes / ADD_RATE;
}

/* What the smaller blocks send goes while the largest one halves, and takes hardly more time than
 * its messages do; unless it is long, and has to wait until somebody asks for it. */
static double blocks(const job *j)
{
    double portion = j->p > j->q ? 1 : (j->q - 1.0) / j->q;
    double time = 2 * j->lg * j->message + portion * (2 * j->wire + j->bytes / ADD_RATE);

    for (int left = j->p - j->q, larger = j->q; left;) {
        int own = weir_halves_floor2(left);
        time += 2 * (1 + (double)larger / own / 16) * j->message +
                (j->bytes / larger >= EAGER ? 1.3 * j->wire / own : 0);
        larger = own;
        left -= own;
    }
    return time;
}

static double tree(const job *j)
{
    double segment = j->bytes / 2 < TREE_SEGMENT ? j->bytes / 2 : TREE_SEGMENT;
    double fill = 2 * (j->lg + (j->p > j->q)) *
                  (j->message + (j->bytes > 0 ? segment / j->bytes * j->wire : 0));

    return fill + 2 * j->wire + j->bytes / ADD_RATE;
}

static const char *cheapest(const weir_group *g, const path *path, size_t bytes)
{
    static const struct {
        const char *name;
        double (*time)(const job *);
    } known[] = {{"doubling", doubling},
                 {"halving", halving},
                 {"ring", ring},
                 {"blocks", blocks},
                 {"tree", tree}};
    job j = {.p = g->size,
             .q = weir_halves_floor2(g->size),
             .bytes = (double)bytes,
             .wire = (double)bytes / path->rate,
             .message = path->message};
    double least = 0;
    size_t best = 0;

    for (int n = j.q; n > 1; n /= 2)
        j.lg++;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        double time = known[i].time(&j);
        if (!i || time < least) {
            least = time;
            best = i;
        }
    }
    return known[best].name;
}

/* ---- who else is there ---- */

/* Is there a collective of this name, and does it fit? */
static bool usable(const char *name, const weir_group *g)
{
    for (weir_plugs p = weir_colls; *p; p++) {
        const weir_coll *c = (const weir_coll *)*p;
        weir_arena *arena;
        void *self;
        bool fits;
        if (strcmp((*p)->name, name))
            continue;
        if (!c->fits)
            return true;
        if (!(arena = weir_arena_new()))
            return false;
        fits = !weir_plug_make(*p, "collective", name, arena, &self) && !c->fits(self, g);
        weir_arena_free(arena);
        return fits;
    }
    return false;
}

/* A machine's number is its lowest rank: where everybody has its own, nobody shares. */
static bool shares(const weir_group *g)
{
    bool alone = true;

    for (int i = 0; i < g->size; i++)
        alone = alone && weir_net_machine(g->net, g->member[i]) == g->member[i];
    for (int i = 1; i < g->size && !alone; i++)
        for (int k = 0; k < i; k++)
            if (weir_net_machine(g->net, g->member[i]) == weir_net_machine(g->net, g->member[k]))
                return true;
    return false;
}

weir_coll_form weir_coll_look(const weir_group *g)
{
    weir_coll_form s = {.shared = shares(g)};

    for (int i = 1; i < g->size; i++)
        s.apart |= weir_net_machine(g->net, g->member[i]) != weir_net_machine(g->net, g->member[0]);
    s.shm = !s.apart && usable("shm", g);
    return s;
}

const char *weir_coll_pick(const weir_group *g, const weir_coll_form *s, size_t bytes)
{
    if (s->shm)
        return "shm";
    if (s->apart && s->shared && bytes > FEW)
        return "hier";
    return cheapest(g, path_of(g, s->apart), bytes);
}
