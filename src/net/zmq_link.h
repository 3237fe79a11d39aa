/* zmq_link.h - between the zmq*.c: one rank's sockets.
 *
 *   zmq.c        the world: sending, progress     zmq_in.c     what arrives, and links that end
 *   zmq_link.c   sockets opened, cut, closed      zmq_guard.c  who may connect
 *   zmq_door.c   the rendezvous at rank 0         zmq_join.c   the rendezvous as the others see it
 *   zmq_guests.c who comes while the run goes on  zmq_knock.c  the same, as the guest sees it
 *   zmq_crowd.c  who has connected and says nothing
 *   zmq_pace.c   how TCP meets a full link */
#ifndef WEIR_NET_ZMQ_LINK_H
#define WEIR_NET_ZMQ_LINK_H
#include "net/frame.h"
#include "net/key.h"
#include "net/world.h"
#include <netinet/in.h>
#include <poll.h>

/* Places in the poll set; from PEERS on two a peer: dealer, monitor. A file descriptor of -1 is not
 * looked at. */
enum {
    WEIR_ZMQ_BELL,
    WEIR_ZMQ_ROUTER,
    WEIR_ZMQ_GUARD,
    WEIR_ZMQ_DOOR,
    WEIR_ZMQ_DOOR_EVENTS,
    WEIR_ZMQ_ROUTER_EVENTS,
    WEIR_ZMQ_PEERS
};

typedef struct weir_zmq_self { /* n->self: the world's options */
    weir_world_self world;
    bool ipc;
    const char *congestion;
} weir_zmq_self;

typedef struct remote {
    void *dealer, *monitor; /* NULL: cut */
    bool written;           /* since it was last read */
    bool unseen;            /* its monitor has not been read yet */
    bool tcp;
    int fd;       /* of the tcp connection, to ask the kernel about; ZeroMQ's own. -1: none */
    int refusals; /* attempts to connect that were refused, one after the other */
} remote;

/* A connection that ZeroMQ has accepted. */
typedef struct weir_stranger {
    int fd;                      /* ZeroMQ's */
    char host[INET6_ADDRSTRLEN]; /* "": it was gone before we could look */
    in_port_t port;
} weir_stranger;

typedef struct weir_crowd { /* zmq_crowd.c's */
    weir_stranger *in;      /* the oldest first; NULL: not open */
    int count, most;
    int limit;         /* descriptors that the process may have */
    int hand, nothing; /* a descriptor that is made to mean others, and what it means else */
    bool warned;
    const char *at;
} weir_crowd;

typedef struct sockets { /* n->link */
    void *context, *router;
    void *guard;                /* NULL: there is no key */
    unsigned char open_key[32]; /* the half of the key that those we let in show */
    struct weir_door *door;     /* rank 0's, if the run has a rendezvous; others', for guests */
    const weir_rank_info *rank_info;
    weir_meet_entry *entry;    /* by rank: where everybody is, for guests; NULL: nobody may come */
    weir_meet_entry own;       /* a guest's */
    struct doorway *doorway;   /* zmq_knock.c's */
    void *router_events;       /* once all have met: who connects still, and is no rank */
    weir_crowd crowd;          /* of those */
    char at[WEIR_ADDRESS_MAX]; /* where the ROUTER listens, if by tcp */
    remote *peer;
    struct pollfd *poll;
    struct parcel *spare; /* zmq_in.c's: for the next messages */
    double looked;        /* when every socket was last looked at */
    double timeout;
    int warned, refused; /* warnings given: of foreign messages, of those not let in */
    uint64_t run;        /* drawn by rank 0; 0: a run of one machine, whose directory is its name */
    char dir[128];
    bool bound; /* our file is still there */
} sockets;

/* The name by which a ROUTER knows a rank's DEALER: 'R', the rank, the run. */
enum { WEIR_ZMQ_NAME = 13 };
void weir_zmq_name(const sockets *, int rank, unsigned char name[WEIR_ZMQ_NAME]);

/* ---- zmq_link.c: as in weir_world ---- */
weir_err weir_zmq_open(weir_net *, const weir_rank_info *);
void weir_zmq_met(weir_net *);
void weir_zmq_cut(weir_net *, int peer);
void weir_zmq_close(weir_net *, bool in_order);
/* Shared among the files: a socket with our options; its descriptor; ZeroMQ's sentence for what has
 * just gone wrong; a monitor of it. */
