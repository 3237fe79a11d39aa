/* zmq_knock.c - joining a run as the guest sees it: goes to a door, is told what it has to know,
 * says that it is ready, waits to be taken in. Doors may close and open again elsewhere: it asks
 * again. */
#include "core/log.h"
#include "net/zmq_door.h"
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>
#include <zmq.h>

/* Seconds between two questions; and until a door that says nothing is left for another. */
static const double AGAIN = 0.5, LEAVE = 2;

typedef struct doorway {
    weir_net *net;
    void *socket;
    weir_meet_knock me;
    const weir_key *key;
    char at[192], last[192]; /* last: a door that did not answer */
    int tries;               /* how many doors were gone to */
    double since;            /* when it was gone to */
    bool seen;               /* one has answered */
} doorway;

/* ---- a place of one's own ---- */

weir_err weir_zmq_open_guest(weir_net *n, const weir_rank_info *rank_info)
{
    sockets *z = n->link;
    weir_meet_entry *me;
    weir_address there, here;
    const weir_key *use;
    weir_key key;
    char at[192];
    weir_err err;

    if (!(z->entry = calloc(1, sizeof *z->entry)))
        return weir_fail_nomem(sizeof *z->entry);
    me = z->entry;
    *me = (weir_meet_entry){.machine = weir_net_machine_id(), .pid = (int32_t)getpid()};
    snprintf(me->host, sizeof me->host, "%s", rank_info->host);
    if (rank_info->run_dir[0]) {
        snprintf(z->dir, sizeof z->dir, "%s", rank_info->run_dir);
        weir_zmq_file(z, 'g', me->pid, at);
        snprintf(me->at, sizeof me->at, "%s", WEIR_MEET_HERE);
        z->own = *me;
        return zmq_bind(z->router, at) ? weir_zmq_fail("listening at", at) : WEIR_OK;
    }
    WEIR_TRY(weir_address_find(rank_info->rendezvous, &there));
    WEIR_TRY(weir_address_here(&there, &here));
    WEIR_TRY(weir_zmq_key(z, &key, &use));
    if (!use && !there.loopback && !rank_info->insecure)
        return weir_fail(WEIR_DENIED,
                         "--join %s: a run beyond this machine has a key: name its file with --key "
                         "FILE or WEIR_KEY; --insecure does without",
                         rank_info->join);
    err = use ? weir_zmq_guard_open(z, use) : WEIR_OK;
    if (!err)
        err = weir_zmq_bind_tcp(z, &here, use, me->at);
    weir_key_wipe(&key);
    z->own = *me;
    if (!err && !(n->machine = calloc(1, sizeof *n->machine)))
        err = weir_fail_nomem(sizeof *n->machine);
    return err;
}

/* ---- at a door ---- */

static void leave_door(doorway *w)
{
    if (w->socket)
        zmq_close(w->socket);
    w->socket = NULL;
}

/* A killed one has left its door behind. */
static bool is_dead(int pid) { return pid < 1 || (kill(pid, 0) && errno == ESRCH); }

/* A door of the run in its directory, another than the last one if there are more; false: none. */
static bool find_file(const sockets *z, const char *last, char at[192])
{
    DIR *dir = opendir(z->dir);
    bool found = false;

    for (struct dirent *e; dir && (e = readdir(dir));) {
        char text[192];
        if (e->d_name[0] != 'd' || strlen(e->d_name) > 16 || is_dead(atoi(e->d_name + 1)))
            continue;
        snprintf(text, sizeof text, "ipc://%s/%.16s", z->dir, e->d_name);
        if (!found || !strcmp(at, last))
            memcpy(at, text, sizeof text);
        found = true;
    }
    if (dir)
        closedir(dir);
    return found;
}

/* One of several, and another the next time. */
static void choose_door(const char *list, int tries, char *one, size_t room)
{
    int count = 1;

    for (const char *c = list; *c; c++)
        count += *c == ',';
    for (int skip = tries % count; skip > 0; skip--)
        list = strchr(list, ',') + 1;
    snprintf(one, room, "%.*s", (int)strcspn(list, ","), list);
}

static weir_err go_to_door(doorway *w)
{
    sockets *z = w->net->link;
    weir_address there;
    char text[WEIR_ADDRESS_MAX], one[128];

    if (getrandom(&w->me.token, sizeof w->me.token, 0) != sizeof w->me.token)
        return weir_fail(WEIR_FAILED, "no random numbers: %s", strerror(errno));
    weir_meet_seal(&w->me, WEIR_MEET_KNOCK, sizeof w->me);
    memcpy(w->last, w->at, sizeof w->last);
    if (z->rank_info->run_dir[0]) {
        if (!find_file(z, w->last, w->at))
            return WEIR_OK;
    } else {
        choose_door(z->rank_info->join, w->tries++, one, sizeof one);
        WEIR_TRY(weir_address_find(one, &there));
        weir_address_text(&there, text);
        snprintf(w->at, sizeof w->at, "%s", text);
    }
    WEIR_TRY(weir_zmq_socket(z, ZMQ_DEALER, &w->socket));
    if (!z->rank_info->run_dir[0])
        WEIR_TRY(weir_zmq_lock(w->socket, w->key, false));
    WEIR_TRY(weir_zmq_version(w->socket, w->at));
    w->since = w->net->world->now(w->net->sched);
    return zmq_connect(w->socket, w->at) ? weir_zmq_fail("connecting to", w->at) : WEIR_OK;
}

static weir_err refused(const void *bytes, size_t n)
{
    weir_meet_refusal no;

    return weir_meet_refusal_read(bytes, n, &no) ? weir_fail((weir_err)no.code, "%s", no.why)
                                                 : WEIR_OK;
}

