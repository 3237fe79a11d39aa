/* What is warned of before a run, by what codecs and optimisers declare. */
#include "train/warn.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static void facts(void **state)
{
    weir_codec codec = {.plug = {.name = "some"}, .drop = 0.5};
    weir_optim plain = {.plug = {.name = "plain"}}, adaptive = {.plug = {.name = "clever"}, .adaptive = true};
    char text[WEIR_WARNINGS][WEIR_WHY_MAX];

    (void)state;
    assert_int_equal(weir_warnings(&codec, &adaptive, "0.1", text), 0);
    codec.rate = 1;
    codec.adamw_drop = 0.9; /* a point is not much */
    assert_int_equal(weir_warnings(&codec, &adaptive, "0.1", text), 0);
    codec.adamw_drop = 1.5;
    assert_int_equal(weir_warnings(&codec, &plain, "0.1", text), 0);
    assert_int_equal(weir_warnings(&codec, &adaptive, "0.1", text), 1);
    assert_non_null(strstr(text[0], "--codec some with --optim clever"));
    assert_non_null(strstr(text[0], "1.5 points"));
    codec.rate = 0.4;
    assert_int_equal(weir_warnings(&codec, &plain, "step:rate=0.1", text), 1);
    assert_non_null(strstr(text[0], "0.4 times"));
    assert_non_null(strstr(text[0], "--lr step:rate=0.1"));
    assert_int_equal(weir_warnings(&codec, &adaptive, "0.1", text), 2);
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(facts), cmocka_unit_test(optimisers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
