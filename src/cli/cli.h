/* cli.h - the program: only here is anything printed, and only here does it exit. One file per
 * command. */
#ifndef WEIR_CLI_CLI_H
#define WEIR_CLI_CLI_H
#include "net/net.h"
#include "train/settings.h"
#include <stdatomic.h>

/* A command: its arguments without the program's name (argv[0] is the command); gives the exit
 * code. */
typedef struct cli_command {
    const char *name, *usage, *help;
    int (*run)(int argc, char **argv);
    const char *more; /* what `weir help NAME` prints below the options; NULL: nothing */
    /* which options of a run it takes, a space before and behind each; "*": all; NULL: none */
    const char *keys;
} cli_command;
extern const cli_command cli_commands[];

int cli_train(int argc, char **argv), cli_eval(int argc, char **argv),
    cli_bench(int argc, char **argv), cli_list(int argc, char **argv),
    cli_help(int argc, char **argv), cli_keygen(int argc, char **argv),
    cli_storm(int argc, char **argv);

/* Prints the last error, if `err`, as the one line that a launcher looks for; gives the exit
 * code. */
int cli_end(weir_err err);

/* The word that somebody may have meant: of all that are tried, the one nearest to `word`, if it is
 * two slips of the keyboard away at most. */
typedef struct cli_guess {
    const char *word, *best; /* best NULL: none is near */
    int apart;
} cli_guess;
void cli_guess_try(cli_guess *, const char *known);
/* The error of a command that there is not. */
weir_err cli_no_command(const char *name);

/* What stands before everything that this process says from now on, such as "rank 2". */
void cli_name(const char *);

/* Is that descriptor a terminal that people look at? Not where mpirun or the like hands on what it
 * reads, be it from a terminal of its own making. */
bool cli_terminal(int fd, const weir_rank_info *);

/* Options that a command has besides those of a run. */
typedef struct cli_extra {
    const char *name;
    bool flag;
    const char **value;
    const char *help;
} cli_extra;
/* --key value, --key=value, and words that are not options, which go to `word` (NULL-ended room for
 * `words`). */
bool cli_takes(const char *command, const char *key); /* by its row in cli_commands */
weir_err cli_options(int argc, char **argv, weir_settings *, const cli_extra *, const char **word,
                     int words);

/* Starts --workers copies if this is not yet one of them: true, and *code is what to leave with.
 * `word`: what a first signal is answered with; NULL: nothing. */
bool cli_launch(int argc, char **argv, const weir_settings *, const char *word, int *code);

/* Every command that runs as a rank enters here: finds its rank info, blocks signals in all threads
 * and reads them on one of its own. The first SIGINT, SIGTERM, SIGHUP, SIGUSR1 or SIGUSR2 (these
 * two as SIGTERM) is stored in stop->signal and answered with stop->word, a second one ends the
 * process at once (the first, where stop is NULL), as does the launcher's end. */
typedef struct cli_stop {
    atomic_int signal;
    const char *word; /* said by the leader, unless our launcher has said it */
} cli_stop;
weir_err cli_enter(const weir_settings *, cli_stop *, weir_rank_info *);
#endif
