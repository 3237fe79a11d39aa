/* launch.c - ranks of one machine: started, watched, ended. */
#include "net/launch.h"
#include "core/log.h"
#include "net/launch_child.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* SPARE: slots of the board for numbers that are given to those who come later: ranks that were
 * left behind and join again, and others. Whoever has no slot counts as one of another machine. */
enum { RANKS_MAX = 4096, SPARE = 1024 };
/* After the first failure: when stopped ranks are killed, and when all others are. */
static const double MOMENT = 0.4, PATIENCE = 1.0;

typedef struct launch {
    weir_child *child;
    int size, alive, ends; /* size: started so far; ends: how many have ended, to number them */
    int most;              /* that may be started */
    char **argv;
    int signals;      /* a signalfd */
    sigset_t before;  /* the caller's mask */
    uint64_t asked;   /* bit n: signal n was sent to us, and passed on */
    const char *word; /* said then; NULL: nothing */
    double failed;    /* when the first failure that ends the run was seen; 0: none yet */
    bool elastic;     /* ranks that are left go on without those that end */
    weir_net_run_env env;
    weir_board *board;
    size_t board_bytes;
    int lifeline; /* the writing end: ours alone, for as long as we live */
} launch;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- set-up ---- */

static weir_err name_run(char *dir, size_t room)
{
    const char *base = getenv("XDG_RUNTIME_DIR");
    uint64_t id;

    if (getrandom(&id, sizeof id, 0) != (ssize_t)sizeof id)
        return weir_fail(WEIR_FAILED, "no random numbers: %s", strerror(errno));
    if (!base || base[0] != '/' || strlen(base) > 60 || access(base, W_OK | X_OK))
        base = "/tmp";
    snprintf(dir, room, "%s/weir-%016llx", base, (unsigned long long)id);
    return WEIR_OK;
}

static weir_err make_board(launch *l)
{
    size_t slots = (size_t)l->most + (l->elastic ? SPARE : 0);

    l->board_bytes = sizeof(weir_board) + slots * sizeof(weir_board_slot);
    l->env.board = memfd_create("weir-board", MFD_CLOEXEC);
    if (l->env.board < 0 || ftruncate(l->env.board, (off_t)l->board_bytes))
        return weir_fail(WEIR_FAILED, "no shared page for the ranks: %s", strerror(errno));
    l->board = mmap(NULL, l->board_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, l->env.board, 0);
    if (l->board == MAP_FAILED) {
        l->board = NULL;
        return weir_fail_nomem(l->board_bytes);
    }
    l->board->ranks = slots;
    return WEIR_OK;
}

static const int forwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
enum { FORWARDED = sizeof forwarded / sizeof forwarded[0] };

static weir_err watch_signals(launch *l)
{
    sigset_t set;

    /* if our parent ignored it, so would we: nobody would tell us how ranks ended */
    signal(SIGCHLD, SIG_DFL);
    sigemptyset(&set);
    for (int i = 0; i < FORWARDED; i++) {
        struct sigaction was;
        if (!sigaction(forwarded[i], NULL, &was) && was.sa_handler == SIG_IGN)
            continue; /* nohup's wish holds for us too */
        sigaddset(&set, forwarded[i]);
    }
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTSTP);
    l->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (l->signals < 0)
        return weir_fail(WEIR_FAILED, "no signalfd: %s", strerror(errno));
    sigprocmask(SIG_BLOCK, &set, &l->before);
    return WEIR_OK;
}

static weir_err prepare(launch *l, const weir_launching *what)
{
    int ends[2];

    *l = (launch){.size = what->workers,
                  .most = what->workers + what->restarts,
                  .argv = what->argv,
                  .word = what->word,
                  .elastic = what->elastic,
                  .signals = -1,
                  .lifeline = -1,
                  .env = {.size = what->workers,
                          .leader = what->leader,
                          .board = -1,
                          .lifeline = -1,
                          .guests = what->elastic}};
    sigprocmask(SIG_SETMASK, NULL, &l->before);
    if (!(l->child = calloc((size_t)l->most, sizeof *l->child)))
        return weir_fail_nomem((size_t)l->most * sizeof *l->child);
    for (int r = 0; r < l->most; r++)
        l->child[r].out.from = l->child[r].err.from = -1;
    WEIR_TRY(name_run(l->env.dir, sizeof l->env.dir));
    WEIR_TRY(make_board(l));
    if (pipe2(ends, O_CLOEXEC))
        return weir_fail(WEIR_FAILED, "no pipe: %s", strerror(errno));
    l->env.lifeline = ends[0];
    l->lifeline = ends[1];
    return watch_signals(l);
}

