/* eval.c - weir eval CHECKPOINT --data SPEC. */
#include "cli/cli.h"
#include "core/log.h"
#include "train/run.h"

static weir_err eval(int argc, char **argv, weir_arena *arena)
{
    const char *word[2] = {NULL, NULL};
    weir_settings s;
    weir_rank_info rank_info;
    weir_warned warned = {0};
    weir_result result;
    weir_err err;

    WEIR_TRY(weir_settings_init(&s, arena));
    WEIR_TRY(cli_options(argc, argv, &s, NULL, word, 1));
    if (!word[0])
        return weir_fail(WEIR_USAGE, "which checkpoint? weir eval DIR --data SPEC");
    WEIR_TRY(cli_enter(&s, NULL, &rank_info));
    err = weir_eval_run(word[0], &s, &rank_info, &warned, &result);
    for (int i = 0; i < warned.n; i++)
        weir_log(WEIR_LOG_WARN, "eval", "%s", warned.text[i]);
    WEIR_TRY(err);
    printf("%s %.6g  loss %.6g  samples %llu  step %llu\n", result.metric, result.value,
           result.loss, (unsigned long long)result.samples, (unsigned long long)result.steps);
    return WEIR_OK;
}

int cli_eval(int argc, char **argv)
{
    weir_arena *arena = weir_arena_new();
    int code = cli_end(arena ? eval(argc, argv, arena) : weir_fail_nomem(0));

    weir_arena_free(arena);
    return code;
}
