/* test_net_laws.c - the laws of help_laws.h in every world of net/list.h that can be had here
 * without a launcher of its own. */
#include "help_laws.h"
#include "net/key.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>
/* after those it needs */
#include <cmocka.h>

/* libzmq forgets the first part of a message whose second never came, one read buffer for each link
 * that was cut. */
const char *__lsan_default_suppressions(void) __attribute__((visibility("default")));
const char *__lsan_default_suppressions(void) { return "leak:libzmq.so\n"; }

static void keep_law(void **state)
{
    const law *l = *state;
    char spec[128];
    ranks r = {.net = spec,
               .size = l->size,
               .fn = l->fn,
               .arg = (void *)(uintptr_t)&l->worth,
               .timeout = l->timeout,
               .stall = l->stall};

    snprintf(spec, sizeof spec, "%s%s%s", ranks_world,
             !l->options                ? ""
             : strchr(ranks_world, ':') ? ","
                                        : ":",
             l->options ? l->options : "");
    /* one that is no spec would pass for the error that some must end with */
    assert_int_equal(weir_net_check(spec, &(weir_net_facts){0}), WEIR_OK);
    ranks_run(&r);
    for (int i = 0; i < l->size; i++) {
        bool leaves = l->leaves >> i & 1;
        if (!r.err[i] == leaves || strstr(r.why[i], "not so: "))
            fail_msg("rank %d: %s (%s)", i, r.why[i], weir_err_name(r.err[i]));
    }
}

enum { MOST = 100 };

static int in_world(const char *world, const char *only)
{
    struct CMUnitTest tests[MOST] = {0};
    char names[MOST][64];
    size_t count = 0;

    ranks_world = world;
    for (const law *const *table = law_tables; *table; table++)
        for (const law *l = *table; l->name && count < MOST; l++) {
            if (only && !strstr(l->name, only))
                continue;
            snprintf(names[count], sizeof names[count], "%s_%s", world, l->name);
            tests[count] = (struct CMUnitTest){.name = names[count],
                                               .test_func = keep_law,
                                               .initial_state = (void *)(uintptr_t)l};
            count++;
        }
    return _cmocka_run_group_tests(world, tests, count, NULL, NULL);
}

int main(int argc, char **argv)
{
    /* libzmq's own set-up, which threads must not run at the same time, happens here once */
    void *keep = zmq_ctx_new();
    const char *only = argc > 1 ? argv[1] : NULL;
    int failed = 0;
    char key[64];

    for (weir_plugs world = weir_nets; *world; world++)
        if (strcmp((*world)->name, "mpi")) /* its ranks are processes that mpirun starts */
            failed += in_world((*world)->name, only);
    ranks_key = ""; /* the same over tcp, and with a key */
    failed += in_world("zmq:ipc=no", only);
    snprintf(key, sizeof key, "/tmp/weir-test-key-%d", (int)getpid());
    if (weir_key_make(key))
        return 1;
    ranks_key = key;
    failed += in_world("zmq:ipc=no", only);
    unlink(key);
    zmq_ctx_term(keep);
    return failed;
}
