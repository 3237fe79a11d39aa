/* main.c - finds the command. */
#include "cli/cli.h"
#include "core/log.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

int cli_end(weir_err err)
{
    if (err && getenv("WEIR_BOARD")) /* our launcher says the rest */
        fprintf(stderr, "weir: error: %s\n", weir_why_text());
    else if (err)
        fprintf(stderr, "weir: error: %s (exit %d)\n", weir_why_text(), weir_err_exit(err));
    return weir_err_exit(err);
}

static char name[64]; /* of this rank, in front of what it says */

void cli_name(const char *text) { snprintf(name, sizeof name, "%s", text); }

bool cli_terminal(int fd, const weir_rank_info *rank_info)
{
    for (const char **s = (const char *[]){"openmpi", "pmi", "slurm", NULL}; *s; s++)
        if (!strcmp(rank_info->source, *s))
            return false;
    return isatty(fd);
}

/* One write a line: other ranks may use the same terminal. */
static void hear(void *arg, int level, const char *part, const char *text)
{
    bool parts = level >= WEIR_LOG_INFO;

    (void)arg;
    fprintf(stderr, "weir: %s%s%s%s%s%s\n", name, name[0] ? ": " : "",
            level == WEIR_LOG_WARN ? "warning: " : "", parts ? part : "", parts ? ": " : "", text);
}

/* What was printed has arrived, or that is the error. */
static int said(int code)
{
    return !code && (fflush(stdout) || ferror(stdout))
               ? cli_end(weir_fail(WEIR_DISK, "standard output cannot be written"))
               : code;
}

/* What is opened next shall not become standard input, output or error because nobody gave us one;
 * and every peer takes some descriptors: as many as the system lets us have. */
static void prepare_descriptors(void)
{
    struct rlimit most;
    int fd;

    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd < STDOUT_FILENO);
    if (fd == STDOUT_FILENO) { /* what is printed there is lost, and shall be an error */
        close(fd);
        fd = open("/dev/null", O_RDONLY);
    }
    while (fd >= 0 && fd <= STDERR_FILENO)
        fd = open("/dev/null", O_RDWR);
    if (fd >= 0)
        close(fd);
    if (!getrlimit(RLIMIT_NOFILE, &most)) {
        most.rlim_cur = most.rlim_max;
        setrlimit(RLIMIT_NOFILE, &most);
    }
}

int main(int argc, char **argv)
{
    const char *wanted = argc > 1 ? argv[1] : "help";

    prepare_descriptors();
    weir_on_log(hear, NULL);
    if (!strcmp(wanted, "--version") || !strcmp(wanted, "version"))
        return printf("weir %s\n", weir_version()), said(0);
    if (!strcmp(wanted, "--help") || !strcmp(wanted, "-h"))
        wanted = "help";
    for (const cli_command *c = cli_commands; c->name; c++) {
        if (strcmp(c->name, wanted))
            continue;
        for (int i = 2; i < argc; i++)
            if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
                return said(cli_help(2, (char *[]){"help", argv[1], NULL}));
        return said(
            c->run(argc > 1 ? argc - 1 : 1, argc > 1 ? argv + 1 : (char *[]){"help", NULL}));
    }
    return cli_end(cli_no_command(wanted));
}
