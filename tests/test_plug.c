/* Options and variants (core/plug.h): a spec fills what it names, and one that is wrong says what
 * is known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants those first */
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "help_plug.h"

static void check_fails(weir_err err, weir_err want, const char *word)
{
    if (err != want || !strstr(weir_why_text(), word))
        fail_msg("code %d, not %d, or no '%s' in: %s", err, want, word, weir_why_text());
}

static const weir_plug whole = {"thing", "a thing with options", sizeof(thing), options};
static const weir_plug bare = {"bare", "a thing without", 0, NULL};
static const weir_plug *const table[] = {&whole, &bare, NULL};

static weir_err make(const char *spec, weir_arena *a, thing **t)
{
    const weir_plug *p;

    WEIR_TRY(weir_plug_find(table, "axis", spec, &p));
    return weir_plug_make(p, "axis", spec, a, (void **)t);
}

static void specs_fill_options(void **state)
{
    weir_arena *a = weir_arena_new();
    thing *t;

    (void)state;
    assert_int_equal(make("thing", a, &t), WEIR_OK);
    assert_true(t->count == 3 && t->rate == 0.1 && !t->fast && !t->dir && t->mode == 1 &&
                !strcmp(t->rest, ""));
    assert_int_equal(make("thing:/data,count=1000,rate=1e-3,fast=yes,mode=three", a, &t), WEIR_OK);
    assert_true(t->count == 1000 && t->rate == 1e-3 && t->fast && !strcmp(t->dir, "/data") &&
                t->mode == 2);
    assert_int_equal(make("thing:dir=a:b=c,rest=x,y=z,count=9", a, &t), WEIR_OK);
    assert_string_equal(t->dir, "a:b=c");
    assert_string_equal(t->rest, "x,y=z,count=9");
    assert_int_equal(make("thing:[a:b=c,d=e],count=9", a, &t), WEIR_OK);
    assert_string_equal(t->dir, "a:b=c,d=e");
    assert_int_equal(t->count, 9);
    assert_int_equal(make("bare", a, &t), WEIR_OK);
    weir_arena_free(a);
}