/* One message of the kind that is waited for; *found: it came, and is the caller's (malloc'ed). */
static weir_err listen_for(doorway *w, weir_meet kind, void **found, size_t *n)
{
    weir_err err = WEIR_OK;
    zmq_msg_t m;

    zmq_msg_init(&m);
    while (!err && !*found && zmq_msg_recv(&m, w->socket, ZMQ_DONTWAIT) >= 0) {
        weir_meet came = weir_meet_kind(zmq_msg_data(&m), zmq_msg_size(&m));
        w->since = w->net->world->now(w->net->sched);
        w->seen = true;
        if (came == WEIR_MEET_NO) {
            err = refused(zmq_msg_data(&m), zmq_msg_size(&m));
        } else if (came == kind && (*found = malloc(zmq_msg_size(&m)))) {
            *n = zmq_msg_size(&m);
            memcpy(*found, zmq_msg_data(&m), *n);
        }
    }
    zmq_msg_close(&m);
    return err;
}

/* In a directory nobody else opens the door of one that has died. */
static bool is_closed(const doorway *w)
{
    const sockets *z = w->net->link;
    const char *name = strrchr(w->at, '/');

    return z->rank_info->run_dir[0] && name && is_dead(atoi(name + 2));
}

static weir_err nobody(const doorway *w, double waited)
{
    const weir_rank_info *r = ((sockets *)w->net->link)->rank_info;

    return weir_fail(WEIR_SILENT,
                     w->seen
                         ? "the run at %s has not taken this process in within %.0f s"
                         : "no run that can be joined is at %s (waited %.0f s): it is over, has "
                           "not begun, has another key, or cannot be reached",
                     r->run_dir[0] ? r->run_dir : r->join, waited);
}

/* Says the same again and again until the answer has come. patience: seconds. [blocks] */
static weir_err ask(doorway *w, weir_meet kind, double patience, void **found, size_t *n)
{
    weir_net *net = w->net;
    double begun = net->world->now(net->sched), next = 0, now;

    weir_meet_seal(&w->me, WEIR_MEET_KNOCK, sizeof w->me);
    while (!*found) {
        now = net->world->now(net->sched);
        if (now - begun > patience)
            return nobody(w, now - begun);
        if (w->socket && (kind == WEIR_MEET_WELCOME ? now - w->since > LEAVE : is_closed(w)))
            leave_door(w);
        if (!w->socket)
            WEIR_TRY(go_to_door(w));
        if (w->socket && now >= next) {
            zmq_send(w->socket, &w->me, sizeof w->me, ZMQ_DONTWAIT);
            next = now + AGAIN;
        }
        if (w->socket)
            WEIR_TRY(listen_for(w, kind, found, n));
        if (!*found)
            weir_sched_block(net, now + 0.02);
        if (net->closing || atomic_load(&net->aborted))
            return weir_net_lost(net);
    }
    return WEIR_OK;
}

static weir_err open_doorway(weir_net *n, doorway **out)
{
    sockets *z = n->link;
    doorway *w = z->doorway;

    if (!w) {
        if (!(w = calloc(1, sizeof *w)))
            return weir_fail_nomem(sizeof *w);
        w->net = n;
        w->me.entry = z->entry[0];
        weir_zmq_program(w->me.program);
        z->doorway = w;
    }
    *out = w;
    return WEIR_OK;
}

static weir_err ask_with_key(weir_net *n, weir_meet kind, double patience, void **found,
                             size_t *len)
{
    sockets *z = n->link;
    weir_key key;
    doorway *w = NULL;
    weir_err err;

    *found = NULL;
    WEIR_TRY(open_doorway(n, &w));
    WEIR_TRY(weir_zmq_key(z, &key, &w->key));
    w->me.ready = kind == WEIR_MEET_ADMIT;
    err = ask(w, kind, patience, found, len);
    weir_key_wipe(&key);
    w->key = NULL;
    return err;
}

weir_err weir_zmq_knock(weir_net *n, void **welcome, size_t *len)
{
    WEIR_TRY(ask_with_key(n, WEIR_MEET_WELCOME, ((sockets *)n->link)->timeout, welcome, len));
    *len -= sizeof(weir_meet_head);
    memmove(*welcome, (char *)*welcome + sizeof(weir_meet_head), *len);
    return WEIR_OK;
}

/* The members take it in at the end of a step, which may be long. */
weir_err weir_zmq_wait_in(weir_net *n, void **list, size_t *len, weir_meet_entry **entry,
                          int *entries)
{
    sockets *z = n->link;
    const weir_meet_admit *a;
    void *bytes;
    size_t got;

    WEIR_TRY(ask_with_key(n, WEIR_MEET_ADMIT, z->rank_info->stall > 0 ? z->rank_info->stall : 600,
                          &bytes, &got));
    leave_door(z->doorway);
    if (!weir_meet_admit_read(bytes, got, &a))
        return free(bytes), weir_fail(WEIR_INVALID, "what came from the door makes no sense");
    *entries = (int)a->entries;
    *entry = malloc(a->entries * sizeof **entry);
    *list = malloc(a->list + 1);
    if (!*entry || !*list)
        return free(bytes), weir_fail_nomem(got);
    memcpy(*entry, a->entry, a->entries * sizeof **entry);
    memcpy(*list, a->entry + a->entries, a->list);
    *len = a->list;
    z->run = a->run;
    n->rank = a->rank;
    free(bytes);
    return WEIR_OK;
}

void weir_zmq_knock_close(sockets *z)
{
    if (z->doorway)
        leave_door(z->doorway);
    free(z->doorway);
    z->doorway = NULL;
}
