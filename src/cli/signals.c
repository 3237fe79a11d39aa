/* signals.c - a thread that reads signals and watches the launcher. */
#include "cli/cli.h"
#include "core/task.h"
#include "net/launch.h"
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

static struct {
    cli_stop *stop;
    int fd, lifeline;
    bool leads;       /* speaks for all ranks */
    pid_t launcher;   /* ours; 0: none */
    bool by_launcher; /* the first signal came from it */
    double first;     /* when that was */
    weir_rank_info rank_info;
} watch;

static void our_signals(sigset_t *set)
{
    sigemptyset(set);
    for (int *s = (int[]){SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, 0}; *s; s++) {
        struct sigaction was;
        if (!sigaction(*s, NULL, &was) && was.sa_handler == SIG_IGN)
            continue; /* nohup's wish */
        sigaddset(set, *s);
    }
}

/* Files are whole or have no name: leaving at once loses nothing but the sockets of a run that has
 * not met yet. */
static void leave(int code)
{
    if (watch.rank_info.run_dir[0])
        weir_launch_dir_remove(watch.rank_info.run_dir, watch.rank_info.size);
    _exit(code);
}

/* Batch systems signal all processes of a job: us, and our launcher, which passes it on. That is
 * one wish. */
static const double SAME_WISH = 1; /* seconds */

static bool is_echo(bool by_launcher)
{
    return by_launcher != watch.by_launcher &&
           weir_now(weir_rt_threads()) - watch.first < SAME_WISH;
}

static void on_signal(const struct signalfd_siginfo *info)
{
    int n = (int)info->ssi_signo;
    bool by_launcher = watch.launcher && (pid_t)info->ssi_pid == watch.launcher;

    if (!watch.stop || atomic_load(&watch.stop->signal)) {
        if (watch.first <= 0 || !is_echo(by_launcher))
            leave(128 + n);
        return;
    }
    watch.by_launcher = by_launcher;
    watch.first = weir_now(weir_rt_threads());
    atomic_store(&watch.stop->signal, n == SIGUSR1 || n == SIGUSR2 ? SIGTERM : n);
    if (!watch.leads || by_launcher)
        return;
    bool shown = cli_terminal(STDERR_FILENO, &watch.rank_info); /* a line of progress, maybe */
    fprintf(stderr, "%sweir: signal %d: %s\n", shown ? "\r\033[K" : "", n, watch.stop->word);
}

static weir_err watcher(void *arg)
{
    struct pollfd at[2] = {{.fd = watch.fd, .events = POLLIN},
                           {.fd = watch.lifeline, .events = POLLIN}};

    (void)arg;
    for (;;) {
        struct signalfd_siginfo info;
        if (poll(at, 2, -1) < 0)
            continue;
        if (at[1].revents)
            leave(WEIR_LOST); /* the launcher is gone */
        if (at[0].revents && read(watch.fd, &info, sizeof info) == sizeof info)
            on_signal(&info);
    }
    return WEIR_OK;
}

static weir_err watch_signals(cli_stop *stop, const weir_rank_info *rank_info)
{
    weir_launched launched;
    weir_task *task;
    sigset_t set;

    our_signals(&set);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is a full disk, no more */
    weir_launched_find(&launched);
    watch.stop = stop;
    watch.lifeline = launched.lifeline;
    watch.launcher = launched.lifeline >= 0 ? getppid() : 0;
    watch.rank_info = *rank_info;
    if ((watch.fd = signalfd(-1, &set, SFD_CLOEXEC)) < 0)
        return weir_fail(WEIR_FAILED, "signals cannot be read");
    /* ends with the process */
    return weir_task_start(weir_rt_threads(), "signals", watcher, NULL, &task);
}

/* Ranks that somebody else has started are as many as they are. */
static weir_err check_workers(const weir_settings *s, const weir_rank_info *rank_info)
{
    bool started = rank_info->mpi || rank_info->size > 1 || !strcmp(rank_info->source, "flags");

    if (!started || s->workers == rank_info->size || !weir_settings_given(s, "workers"))
        return WEIR_OK;
    if (!strcmp(rank_info->source, "flags"))
        return weir_fail(WEIR_MISFIT,
                         "--workers %lld, but --size says %d ranks: leave one of them out",
                         (long long)s->workers, rank_info->size);
    return weir_fail(WEIR_MISFIT, "--workers %lld, but %s started %d ranks: leave --workers to it",
                     (long long)s->workers, rank_info->source, rank_info->size);
}

weir_err cli_enter(const weir_settings *s, cli_stop *stop, weir_rank_info *rank_info)
{
    char name[32];
    bool simulated;

    WEIR_TRY(weir_settings_rank_info(s, rank_info));
    WEIR_TRY(check_workers(s, rank_info));
    WEIR_TRY(weir_settings_simulated(s, rank_info, &simulated));
    if (rank_info->size > 1) {
        snprintf(name, sizeof name, "rank %d", rank_info->rank);
        cli_name(name);
    }
    watch.leads = rank_info->rank == s->leader || simulated;
    return watch_signals(stop, rank_info);
}
