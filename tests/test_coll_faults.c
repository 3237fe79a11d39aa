/* Collectives when something goes wrong, in every world: a rank is lost in the middle and everybody
 * has an end; ranks that do not agree are told; what cannot be opened says why. */
#include "help_coll.h"
#include <stdio.h>
#include <string.h>

static const coll_world *in(void **state) { return *state; }

/* ---- a rank is lost in the middle ---- */

static weir_net *doomed; /* set by the rank that will be lost, read by its own sum */
static int fuse;

static void add_and_die(void *to, const void *from, size_t n)
{
    weir_sum_f32.add(to, from, n);
    if (!--fuse)
        weir_net_abort(doomed, WEIR_FAILED);
}
static const weir_sum last_sum = {sizeof(float), add_and_die};

enum { VICTIM = 1, LOST_UNITS = 400000 };
typedef struct losing {
    const char *spec;
    int verb;
} losing;

static weir_err lose_with(const losing *l, weir_group *g, weir_coll_use *use, float *x)
{
    size_t off[RANKS_MAX], len[RANKS_MAX];
    bool dies = g->me == VICTIM;

    for (int i = 0; i < g->size; i++) {
        off[i] = weir_coll_cut(LOST_UNITS, g->size, i) * 4;
        len[i] = weir_coll_cut(LOST_UNITS, g->size, i + 1) * 4 - off[i];
    }
    WEIR_TRY(weir_allreduce(use, g, x, LOST_UNITS, &weir_sum_f32)); /* all is well */
    if (dies) {
        doomed = g->net;
        fuse = 2;
    }
    if (l->verb == 0)
        return weir_allreduce(use, g, x, LOST_UNITS, dies ? &last_sum : &weir_sum_f32);
    if (l->verb == 1)
        return weir_reduce_scatter(use, g, x, LOST_UNITS, dies ? &last_sum : &weir_sum_f32);
    if (dies)
        return WEIR_FAILED;
    return l->verb == 2 ? weir_allgather(use, g, x, off, len)
                        : weir_broadcast(use, g, VICTIM, x, LOST_UNITS * 4);
}

static weir_err lose_rank(weir_net *net, void *arg)
{
    losing *l = arg;
    weir_arena *a = weir_arena_new();
    float *x = WEIR_NEW(a, float, LOST_UNITS);
    weir_group g;
    weir_coll_use use;
    weir_err err = weir_group_all(net, a, &g);

    if (!err)
        err = weir_coll_open(l->spec, &g, a, &use);
    if (!err)
        err = lose_with(l, &g, &use, x);
    weir_arena_free(a); /* whoever still holds a piece of x is found out by ASan */
    return err == WEIR_FAILED ? weir_fail(WEIR_FAILED, "left") : err;
}

static void losses(void **state)
{
    static const char *const some[] = {
        "ring:segment=4096,window=4",
        "halving:segment=4096",
        "doubling:segment=4096",
        "blocks:segment=4096",
        "tree:segment=4096",
        "hier:each=2,inner=[ring:segment=4096],outer=[halving:segment=4096]"}; /* shm, and auto that
                                                                                  takes it:
                                                                                  test_shm.c */
    static ranks r;

    for (size_t s = 0; s < sizeof some / sizeof *some; s++)
        for (int verb = 0; verb < 4; verb++) {
            losing l = {some[s], verb};
            r = (ranks){.net = in(state)->spec,
                        .size = 5,
                        .timeout = 20,
                        .stall = 100,
                        .fn = lose_rank,
                        .arg = &l};
            ranks_run(&r);
            for (int i = 0; i < r.size; i++)
                if (r.err[i] != (i == VICTIM ? WEIR_FAILED : WEIR_LOST))
                    fail_msg("%s, verb %d: rank %d ended with %s: %s", some[s], verb, i,
                             weir_err_name(r.err[i]), r.why[i]);
        }
}

/* ---- ranks that do not agree ---- */