/* ---- watching ---- */

static void signal_all(launch *l, int n)
{
    for (int r = 0; r < l->size; r++)
        if (l->child[r].pid > 0 && !l->child[r].ended)
            kill(l->child[r].pid, n);
}

static bool on_request(const launch *l, int status)
{
    int n = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status) - 128;

    return n > 0 && n < 64 && l->asked >> n & 1;
}

/* A worker that somebody told to leave, and that left: it was not to be there. */
static bool by_wish(int status) { return WIFEXITED(status) && WEXITSTATUS(status) > 128; }

/* Before that there is no run that could go on. */
static bool all_met(const launch *l)
{
    for (int r = 0; r < l->env.size; r++)
        if ((atomic_load(&l->board->slot[r].doing) & 0xff) == WEIR_PHASE_START)
            return false;
    return true;
}

/* Others that go on may have left behind one that is stopped, and will never hear of it. */
static bool only_stopped_left(const launch *l)
{
    for (int r = 0; r < l->size; r++)
        if (!l->child[r].ended && !l->child[r].stopped)
            return false;
    return true;
}

static bool ends_run(const launch *l, int status)
{
    if (l->elastic && all_met(l))
        return only_stopped_left(l);
    return status && !on_request(l, status);
}

/* For those who are left: it is dead for certain. One that never had a rank is nobody's concern. */
static void mark_reaped(launch *l, pid_t pid)
{
    for (uint64_t r = 0; r < l->board->ranks; r++)
        if (atomic_load(&l->board->slot[r].pid) == pid)
            atomic_store(&l->board->slot[r].reaped, true);
}

/* In place of one that has died, while others go on. */
static void start_another(launch *l)
{
    weir_child *c = &l->child[l->size];
    weir_net_run_env env = l->env;

    if (l->size == l->most || l->asked || l->failed > 0 || !l->alive)
        return;
    env.joins = true;
    if (weir_child_start(c, l->size, &env, &l->before, l->argv)) {
        weir_log(WEIR_LOG_WARN, "net", "no worker could be started anew: %s", weir_why_text());
        return;
    }
    l->size++;
    l->alive++;
}

static void child_ended(launch *l, weir_child *c, int status)
{
    c->ended = ++l->ends;
    c->status = status;
    l->alive--;
    mark_reaped(l, c->pid);
    if (l->failed <= 0 && ends_run(l, status))
        l->failed = now();
    else if (l->elastic && status && !on_request(l, status) && !by_wish(status))
        start_another(l);
}

static void reap(launch *l)
{
    int status;
    pid_t got = 0;

    for (int r = 0; r < l->size; r++) {
        weir_child *c = &l->child[r];
        while (c->pid > 0 && !c->ended &&
               (got = waitpid(c->pid, &status, WNOHANG | WUNTRACED | WCONTINUED)) == c->pid) {
            if (WIFSTOPPED(status) || WIFCONTINUED(status))
                c->stopped = WIFSTOPPED(status);
            else
                child_ended(l, c, status);
        }
        if (c->pid > 0 && !c->ended && got < 0 && errno == ECHILD)
            child_ended(l, c, WEIR_FAILED << 8); /* somebody else has heard how it ended */
    }
}

/* Ctrl-Z stops ranks too, though they are in groups of their own, and all go on together. */
static void pause_all(launch *l)
{
    signal_all(l, SIGSTOP);
    raise(SIGSTOP);
    signal_all(l, SIGCONT);
}

/* Before all have met nothing is to be finished: ranks just leave. */
static void say_word(const launch *l, int n)
{
    if (!l->word || (atomic_load(&l->board->slot[0].doing) & 0xff) == WEIR_PHASE_START)
        return;
    fprintf(stderr, "%sweir: signal %d: %s\n", isatty(STDERR_FILENO) ? "\r\033[K" : "", n, l->word);
    fflush(stderr);
}

static void read_signals(launch *l)
{
    struct signalfd_siginfo s;

    while (read(l->signals, &s, sizeof s) == (ssize_t)sizeof s) {
        if (s.ssi_signo == SIGTSTP) {
            pause_all(l);
        } else if (s.ssi_signo != SIGCHLD) {
            if (l->asked && l->failed <= 0)
                l->failed = now(); /* a second one: leave now, those that cannot too */
            if (!l->asked)
                say_word(l, (int)s.ssi_signo);
            l->asked |= (uint64_t)1 << s.ssi_signo;
            if (s.ssi_signo == SIGUSR1 || s.ssi_signo == SIGUSR2)
                l->asked |= (uint64_t)1 << SIGTERM; /* as which ranks take it */
            signal_all(l, (int)s.ssi_signo);
        }
    }
    reap(l);
}

