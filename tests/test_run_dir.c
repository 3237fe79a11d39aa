/* One directory, one run: what may happen between looking at a directory and having it. */
#include "core/file.h"
#include "train/rundir.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>

/* ---- the moment before a lock is taken ---- */

static const char *saves_in; /* the run that is just leaving saves there once more; NULL: nobody */

int flock(int fd, int operation)
{
    char path[200];

    if (saves_in) {
        snprintf(path, sizeof path, "%s/step-7", saves_in);
        mkdir(path, 0777);
        saves_in = NULL;
    }
    return (int)syscall(SYS_flock, fd, operation);
}

/* ---- taking ---- */

typedef struct place {
    char out[64];
    weir_arena *arena;
    weir_settings set;
    weir_rundir dir;
    weir_warned warned;
} place;

static void begin(place *p)
{
    *p = (place){.out = "/tmp/weir-test-XXXXXX", .arena = weir_arena_new()};
    assert_non_null(mkdtemp(p->out));
    assert_int_equal(weir_settings_init(&p->set, p->arena), WEIR_OK);
    p->set.out = p->out;
    p->dir = (weir_rundir){.set = &p->set, .host = "here"};
}

static void end(place *p)
{
    char path[100];

    weir_rundir_leave(&p->dir);
    snprintf(path, sizeof path, "%s/step-7", p->out);
    rmdir(path);
    assert_int_equal(rmdir(p->out), 0); /* with the lock nothing is left in it */
    weir_arena_free(p->arena);
}

static void an_empty_one_is_taken(void **state)
{
    place p;

    (void)state;
    begin(&p);
    assert_int_equal(weir_rundir_take(&p.dir, &p.warned), WEIR_OK);
    assert_non_null(p.dir.lock);
    end(&p);
}

static void what_was_saved_before_we_had_it_is_not_written_over(void **state)
{
    place p;

    (void)state;
    begin(&p);
    saves_in = p.out;
    assert_int_equal(weir_rundir_take(&p.dir, &p.warned), WEIR_USAGE);
    assert_non_null(strstr(weir_why_text(), "holds a run already"));
    p.set.resume = p.out; /* whoever goes on with it may have it */
    weir_rundir_leave(&p.dir);
    assert_int_equal(weir_rundir_take(&p.dir, &p.warned), WEIR_OK);
    end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_one_is_taken),
        cmocka_unit_test(what_was_saved_before_we_had_it_is_not_written_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