static weir_err misfit_rank(weir_net *net, void *arg)
{
    losing *l = arg;
    weir_arena *a = weir_arena_new();
    float *x = WEIR_NEW(a, float, 70000);
    weir_group g;
    weir_coll_use use;
    size_t n = 50000 + (weir_net_rank(net) == VICTIM);
    weir_err err = weir_group_all(net, a, &g);

    if (!err)
        err = weir_coll_open(l->spec, &g, a, &use);
    if (!err && l->verb == 0)
        err = weir_allreduce(&use, &g, x, n, &weir_sum_f32);
    if (!err && l->verb == 1)
        err = weir_reduce_scatter(&use, &g, x, n, &weir_sum_f32);
    if (!err && l->verb == 2)
        err = weir_broadcast(&use, &g, VICTIM, x, n);
    weir_arena_free(a);
    return err;
}

static void misfits(void **state)
{
    static ranks r;

    for (int s = 0; s < coll_specs; s++)
        for (int verb = 0; verb < 3; verb++) {
            losing l = {coll_spec[s], verb};
            int told = 0;
            if (!strcmp(coll_spec[s], "mpi")) /* MPI does not tell */
                continue;
            r = (ranks){.net = in(state)->spec,
                        .size = 4,
                        .timeout = 20,
                        .stall = 100,
                        .fn = misfit_rank,
                        .arg = &l};
            ranks_run(&r);
            for (int i = 0; i < r.size; i++)
                told += r.err[i] == WEIR_MISFIT;
            if (!told)
                fail_msg("%s, verb %d: nobody found out; rank 0 says %s", coll_spec[s], verb,
                         r.why[0]);
        }
}

/* ---- opening ---- */

static weir_err fails(const char *wrong_spec, const weir_group *g, weir_arena *a, weir_err code,
                      const char *says)
{
    weir_coll_use use;

    CHECK(weir_coll_open(wrong_spec, g, a, &use) == code);
    return strstr(weir_why_text(), says)
               ? WEIR_OK
               : weir_fail(WEIR_FAILED, "%s: \"%s\" was not said", wrong_spec, says);
}

static weir_err open_rank(weir_net *net, void *arg)
{
    weir_arena *a = arg;
    weir_group g, one;
    weir_coll_use use;
    float x[2] = {1, 2};

    WEIR_TRY(weir_group_all(net, a, &g));
    WEIR_TRY(weir_group_make(net, 1, &(int){weir_net_rank(net)}, 1, a, &one));
    WEIR_TRY(
        fails("star", &g, a, WEIR_USAGE, "there is no collective 'star'; there is auto, ring"));
    WEIR_TRY(fails("hier:inner=star", &g, a, WEIR_USAGE, "'star'"));
    WEIR_TRY(fails("hier:outer=[ring:segmnt=4,window=2]", &g, a, WEIR_USAGE, "'segmnt'"));
    WEIR_TRY(fails("hier:inner=[ring", &g, a, WEIR_USAGE, "'[ring'"));
    WEIR_TRY(fails("tree:window=0", &g, a, WEIR_USAGE, "window=0"));
    /* what was opened for one group does not quietly serve another */
    WEIR_TRY(weir_coll_open("hier", &one, a, &use));
    CHECK(weir_allreduce(&use, &g, x, 2, &weir_sum_f32) == WEIR_MISFIT &&
          strstr(weir_why_text(), "open it anew"));
    WEIR_TRY(weir_coll_open("auto", &one, a, &use));
    CHECK(weir_allreduce(&use, &g, x, 2, &weir_sum_f32) == WEIR_MISFIT &&
          strstr(weir_why_text(), "open it anew"));
    return WEIR_OK;
}

static weir_err open_in_arena(weir_net *net, void *arg)
{
    weir_arena *a = weir_arena_new();
    weir_err err = open_rank(net, a);

    (void)arg;
    weir_arena_free(a);
    return err;
}

static void opening(void **state) { coll_all_well(in(state), 2, open_in_arena, NULL); }

int main(int argc, char **argv)
{
    static const coll_test tests[] = {{"opening", opening},
                                      {"misfits", misfits},
                                      {"losses", losses}};

    return coll_tests_run(tests, sizeof tests / sizeof *tests, argc > 1 ? argv[1] : NULL);
}
