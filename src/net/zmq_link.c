/* zmq_link.c - ZeroMQ sockets: opened, met, cut, closed; the directory or the addresses that they
 * meet at. */
#include "net/zmq_link.h"
#include "core/log.h"
#include "net/launch.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

void weir_zmq_name(const sockets *z, int rank, unsigned char name[WEIR_ZMQ_NAME])
{
    uint32_t r = (uint32_t)rank;

    name[0] = 'R';
    memcpy(name + 1, &r, 4);
    memcpy(name + 5, &z->run, 8);
}

/* ---- sockets ---- */

/* The descriptor becomes readable when something changes, but only after somebody has looked and
 * found nothing. This is the first look; what it may have found has to be read once without being
 * told. */
int weir_zmq_fd(void *socket)
{
    int fd = -1, events;
    size_t size = sizeof fd, events_size = sizeof events;

    if (zmq_getsockopt(socket, ZMQ_FD, &fd, &size) ||
        zmq_getsockopt(socket, ZMQ_EVENTS, &events, &events_size))
        return -1;
    return fd;
}

weir_err weir_zmq_fail(const char *doing, const char *what)
{
    return weir_fail(WEIR_FAILED, "ZeroMQ: %s %s: %s", doing, what, zmq_strerror(zmq_errno()));
}

weir_err weir_zmq_option(void *socket, int option, const void *value, size_t size)
{
    return zmq_setsockopt(socket, option, value, size) ? weir_zmq_fail("setting", "an option")
                                                       : WEIR_OK;
}

static weir_err set_int(void *socket, int option, int value)
{
    return weir_zmq_option(socket, option, &value, sizeof value);
}

/* Probes tell a stopped process, whose machine answers, from a cut link. They come often enough to
 * be known when the time-out is over, and never end a link themselves before that. */
static weir_err keep_alive(sockets *z, void *s)
{
    int every = z->timeout > 4 ? (int)(z->timeout / 4) : 1;

    WEIR_TRY(set_int(s, ZMQ_TCP_KEEPALIVE, 1));
    WEIR_TRY(set_int(s, ZMQ_TCP_KEEPALIVE_IDLE, every));
    WEIR_TRY(set_int(s, ZMQ_TCP_KEEPALIVE_INTVL, every));
    return set_int(s, ZMQ_TCP_KEEPALIVE_CNT, 60);
}

weir_err weir_zmq_socket(sockets *z, int type, void **out)
{
    void *s = zmq_socket(z->context, type);

    if (!s)
        return weir_zmq_fail("opening", "a socket");
    *out = s;
    WEIR_TRY(set_int(s, ZMQ_LINGER, 0));
    WEIR_TRY(set_int(s, ZMQ_SNDHWM, 0));
    WEIR_TRY(set_int(s, ZMQ_RCVHWM, 0));
    WEIR_TRY(set_int(s, ZMQ_BACKLOG, 1024));
    WEIR_TRY(keep_alive(z, s));
    return set_int(s, ZMQ_RECONNECT_IVL, 10);
}

weir_err weir_zmq_version(void *socket, const char *at)
{
    return set_int(socket, ZMQ_IPV6, strchr(at, '[') != NULL);
}

weir_err weir_zmq_monitor(sockets *z, void *socket, const char *name, int events, void **out)
{
    if (zmq_socket_monitor(socket, name, events))
        return weir_zmq_fail("watching", name);
    WEIR_TRY(weir_zmq_socket(z, ZMQ_PAIR, out));
    return zmq_connect(*out, name) ? weir_zmq_fail("connecting to", name) : WEIR_OK;
}

int weir_zmq_event(void *monitor, uint32_t *value)
{
    unsigned char text[6]; /* the first part: event and value; the second: the address */
    char address[256];
    uint16_t event = 0;
    int n = zmq_recv(monitor, text, sizeof text, ZMQ_DONTWAIT);

    if (n < 0)
        return 0;
    if (n == sizeof text) {
        memcpy(&event, text, sizeof event);
        memcpy(value, text + 2, sizeof *value);
    }
    zmq_recv(monitor, address, sizeof address, ZMQ_DONTWAIT);
    return event ? event : ZMQ_EVENT_MONITOR_STOPPED;
}

