/* Settings that cannot work together: every combination of exchange, codec, optimiser, exact sums,
 * clipping and number of ranks is refused, by the one function that refuses and with its sentence,
 * or trains. There is no third state. In the simulated world, whose ranks are all in this process.
 */
#include "help_ranks.h"
#include "train/refuse.h"
#include "train/run.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { SPECS = 64, STEPS = 2 };

/* ---- what there is ---- */

static bool has_option(const weir_plug *p, const char *name)
{
    for (const weir_opt *o = p->options; o && o->name; o++)
        if (!strcmp(o->name, name))
            return true;
    return false;
}

/* Every codec from its first step on; and those that keep something back, also with the momentum
 * behind them. */
static int list_codecs(char (*spec)[80])
{
    int n = 0;

    for (weir_plugs p = weir_codecs; *p; p++) {
        bool warms = has_option(*p, "warmup"), corrects = has_option(*p, "correct");
        assert_true(n + 2 <= SPECS);
        snprintf(spec[n++], 80, "%s%s%s", (*p)->name, warms ? ":warmup=0" : "",
                 has_option(*p, "ramp") ? ",ramp=0" : "");
        if (corrects && ((const weir_codec *)*p)->sparse)
            snprintf(spec[n++], 80, "%s:warmup=0,residual=yes,correct=no", (*p)->name);
    }
    return n;
}

static int list_exchanges(char (*spec)[80])
{
    static const char *const more[] = {"allreduce:hier=yes", "allreduce:hier=yes,each=1",
                                       "allreduce:each=1", "peers:bound=0"};
    int n = 0;

    for (weir_plugs p = weir_exchanges; *p; p++)
        snprintf(spec[n++], 80, "%s", (*p)->name);
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        snprintf(spec[n++], 80, "%s", more[i]);
    return n;
}

static int list_optims(char (*spec)[80])
{
    int n = 0;

    for (weir_plugs p = weir_optims; *p; p++) {
        snprintf(spec[n++], 80, "%s", (*p)->name);
        if (has_option(*p, "momentum"))
            snprintf(spec[n++], 80, "%s:momentum=0.9", (*p)->name);
    }
    return n;
}

/* ---- refused, or trains ---- */

static weir_settings settings(weir_arena *a, const char *exchange, const char *codec,
                              const char *optim)
{
    weir_settings s;

    assert_int_equal(weir_settings_init(&s, a), WEIR_OK);
    s.model = "mlp:hidden=24";
    s.data = "synth:shape=20,classes=3,count=16,test=2";
    s.batch = 8;
    s.steps = STEPS;
    s.threads = 1;
    s.exchange = exchange;
    s.codec = codec;
    s.optim = optim;
    s.lr = "0.01";
    s.net = "sim";
    return s;
}

/* What the function says of these; "": nothing. */
static void verdict(const weir_settings *s, int ranks, char why[WEIR_WHY_MAX])
{
    weir_arena *a = weir_arena_new();
    weir_facts f;

    assert_int_equal(weir_facts_read(s, a, &f), WEIR_OK);
    f.trains = true;
    f.ranks = ranks;
    why[0] = 0;
    if (weir_refuse(&f)) {
        assert_true(weir_refuse(&f) == WEIR_MISFIT);
        snprintf(why, WEIR_WHY_MAX, "%s", weir_why_text());
        assert_true(strlen(why) > 20);
    }
    weir_arena_free(a);
}

static weir_err train(const weir_settings *s, int ranks, weir_result *result)
{
    weir_hooks hooks = {0};
    weir_rank_info rank_info;
    int stopped;

    ranks_info(&rank_info, 0, ranks, "", 30);
    return weir_train_run(s, &rank_info, &hooks, result, &stopped);
}

static bool check(const weir_settings *s, int ranks)
{
    char why[WEIR_WHY_MAX];
    weir_result result = {0};
    weir_err err;

    verdict(s, ranks, why);
    err = train(s, ranks, &result);
    if (why[0] ? err != WEIR_MISFIT || !strstr(weir_why_text(), why)
               : err || result.steps != STEPS || !isfinite(result.loss))
        fail_msg("--exchange %s --codec %s --optim %s --exact %d --clip %g, %d ranks: it %s%s, and "
                 "training says %s: %s",
                 s->exchange, s->codec, s->optim, s->exact, s->clip, ranks,
                 why[0] ? "is refused: " : "is not refused", why, weir_err_name(err),
                 err ? weir_why_text() : "all is well");
    return !err;
}

/* Exact sums, clipping, ranks: by the bits of `how`. */
static bool check_all_ways(const char *exchange, const char *codec, const char *optim, int how)
{
    weir_arena *a = weir_arena_new();
    weir_settings s = settings(a, exchange, codec, optim);
    bool trained;

    s.exact = how & 1;
    s.clip = how & 2 ? 0.1 : 0;
    trained = check(&s, how & 4 ? 2 : 1);
    weir_arena_free(a);
    return trained;
}

