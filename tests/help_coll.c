/* help_coll.c - see help_coll.h. */
#include "help_coll.h"
#include <stdio.h>
#include <string.h>

const char *coll_spec[COLL_SPECS];
int coll_specs, coll_listed;

static void make_specs(void)
{
    static const char *const more[] = {
        "ring:segment=4096,window=3",
        "ring:segment=64,window=1",
        "halving:segment=4096,window=1",
        "doubling:segment=1000,window=3",
        "blocks:segment=100,window=2",
        "tree:segment=4096,window=1",
        "tree:segment=128,window=5",
        "hier:each=2,inner=ring,outer=doubling",
        "hier:each=1",
        "hier:each=4",
        "hier:each=3,inner=[halving:segment=4096,window=2],outer=[ring:window=2,segment=100]",
        "auto:measure=yes"};

    for (weir_plugs c = weir_colls; *c; c++)
        coll_spec[coll_specs++] = (*c)->name;
    coll_listed = coll_specs;
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        coll_spec[coll_specs++] = more[i];
}

void coll_all_well(const coll_world *w, int size, weir_err (*fn)(weir_net *, void *), void *arg)
{
    static ranks r;

    r = (ranks){.net = w->spec, .size = size, .timeout = 20, .stall = 100, .fn = fn, .arg = arg};
    ranks_run(&r);
    for (int lost = 0; lost < 2; lost++)
        for (int i = 0; i < size; i++)
            if (r.err[i] && (r.err[i] == WEIR_LOST) == lost)
                fail_msg("%s, %d ranks: rank %d: %s", w->spec, size, i, r.why[i]);
}

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined __SANITIZE_THREAD__ || __has_feature(thread_sanitizer)
/* a simulated world is one thread: there is nothing to race, and much to wait for */
enum { WORLDS = 1 };
#else
enum { WORLDS = 2 };
#endif
enum { MOST_TESTS = 40 };

int coll_tests_run(const coll_test *kinds, int tests, const char *filter)
{
    static coll_world worlds[] = {{"zmq", 8, false}, {"sim", 17, true}};
    static struct CMUnitTest all[MOST_TESTS];
    static char names[MOST_TESTS][40];
    weir_net_facts facts;
    size_t n = 0;

    make_specs();
    for (int w = 0; w < WORLDS; w++)
        for (int k = 0; k < tests && !weir_net_check(worlds[w].spec, &facts); k++) {
            if (n == MOST_TESTS || (kinds[k].simulated && !worlds[w].simulated))
                continue;
            snprintf(names[n], sizeof names[n], "%s_%s", worlds[w].spec, kinds[k].name);
            all[n] = (struct CMUnitTest){.name = names[n],
                                         .test_func = kinds[k].fn,
                                         .initial_state = &worlds[w]};
            n++;
        }
    if (filter)
        cmocka_set_test_filter(filter);
    return _cmocka_run_group_tests("coll", all, n, NULL, NULL);
}
