/* zmq_link.c - ZeroMQ sockets: opened, met, cut, closed; and the run's directory that they meet in. */
#include "net/zmq_link.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

void weir_zmq_name(int rank, unsigned char name[WEIR_ZMQ_NAME])
{
    uint32_t r = (uint32_t)rank;

    name[0] = 'R';
    memcpy(name + 1, &r, 4);
}

/* The descriptor that becomes readable when something changes. It does so only after somebody has looked and found nothing: this
 * is the first look. */
static int fd_of(void *socket)
{
    int fd = -1, events;
    size_t size = sizeof fd, events_size = sizeof events;

    if (zmq_getsockopt(socket, ZMQ_FD, &fd, &size) || zmq_getsockopt(socket, ZMQ_EVENTS, &events, &events_size))
        return -1;
    return fd;
}

/* ZeroMQ's sentence for what has just gone wrong. */
static weir_err fail_zmq(const char *doing, const char *what)
{
    return weir_fail(WEIR_FAILED, "ZeroMQ: %s %s: %s", doing, what, zmq_strerror(zmq_errno()));
}

static weir_err set_option(void *socket, int option, const void *value, size_t size)
{
    return zmq_setsockopt(socket, option, value, size) ? fail_zmq("setting", "an option") : WEIR_OK;
}

static weir_err new_socket(sockets *z, int type, void **out)
{
    int none = 0, wait = 10, queue = 1024;
    void *s = zmq_socket(z->context, type);

    if (!s)
        return fail_zmq("opening", "a socket");
    *out = s;
    WEIR_TRY(set_option(s, ZMQ_LINGER, &none, sizeof none));
    WEIR_TRY(set_option(s, ZMQ_SNDHWM, &none, sizeof none));
    WEIR_TRY(set_option(s, ZMQ_RCVHWM, &none, sizeof none));
    WEIR_TRY(set_option(s, ZMQ_BACKLOG, &queue, sizeof queue));
    return set_option(s, ZMQ_RECONNECT_IVL, &wait, sizeof wait);
}

static weir_err connect_peer(weir_net *n, int p)
{
    sockets *z = n->link;
    remote *r = &z->peer[p];
    unsigned char name[WEIR_ZMQ_NAME];
    char at[192];

    WEIR_TRY(new_socket(z, ZMQ_DEALER, &r->dealer));
    weir_zmq_name(n->rank, name);
    WEIR_TRY(set_option(r->dealer, ZMQ_ROUTING_ID, name, sizeof name));
    snprintf(at, sizeof at, "inproc://monitor-%d", p);
    if (zmq_socket_monitor(r->dealer, at, ZMQ_EVENT_DISCONNECTED))
        return fail_zmq("watching", at);
    WEIR_TRY(new_socket(z, ZMQ_PAIR, &r->monitor));
    if (zmq_connect(r->monitor, at))
        return fail_zmq("connecting to", at);
    snprintf(at, sizeof at, "ipc://%s/r%d", z->dir, p);
    if (zmq_connect(r->dealer, at))
        return fail_zmq("connecting to", at);
    z->poll[WEIR_ZMQ_PEERS + 2 * p].fd = fd_of(r->dealer);
    z->poll[WEIR_ZMQ_PEERS + 2 * p + 1].fd = fd_of(r->monitor);
    return WEIR_OK;
}

/* The run's own directory: made by whoever comes first, open to this user alone. */
static weir_err make_dir(const char *dir)
{
    struct stat st;

    if (strlen(dir) > 90)
        return weir_fail(WEIR_USAGE, "%s: the run directory's path is too long for sockets: 90 bytes at most", dir);
    if (!mkdir(dir, 0700))
        return WEIR_OK;
    if (errno != EEXIST || lstat(dir, &st))
        return weir_fail(WEIR_FAILED, "%s: the run directory cannot be made: %s", dir, strerror(errno));
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 077)
        return weir_fail(WEIR_DENIED, "%s: the run directory must be this user's alone (mode 0700)", dir);
    return WEIR_OK;
}