static void end(weir_child *c)
{
    if (c->pid > 0 && !c->ended && !c->killed)
        c->killed = !kill(c->pid, SIGKILL);
}

/* Ends what does not leave by itself; the milliseconds until the next look, -1: nothing to do. */
static int end_late(launch *l)
{
    double since = now() - l->failed;

    if (l->failed <= 0)
        return -1;
    for (int r = 0; r < l->size; r++)
        if (since > PATIENCE || (since > MOMENT && l->child[r].stopped))
            end(&l->child[r]);
    return since > PATIENCE ? 100 : 20;
}

static void watch(launch *l, struct pollfd *set)
{
    while (l->alive) {
        nfds_t n = 0;
        set[n++] = (struct pollfd){.fd = l->signals, .events = POLLIN};
        for (int r = 0; r < l->size; r++) {
            set[n++] = (struct pollfd){.fd = l->child[r].out.from, .events = POLLIN};
            set[n++] = (struct pollfd){.fd = l->child[r].err.from, .events = POLLIN};
        }
        if (poll(set, n, end_late(l)) < 0)
            continue;
        for (int r = 0; r < l->size; r++) {
            if (set[1 + 2 * r].revents)
                weir_output_read(&l->child[r].out);
            if (set[2 + 2 * r].revents)
                weir_output_read(&l->child[r].err);
        }
        read_signals(l);
    }
    for (int r = 0; r < l->size; r++) {
        weir_output_close(&l->child[r].out);
        weir_output_close(&l->child[r].err);
    }
}

/* ---- the verdict ---- */

static int code_of(const weir_child *c)
{
    return WIFSIGNALED(c->status) ? WEIR_LOST : WEXITSTATUS(c->status);
}

/* A rank that left with 10 or 11 only tells of another. */
static bool is_cause(const weir_child *c)
{
    return WIFSIGNALED(c->status) ||
           (WEXITSTATUS(c->status) != WEIR_LOST && WEXITSTATUS(c->status) != WEIR_SILENT);
}

/* The first failure: the first of those that are causes, else the first of all; NULL: there was
 * none. */
static weir_child *first_failure(launch *l)
{
    weir_child *first = NULL;

    for (int r = 0; r < l->size; r++) {
        weir_child *c = &l->child[r];
        if (!c->status || c->killed || on_request(l, c->status))
            continue;
        if (!first || is_cause(c) > is_cause(first) ||
            (is_cause(c) == is_cause(first) && c->ended < first->ended))
            first = c;
    }
    return first;
}

