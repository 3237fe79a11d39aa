/* bench.c - weir bench compute|train|allreduce|codec. */
#include "cli/cli.h"
#include "train/run.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a bench measures unless told otherwise; `train`'s own defaults hold for the rest. */
static weir_err bench_defaults(weir_settings *s, const char *kind)
{
    if (!strcmp(kind, "compute") && s->workers != 1)
        return weir_fail(WEIR_USAGE,
                         "bench compute measures one worker: bench train takes --workers");
    if (strcmp(kind, "allreduce") && strcmp(kind, "codec") && !s->model)
        return weir_fail(WEIR_USAGE, "which model? --model NAME");
    if (!weir_settings_given(s, "optim"))
        s->optim = "sgd:momentum=0.9";
    if (!s->steps)
        s->steps = 20;
    return WEIR_OK;
}

static bool known(const char *kind)
{
    static const char *const kinds[] = {"compute", "train", "allreduce", "codec"};

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kind, kinds[i]))
            return true;
    return false;
}

/* Options that others of the benches take. */
static weir_err check_given(const weir_settings *s, const char *kind)
{
    static const char *const taken[][2] = {
        {"allreduce", " coll net workers timeout stall rank size rendezvous key insecure "},
        {"codec", " codec "}};

    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        for (const weir_opt *o = weir_settings_options; !strcmp(kind, taken[i][0]) && o->name;
             o++) {
            char word[80];
            snprintf(word, sizeof word, " %s ", o->name);
            if (weir_settings_given(s, o->name) && !strstr(taken[i][1], word))
                return weir_fail(WEIR_USAGE, "bench %s does nothing with --%s: try weir help bench",
                                 kind, o->name);
        }
    return WEIR_OK;
}

static weir_err bench(int argc, char **argv, weir_arena *arena, int *code)
{
    const char *kind[2] = {NULL, NULL}, *json = NULL, *floats = "1048576";
    const cli_extra extra[] = {{"json", true, &json, ""}, {"floats", false, &floats, ""}, {0}};
    char *end;
    weir_settings s;
    weir_rank_info rank_info;

    WEIR_TRY(weir_settings_init(&s, arena));
    WEIR_TRY(cli_options(argc, argv, &s, extra, kind, 1));
    if (!kind[0] || !known(kind[0]))
        return weir_fail(WEIR_USAGE,
                         "what is to be measured? weir bench compute|train|allreduce|codec");
    WEIR_TRY(check_given(&s, kind[0]));
    WEIR_TRY(bench_defaults(&s, kind[0]));
    unsigned long long n = strtoull(floats, &end, 10);
    if (end == floats || *end || *floats == '-' || n >= 1ull << 31)
        return weir_fail(WEIR_USAGE, "--floats %s: a whole number below 2^31 was expected", floats);
    if (!strcmp(kind[0], "codec"))
        return weir_bench_codec(weir_settings_given(&s, "codec") ? s.codec : NULL, (size_t)n,
                                json != NULL, stdout);
    if (cli_launch(argc, argv, &s, NULL, code))
        return WEIR_OK;
    WEIR_TRY(cli_enter(&s, NULL, &rank_info));
    if (!strcmp(kind[0], "allreduce"))
        return weir_bench_allreduce(&s, &rank_info, weir_settings_given(&s, "coll") ? s.coll : NULL,
                                    (size_t)n, json != NULL, stdout);
    weir_bench b = {.kind = kind[0],
                    .steps = (uint64_t)s.steps,
                    .json = json != NULL,
                    .out = stdout};
    return weir_bench_run(&s, &rank_info, &b);
}

int cli_bench(int argc, char **argv)
{
    weir_arena *arena = weir_arena_new();
    int code = 0;
    weir_err err = arena ? bench(argc, argv, arena, &code) : weir_fail_nomem(0);

    if (err)
        code = cli_end(err);
    weir_arena_free(arena);
    return code;
}
