/* zmq_guests.c - a member's side of those who come while the run goes on: its door, what guests are
 * told there, and links to those that were taken in.
 *
 * A run of one machine that was started by our launcher has a door a member in its private
 * directory, found by whoever may look into that: DIR/dPID; links to newcomers go by DIR/gPID.
 * Other runs have the rendezvous's port on every machine: whoever of a machine binds it first keeps
 * the door there, and when it is gone another does. */
#include "core/log.h"
#include "net/member_message.h"
#include "net/zmq_door.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

/* ---- where everybody is ---- */

static bool in_directory(const sockets *z) { return z->rank_info->run_dir[0]; }

/* Of ranks that met in a directory only pids are known, by their greetings. */
static void fill_entry(const weir_net *n, int rank)
{
    sockets *z = n->link;
    weir_meet_entry *e = &z->entry[rank];
    weir_fault who;

    if (e->at[0])
        return;
    weir_liveness_fault((weir_net *)(uintptr_t)n, rank, WEIR_OK, &who);
    *e = (weir_meet_entry){.machine = weir_net_machine_id(), .pid = who.pid};
    snprintf(e->host, sizeof e->host, "%s", who.host);
    snprintf(e->at, sizeof e->at, "%s", WEIR_MEET_HERE);
}

/* ---- the door ---- */

static weir_err door_address(const weir_net *n, char at[192])
{
    const sockets *z = n->link;
    weir_address there, here;
    char text[WEIR_ADDRESS_MAX];

    if (in_directory(z)) {
        weir_zmq_file(z, 'd', (int)getpid(), at);
        return WEIR_OK;
    }
    WEIR_TRY(weir_address_find(z->rank_info->rendezvous, &there));
    WEIR_TRY(weir_address_here(&there, &here));
    here.port = there.port;
    weir_address_text(&here, text);
    snprintf(at, 192, "%s", text);
    return WEIR_OK;
}

static weir_err open_door(weir_net *n, const weir_key *key)
{
    sockets *z = n->link;
    weir_door *d = z->door = calloc(1, sizeof *d);
    char at[192];
    bool taken;

    if (!d)
        return weir_fail_nomem(sizeof *d);
    d->crowd.hand = d->crowd.nothing = -1;
    d->begun = true;
    weir_zmq_program(d->program);
    snprintf(d->at, sizeof d->at, "%s",
             in_directory(z) ? "the run's directory" : z->rank_info->rendezvous);
    WEIR_TRY(door_address(n, at));
    WEIR_TRY(weir_crowd_open(&d->crowd, 1, d->at));
    WEIR_TRY(weir_door_listen(z, d, key, at, &taken));
    if (taken) { /* another member of this machine keeps it */
        weir_zmq_door_shut(z);
        return WEIR_OK;
    }
    z->poll[WEIR_ZMQ_DOOR].fd = weir_zmq_fd(d->socket);
    z->poll[WEIR_ZMQ_DOOR_EVENTS].fd = weir_zmq_fd(d->monitor);
    weir_zmq_door_look(n);
    return WEIR_OK;
}

weir_err weir_zmq_invite(weir_net *n)
{
    sockets *z = n->link;
    const weir_key *use;
    weir_key key;
    weir_err err;

    if (!z || !z->entry || z->door)
        return WEIR_OK;
    err = weir_zmq_key(z, &key, &use);
    if (!err)
        err = open_door(n, in_directory(z) ? NULL : use);
    weir_key_wipe(&key);
    if (err) { /* the run goes on without */
        weir_log(WEIR_LOG_WARN, "net", "nobody can join at rank %d: %s", n->rank, weir_why_text());
        weir_zmq_door_shut(z);
    }
    return WEIR_OK;
}

/* Has the list this one already? */
static bool has_door(const char *list, const char *one)
{
    const char *found = strstr(list, one);
    char behind = found ? found[strlen(one)] : 0;

    return found && (found == list || found[-1] == ',') && (!behind || behind == ',');
}

