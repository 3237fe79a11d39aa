/* launch_child.c - the start of one rank, and what it finds when it looks around. */
#include "net/launch_child.h"
#include "core/log.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the launcher's side ---- */

static void set_number(const char *name, int x)
{
    char text[16];

    snprintf(text, sizeof text, "%d", x);
    setenv(name, text, 1);
}

static void set_variables(int rank, const weir_net_run_env *env)
{
    char text[32];

    if (env->joins) {
        setenv("WEIR_JOIN", "1", 1);
    } else {
        set_number("RANK", rank);
        set_number("WORLD_SIZE", env->size);
        set_number("LOCAL_RANK", rank);
        set_number("LOCAL_WORLD_SIZE", env->size);
        setenv("MASTER_ADDR", "127.0.0.1", 1);
        setenv("MASTER_PORT", "29500", 1);
    }
    if (env->guests)
        setenv("WEIR_GUESTS", "1", 1);
    setenv("WEIR_RUN", env->dir, 1);
    snprintf(text, sizeof text, "%d,%d", env->board, env->lifeline);
    setenv("WEIR_BOARD", text, 1);
    /* ranks share cores: a thread that spins takes another rank's turn */
    setenv("OMP_WAIT_POLICY", "passive", 0);
}

/* What a child is to become. */
typedef struct birth {
    int rank;
    const weir_net_run_env *env;
    const sigset_t *mask;
    char **argv;
    pid_t launcher;
    int out, err; /* where it writes; out -1: to the launcher's own */
} birth;

/* In the child, between fork and exec. Does not return. A group of its own, so that Ctrl-C reaches
 * it once, from the launcher; and if the launcher dies, a signal that wakes a stopped rank so that
 * it sees the lifeline end. */
static void become_rank(const birth *b)
{
    int null = open("/dev/null", O_RDONLY);

    setpgid(0, 0);
    /* a background group may still write to a terminal that has tostop set */
    signal(SIGTTOU, SIG_IGN);
    prctl(PR_SET_PDEATHSIG, SIGCONT);
    if (getppid() != b->launcher)
        _exit(WEIR_FAILED);
    if (null >= 0)
        dup2(null, STDIN_FILENO);
    if (b->out >= 0)
        dup2(b->out, STDOUT_FILENO);
    dup2(b->err, STDERR_FILENO);
    fcntl(b->env->board, F_SETFD, 0);
    fcntl(b->env->lifeline, F_SETFD, 0);
    set_variables(b->rank, b->env);
    sigprocmask(SIG_SETMASK, b->mask, NULL);
    execv("/proc/self/exe", b->argv);
    dprintf(STDERR_FILENO, WEIR_OUTPUT_ERROR "this program cannot be started again: %s\n",
            strerror(errno));
    _exit(WEIR_FAILED);
}

static void watch_pipe(weir_output *l, int from, int to, int rank, bool plain)
{
    fcntl(from, F_SETFL, O_NONBLOCK);
    l->from = from;
    l->to = to;
    if (!plain)
        snprintf(l->prefix, sizeof l->prefix, "[%d] ", rank);
}

weir_err weir_child_start(weir_child *c, int rank, const weir_net_run_env *env,
                          const sigset_t *mask, char **argv)
{
    pid_t launcher = getpid();
    int out[2] = {-1, -1}, err[2];
    bool plain = rank == env->leader;

    if (pipe2(err, O_CLOEXEC))
        return weir_fail(WEIR_FAILED, "no pipe for rank %d: %s", rank, strerror(errno));
    /* the leader writes to our own standard output: its progress is not a line */
    if (!plain && pipe2(out, O_CLOEXEC)) {
        close(err[0]);
        close(err[1]);
        return weir_fail(WEIR_FAILED, "no pipe for rank %d: %s", rank, strerror(errno));
    }
    c->rank = rank;
    watch_pipe(&c->err, err[0], STDERR_FILENO, rank, plain);
    if (!plain)
        watch_pipe(&c->out, out[0], STDOUT_FILENO, rank, plain);
    c->pid = fork();
    if (!c->pid)
        become_rank(&(birth){rank, env, mask, argv, launcher, out[1], err[1]});
    close(err[1]);
    if (!plain)
        close(out[1]);
    if (c->pid < 0)
        return weir_fail(WEIR_FAILED, "rank %d cannot be started: %s", rank, strerror(errno));
    setpgid(c->pid, c->pid); /* both sides do it: neither has to wait for the other */
    return WEIR_OK;
}

/* ---- the rank's side ---- */

static weir_board *map_board(int fd)
{
    struct stat st;
    weir_board *board;

    if (fstat(fd, &st) || st.st_size < (off_t)sizeof *board)
        return NULL;
    board = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (board == MAP_FAILED)
        return NULL;
    if (board->ranks > ((size_t)st.st_size - sizeof *board) / sizeof board->slot[0]) {
        munmap(board, (size_t)st.st_size);
        return NULL;
    }
    return board;
}

void weir_launched_find(weir_launched *out)
{
    const char *text = getenv("WEIR_BOARD");
    int board, lifeline, end = 0;
    struct stat st;

    *out = (weir_launched){.lifeline = -1};
    if (!text)
        return;
    if (sscanf(text, "%d,%d%n", &board, &lifeline, &end) != 2 || text[end] || board < 3 ||
        lifeline < 3) {
        weir_log(WEIR_LOG_WARN, "net",
                 "WEIR_BOARD=%.40s is not what a launcher sets: it is ignored", text);
        return;
    }
    out->board = map_board(board);
    if (!fstat(lifeline, &st) && S_ISFIFO(st.st_mode))
        out->lifeline = lifeline;
    if (out->board)
        fcntl(board, F_SETFD, FD_CLOEXEC); /* what a rank may start itself shall not hold them */
    if (out->lifeline >= 0)
        fcntl(lifeline, F_SETFD, FD_CLOEXEC);
}