/* 128 + n if some left because we passed on signal n; 0: none did. */
static int requested_code(const launch *l)
{
    for (int r = 0; r < l->size; r++) {
        int status = l->child[r].status;
        if (status && !l->child[r].killed && on_request(l, status))
            return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
    return 0;
}

static void print_failure(const launch *l, const weir_child *c)
{
    uint64_t doing = atomic_load(&l->board->slot[c->rank].doing);
    const char *phase = weir_phase_name((weir_phase)(doing & 0xff)), *why = c->err.error;
    char host[64] = "unknown", who[128];
    int first = c->err.count > WEIR_OUTPUT_LAST ? c->err.count - WEIR_OUTPUT_LAST : 0,
        code = code_of(c);

    if (gethostname(host, sizeof host - 1))
        strcpy(host, "unknown");
    snprintf(who, sizeof who, "rank %d (host %s, pid %d", c->rank, host, (int)c->pid);
    if (WIFSIGNALED(c->status))
        fprintf(stderr,
                WEIR_OUTPUT_ERROR
                "%s) was killed by signal %d in phase %s of step %llu (exit %d)\n",
                who, WTERMSIG(c->status), phase, (unsigned long long)(doing >> 8), code);
    else if (!is_cause(c) && !strncmp(why, "rank ", 5)) /* it names the one to blame */
        fprintf(stderr, WEIR_OUTPUT_ERROR "%s (exit %d)\n", why, code);
    else
        fprintf(stderr, WEIR_OUTPUT_ERROR "%s, phase %s): %s (exit %d)\n", who, phase,
                why[0] ? why : "left without a word", code);
    for (int i = first; i < c->err.count; i++)
        fprintf(stderr, "  %s\n", c->err.last[i % WEIR_OUTPUT_LAST]);
    fflush(stderr);
}

/* 128 + n if all left with that: they agreed to stop for a signal that one of them was sent. */
static int agreed_code(const launch *l)
{
    int code = WIFEXITED(l->child[0].status) ? WEXITSTATUS(l->child[0].status) : 0;

    for (int r = 1; r < l->size; r++)
        if (!WIFEXITED(l->child[r].status) || WEXITSTATUS(l->child[r].status) != code)
            return 0;
    return code == 128 + SIGINT || code == 128 + SIGTERM || code == 128 + SIGHUP ? code : 0;
}

/* 128 + n if we ended ranks that signal n could not make leave; 0: there are none. */
static int ended_code(const launch *l)
{
    int n = 1;

    while (n < 64 && !(l->asked >> n & 1))
        n++;
    for (int r = 0; n < 64 && r < l->size; r++)
        if (l->child[r].killed && l->child[r].status) {
            fprintf(stderr,
                    WEIR_OUTPUT_ERROR
                    "rank %d did not leave at signal %d and was ended (exit %d)\n",
                    r, n, 128 + n);
            return 128 + n;
        }
    return 0;
}

/* Those that were left have ended well, which is what counts. */
static bool came_to_its_end(const launch *l)
{
    for (int r = 0; r < l->size; r++)
        if (!l->child[r].status)
            return true;
    return false;
}

static int verdict(launch *l)
{
    weir_child *first = first_failure(l);
    int requested = requested_code(l);

    if (agreed_code(l))
        return agreed_code(l);
    if (l->elastic && came_to_its_end(l))
        return 0;
    if (l->elastic && requested) /* they had gone on without those that failed */
        return requested;
    if (first && (!requested || is_cause(first))) {
        print_failure(l, first);
        return code_of(first);
    }
    for (int r = 0; r < l->size; r++) /* held back for nothing: it went well in the end */
        if (!l->child[r].status && l->child[r].err.error[0])
            fprintf(stderr, "%s" WEIR_OUTPUT_ERROR "%s\n", l->child[r].err.prefix,
                    l->child[r].err.error);
    return requested ? requested : ended_code(l);
}

/* ---- from beginning to end ---- */

static bool is_dead(int pid) { return pid > 0 && kill(pid, 0) && errno == ESRCH; }

/* What guests find a rank by (zmq_guests.c): of this process, and of those that are no more. */
static void remove_doors(const char *dir)
{
    DIR *all = opendir(dir);
    char path[300];

    for (struct dirent *e; all && (e = readdir(all));) {
        bool door = (e->d_name[0] == 'd' || e->d_name[0] == 'g') && strlen(e->d_name) < 16;
        int pid = door ? atoi(e->d_name + 1) : 0;
        if (pid != getpid() && !is_dead(pid))
            continue;
        snprintf(path, sizeof path, "%s/%.16s", dir, e->d_name);
        unlink(path);
    }
    if (all)
        closedir(all);
}

/* Ranks remove their files once all have met; those that died before have left theirs. */
void weir_launch_dir_remove(const char *dir, int size)
{
    char path[256];

    remove_doors(dir);
    for (int r = 0; r < size; r++) {
        snprintf(path, sizeof path, "%s/r%d", dir, r);
        unlink(path);
    }
    rmdir(dir);
}

static weir_err start_all(launch *l, char **argv)
{
    for (int r = 0; r < l->size; r++) {
        WEIR_TRY(weir_child_start(&l->child[r], r, &l->env, &l->before, argv));
        l->alive++;
    }
    return WEIR_OK;
}

static void clean_up(launch *l)
{
    if (l->env.dir[0])
        weir_launch_dir_remove(l->env.dir, l->env.size);
    if (l->board)
        munmap(l->board, l->board_bytes);
    for (int i = 0; i < 4; i++) {
        int fd = ((int[]){l->env.board, l->env.lifeline, l->lifeline, l->signals})[i];
        if (fd >= 0)
            close(fd);
    }
    sigprocmask(SIG_SETMASK, &l->before, NULL);
    free(l->child);
}

weir_err weir_launch(const weir_launching *what, int *code)
{
    launch l;
    struct pollfd *set;
    int workers = what->workers;
    weir_err err;

    if (workers < 1 || workers > RANKS_MAX)
        return weir_fail(WEIR_USAGE, "%d workers: a number from 1 to %d was expected", workers,
                         RANKS_MAX);
    set = calloc((size_t)(1 + 2 * (workers + what->restarts)), sizeof *set);
    if (!set)
        return weir_fail_nomem((size_t)workers * sizeof *set);
    err = prepare(&l, what);
    if (!err) {
        err = start_all(&l, what->argv);
        for (int r = 0; err && r < l.size; r++)
            end(&l.child[r]); /* a rank could not be started: the others go */
        watch(&l, set);
    }
    if (!err)
        *code = verdict(&l);
    clean_up(&l);
    free(set);
    return err;
}