weir_err weir_zmq_connect(weir_net *n, int p, const char *at, const weir_key *key)
{
    sockets *z = n->link;
    remote *r = &z->peer[p];
    unsigned char name[WEIR_ZMQ_NAME];
    char watch[64];

    r->tcp = !strncmp(at, "tcp:", 4);
    WEIR_TRY(weir_zmq_socket(z, ZMQ_DEALER, &r->dealer));
    weir_zmq_name(z, n->rank, name);
    WEIR_TRY(weir_zmq_option(r->dealer, ZMQ_ROUTING_ID, name, sizeof name));
    snprintf(watch, sizeof watch, "inproc://monitor-%d", p);
    WEIR_TRY(weir_zmq_monitor(z, r->dealer, watch,
                              ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CONNECTED | ZMQ_EVENT_CLOSED,
                              &r->monitor));
    if (r->tcp)
        WEIR_TRY(weir_zmq_lock(r->dealer, key, false));
    WEIR_TRY(weir_zmq_version(r->dealer, at));
    if (zmq_connect(r->dealer, at))
        return weir_zmq_fail("connecting to", at);
    z->poll[WEIR_ZMQ_PEERS + 2 * p].fd = weir_zmq_fd(r->dealer);
    z->poll[WEIR_ZMQ_PEERS + 2 * p + 1].fd = weir_zmq_fd(r->monitor);
    r->written = r->unseen = true; /* what has come by now, the descriptors will not tell */
    return WEIR_OK;
}

/* ---- on one machine ---- */

/* The run's own directory: made by whoever comes first, open to this user alone. */
static weir_err make_dir(const char *dir)
{
    struct stat st;

    if (strlen(dir) > 90)
        return weir_fail(WEIR_USAGE,
                         "%s: the run directory's path is too long for sockets: 90 bytes at most",
                         dir);
    if (!mkdir(dir, 0700))
        return WEIR_OK;
    if (errno != EEXIST || lstat(dir, &st))
        return weir_fail(WEIR_FAILED, "%s: the run directory cannot be made: %s", dir,
                         strerror(errno));
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 077)
        return weir_fail(WEIR_DENIED, "%s: the run directory must be this user's alone (mode 0700)",
                         dir);
    return WEIR_OK;
}

static void file_of(const sockets *z, int rank, char at[192])
{
    snprintf(at, 192, "ipc://%s/r%d", z->dir, rank);
}

void weir_zmq_file(const sockets *z, char letter, int pid, char at[192])
{
    snprintf(at, 192, "ipc://%s/%c%d", z->dir, letter, pid);
}

weir_err weir_zmq_key(const sockets *z, weir_key *key, const weir_key **use)
{
    *use = NULL;
    *key = (weir_key){0};
    if (!z->rank_info->key || z->rank_info->run_dir[0])
        return WEIR_OK;
    WEIR_TRY(weir_key_read(z->rank_info->key, key));
    *use = key;
    return WEIR_OK;
}

/* Where newcomers reach this rank. */
static weir_err bind_for_guests(weir_net *n)
{
    sockets *z = n->link;
    char at[192];

    weir_zmq_file(z, 'g', (int)getpid(), at);
    return zmq_bind(z->router, at) ? weir_zmq_fail("listening at", at) : WEIR_OK;
}

static weir_err bind_file(weir_net *n)
{
    sockets *z = n->link;
    char at[192];

    WEIR_TRY(make_dir(z->dir));
    file_of(z, n->rank, at);
    if (zmq_bind(z->router, at))
        return weir_zmq_fail("listening at", at);
    z->bound = true;
    return WEIR_OK;
}

