/* launch_trials.c - see launch_trials.h. Process j of p tries every p-th number, from first + j on,
 * and writes each result to a pipe when it is there. */
#include "net/launch_trials.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* One process, or the place of one. */
typedef struct worker {
    pid_t pid;
    int fd;          /* -1: there is none */
    uint64_t number; /* that it tries */
    char *result;
    size_t got;   /* bytes of it */
    double since; /* when that began */
} worker;

typedef struct crew {
    const weir_trials *t;
    worker *worker;
    struct pollfd *poll;
    bool stop;
} crew;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool told(const crew *c) { return c->t->told && *c->t->told; }

static bool is_open(const weir_trials *t, uint64_t number) { return number < t->first + t->count; }

/* ---- in a process of its own ---- */

static bool write_all(int fd, const char *bytes, size_t n)
{
    ssize_t done;

    for (size_t at = 0; at < n; at += (size_t)done)
        if ((done = write(fd, bytes + at, n - at)) <= 0)
            return false;
    return true;
}

static void work(const weir_trials *t, uint64_t number, int fd)
{
    char *result = calloc(1, t->bytes);
    bool good = result != NULL;

    for (int *s = (int[]){SIGINT, SIGTERM, SIGHUP, 0}; *s; s++) {
        struct sigaction was;
        if (!sigaction(*s, NULL, &was) && was.sa_handler != SIG_IGN)
            signal(*s, SIG_DFL);
    }
    for (; good && is_open(t, number); number += (uint64_t)t->jobs) {
        memset(result, 0, t->bytes);
        t->try_one(t->arg, number, result);
        good = write_all(fd, result, t->bytes);
    }
    free(result);
    _exit(good ? 0 : 1);
}

/* ---- here ---- */

static weir_err start(crew *c, worker *w)
{
    int fd[2];

    w->got = 0;
    w->since = now();
    if (pipe(fd))
        return weir_fail(WEIR_FAILED, "no pipe: %s", strerror(errno));
    if ((w->pid = fork()) < 0) {
        close(fd[0]);
        close(fd[1]);
        return weir_fail(WEIR_FAILED, "no process: %s", strerror(errno));
    }
    if (!w->pid) {
        for (int i = 0; i < c->t->jobs; i++)
            if (c->worker[i].fd >= 0)
                close(c->worker[i].fd);
        close(fd[0]);
        work(c->t, w->number, fd[1]);
    }
    close(fd[1]);
    w->fd = fd[0];
    return WEIR_OK;
}

static void tell(crew *c, const worker *w, const char *died)
{
    if (!c->stop)
        c->stop = !c->t->tried(c->t->arg, w->number, died ? NULL : w->result, died);
}

/* How it ended, in words. */
static void reap(worker *w, char *text, size_t room)
{
    int status = 0;

    close(w->fd);
    w->fd = -1;
    while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFSIGNALED(status))
        snprintf(text, room, "it was ended by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(text, room, "its process left with code %d", WEXITSTATUS(status));
}

/* Its process is gone: at the end of its numbers, or in the middle of one. */
static weir_err on_gone(crew *c, worker *w, const char *why)
{
    char text[100];

    reap(w, text, sizeof text);
    if (!is_open(c->t, w->number))
        return WEIR_OK;
    tell(c, w, why ? why : text);
    w->number += (uint64_t)c->t->jobs;
    return c->stop || !is_open(c->t, w->number) ? WEIR_OK : start(c, w);
}

static weir_err on_bytes(crew *c, worker *w)
{
    ssize_t n = read(w->fd, w->result + w->got, c->t->bytes - w->got);

    if (n < 0)
        return errno == EINTR ? WEIR_OK : weir_fail(WEIR_FAILED, "a pipe: %s", strerror(errno));
    if (!n)
        return on_gone(c, w, NULL);
    w->got += (size_t)n;
    if (w->got < c->t->bytes)
        return WEIR_OK;
    tell(c, w, NULL);
    w->got = 0;
    w->since = now();
    w->number += (uint64_t)c->t->jobs;
    return WEIR_OK;
}

/* One that takes too long is ended. */
static weir_err look_at_clock(crew *c)
{
    char why[100];

    for (worker *w = c->worker; w < c->worker + c->t->jobs && !c->stop; w++)
        if (w->fd >= 0 && now() - w->since > c->t->seconds) {
            snprintf(why, sizeof why, "it did not end within %.0f s", c->t->seconds);
            kill(w->pid, SIGKILL);
            WEIR_TRY(on_gone(c, w, why));
        }
    return WEIR_OK;
}

static weir_err wait_once(crew *c, bool *any)
{
    *any = false;
    for (int i = 0; i < c->t->jobs; i++) {
        c->poll[i] = (struct pollfd){.fd = c->worker[i].fd, .events = POLLIN};
        *any |= c->worker[i].fd >= 0;
    }
    if (*any && poll(c->poll, (nfds_t)c->t->jobs, 1000) < 0 && errno != EINTR)
        return weir_fail(WEIR_FAILED, "poll: %s", strerror(errno));
    if (told(c)) /* and so, most likely, were those processes */
        return WEIR_OK;
    for (int i = 0; i < c->t->jobs && !c->stop; i++)
        if (c->worker[i].fd >= 0 && c->poll[i].revents)
            WEIR_TRY(on_bytes(c, &c->worker[i]));
    return look_at_clock(c);
}

static weir_err run(crew *c)
{
    bool any = true;

    for (int i = 0; i < c->t->jobs; i++)
        c->worker[i].fd = -1;
    for (int i = 0; i < c->t->jobs; i++) {
        worker *w = &c->worker[i];
        w->number = c->t->first + (uint64_t)i;
        if (!(w->result = malloc(c->t->bytes)))
            return weir_fail_nomem(c->t->bytes);
        if (is_open(c->t, w->number))
            WEIR_TRY(start(c, w));
    }
    while (any && !c->stop && !told(c))
        WEIR_TRY(wait_once(c, &any));
    return WEIR_OK;
}

weir_err weir_trials_run(const weir_trials *t)
{
    crew c = {t, calloc((size_t)t->jobs, sizeof *c.worker), calloc((size_t)t->jobs, sizeof *c.poll),
              false};
    weir_err err = c.worker && c.poll ? run(&c) : weir_fail_nomem(0);
    char text[100];

    for (int i = 0; c.worker && i < t->jobs; i++) {
        if (c.worker[i].fd >= 0) {
            kill(c.worker[i].pid, SIGKILL);
            reap(&c.worker[i], text, sizeof text);
        }
        free(c.worker[i].result);
    }
    free(c.worker);
    free(c.poll);
    return err;
}