weir_err weir_zmq_socket(sockets *, int type, void **out);
int weir_zmq_fd(void *socket);
weir_err weir_zmq_fail(const char *doing, const char *what);
weir_err weir_zmq_option(void *socket, int option, const void *value, size_t size);
weir_err weir_zmq_monitor(sockets *, void *socket, const char *name, int events, void **out);
/* of the internet protocol, by the address */
weir_err weir_zmq_version(void *socket, const char *at);
/* The next event of a monitor and its value; 0: there is none. */
int weir_zmq_event(void *monitor, uint32_t *value);

weir_err weir_zmq_connect(weir_net *, int peer, const char *at, const weir_key *);
/* "ipc://DIR/LETTERpid": a file in the run's directory by which a process is found. */
void weir_zmq_file(const sockets *, char letter, int pid, char at[192]);
/* Listens on the way to somewhere, at any port; says in `at` where. */
weir_err weir_zmq_bind_tcp(sockets *, const weir_address *here, const weir_key *,
                           char at[WEIR_ADDRESS_MAX]);
/* The run's key, if it has one; to be wiped. */
weir_err weir_zmq_key(const sockets *, weir_key *, const weir_key **);

/* ---- zmq_guests.c: as in weir_world ---- */
weir_err weir_zmq_invite(weir_net *);
void weir_zmq_doors(weir_net *, char *text, size_t room);
weir_err weir_zmq_grow(weir_net *, int size);
weir_err weir_zmq_link(weir_net *, int rank, const weir_meet_entry *);
void weir_zmq_tell_guests(weir_net *, const weir_members *);
void weir_zmq_guests_close(weir_net *);
/* ---- zmq_knock.c: as in weir_world ---- */
weir_err weir_zmq_knock(weir_net *, void **welcome, size_t *n);
weir_err weir_zmq_wait_in(weir_net *, void **list, size_t *n, weir_meet_entry **, int *entries);
/* A guest listens, so that members can connect to it. */
weir_err weir_zmq_open_guest(weir_net *, const weir_rank_info *);
void weir_zmq_knock_close(sockets *);

/* ---- zmq_in.c ---- */
void weir_zmq_drop(weir_net *, weir_msg *);
void weir_zmq_fetch(weir_net *, weir_net_op *, weir_msg *);
/* one message of the ROUTER (from -1) or a DEALER; false: there is none */
bool weir_zmq_take(weir_net *, void *socket, int from);
bool weir_zmq_take_control(weir_net *, int peer);
void weir_zmq_look(weir_net *, int peer); /* what its monitor says */
void weir_zmq_free_spare(sockets *);
const char *weir_zmq_silence(weir_net *, int peer, double seconds);

/* ---- zmq_guard.c ---- */
weir_err weir_zmq_guard_open(sockets *, const weir_key *);
void weir_zmq_guard_serve(sockets *); /* answers ZeroMQ's questions about those that knock */
/* Sockets that listen or connect from now on do so with the key; NULL: without. */
weir_err weir_zmq_lock(void *socket, const weir_key *, bool listens);

/* ---- zmq_crowd.c ---- */
/* For a socket that listens at `at`, while so many ranks are still to come. Is to be closed, also
 * where it fails. */
weir_err weir_crowd_open(weir_crowd *, int ranks, const char *at);
/* One has connected; where it is one too many, the oldest is ended. */
void weir_crowd_add(weir_crowd *, int fd);
/* It has said who it is, or is gone. */
void weir_crowd_leave(weir_crowd *, int fd);
const char *weir_crowd_host(const weir_crowd *, int fd); /* "": not known */
void weir_crowd_close(weir_crowd *);
/* Once all have met, whoever connects to the ROUTER is no rank. */
weir_err weir_crowd_watch(sockets *);
void weir_crowd_look(sockets *);

/* ---- zmq_pace.c ---- */
/* whether the user named a congestion control that can be had */
weir_err weir_zmq_pace_check(const weir_net *);
void weir_zmq_pace(const weir_net *, int fd); /* of a link that has just been connected */

/* ---- zmq_door.c, zmq_join.c ---- */
enum { WEIR_ZMQ_PROGRAM = 32 };
void weir_zmq_program(char text[WEIR_ZMQ_PROGRAM]); /* what has to be equal on all ranks */
/* Rank 0: listens at `at`, waits until all have come, gives them the table and keeps it in `entry`,
 * of which [0] is set. The door stays until it is shut, so that those who come too late are
 * told. */
weir_err weir_zmq_door_open(weir_net *, const weir_rank_info *, const weir_key *, const char *at,
                            weir_meet_entry *entry);
void weir_zmq_door_look(weir_net *);
void weir_zmq_door_shut(sockets *);
/* The others: go to `at`, say who they are (entry[rank] is set), wait for the table. */
weir_err weir_zmq_join(weir_net *, const weir_rank_info *, const weir_key *, const char *at,
                       weir_meet_entry *entry);
#endif