static void refused_or_trains(void **state)
{
    static char exchange[SPECS][80], codec[SPECS][80], optim[SPECS][80];
    int exchanges = list_exchanges(exchange), codecs = list_codecs(codec),
        optims = list_optims(optim), trained = 0, all = 0;

    (void)state;
    for (int x = 0; x < exchanges; x++)
        for (int c = 0; c < codecs; c++)
            for (int o = 0; o < optims; o++)
                for (int how = 0; how < 8; how++, all++)
                    trained += check_all_ways(exchange[x], codec[c], optim[o], how);
    print_message("%d combinations, of which %d train\n", all, trained);
    assert_true(trained > all / 4 && trained < all);
}

/* ---- sentences ---- */

/* One of each kind: which options it names, and the cure. */
static void sentences(void **state)
{
    static const struct {
        const char *exchange, *codec, *optim, *net;
        bool exact;
        const char *word[3];
    } cases[] = {
        {"peers", "none", "adam", "sim", false, {"--exchange peers and --optim adam", "take sgd"}},
        {"peers", "powersgd", "sgd", "sim", false, {"peers and --codec powersgd", "summed"}},
        {"peers",
         "strom:correct=no",
         "sgd:momentum=0.9",
         "sim",
         false,
         {"--exchange peers, --codec strom:correct=no and --optim sgd", "correct=no"}},
        {"peers", "auto", "sgd", "sim", false, {"--codec auto", "name one"}},
        {"allreduce:hier=yes",
         "auto",
         "sgd",
         "sim",
         false,
         {"--codec auto", "machines", "name one"}},
        {"allreduce:each=2", "none", "sgd", "sim", false, {"each=2: each=", "hier=yes"}},
        {"allreduce", "none", "sgd", "sim:dry=yes", false, {"--net sim:dry=yes: ", "bench train"}},
        {"allreduce", "none", "sgd", "sim:slow=1", false, {"--net sim:slow", "cost=TIME"}},
        {"allreduce", "half", "sgd", "sim", true, {"--codec half and --exact yes", "--codec none"}},
        {"peers", "none", "sgd", "sim", true, {"--exchange peers and --exact yes", "allreduce"}}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weir_arena *a = weir_arena_new();
        weir_settings s = settings(a, cases[i].exchange, cases[i].codec, cases[i].optim);
        char why[WEIR_WHY_MAX];
        s.net = cases[i].net;
        s.exact = cases[i].exact;
        verdict(&s, 2, why);
        for (int k = 0; k < 3 && cases[i].word[k]; k++)
            assert_says(why, cases[i].word[k]);
        weir_arena_free(a);
    }
}

/* A bench may be dry, but then has no sums, and nobody to tell what was measured. */
static void benches(void **state)
{
    weir_arena *a = weir_arena_new();
    weir_settings s = settings(a, "allreduce", "none", "sgd");
    weir_facts f;

    (void)state;
    s.net = "sim:dry=yes";
    assert_int_equal(weir_facts_read(&s, a, &f), WEIR_OK);
    f.ranks = 2;
    assert_int_equal(weir_refuse(&f), WEIR_OK);
    s.exact = true;
    assert_int_equal(weir_refuse(&f), WEIR_MISFIT);
    s.exact = false;
    s.codec = "auto";
    assert_int_equal(weir_facts_read(&s, a, &f), WEIR_OK);
    f.ranks = 2;
    assert_int_equal(weir_refuse(&f), WEIR_MISFIT);
    assert_says(weir_why_text(), "dry");
    f.ranks = 1;
    assert_int_equal(weir_refuse(&f), WEIR_OK);
    weir_arena_free(a);
}

/* A model's layers are seen, too, and how many ranks there are. */
static void models(void **state)
{
    weir_arena *a = weir_arena_new();
    weir_settings s = settings(a, "allreduce", "none", "sgd");
    weir_result result;

    (void)state;
    s.exact = true;
    s.data = "synth:shape=3x8x8,classes=3,count=16,test=2";
    s.model = "resnet20:width=2";
    assert_int_equal(train(&s, 1, &result), WEIR_OK);
    assert_int_equal(train(&s, 2, &result), WEIR_MISFIT);
    assert_says(weir_why_text(), "--exact yes and --model resnet20:width=2");
    assert_says(weir_why_text(), "stem.norm");
    s.data = "synth:tokens=20,length=6,count=64,test=8";
    s.model = "lstm-small:width=8";
    assert_int_equal(train(&s, 1, &result), WEIR_MISFIT);
    assert_says(weir_why_text(), "lstm");
    weir_arena_free(a);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(refused_or_trains),
                                       cmocka_unit_test(sentences), cmocka_unit_test(benches),
                                       cmocka_unit_test(models)};

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
