/* help_coll.h - every collective in the list, in every world that can be had without a launcher of
 * its own. */
#ifndef WEIR_HELP_COLL_H
#define WEIR_HELP_COLL_H
#include "coll/coll.h"
#include "help_ranks.h"
/* after those it needs */
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

/* A world, and how many ranks it is asked for. A test has it as its state. */
typedef struct coll_world {
    const char *spec;
    int ranks;
    bool simulated;
} coll_world;

typedef struct coll_test {
    const char *name;
    CMUnitTestFunction fn;
    bool simulated; /* only in a simulated world */
} coll_test;

/* Runs every test in every world; `filter` may be NULL. Gives main's result. */
int coll_tests_run(const coll_test *, int tests, const char *filter);

/* What is tested: all in the list (`coll_listed` of them), and then some with small segments and
 * windows, "to give some bugs a chance"; ended by NULL. */
enum { COLL_SPECS = 40 };
extern const char *coll_spec[COLL_SPECS];
extern int coll_specs, coll_listed;

/* Runs fn as `size` ranks; fails the test with the sentence of the lowest rank whose error is not
 * the loss of another. */
void coll_all_well(const coll_world *, int size, weir_err (*fn)(weir_net *, void *), void *arg);
#endif
