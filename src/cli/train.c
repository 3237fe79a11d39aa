/* train.c - weir train. */
#include "cli/cli.h"
#include "train/run.h"
#include <unistd.h>

static const char *word(const weir_settings *s)
{
    return s->out ? "saving, then leaving; once more: leave now"
                  : "leaving after this step, nothing is saved without --out; once more: leave now";
}

static weir_err train(const weir_settings *s, int *stopped)
{
    /* read by the signal thread until the process ends */
    static cli_stop stop = {.signal = WEIR_STOP_AT_ONCE};
    weir_rank_info rank_info;
    weir_result result;

    stop.word = word(s);
    WEIR_TRY(cli_enter(s, &stop, &rank_info));
    weir_hooks hooks = {.stop = &stop.signal,
                        .people = s->quiet ? NULL : stdout,
                        .live = cli_terminal(STDOUT_FILENO, &rank_info)};
    return weir_train_run(s, &rank_info, &hooks, &result, stopped);
}

int cli_train(int argc, char **argv)
{
    weir_arena *arena = weir_arena_new();
    weir_settings s;
    int code, stopped = 0;
    weir_err err = arena ? weir_settings_init(&s, arena) : weir_fail_nomem(0);

    if (!err)
        err = cli_options(argc, argv, &s, NULL, NULL, 0);
    if (!err)
        err = weir_settings_check(&s);
    if (!err && cli_launch(argc, argv, &s, word(&s), &code))
        return weir_arena_free(arena), code;
    if (!err)
        err = train(&s, &stopped);
    code = err ? cli_end(err) : stopped ? 128 + stopped : 0;
    weir_arena_free(arena);
    return code;
}