/* Bare values, values in brackets and the rest of a spec hide no key and show none. */
static void a_spec_tells_what_it_says(void **state)
{
    static const struct {
        const char *spec, *key;
        bool given;
    } said[] = {
        {"thing", "count", false},
        {"thing:count=3", "count", true},
        {"thing:/data,count=3", "count", true},
        {"thing:/data,count=3", "dir", true},
        {"thing:count=3,fast=yes", "dir", false},
        {"thing:rate=1,rate=2,mode=one", "mode", true},
        {"thing:[a:count=1,fast=no],mode=one", "count", false},
        {"thing:[a:count=1,fast=no],mode=one", "fast", false},
        {"thing:[a:count=1,fast=no],mode=one", "mode", true},
        {"thing:dir=a:b=c,rest=x,count=9", "count", false},
        {"thing:dir=a:b=c,rest=x,count=9", "rest", true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        if (weir_plug_given(&whole, said[i].spec, said[i].key) != said[i].given)
            fail_msg("%s: %s is %sgiven", said[i].spec, said[i].key, said[i].given ? "" : "not ");
}

static void bad_specs_name_what_is_known(void **state)
{
    static const char *const bad[][2] = {
        {"thin", "no axis 'thin'; there is thing, bare"},
        {"", "no axis ''"},
        {"thing:size=3", "no option 'size'; it has count, rate, fast, dir, mode, rest"},
        {"bare:a=1", "no option 'a'; it has none"},
        {"bare:x", "axis bare: 'x' is not key=value"},
        {"bare:", "'' is not key=value"},
        {"thing:count=0", "count=0: a value from 1 to 1000 was expected"},
        {"thing:count=1001", "from 1 to 1000"},
        {"thing:count=99999999999999999999", "whole number"},
        {"thing:count=3x", "count=3x: a whole number"},
        {"thing:count=", "whole number"},
        {"thing:rate=-1", "at least 0"},
        {"thing:rate=nan", "a number was expected"},
        {"thing:rate=1e999", "a number was expected"},
        {"thing:fast=Yes", "yes or no"},
        {"thing:mode=tw", "one of one|two|three"},
        {"thing:mode=one|two", "one of one|two|three"},
        {"thing:mode=", "one of"},
        {"thing:=5", "no option ''"},
        {"thing:one:size=3", "no option 'one:size'; it has count, rate, fast, dir, mode, rest "
                             "(what has options of its own stands in brackets"},
    };
    static char hostile[9000];
    weir_arena *a = weir_arena_new();
    thing *t = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        check_fails(make(bad[i][0], a, &t), WEIR_USAGE, bad[i][1]);
    memset(hostile, 'h', sizeof hostile - 1);
    /* also behind a word of 9000 letters */
    check_fails(make(hostile, a, &t), WEIR_USAGE, "there is thing, bare");
    memcpy(hostile, "thing:", 6);
    hostile[4000] = '=';
    check_fails(make(hostile, a, &t), WEIR_USAGE, "it has count");
    memcpy(hostile, "thing:count=", 12);
    check_fails(make(hostile, a, &t), WEIR_USAGE, "whole number was expected");
    assert_null(t);
    weir_arena_free(a);
}

static void values_are_shown_as_written(void **state)
{
    static const char *const value[] = {"17", "0.1", "yes", "/data", "three", "a,b"};
    weir_arena *a = weir_arena_new();
    thing t = {0}, u = {0};
    char text[64];

    (void)state;
    for (int i = 0; options[i].name; i++) {
        assert_int_equal(weir_opt_set(options, "it", options[i].name, value[i], a, &t), WEIR_OK);
        weir_opt_show(options + i, &t, text, sizeof text);
        assert_string_equal(text, value[i]);
    }
    t.rate = 1.0 / 3; /* what is shown reads back as the same number */
    weir_opt_show(options + 1, &t, text, sizeof text);
    assert_int_equal(weir_opt_set(options, "it", "rate", text, a, &u), WEIR_OK);
    assert_true(u.rate == t.rate);
    t.mode = 99;
    weir_opt_show(options + 4, &t, text, sizeof text);
    check_fails(weir_opt_set(options, "it", "nope", "1", a, &t), WEIR_USAGE,
                "it: there is no option 'nope'");
    weir_arena_free(a);
}

static void times_and_rates_have_units(void **state)
{
    struct {
        double t, r;
    } x;
    const weir_opt units[] = {{"t", WEIR_OPT_TIME, 0, "2", "a time", .min = 0, .max = 100},
                              {"r", WEIR_OPT_RATE, sizeof(double), "1G", "a rate", .min = 1,
                               .max = 1e15},
                              {0}};
    static const struct {
        const char *key, *value;
        double is;
    } good[] = {{"t", "30", 30},    {"t", "2.5s", 2.5},  {"t", "50us", 50e-6}, {"t", "80ns", 80e-9},
                {"t", "7ms", 7e-3}, {"r", "9600", 9600}, {"r", "56k", 56e3},   {"r", "2.5G", 2.5e9},
                {"r", "100M", 1e8}, {"r", "1T", 1e12}};
    static const char *const bad[][2] = {{"t", "5m"},  {"t", "us"},  {"t", "-1s"},
                                         {"t", "101"}, {"t", "nan"}, {"r", "1g"},
                                         {"r", "0.5"}, {"r", "1 G"}, {"r", ""}};
    weir_arena *a = weir_arena_new();
    char text[40];

    (void)state;
    assert_int_equal(weir_opt_defaults(units, "it", a, &x), WEIR_OK);
    assert_true(x.t == 2 && x.r == 1e9);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(weir_opt_set(units, "it", good[i].key, good[i].value, a, &x), WEIR_OK);
        assert_true((good[i].key[0] == 't' ? x.t : x.r) == good[i].is);
        weir_opt_show(&units[good[i].key[0] == 'r'], &x, text, sizeof text);
        assert_true(strtod(text, NULL) == good[i].is);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(weir_opt_set(units, "it", bad[i][0], bad[i][1], a, &x), WEIR_USAGE);
    weir_arena_free(a);
}

static void plugs_are_listed(void **state)
{
    char *text;
    size_t n;
    FILE *f = open_memstream(&text, &n);

    (void)state;
    weir_plug_print(f, table, "axis", NULL);
    fclose(f);
    assert_non_null(strstr(text, "axis\n  thing"));
    assert_non_null(strstr(text, "mode=two"));
    assert_non_null(strstr(text, "one|two|three"));
    assert_non_null(strstr(text, "bare         a thing without"));
    free(text);
}

static void the_check_finds_bad_tables(void **state)
{
    const weir_opt outside[] = {
        {.name = "o", .kind = WEIR_OPT_INT, .at = 4, .standard = "1", .help = "h"}, {0}};
    const weir_opt wrong[] = {{.name = "o", .kind = WEIR_OPT_INT, .standard = "x", .help = "h"},
                              {0}};
    const weir_opt twice[] = {{.name = "o", .kind = WEIR_OPT_INT, .standard = "1", .help = "h"},
                              {.name = "o", .kind = WEIR_OPT_INT, .standard = "1", .help = "h"},
                              {0}};
    const weir_opt wordless[] = {
        {.name = "o", .kind = WEIR_OPT_CHOICE, .standard = "1", .help = "h"}, {0}};
    const weir_opt *const bad[] = {outside, wrong, twice, wordless};
    const weir_plug *const doubled[] = {&whole, &bare, &whole, NULL};

    (void)state;
    assert_int_equal(weir_plug_check(table, "axis"), WEIR_OK);
    for (int i = 0; i < 4; i++) {
        const weir_plug p = {"p", "help", 8, bad[i]}, *const one[] = {&p, NULL};
        assert_int_not_equal(weir_plug_check(one, "axis"), WEIR_OK);
    }
    check_fails(weir_plug_check(doubled, "axis"), WEIR_FAILED, "two are named thing");
}

static void check_from(const char *spec, const char *dir, const char *want)
{
    char *text = weir_plug_spec_from(&whole, spec, dir);

    if (!text || !want ? text != want : strcmp(text, want))
        fail_msg("%s from %s: %s, not %s", spec, dir, text ? text : "NULL", want ? want : "NULL");
    free(text);
}

/* What was written is parsed as the path that was meant. */
static void check_parsed(const char *spec, const char *dir, const char *want)
{
    char *text = weir_plug_spec_from(&whole, spec, dir);
    weir_arena *a = weir_arena_new();
    thing *t;

    assert_non_null(text);
    assert_int_equal(make(text, a, &t), WEIR_OK);
    assert_string_equal(t->dir, want);
    assert_int_equal(t->count, 5);
    weir_arena_free(a);
    free(text);
}

static void paths_are_put_behind_a_directory(void **state)
{
    (void)state;
    check_from("thing", "/a", "thing");
    check_from("thing:b,count=5", "/a", "thing:/a/b,count=5");
    check_from("thing:count=5,dir=b/c", "/", "thing:count=5,dir=/b/c");
    check_from("thing:/b,rest=x,dir=y", "/a", "thing:/b,rest=x,dir=y");
    check_from("thing:b,nosuch=1", "/a", NULL);
    check_from("thing:b", "/a\nc", NULL);
    check_from("thing:b", "/a,[c", NULL);
    check_parsed("thing:b,count=5", "/a,c", "/a,c/b");
    check_parsed("thing:b,count=5", "/a=c", "/a=c/b");
    check_parsed("thing:b,count=5", "/a[c", "/a[c/b");
    check_parsed("thing:b,count=5", "/a,[c]=d:e", "/a,[c]=d:e/b");
    check_parsed("thing:count=5,dir=[b,c]", "/a", "/a/b,c");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(specs_fill_options),
        cmocka_unit_test(a_spec_tells_what_it_says),
        cmocka_unit_test(bad_specs_name_what_is_known),
        cmocka_unit_test(values_are_shown_as_written),
        cmocka_unit_test(times_and_rates_have_units),
        cmocka_unit_test(paths_are_put_behind_a_directory),
        cmocka_unit_test(plugs_are_listed),
        cmocka_unit_test(the_check_finds_bad_tables),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
