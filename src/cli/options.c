/* options.c - the command line into settings. */
#include "cli/cli.h"
#include "net/launch.h"
#include "net/rank_info.h"
#include "train/refuse.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const weir_opt *run_option(const char *key)
{
    for (const weir_opt *o = weir_settings_options; o->name; o++)
        if (!strcmp(o->name, key))
            return o;
    return NULL;
}

static const cli_extra *extra_option(const cli_extra *extra, const char *key)
{
    for (; extra && extra->name; extra++)
        if (!strcmp(extra->name, key))
            return extra;
    return NULL;
}

/* ---- what is wrong with an option ---- */

/* The commands that take it, as a list: "train, bench". */
static void who_takes(const char *key, char *text, size_t room)
{
    size_t n = 0;

    text[0] = 0;
    for (const cli_command *c = cli_commands; c->name && n < room; c++)
        if (cli_takes(c->name, key))
            n += (size_t)snprintf(text + n, room - n, "%s%s", n ? ", " : "", c->name);
}

static weir_err unknown_option(const char *command, const char *key, const cli_extra *extra)
{
    cli_guess guess = {.word = key};
    char others[120];

    who_takes(key, others, sizeof others);
    if (run_option(key) && others[0])
        return weir_fail(WEIR_USAGE,
                         "--%s is an option of %s, and %s has no use for it: try "
                         "weir help %s",
                         key, others, command, command);
    for (const weir_opt *o = weir_settings_options; o->name; o++)
        if (cli_takes(command, o->name))
            cli_guess_try(&guess, o->name);
    for (; extra && extra->name; extra++)
        cli_guess_try(&guess, extra->name);
    if (guess.best)
        return weir_fail(WEIR_USAGE, "there is no option --%s; is it --%s? weir help %s has all",
                         key, guess.best, command);
    return weir_fail(WEIR_USAGE, "there is no option --%s: try weir help %s", key, command);
}

/* A word that is neither an option nor its value. */
static weir_err stray_word(const char *command, const char *word)
{
    const char *key = word + 1;

    if (word[0] == '-' && cli_takes(command, key) && run_option(key))
        return weir_fail(WEIR_USAGE, "%s: an option has two dashes: --%s", word, key);
    return weir_fail(WEIR_USAGE,
                     "'%s' is no option, and nothing takes it: options are --key value; "
                     "try weir help %s",
                     word, command);
}

/* ---- reading ---- */

/* A flag may stand alone or be answered: --quiet, --exact no. */
static bool is_answer(const char *word) { return !strcmp(word, "yes") || !strcmp(word, "no"); }

/* One option at argv[*i]; leaves *i at its last word. */
static weir_err take_option(int argc, char **argv, int *i, weir_settings *s, const cli_extra *extra,
                            const char **config)
{
    char key[64];
    const char *text = argv[*i] + 2, *value = strchr(text, '=');
    const cli_extra *more;

    snprintf(key, sizeof key, "%.*s", value ? (int)(value - text) : (int)strlen(text), text);
    for (char *c = key; *c; c++)
        *c = *c == '_' ? '-' : *c;
    const weir_opt *o = cli_takes(argv[0], key) ? run_option(key) : NULL;
    more = extra_option(extra, key);
    if (!o && !more && (strcmp(key, "config") || !cli_takes(argv[0], "config")))
        return unknown_option(argv[0], key, extra);
    if (value)
        value++;
    else if (more && more->flag)
        value = "yes";
    else if (o && o->kind == WEIR_OPT_BOOL)
        value = *i + 1 < argc && is_answer(argv[*i + 1]) ? argv[++*i] : "yes";
    else if (*i + 1 < argc)
        value = argv[++*i];
    else
        return weir_fail(WEIR_USAGE, "--%s: a value was expected", key);
    if (more)
        return *more->value = value, WEIR_OK;
    if (!o)
        return *config = value, WEIR_OK;
    weir_err err = weir_settings_set(s, key, value);
    return err;
}

weir_err cli_options(int argc, char **argv, weir_settings *s, const cli_extra *extra,
                     const char **word, int words)
{
    const char *config = NULL;
    int n = 0;

    for (int i = 1; i < argc; i++) {
        if (!strncmp(argv[i], "--", 2) && argv[i][2]) {
            WEIR_TRY(take_option(argc, argv, &i, s, extra, &config));
        } else if (n < words) {
            word[n++] = argv[i];
        } else {
            return stray_word(argv[0], argv[i]);
        }
    }
    if (n < words)
        word[n] = NULL;
    if (config)
        WEIR_TRY(weir_settings_read(s, config));
    return weir_settings_resume(s);
}

bool cli_takes(const char *command, const char *key)
{
    char word[80];

    snprintf(word, sizeof word, " %s ", key);
    for (const cli_command *c = cli_commands; c->name; c++)
        if (!strcmp(c->name, command))
            return c->keys && (!strcmp(c->keys, "*") || strstr(c->keys, word));
    return false;
}

/* Whether ranks that are left go on when one ends. */
static bool goes_on(const char *command, const weir_settings *s)
{
    weir_arena *arena = weir_arena_new();
    weir_facts facts = {0};
    bool elastic =
        arena && !strcmp(command, "train") && !weir_facts_read(s, arena, &facts) && facts.elastic;

    weir_arena_free(arena);
    return elastic;
}

bool cli_launch(int argc, char **argv, const weir_settings *s, const char *word, int *code)
{
    weir_rank_info rank_info;
    char **all;
    weir_net_facts facts = {0};
    weir_err err;

    /* those are all in one process */
    if (s->workers < 2 || (!weir_net_check(s->net, &facts) && facts.simulated))
        return false;
    if ((err = weir_settings_rank_info(s, &rank_info)))
        return *code = cli_end(err), true;
    if (rank_info.mpi || rank_info.size > 1 || rank_info.join[0] ||
        !strcmp(rank_info.source, "flags") ||
        (strcmp(rank_info.source, "alone") && !weir_settings_given(s, "workers")))
        return false; /* whoever starts ranks says how many, if the user does not */
    if (!(all = calloc((size_t)argc + 2, sizeof *all)))
        return *code = cli_end(weir_fail_nomem(0)), true;
    signal(SIGPIPE, SIG_IGN); /* a reader that is gone is no reason to stop the run */
    all[0] = "weir";
    memcpy(all + 1, argv, (size_t)argc * sizeof *all);
    err = weir_launch(&(weir_launching){.workers = (int)s->workers,
                                        .leader = (int)s->leader,
                                        .argv = all,
                                        .word = word,
                                        .elastic = goes_on(argv[0], s),
                                        .restarts = (int)s->restarts},
                      code);
    if (err)
        *code = cli_end(err);
    free(all);
    return true;
}