/* On every machine it is the rendezvous's port. */
void weir_zmq_doors(weir_net *n, char *text, size_t room)
{
    static const char tcp[] = "tcp://";
    const sockets *z = n->link;
    const char *port = strrchr(z->rank_info->rendezvous, ':');

    for (int i = 0; z->entry && port && i < n->size; i++) {
        const char *host = z->entry[i].at + strlen(tcp), *end = strrchr(z->entry[i].at, ':');
        char one[WEIR_ADDRESS_MAX + 8];
        size_t used = strlen(text);
        if (strncmp(z->entry[i].at, tcp, strlen(tcp)) || end <= host)
            continue;
        snprintf(one, sizeof one, "%.*s%s", (int)(end - host), host, port);
        if (!has_door(text, one) && used + strlen(one) + 2 < room)
            snprintf(text + used, room - used, "%s%s", used ? "," : "", one);
    }
}

/* ---- guests ---- */

static void send_welcome(const weir_net *n, const weir_door *d, const caller *c)
{
    size_t len = sizeof(weir_meet_head) + n->welcome_bytes;
    char *m = malloc(len);

    if (!m)
        return; /* it asks again */
    memcpy(m + sizeof(weir_meet_head), n->welcome, n->welcome_bytes);
    weir_meet_seal(m, WEIR_MEET_WELCOME, len);
    weir_door_post(d, c, m, len);
    free(m);
}

static void keep_guest(weir_net *n, weir_door *d, const caller *c, int fd, const weir_meet_knock *k)
{
    weir_guest g = {.token = k->token, .keeper = n->rank, .entry = k->entry};
    int room = (int)(sizeof d->guest / sizeof *d->guest);

    for (int i = 0; i < d->guests; i++)
        if (d->guest[i].token == k->token)
            return;
    if (d->guests == room) {
        weir_door_refuse(d, c, WEIR_MISFIT, "too many wait to join this run already");
        return;
    }
    d->guest[d->guests++] = (weir_zmq_guest){k->token, *c, fd};
    weir_guests_add(n, &g);
}

void weir_zmq_on_knock(weir_net *n, weir_door *d, const caller *c, int fd, const weir_meet_knock *k)
{
    sockets *z = n->link;
    char why[400];

    if (strcmp(k->program, d->program)) {
        snprintf(why, sizeof why, "a process (host %s, pid %d) that wants to join runs %s, not %s",
                 k->entry.host, k->entry.pid, k->program, d->program);
        weir_door_refuse(d, c, WEIR_MISFIT, why);
    } else if (!z->entry || !n->welcome) {
        snprintf(why, sizeof why,
                 "the run at %s takes nobody in: it is not elastic, or has not begun", d->at);
        weir_door_refuse(d, c, WEIR_MISFIT, why);
    } else if (k->ready) {
        keep_guest(n, d, c, fd, k);
    } else {
        send_welcome(n, d, c);
    }
}

static void drop_guest(weir_door *d, int i) { d->guest[i] = d->guest[--d->guests]; }

void weir_zmq_guest_gone(weir_net *n, weir_door *d, int fd)
{
    for (int i = 0; i < d->guests; i++)
        if (d->guest[i].fd == fd) {
            weir_guests_remove(n, d->guest[i].token);
            drop_guest(d, i--);
        }
}

/* ---- taken in ---- */

