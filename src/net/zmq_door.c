/* zmq_door.c - the rendezvous at rank 0: who comes is looked at, entered or refused; when all are
 * there they get the table. The door stays for the whole run, so that those who come too late are
 * told so.
 *
 * Whoever is refused is named here in a warning, and told why; the run goes on. It is known by the
 * id that ZeroMQ gave its connection, so that a rank which died and was started again takes its own
 * place. */
#include "core/log.h"
#include "net/zmq_door.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <zmq.h>

void weir_zmq_program(char text[WEIR_ZMQ_PROGRAM])
{
    snprintf(text, WEIR_ZMQ_PROGRAM, "weir %s, wire %d", weir_version(), WEIR_FRAME_VERSION);
}

/* ---- who is there ---- */

bool weir_door_post(const weir_door *d, const caller *c, const void *message, size_t len)
{
    if (zmq_send(d->socket, c->id, c->len, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0)
        return false;
    return zmq_send(d->socket, message, len, ZMQ_DONTWAIT) >= 0;
}

static bool post_seen(const weir_door *d, const caller *c)
{
    weir_meet_head seen;

    weir_meet_seal(&seen, WEIR_MEET_SEEN, sizeof seen);
    return weir_door_post(d, c, &seen, sizeof seen);
}

void weir_door_refuse(weir_door *d, const caller *c, weir_err code, const char *why)
{
    weir_meet_refusal no = {.code = (int32_t)code};

    snprintf(no.why, sizeof no.why, "%s", why);
    weir_meet_seal(&no, WEIR_MEET_NO, sizeof no);
    weir_door_post(d, c, &no, sizeof no);
    if (d->warned++ < WEIR_DOOR_WARNINGS)
        weir_log(WEIR_LOG_WARN, "net", "%s: refused, the run goes on", why);
}

/* Why one that comes has no place in this run; "": it has. */
static void judge(const weir_door *d, const weir_meet_join *j, char *why, size_t room)
{
    const weir_meet_entry *s = &j->entry;
    bool loopback;

    why[0] = 0;
    if (strcmp(j->program, d->program))
        snprintf(why, room, "rank %d (host %s, pid %d) runs %s, rank 0 runs %s", j->rank, s->host,
                 s->pid, j->program, d->program);
    else if (j->size != (uint32_t)d->size)
        snprintf(why, room,
                 "rank %d (host %s, pid %d) is of another run, of %u ranks: the one at %s has %d",
                 j->rank, s->host, s->pid, j->size, d->at, d->size);
    else if (strcmp(j->job, d->job))
        snprintf(why, room, "rank %d (host %s, pid %d) is of another run, %s: the one at %s is %s",
                 j->rank, s->host, s->pid, j->job[0] ? j->job : "without a name", d->at,
                 d->job[0] ? d->job : "without a name");
    else if (weir_address_good(s->at, &loopback) && loopback && s->machine != d->entry[0].machine &&
             strncmp(d->entry[0].at, "tcp://127.", 10))
        snprintf(why, room,
                 "rank %d (host %s, pid %d) listens at its loopback address %s, which no other "
                 "machine reaches",
                 j->rank, s->host, s->pid, s->at);
}

static bool same(const caller *a, const caller *b)
{
    return a->len == b->len && !memcmp(a->id, b->id, a->len);
}

/* True: it has its entry. */
static bool on_join(weir_door *d, const caller *c, const weir_meet_join *j)
{
    const weir_meet_entry *old =
        d->in ? &d->entry[(uint32_t)j->rank < (uint32_t)d->size ? j->rank : 0] : NULL;
    char why[400] = "";

    if (!d->in)
        snprintf(
            why, sizeof why,
            "rank %d (host %s, pid %d) comes too late: the run has begun; it may join by --join "
            "%s, without --rank and --size",
            j->rank, j->entry.host, j->entry.pid, d->at);
    else
        judge(d, j, why, sizeof why);
    if (!why[0] && d->begun && !(j->rank && same(c, &d->in[j->rank])))
        snprintf(why, sizeof why,
                 "rank %d (host %s, pid %d) comes too late: the run at %s has begun, with host %s, "
                 "pid %d as rank %d",
                 j->rank, j->entry.host, j->entry.pid, d->at, old->host, old->pid, j->rank);
    else if (!why[0] && (j->rank == 0 || (d->in[j->rank].len && !same(c, &d->in[j->rank]) &&
                                          post_seen(d, &d->in[j->rank]))))
        snprintf(why, sizeof why,
                 "two processes say they are rank %d: host %s, pid %d and host %s, pid %d", j->rank,
                 old->host, old->pid, j->entry.host, j->entry.pid);
    if (why[0]) {
        weir_door_refuse(d, c, WEIR_MISFIT, why);
    } else if (!d->begun && post_seen(d, c)) {
        d->in[j->rank] = *c;
        d->entry[j->rank] = j->entry;
    }
    return !why[0];
}

/* ---- what comes ---- */

/* One that does not get as far as a message: without the key, with a wrong one, or no program of
 * ours. Each is warned of once, by its address; a rank of ours that is refused stays long enough
 * for that. */
static void shut_out(weir_door *d, const char *host)
{
    if (!host[0] || d->tolds == WEIR_DOOR_WARNINGS) {
        weir_log(WEIR_LOG_INFO, "net", "a process was not let in at %s", d->at);
        return;
    }
    for (int i = 0; i < d->tolds; i++)
        if (!strcmp(d->told[i], host))
            return;
    snprintf(d->told[d->tolds++], INET6_ADDRSTRLEN, "%s", host);
    weir_log(
        WEIR_LOG_WARN, "net",
        "a process at %s was not let in at %s: it has no key, or not this run's; the run goes on",
        host, d->at);
}

static void watch(weir_net *n, weir_door *d)
{
    uint32_t value = 0;

    for (int event; (event = weir_zmq_event(d->monitor, &value));) {
        if (event == ZMQ_EVENT_ACCEPTED) {
            weir_crowd_add(&d->crowd, (int)value);
        } else if (event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL ||
                   event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL) {
            d->bad = true;
        } else if (event == ZMQ_EVENT_DISCONNECTED) {
            if (d->bad)
                shut_out(d, weir_crowd_host(&d->crowd, (int)value));
            d->bad = false;
            weir_crowd_leave(&d->crowd, (int)value);
            weir_zmq_guest_gone(n, d, (int)value);
        }
    }
}

/* A message as it came: from whom, over which connection, and whether it has just one part. */
typedef struct arrival {
    caller from;
    zmq_msg_t body;
    int fd; /* ZeroMQ's; -1: not known */
    bool whole;
} arrival;

/* Reads one; false if there is none. The caller closes its body. */
static bool read_arrival(void *socket, arrival *a)
{
    zmq_msg_t other;
    bool more;

    zmq_msg_init(&other);
    if (zmq_msg_recv(&other, socket, ZMQ_DONTWAIT) < 0)
        return zmq_msg_close(&other), false;
    *a = (arrival){.from.len = zmq_msg_size(&other)};
    zmq_msg_init(&a->body);
    if (a->from.len <= WEIR_DOOR_ID)
        memcpy(a->from.id, zmq_msg_data(&other), a->from.len);
    more = zmq_msg_more(&other) && zmq_msg_recv(&a->body, socket, ZMQ_DONTWAIT) >= 0;
    a->whole = more && a->from.len && a->from.len <= WEIR_DOOR_ID && !zmq_msg_more(&a->body);
    a->fd = zmq_msg_get(&a->body, ZMQ_SRCFD);
    for (more = more && zmq_msg_more(&a->body); more; more = zmq_msg_more(&other))
        if (zmq_msg_recv(&other, socket, ZMQ_DONTWAIT) < 0)
            break;
    zmq_msg_close(&other);
    return true;
}

/* Takes one message; false if there is none. Only a whole and correct one is looked at, after what
 * its connection was in the meantime. */
static bool take(weir_net *n, weir_door *d)
{
    arrival a;
    weir_meet_join j;
    weir_meet_knock k;

    if (!read_arrival(d->socket, &a))
        return false;
    watch(n, d);
    if (a.whole && weir_meet_join_read(zmq_msg_data(&a.body), zmq_msg_size(&a.body), &j)) {
        if (on_join(d, &a.from, &j))
            weir_crowd_leave(&d->crowd, a.fd);
    } else if (a.whole && weir_meet_knock_read(zmq_msg_data(&a.body), zmq_msg_size(&a.body), &k)) {
        weir_crowd_leave(&d->crowd, a.fd);
        weir_zmq_on_knock(n, d, &a.from, a.fd, &k);
    } else if (d->warned++ < WEIR_DOOR_WARNINGS) {
        weir_log(WEIR_LOG_WARN, "net",
                 "a message at the rendezvous %s that is none of ours was dropped", d->at);
    }
    zmq_msg_close(&a.body);
    return true;
}

void weir_zmq_door_look(weir_net *n)
{
    weir_door *d = ((sockets *)n->link)->door;

    if (!d)
        return;
    watch(n, d);
    while (take(n, d))
        ;
}

/* ---- until all are there ---- */

/* Everybody has come and is still there. */
static bool complete(weir_door *d)
{
    bool all = true;

    for (int r = 1; r < d->size && all; r++)
        all = d->in[r].len;
    for (int r = 1; r < d->size && all; r++)
        if (!post_seen(d, &d->in[r])) {
            d->in[r].len = 0;
            all = false;
        }
    return all;
}

/* Tells those who came who did not, and gives the same sentence. */
static weir_err missing(weir_door *d, double waited)
{
    char who[200] = "", why[400];
    int count = 0, n = 0;

    for (int r = 1; r < d->size; r++)
        if (!d->in[r].len || !post_seen(d, &d->in[r])) {
            d->in[r].len = 0;
            if (n < 160)
                n += snprintf(who + n, sizeof who - (size_t)n, "%s%d", count ? ", " : "", r);
            else if (n < 180)
                n += snprintf(who + n, sizeof who - (size_t)n, " and more%20s", "");
            count++;
        }
    snprintf(why, sizeof why, "rank%s %.180s of %d %s not come (waited %.0f s at %s)",
             count > 1 ? "s" : "", who, d->size, count > 1 ? "have" : "has", waited, d->at);
    for (int r = 1; r < d->size; r++)
        if (d->in[r].len) {
            weir_meet_refusal no = {.code = WEIR_SILENT};
            snprintf(no.why, sizeof no.why, "%s", why);
            weir_meet_seal(&no, WEIR_MEET_NO, sizeof no);
            weir_door_post(d, &d->in[r], &no, sizeof no);
        }
    return weir_fail(WEIR_SILENT, "%s", why);
}

static weir_err gather(weir_net *n)
{
    sockets *z = n->link;
    weir_door *d = z->door;
    double begun = n->world->now(n->sched), until = begun + z->timeout, now;
    zmq_pollitem_t set[] = {{.socket = d->socket, .events = ZMQ_POLLIN},
                            {.socket = d->monitor, .events = ZMQ_POLLIN},
                            {.socket = z->guard, .events = ZMQ_POLLIN}};

    for (;;) {
        weir_zmq_guard_serve(z);
        weir_zmq_door_look(n);
        if (complete(d))
            return WEIR_OK;
        now = n->world->now(n->sched);
        if (now >= until)
            return missing(d, now - begun);
        zmq_poll(set, z->guard ? 3 : 2, (long)((until - now) * 1e3) + 1);
    }
}

static weir_err send_table(weir_net *n)
{
    sockets *z = n->link;
    weir_door *d = z->door;
    size_t len = sizeof(weir_meet_table) + (size_t)n->size * sizeof(weir_meet_entry);
    weir_meet_table *t = calloc(1, len);

    if (!t)
        return weir_fail_nomem(len);
    *t = (weir_meet_table){.run = z->run, .size = (uint32_t)n->size};
    memcpy(t->entry, d->entry, (size_t)n->size * sizeof *t->entry);
    weir_meet_seal(t, WEIR_MEET_TABLE, len);
    for (int r = 1; r < n->size; r++)
        weir_door_post(d, &d->in[r], t,
                       len); /* one that has died since is missed by all in a moment */
    free(t);
    d->begun = true;
    return WEIR_OK;
}

/* ---- from beginning to end ---- */

/* Somebody listens there already: if it is a rank 0, it says who it is. */
static weir_err taken(weir_net *n, const weir_rank_info *rank_info, const weir_key *key,
                      const char *at, weir_meet_entry *entry)
{
    weir_rank_info brief = *rank_info;

    brief.timeout = 2;
    if (weir_zmq_join(n, &brief, key, at, entry) == WEIR_MISFIT)
        return weir_fail_in(WEIR_MISFIT, "the rendezvous %s is taken", rank_info->rendezvous);
    return weir_fail(WEIR_FAILED, "the rendezvous %s is taken, by another program or another run",
                     rank_info->rendezvous);
}

weir_err weir_door_listen(sockets *z, weir_door *d, const weir_key *key, const char *at,
                          bool *taken)
{
    int yes = 1, events = ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED |
                          ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                          ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;
    int64_t most = WEIR_DOOR_MESSAGE;

    *taken = false;
    WEIR_TRY(weir_zmq_socket(z, ZMQ_ROUTER, &d->socket));
    WEIR_TRY(weir_zmq_option(d->socket, ZMQ_ROUTER_MANDATORY, &yes, sizeof yes));
    WEIR_TRY(weir_zmq_option(d->socket, ZMQ_MAXMSGSIZE, &most, sizeof most));
    WEIR_TRY(weir_zmq_lock(d->socket, key, true));
    WEIR_TRY(weir_zmq_version(d->socket, at));
    WEIR_TRY(weir_zmq_monitor(z, d->socket, "inproc://door", events, &d->monitor));
    if (!zmq_bind(d->socket, at))
        return WEIR_OK;
    *taken = zmq_errno() == EADDRINUSE;
    return *taken ? WEIR_OK : weir_zmq_fail("listening at", at);
}

static weir_err listen_at(weir_net *n, const weir_rank_info *rank_info, const weir_key *key,
                          const char *at, weir_meet_entry *entry)
{
    sockets *z = n->link;
    bool held;

    WEIR_TRY(weir_door_listen(z, z->door, key, at, &held));
    return held ? taken(n, rank_info, key, at, entry) : WEIR_OK;
}

weir_err weir_zmq_door_open(weir_net *n, const weir_rank_info *rank_info, const weir_key *key,
                            const char *at, weir_meet_entry *entry)
{
    sockets *z = n->link;
    weir_door *d = z->door = calloc(1, sizeof *d);

    if (d)
        d->crowd.hand = d->crowd.nothing = -1;
    if (!d || !(d->in = calloc((size_t)n->size, sizeof *d->in)) ||
        !(d->entry = calloc((size_t)n->size, sizeof *d->entry)))
        return weir_fail_nomem((size_t)n->size * sizeof *d->entry);
    if (getrandom(&z->run, sizeof z->run, 0) != sizeof z->run)
        return weir_fail(WEIR_FAILED, "no random numbers: %s", strerror(errno));
    z->run |= 1; /* never 0 */
    d->size = n->size;
    d->entry[0] = entry[0];
    weir_zmq_program(d->program);
    memcpy(d->job, rank_info->job, sizeof d->job);
    memcpy(d->at, rank_info->rendezvous, sizeof d->at);
    WEIR_TRY(weir_crowd_open(&d->crowd, n->size - 1, d->at));
    WEIR_TRY(listen_at(n, rank_info, key, at, entry));
    WEIR_TRY(gather(n));
    WEIR_TRY(send_table(n));
    memcpy(entry, d->entry, (size_t)n->size * sizeof *entry);
    z->poll[WEIR_ZMQ_DOOR].fd = weir_zmq_fd(d->socket);
    z->poll[WEIR_ZMQ_DOOR_EVENTS].fd = weir_zmq_fd(d->monitor);
    weir_zmq_door_look(n); /* what has come by now, the descriptors will not tell */
    return WEIR_OK;
}

void weir_zmq_door_shut(sockets *z)
{
    weir_door *d = z->door;
    int control_ms = 300; /* the last refusals */

    if (!d)
        return;
    if (d->socket) {
        zmq_socket_monitor(d->socket, NULL, 0);
        zmq_setsockopt(d->socket, ZMQ_LINGER, &control_ms, sizeof control_ms);
        zmq_close(d->socket);
    }
    if (d->monitor)
        zmq_close(d->monitor);
    weir_crowd_close(&d->crowd);
    free(d->in);
    free(d->entry);
    free(d);
    z->door = NULL;
}
