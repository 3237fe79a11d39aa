/* zmq_join.c - the rendezvous as all but rank 0 see it: go there, say who you are, wait for the
 * table.
 *
 * Rank 0 may not be there yet: this rank tries until its time is over. One that is not let in for
 * its key leaves at once. */
#include "net/zmq_link.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

/* so many links that end in mid-handshake are no accident; milliseconds */
enum { SHUT_OUT = 3, KNOCK = 300 };

typedef struct visit {
    void *socket, *monitor;
    const weir_rank_info *rank_info;
    const weir_key *key;
    const char *at;
    weir_meet_join me;
    bool connected, seen; /* a link is there; rank 0 has answered */
    int shut_out;
} visit;

static weir_err open_visit(sockets *z, visit *v, const char *at)
{
    int wait = 100, events = ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                             ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                             ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;

    WEIR_TRY(weir_zmq_socket(z, ZMQ_DEALER, &v->socket));
    WEIR_TRY(weir_zmq_option(v->socket, ZMQ_RECONNECT_IVL, &wait, sizeof wait));
    WEIR_TRY(weir_zmq_lock(v->socket, v->key, false));
    WEIR_TRY(weir_zmq_version(v->socket, at));
    WEIR_TRY(weir_zmq_monitor(z, v->socket, "inproc://visit", events, &v->monitor));
    return zmq_connect(v->socket, at) ? weir_zmq_fail("connecting to", at) : WEIR_OK;
}

static void close_visit(visit *v)
{
    if (v->socket) {
        zmq_socket_monitor(v->socket, NULL, 0);
        zmq_close(v->socket);
    }
    if (v->monitor)
        zmq_close(v->monitor);
}

/* Rank 0 names those it does not let in by their address, but a link that it has refused may be
 * gone before it can look: so we stay at its door for a moment. */
static weir_err not_let_in(const visit *v)
{
    const char *at = v->rank_info->rendezvous;
    weir_address there;

    if (!weir_address_find(v->at + strlen("tcp://"), &there))
        weir_address_knock(&there, KNOCK);

    if (v->key)
        return weir_fail(
            WEIR_DENIED,
            "rank %d was not let in at %s: the key in %s is not the run's, or the run has none",
            v->me.rank, at, v->rank_info->key);
    return weir_fail(WEIR_DENIED,
                     "rank %d was not let in at %s: the run has a key (or what listens there is no "
                     "run); name its file with --key FILE "
                     "or WEIR_KEY",
                     v->me.rank, at);
}

/* What became of the link. */
static weir_err watch(visit *v)
{
    uint32_t value;

    for (int event; (event = weir_zmq_event(v->monitor, &value));) {
        if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
            v->connected = true;
            zmq_send(v->socket, &v->me, sizeof v->me, ZMQ_DONTWAIT);
        } else if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH ||
                   (event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL &&
                    (v->key || value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH)) ||
                   (event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL &&
                    ++v->shut_out >= SHUT_OUT)) { /* the other side saw it first */
            return not_let_in(v);
        } else if (event == ZMQ_EVENT_DISCONNECTED && v->seen) {
            return weir_fail(WEIR_LOST, "rank 0 at %s ended before all ranks had come",
                             v->rank_info->rendezvous);
        } else if (event == ZMQ_EVENT_DISCONNECTED) {
            v->connected = false;
        }
    }
    return WEIR_OK;
}

static weir_err refused(const void *bytes, size_t n)
{
    weir_meet_refusal no;

    if (!weir_meet_refusal_read(bytes, n, &no))
        return WEIR_OK;
    return weir_fail((weir_err)no.code, "%s", no.why);
}

/* What rank 0 says; *whole: it was the table. */
static weir_err listen_to(sockets *z, visit *v, int size, weir_meet_entry *entry, bool *whole)
{
    weir_err err = WEIR_OK;
    zmq_msg_t m;

    zmq_msg_init(&m);
    while (!err && !*whole && zmq_msg_recv(&m, v->socket, ZMQ_DONTWAIT) >= 0) {
        const void *bytes = zmq_msg_data(&m);
        size_t n = zmq_msg_size(&m);
        weir_meet kind = weir_meet_kind(bytes, n);
        v->seen |= kind == WEIR_MEET_SEEN;
        if (kind == WEIR_MEET_NO)
            err = refused(bytes, n);
        else if (kind == WEIR_MEET_TABLE)
            *whole = weir_meet_table_read(bytes, n, size, &z->run, entry);
    }
    zmq_msg_close(&m);
    return err;
}

static weir_err too_late(const visit *v, double waited)
{
    const char *at = v->rank_info->rendezvous;
    bool loopback =
        !strncmp(at, "127.", 4) || !strncmp(at, "localhost:", 10) || !strncmp(at, "[::1]", 5);

    if (v->seen)
        return weir_fail(WEIR_SILENT,
                         "rank 0 at %s has fallen silent before all ranks had come (waited %.0f s)",
                         at, waited);
    if (v->connected)
        return weir_fail(WEIR_SILENT,
                         "what listens at %s does not answer as rank 0 of a run (waited %.0f s)",
                         at, waited);
    return weir_fail(WEIR_SILENT,
                     "rank 0 is not at %s (waited %.0f s): it was not started, cannot be reached, "
                     "or the run is over%s",
                     at, waited,
                     loopback ? "; on another machine that address is another place" : "");
}

/* One look at all that has come. The last word of a link that has ended is heard before its end. */
static weir_err look(sockets *z, visit *v, int size, weir_meet_entry *entry, bool *whole)
{
    weir_err err;

    WEIR_TRY(listen_to(z, v, size, entry, whole));
    err = *whole ? WEIR_OK : watch(v);
    if (err != WEIR_LOST)
        return err;
    WEIR_TRY(listen_to(z, v, size, entry, whole));
    return *whole ? WEIR_OK : err;
}

static weir_err wait_for_table(weir_net *n, visit *v, weir_meet_entry *entry)
{
    sockets *z = n->link;
    double begun = n->world->now(n->sched), until = begun + v->rank_info->timeout, now;
    bool whole = false, seen = false;
    zmq_pollitem_t set[] = {{.socket = v->socket, .events = ZMQ_POLLIN},
                            {.socket = v->monitor, .events = ZMQ_POLLIN},
                            {.socket = z->guard, .events = ZMQ_POLLIN}};

    for (;;) {
        weir_zmq_guard_serve(z);
        WEIR_TRY(look(z, v, n->size, entry, &whole));
        if (whole)
            return WEIR_OK;
        now = n->world->now(n->sched);
        if (v->seen && !seen)
            until = now + v->rank_info->timeout +
                    2; /* rank 0 counts from when it came itself: it decides */
        seen = v->seen;
        if (now >= until)
            return too_late(v, now - begun);
        zmq_poll(set, z->guard ? 3 : 2, (long)((until - now) * 1e3) + 1);
    }
}

weir_err weir_zmq_join(weir_net *n, const weir_rank_info *rank_info, const weir_key *key,
                       const char *at, weir_meet_entry *entry)
{
    visit v = {.rank_info = rank_info, .key = key, .at = at};
    weir_err err;

    v.me = (weir_meet_join){.rank = n->rank, .size = (uint32_t)n->size, .entry = entry[n->rank]};
    weir_zmq_program(v.me.program);
    memcpy(v.me.job, rank_info->job, sizeof v.me.job);
    weir_meet_seal(&v.me, WEIR_MEET_JOIN, sizeof v.me);
    err = open_visit(n->link, &v, at);
    if (!err)
        err = wait_for_table(n, &v, entry);
    close_visit(&v);
    return err;
}