weir_err weir_zmq_grow(weir_net *n, int size)
{
    sockets *z = n->link;
    size_t fds = (size_t)(WEIR_ZMQ_PEERS + 2 * size), old = (size_t)(WEIR_ZMQ_PEERS + 2 * n->size);
    size_t room = weir_net_room(size);
    remote *peer = realloc(z->peer, room * sizeof *peer);
    struct pollfd *poll =
        peer ? realloc(z->poll, (WEIR_ZMQ_PEERS + 2 * room) * sizeof *poll) : NULL;
    weir_meet_entry *entry = poll && z->entry ? realloc(z->entry, room * sizeof *entry) : z->entry;
    int *machine = n->machine ? realloc(n->machine, room * sizeof *machine) : NULL;
    bool all = peer && poll && (entry || !z->entry) && (machine || !n->machine);

    z->peer = peer ? peer : z->peer;
    z->poll = poll ? poll : z->poll;
    z->entry = entry ? entry : z->entry;
    n->machine = machine ? machine : n->machine;
    if (!all)
        return weir_fail_nomem(fds * sizeof *poll);
    for (int i = n->size; i < size && machine; i++)
        machine[i] = i;
    for (int i = n->size; i < size; i++) {
        z->peer[i] = (remote){.fd = -1};
        if (entry)
            entry[i] = (weir_meet_entry){0};
    }
    if (entry && weir_net_outside(n) && n->rank < size) { /* until now it stood at 0 */
        entry[0] = (weir_meet_entry){0};
        entry[n->rank] = z->own;
    }
    for (size_t i = old; i < fds; i++)
        z->poll[i] = (struct pollfd){.fd = -1, .events = POLLIN};
    return WEIR_OK;
}

/* The lowest rank on the same machine, of those that are known. */
static void find_machine(weir_net *n, int rank)
{
    const weir_meet_entry *all = ((sockets *)n->link)->entry;
    int p = 0;

    if (!n->machine || !all)
        return;
    while (p < rank && !(all[p].at[0] && all[p].machine == all[rank].machine))
        p++;
    n->machine[rank] = p < rank ? n->machine[p] : rank;
}

weir_err weir_zmq_link(weir_net *n, int rank, const weir_meet_entry *e)
{
    sockets *z = n->link;
    const weir_key *use;
    weir_key key;
    char at[192];
    weir_err err;

    if (z->entry)
        z->entry[rank] = *e;
    weir_liveness_name(n, rank, e->host, e->pid);
    find_machine(n, rank);
    find_machine(n, n->rank);
    if (!strcmp(e->at, WEIR_MEET_HERE))
        weir_zmq_file(z, 'g', e->pid, at);
    else
        snprintf(at, sizeof at, "%s", e->at);
    WEIR_TRY(weir_zmq_key(z, &key, &use));
    err = weir_zmq_connect(n, rank, at, use);
    weir_key_wipe(&key);
    return err;
}

/* The list as its bytes, and where all are that are in it or were. */
static void admit(weir_net *n, weir_door *d, int guest, int rank, const weir_members *l)
{
    sockets *z = n->link;
    weir_member_message say = {.kind = WEIR_MEMBER_DECIDE, .generation = l->generation, .list = *l};
    size_t list, len;
    void *bytes = weir_member_write(&say, &list);
    weir_meet_admit *a;

    len = sizeof *a + (size_t)l->next_id * sizeof a->entry[0] + list;
    a = bytes ? calloc(1, len) : NULL;
    for (int i = 0; a && i < l->count; i++)
        fill_entry(n, l->member[i]);
    if (a) {
        *a = (weir_meet_admit){.run = z->run,
                               .rank = rank,
                               .entries = (uint32_t)l->next_id,
                               .list = (uint32_t)list};
        memcpy(a->entry, z->entry, (size_t)l->next_id * sizeof a->entry[0]);
        memcpy((char *)(a->entry + l->next_id), bytes, list);
        weir_meet_seal(a, WEIR_MEET_ADMIT, len);
        weir_door_post(d, &d->guest[guest].at, a, len);
    }
    free(a);
    free(bytes);
}

void weir_zmq_tell_guests(weir_net *n, const weir_members *l)
{
    weir_door *d = ((sockets *)n->link)->door;

    for (int i = 0; d && i < l->joined; i++)
        for (int k = 0; k < d->guests; k++)
            if (d->guest[k].token == l->guest[i].token) {
                admit(n, d, k, l->member[l->count - l->joined + i], l);
                drop_guest(d, k);
                break;
            }
}
