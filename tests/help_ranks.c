/* help_ranks.c - see help_ranks.h. */
#include "help_ranks.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
/* after those it needs */
#include <cmocka.h>

const char *ranks_world = "zmq", *ranks_key = NULL;

void ranks_dir(char dir[64])
{
    unsigned long id = 0;

    if (getrandom(&id, sizeof id, 0) != sizeof id)
        abort();
    snprintf(dir, 64, "/tmp/weir-test-%016lx", id);
}

void ranks_info(weir_rank_info *p, int rank, int size, const char *dir, double timeout)
{
    *p = (weir_rank_info){.rank = rank,
                          .size = size,
                          .local_rank = rank,
                          .local_size = size,
                          .timeout = timeout,
                          .stall = 600};
    snprintf(p->source, sizeof p->source, "test");
    snprintf(p->host, sizeof p->host, "here");
    snprintf(p->run_dir, sizeof p->run_dir, "%s", dir);
}

/* Below those the kernel gives to whoever connects: one of these would be taken again before rank 0
 * listens there. */
void ranks_port(char at[32])
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    uint16_t draw;
    int fd, taken;

    do {
        if (getrandom(&draw, sizeof draw, 0) != sizeof draw ||
            (fd = socket(AF_INET, SOCK_STREAM, 0)) < 0)
            abort();
        a.sin_port = htons(10000 + draw % 20000);
        taken = bind(fd, (struct sockaddr *)&a, sizeof a);
        close(fd);
    } while (taken);
    snprintf(at, 32, "127.0.0.1:%d", ntohs(a.sin_port));
}

void ranks_far(weir_rank_info *p, const char *at, const char *key)
{
    p->run_dir[0] = 0;
    snprintf(p->source, sizeof p->source, "flags");
    snprintf(p->rendezvous, sizeof p->rendezvous, "%s", at);
    p->key = key && key[0] ? key : NULL;
}

typedef struct rank_thread {
    ranks *r;
    int rank;
    const char *at;
    pthread_t thread;
} rank_thread;

static void *run_rank(void *arg)
{
    rank_thread *s = arg;
    ranks *r = s->r;
    weir_rank_info rank_info;

    ranks_info(&rank_info, s->rank, r->size, r->dir, r->timeout > 0 ? r->timeout : 30);
    rank_info.stall = r->stall > 0 ? r->stall : 600;
    rank_info.board = r->board;
    if (ranks_key)
        ranks_far(&rank_info, s->at, ranks_key);
    r->err[s->rank] = weir_net_run(r->net ? r->net : ranks_world, &rank_info, r->fn, r->arg);
    snprintf(r->why[s->rank], sizeof r->why[s->rank], "%s", r->err[s->rank] ? weir_why_text() : "");
    return NULL;
}

/* In a simulated world all ranks are in one call, and only they know what became of each. */
static weir_err run_one(weir_net *n, void *arg)
{
    ranks *r = arg;
    int i = weir_net_rank(n);

    r->err[i] = r->fn(n, r->arg);
    snprintf(r->why[i], sizeof r->why[i], "%s", r->err[i] ? weir_why_text() : "");
    r->seconds = weir_net_now(n) > r->seconds ? weir_net_now(n) : r->seconds;
    return r->err[i];
}

static void run_in_sim(ranks *r, const char *spec)
{
    weir_rank_info rank_info;

    ranks_info(&rank_info, 0, r->size, "", r->timeout > 0 ? r->timeout : 30);
    rank_info.stall = r->stall > 0 ? r->stall : 600;
    rank_info.board = r->board;
    r->seconds = 0;
    for (int i = 0; i < r->size; i++)
        snprintf(r->why[i], sizeof r->why[i], "it never came to an end");
    r->all = weir_net_run(spec, &rank_info, run_one, r);
    snprintf(r->all_why, sizeof r->all_why, "%s", r->all ? weir_why_text() : "");
    for (int i = 0; i < r->size; i++)
        if (!strcmp(r->why[i], "it never came to an end")) /* the world could not even be opened, or
                                                              left it behind */
            r->err[i] = r->all ? r->all : WEIR_FAILED;
}

bool ranks_simulated(const char *spec)
{
    weir_net_facts facts = {0};

    return !weir_net_check(spec, &facts) && facts.simulated;
}

void ranks_run(ranks *r)
{
    rank_thread threads[RANKS_MAX];
    const char *spec = r->net ? r->net : ranks_world;
    char at[32];

    ranks_dir(r->dir);
    if (ranks_simulated(spec)) {
        run_in_sim(r, spec);
        return;
    }
    ranks_port(at);
    for (int i = 0; i < r->size; i++) {
        threads[i] = (rank_thread){.r = r, .rank = i, .at = at};
        if (pthread_create(&threads[i].thread, NULL, run_rank, &threads[i]))
            abort();
    }
    for (int i = 0; i < r->size; i++)
        pthread_join(threads[i].thread, NULL);
    if (!access(r->dir, F_OK))
        fail_msg("%s is still there", r->dir);
}

void ranks_all_ok(ranks *r)
{
    ranks_run(r);
    for (int i = 0; i < r->size; i++)
        if (r->err[i])
            fail_msg("rank %d: %s (%s)", i, r->why[i], weir_err_name(r->err[i]));
}

void assert_says(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" is not in \"%s\"", part, text);
}

double seconds_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void child_start(child *c, char *const *args)
{
    char *argv[16] = {"test"};
    int ends[2], n = 1;

    for (; args[n - 1] && n < 15; n++)
        argv[n] = args[n - 1];
    *c = (child){.out = -1};
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    c->pid = fork();
    assert_true(c->pid >= 0);
    if (!c->pid) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        execv("/proc/self/exe", argv);
        _exit(127);
    }
    close(ends[1]);
    c->out = ends[0];
}

/* Reads what is there by `until`; false at the end or when time is up. */
static bool child_read(child *c, double until)
{
    struct pollfd p = {.fd = c->out, .events = POLLIN};
    double left = until - seconds_now();
    ssize_t n;

    if (c->len + 1 >= sizeof c->text || poll(&p, 1, left > 0 ? (int)(left * 1e3) + 1 : 0) <= 0)
        return false;
    n = read(c->out, c->text + c->len, sizeof c->text - 1 - c->len);
    if (n <= 0)
        return false;
    c->len += (size_t)n;
    c->text[c->len] = 0;
    return true;
}

bool child_more(child *c, double seconds) { return child_read(c, seconds_now() + seconds); }

bool child_says(child *c, const char *word, double seconds)
{
    double until = seconds_now() + seconds;

    while (!strstr(c->text, word))
        if (!child_read(c, until))
            return false;
    return true;
}

int child_end(child *c, double seconds)
{
    double until = seconds_now() + seconds;
    int status;
    bool killed = false;

    while (child_read(c, until))
        ;
    while (waitpid(c->pid, &status, WNOHANG) == 0) {
        if (seconds_now() >= until && !killed) {
            kill(c->pid, SIGKILL);
            killed = true;
        }
        usleep(1000);
    }
    close(c->out);
    return killed ? -1 : status;
}
