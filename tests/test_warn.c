/* What is warned of before a run, by what codecs and optimisers declare. */
#include "train/warn.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static void facts(void **state)
{
    weir_codec codec = {.plug = {.name = "some"}, .drop = 0.5};
    weir_optim plain = {.plug = {.name = "plain"}},
               adaptive = {.plug = {.name = "clever"}, .adaptive = true};
    weir_warn_facts with = {.codec = &codec,
                            .optim = &adaptive,
                            .spec = "some:x=1",
                            .lr = "0.1",
                            .steps = 100,
                            .epoch_steps = 50},
                    without = with;
    char text[WEIR_WARN_MOST][WEIR_WHY_MAX];

    (void)state;
    without.optim = &plain;
    assert_int_equal(weir_warn_all(&with, text), 0);
    codec.rate = 1;
    codec.adamw_drop = 0.9; /* a point is not much */
    assert_int_equal(weir_warn_all(&with, text), 0);
    codec.adamw_drop = 1.5;
    assert_int_equal(weir_warn_all(&without, text), 0);
    assert_int_equal(weir_warn_all(&with, text), 1);
    assert_non_null(strstr(text[0], "--codec some with --optim clever"));
    assert_non_null(strstr(text[0], "1.5 points"));
    codec.rate = 0.4;
    without.lr = "step:rate=0.1";
    assert_int_equal(weir_warn_all(&without, text), 1);
    assert_non_null(strstr(text[0], "0.4 times"));
    assert_non_null(strstr(text[0], "--lr step:rate=0.1"));
    assert_int_equal(weir_warn_all(&with, text), 2);
}

/* A run that ends before its codec has begun, or has come down to its density. */
static void short_runs(void **state)
{
    weir_codec codec = {.plug = {.name = "some"}};
    weir_optim plain = {.plug = {.name = "plain"}};
    weir_feedback f = {.warmup = 0.5, .ramp = 0.25};
    weir_warn_facts p = {.codec = &codec,
                         .feedback = &f,
                         .optim = &plain,
                         .spec = "some:x=1",
                         .lr = "0.1",
                         .steps = 75,
                         .epoch_steps = 100};
    char text[WEIR_WARN_MOST][WEIR_WHY_MAX];

    (void)state;
    assert_int_equal(weir_warn_all(&p, text), 1);
    assert_non_null(strstr(text[0], "falls until step 75, this run has 75"));
    p.steps = 76;
    assert_int_equal(weir_warn_all(&p, text), 0);
    p.steps = 50;
    assert_int_equal(weir_warn_all(&p, text), 1);
    assert_non_null(
        strstr(text[0], "--codec some:x=1: nothing is compressed, the first 50 steps of some are "
                        "dense and this run has 50; its options warmup and ramp"));
    f = (weir_feedback){0};
    assert_int_equal(weir_warn_all(&p, text), 0);
    p.feedback = NULL;
    assert_int_equal(weir_warn_all(&p, text), 0);
}

/* The optimisers that there are say which they are. */
static void optimisers(void **state)
{
    static const char *const adaptive[] = {"adam", "adamw", "adagrad"};

    (void)state;
    for (weir_plugs p = weir_optims; *p; p++) {
        bool is = false;
        for (int i = 0; i < 3; i++)
            is |= !strcmp((*p)->name, adaptive[i]);
        assert_int_equal(((const weir_optim *)*p)->adaptive, is);
    }
}

/* None is lost without a word. */
static void more_than_fit_are_counted(void **state)
{
    weir_warned w = {0};
    char last[40];

    (void)state;
    for (int i = 0; i < WEIR_WARNED; i++)
        weir_warned_add(&w, "warning %d", i);
    assert_int_equal(w.n, WEIR_WARNED);
    snprintf(last, sizeof last, "warning %d", WEIR_WARNED - 1);
    for (int more = 1; more < 4; more++) {
        weir_warned_add(&w, "another");
        assert_int_equal(w.n, WEIR_WARNED + 1);
        assert_string_equal(w.text[WEIR_WARNED - 1], last);
        assert_int_equal(w.text[WEIR_WARNED][4] - '0', more);
        assert_non_null(strstr(w.text[WEIR_WARNED], "more, for which there was no room"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(facts), cmocka_unit_test(short_runs),
                                       cmocka_unit_test(optimisers),
                                       cmocka_unit_test(more_than_fit_are_counted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