static weir_err open_here(weir_net *n, const weir_rank_info *rank_info)
{
    sockets *z = n->link;
    char at[192];

    snprintf(z->dir, sizeof z->dir, "%s", rank_info->run_dir);
    WEIR_TRY(bind_file(n));
    if (z->entry)
        WEIR_TRY(bind_for_guests(n));
    for (int p = 0; p < n->size; p++)
        if (p != n->rank) {
            file_of(z, p, at);
            WEIR_TRY(weir_zmq_connect(n, p, at, NULL));
        }
    return WEIR_OK;
}

/* ---- on many ---- */

/* May this rank listen where others can reach it. */
static weir_err check_open(const weir_net *n, const weir_rank_info *rank_info,
                           const weir_address *there, const weir_key *key)
{
    if (there->loopback && rank_info->local_size < rank_info->size &&
        strcmp(rank_info->source, "flags"))
        return weir_fail(WEIR_MISFIT,
                         "the rendezvous %s is the loopback address %s here, but only %d of the %d "
                         "ranks are on this machine: "
                         "name an address that the others reach",
                         rank_info->rendezvous, there->host, rank_info->local_size,
                         rank_info->size);
    if (there->loopback || key)
        return WEIR_OK;
    if (!rank_info->insecure)
        return weir_fail(WEIR_DENIED,
                         "a run that meets at %s listens beyond this machine and needs a key: weir "
                         "keygen makes one, --key FILE "
                         "or WEIR_KEY names it on every rank; --insecure does without",
                         rank_info->rendezvous);
    if (n->rank == 0)
        weir_log(WEIR_LOG_WARN, "net",
                 "--insecure: whoever reaches %s can join this run, read it and change it",
                 rank_info->rendezvous);
    return WEIR_OK;
}

/* Listens on the way to the rendezvous, at any port; says in `at` where. */
weir_err weir_zmq_bind_tcp(sockets *z, const weir_address *here, const weir_key *key,
                           char at[WEIR_ADDRESS_MAX])
{
    weir_address any = *here;
    char text[WEIR_ADDRESS_MAX];
    size_t len = WEIR_ADDRESS_MAX;

    any.port = 0;
    weir_address_text(&any, text);
    WEIR_TRY(weir_zmq_lock(z->router, key, true));
    WEIR_TRY(weir_zmq_version(z->router, text));
    if (zmq_bind(z->router, text) && (zmq_errno() == EADDRNOTAVAIL || zmq_errno() == ENODEV))
        return weir_fail(
            WEIR_MISFIT,
            "the rendezvous is at %s, which is no address of this machine: rank 0 has to run there",
            here->host);
    if (zmq_getsockopt(z->router, ZMQ_LAST_ENDPOINT, at, &len) || !at[0])
        return weir_zmq_fail("listening at", text);
    return WEIR_OK;
}

/* By the table: who shares a machine with whom, and links to all. */
static weir_err connect_all(weir_net *n, const weir_meet_entry *entry, const weir_key *key)
{
    sockets *z = n->link;
    bool ipc = ((weir_zmq_self *)n->self)->ipc, mates = false;
    char at[192];

    if (!(n->machine = calloc((size_t)n->size, sizeof *n->machine)))
        return weir_fail_nomem((size_t)n->size * sizeof *n->machine);
    for (int p = 0; p < n->size; p++) {
        while (entry[n->machine[p]].machine != entry[p].machine)
            n->machine[p]++;
        mates |= ipc && p != n->rank && entry[p].machine == entry[n->rank].machine;
        weir_liveness_name(n, p, entry[p].host, entry[p].pid);
    }
    if (z->entry)
        memcpy(z->entry, entry, (size_t)n->size * sizeof *entry);
    snprintf(z->dir, sizeof z->dir, "/tmp/weir-%016llx", (unsigned long long)z->run);
    if (mates) {
        WEIR_TRY(weir_zmq_lock(z->router, NULL, true)); /* the directory is guard enough */
        WEIR_TRY(bind_file(n));
    }
    for (int p = 0; p < n->size; p++) {
        file_of(z, p, at);
        if (p != n->rank)
            WEIR_TRY(weir_zmq_connect(
                n, p, ipc && entry[p].machine == entry[n->rank].machine ? at : entry[p].at, key));
    }
    return WEIR_OK;
}