static weir_err bind_router(weir_net *n)
{
    sockets *z = n->link;
    int yes = 1;
    char at[192];

    WEIR_TRY(new_socket(z, ZMQ_ROUTER, &z->router));
    WEIR_TRY(set_option(z->router, ZMQ_ROUTER_MANDATORY, &yes, sizeof yes));
    snprintf(at, sizeof at, "ipc://%s/r%d", z->dir, n->rank);
    if (zmq_bind(z->router, at))
        return fail_zmq("listening at", at);
    z->bound = true;
    z->poll[WEIR_ZMQ_ROUTER].fd = fd_of(z->router);
    return WEIR_OK;
}

/* Whoever is in has a link by now, so the files have served: a rank that is killed later leaves none. The last one takes the
 * directory along. */
void weir_zmq_met(weir_net *n)
{
    sockets *z = n->link;
    char at[160];

    if (!z->bound)
        return;
    snprintf(at, sizeof at, "%s/r%d", z->dir, n->rank);
    unlink(at);
    rmdir(z->dir);
    z->bound = false;
}

static void shut_link(weir_net *n, int peer, int linger_ms)
{
    sockets *z = n->link;
    remote *r = &z->peer[peer];

    if (r->dealer) {
        zmq_socket_monitor(r->dealer, NULL, 0);
        zmq_setsockopt(r->dealer, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
        zmq_close(r->dealer);
    }
    if (r->monitor)
        zmq_close(r->monitor);
    *r = (remote){NULL, NULL, false};
    z->poll[WEIR_ZMQ_PEERS + 2 * peer].fd = z->poll[WEIR_ZMQ_PEERS + 2 * peer + 1].fd = -1;
}

void weir_zmq_cut(weir_net *n, int peer) { shut_link(n, peer, 0); }

void weir_zmq_close(weir_net *n, bool in_order)
{
    sockets *z = n->link;
    int data_ms = in_order ? 5000 : 0, words_ms = in_order ? 500 : 200; /* at most; what nobody waits for is soon out */

    weir_zmq_met(n);
    for (int p = 0; p < n->size; p++)
        shut_link(n, p, data_ms);
    if (z->router) {
        zmq_setsockopt(z->router, ZMQ_LINGER, &words_ms, sizeof words_ms);
        zmq_close(z->router);
    }
    while (z->context && zmq_ctx_term(z->context) && zmq_errno() == EINTR)
        ;
    weir_zmq_free_spare(z);
    free(z->peer);
    free(z->poll);
    free(z);
    n->link = NULL;
}

static weir_err open_sockets(weir_net *n)
{
    sockets *z = n->link;

    if (!(z->context = zmq_ctx_new()))
        return fail_zmq("starting", "a context");
    zmq_ctx_set(z->context, ZMQ_MAX_SOCKETS, 4 * n->size + 64);
    WEIR_TRY(make_dir(z->dir));
    WEIR_TRY(bind_router(n));
    for (int p = 0; p < n->size; p++)
        if (p != n->rank)
            WEIR_TRY(connect_peer(n, p));
    return WEIR_OK;
}

weir_err weir_zmq_open(weir_net *n, const weir_place *place)
{
    size_t fds = (size_t)(WEIR_ZMQ_PEERS + 2 * n->size);
    sockets *z;
    weir_err err;

    if (!place->run_dir[0])
        return weir_fail(WEIR_MISFIT,
                         "%d ranks that meet at %s: runs across machines come later; start them here with --workers %d", n->size,
                         place->rendezvous[0] ? place->rendezvous : "no known place", n->size);
    if (!(z = calloc(1, sizeof *z)))
        return weir_fail_nomem(sizeof *z);
    n->link = z;
    snprintf(z->dir, sizeof z->dir, "%s", place->run_dir);
    z->peer = calloc((size_t)n->size, sizeof *z->peer);
    z->poll = calloc(fds, sizeof *z->poll);
    for (size_t i = 0; z->poll && i < fds; i++)
        z->poll[i] = (struct pollfd){.fd = i == WEIR_ZMQ_BELL ? n->sched->bell : -1, .events = POLLIN};
    err = z->peer && z->poll ? open_sockets(n) : weir_fail_nomem(fds * sizeof *z->poll);
    if (err)
        weir_zmq_close(n, false);
    return err;
}
