/* zmq_door.h - between zmq_door.c and zmq_guests.c: a socket at which strangers may say who they
 * are. Rank 0 has one from the beginning, where all meet; every member may have one while the run
 * goes on, where guests come. */
#ifndef WEIR_NET_ZMQ_DOOR_H
#define WEIR_NET_ZMQ_DOOR_H
#include "net/zmq_link.h"

enum { WEIR_DOOR_ID = 16, WEIR_DOOR_MESSAGE = 1024, WEIR_DOOR_WARNINGS = 10 };

typedef struct caller {
    unsigned char id[WEIR_DOOR_ID];
    size_t len; /* 0: has not come */
} caller;

/* One that has knocked, and whom it wants to be told. */
typedef struct weir_zmq_guest {
    uint64_t token;
    caller at;
    int fd; /* ZeroMQ's; -1: not known */
} weir_zmq_guest;

typedef struct weir_door {
    void *socket, *monitor;
    caller *in; /* by rank; NULL: nobody meets here, only guests come */
    weir_meet_entry *entry;
    bool begun; /* the table is out */
    int size, warned;
    char program[WEIR_ZMQ_PROGRAM], job[64], at[128];
    weir_crowd crowd; /* who is at the door and has not said who it is */
    char told[WEIR_DOOR_WARNINGS][INET6_ADDRSTRLEN]; /* who was not let in, and warned of */
    int tolds;
    weir_zmq_guest guest[64];
    int guests;
    bool bad; /* a handshake has failed: its connection ends next */
} weir_door;

/* ---- zmq_door.c ---- */
/* False: whoever had this id is gone. */
bool weir_door_post(const weir_door *, const caller *, const void *message, size_t len);
void weir_door_refuse(weir_door *, const caller *, weir_err code, const char *why);
/* Listens there; false: somebody else does, or it cannot be. */
weir_err weir_door_listen(sockets *, weir_door *, const weir_key *, const char *at, bool *taken);

/* ---- zmq_guests.c ---- */
void weir_zmq_on_knock(weir_net *, weir_door *, const caller *, int fd, const weir_meet_knock *);
/* A connection has ended. */
void weir_zmq_guest_gone(weir_net *, weir_door *, int fd);
#endif