static weir_err meet(weir_net *n, const weir_rank_info *rank_info, const weir_key *key,
                     weir_meet_entry *entry)
{
    sockets *z = n->link;
    weir_address there, here;
    char at[WEIR_ADDRESS_MAX];

    WEIR_TRY(weir_address_find(rank_info->rendezvous, &there));
    WEIR_TRY(check_open(n, rank_info, &there, key));
    here = there;
    if (n->rank)
        WEIR_TRY(weir_address_here(&there, &here));
    if (key)
        WEIR_TRY(weir_zmq_guard_open(z, key));
    entry[n->rank] = (weir_meet_entry){.machine = weir_net_machine_id(), .pid = (int32_t)getpid()};
    snprintf(entry[n->rank].host, sizeof entry[n->rank].host, "%s", rank_info->host);
    WEIR_TRY(weir_zmq_bind_tcp(z, &here, key, entry[n->rank].at));
    memcpy(z->at, entry[n->rank].at, sizeof z->at);
    weir_address_text(&there, at);
    WEIR_TRY((n->rank ? weir_zmq_join : weir_zmq_door_open)(n, rank_info, key, at, entry));
    return connect_all(n, entry, key);
}

static weir_err open_far(weir_net *n, const weir_rank_info *rank_info)
{
    weir_meet_entry *entry = calloc((size_t)n->size, sizeof *entry);
    weir_key key;
    weir_err err = entry ? WEIR_OK : weir_fail_nomem((size_t)n->size * sizeof *entry);

    if (!err && rank_info->key)
        err = weir_key_read(rank_info->key, &key);
    if (!err)
        err = meet(n, rank_info, rank_info->key ? &key : NULL, entry);
    weir_key_wipe(&key);
    free(entry);
    return err;
}

/* ---- from beginning to end ---- */

/* Our file has served; the last one takes the directory along. */
static void remove_file(weir_net *n)
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

/* What guests find this rank by. */
static void remove_doors(weir_net *n)
{
    sockets *z = n->link;
    char at[192];

    if (!z->entry || !z->rank_info->run_dir[0])
        return;
    for (const char *letter = "gd"; *letter; letter++) {
        weir_zmq_file(z, *letter, (int)getpid(), at);
        unlink(at + strlen("ipc://"));
    }
    rmdir(z->dir);
}

/* Whoever is in has a link by now: a rank that is killed later leaves no file, and one that
 * connects now is none of ours. */
void weir_zmq_met(weir_net *n)
{
    sockets *z = n->link;

    remove_file(n);
    if (z->at[0] && weir_crowd_watch(z))
        weir_log(WEIR_LOG_INFO, "net", "who connects to %s is not watched: %s", z->at,
                 weir_why_text());
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
    *r = (remote){.tcp = r->tcp, .fd = -1};
    z->poll[WEIR_ZMQ_PEERS + 2 * peer].fd = z->poll[WEIR_ZMQ_PEERS + 2 * peer + 1].fd = -1;
}

/* Never at once: a link whose socket goes with a message half read, and whose peer goes too, would
 * end the process (libzmq 4.3's session, clean_pipes). */
enum { GIVEN_UP_MS = 200 };

void weir_zmq_cut(weir_net *n, int peer) { shut_link(n, peer, GIVEN_UP_MS); }

void weir_zmq_close(weir_net *n, bool in_order)
{
    sockets *z = n->link;
    /* at most; what nobody waits for is soon out */
    int data_ms = in_order ? 5000 : GIVEN_UP_MS, control_ms = in_order ? 500 : 200;

    if (z->bound && z->run && !in_order)
        weir_launch_dir_remove(z->dir, n->size); /* no launcher does it; the run is over for all */
    remove_file(n);
    remove_doors(n);
    weir_zmq_knock_close(z);
    for (int p = 0; z->peer && z->poll && p < n->size; p++)
        shut_link(n, p, data_ms);
    weir_zmq_door_shut(z);
    if (z->router_events) {
        zmq_socket_monitor(z->router, NULL, 0);
        zmq_close(z->router_events);
    }
    weir_crowd_close(&z->crowd);
    if (z->router) {
        zmq_setsockopt(z->router, ZMQ_LINGER, &control_ms, sizeof control_ms);
        zmq_close(z->router);
    }
    if (z->guard)
        zmq_close(z->guard);
    weir_thread_brisk(false);
    while (z->context && zmq_ctx_term(z->context) && zmq_errno() == EINTR)
        ;
    weir_zmq_free_spare(z);
    free(z->peer);
    free(z->poll);
    free(z->entry);
    free(z);
    free(n->machine);
    n->machine = NULL;
    n->link = NULL;
}

static weir_err open_sockets(weir_net *n, const weir_rank_info *rank_info)
{
    sockets *z = n->link;

    weir_thread_brisk(!rank_info->run_dir[0]); /* before the library starts its own threads */
    if (!(z->context = zmq_ctx_new()))
        return weir_zmq_fail("starting", "a context");
    zmq_ctx_set(z->context, ZMQ_MAX_SOCKETS, 4 * n->size + (rank_info->guests ? 4096 : 64));
    WEIR_TRY(weir_zmq_socket(z, ZMQ_ROUTER, &z->router));
    WEIR_TRY(set_int(z->router, ZMQ_ROUTER_MANDATORY, 1));
    if (rank_info->join[0])
        WEIR_TRY(weir_zmq_open_guest(n, rank_info));
    else
        WEIR_TRY((rank_info->run_dir[0] ? open_here : open_far)(n, rank_info));
    z->poll[WEIR_ZMQ_ROUTER].fd = weir_zmq_fd(z->router);
    return WEIR_OK;
}

weir_err weir_zmq_open(weir_net *n, const weir_rank_info *rank_info)
{
    size_t fds = (size_t)(WEIR_ZMQ_PEERS + 2 * n->size);
    sockets *z;
    weir_err err;

    if (!rank_info->run_dir[0] && !rank_info->rendezvous[0] && !rank_info->join[0])
        return weir_fail(WEIR_MISFIT,
                         "%d ranks by %s, and no place to meet: start each with --rank, --size and "
                         "--rendezvous HOST:PORT, or here "
                         "with --workers %d",
                         n->size, rank_info->source, n->size);
    WEIR_TRY(weir_zmq_pace_check(n));
    if (!(z = calloc(1, sizeof *z)))
        return weir_fail_nomem(sizeof *z);
    n->link = z;
    z->rank_info = rank_info;
    if (rank_info->guests && !rank_info->join[0])
        z->entry = calloc((size_t)n->size, sizeof *z->entry);
    z->crowd.hand = z->crowd.nothing = -1;
    z->timeout = rank_info->timeout > 0 ? rank_info->timeout : 30;
    z->peer = calloc((size_t)n->size, sizeof *z->peer);
    z->poll = calloc(fds, sizeof *z->poll);
    for (int p = 0; z->peer && p < n->size; p++)
        z->peer[p].fd = -1;
    for (size_t i = 0; z->poll && i < fds; i++)
        z->poll[i] =
            (struct pollfd){.fd = i == WEIR_ZMQ_BELL ? n->sched->bell : -1, .events = POLLIN};
    err = z->peer && z->poll ? open_sockets(n, rank_info) : weir_fail_nomem(fds * sizeof *z->poll);
    if (err)
        weir_zmq_close(n, false);
    return err;
}
