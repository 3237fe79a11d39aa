/* zmq_link.h - between zmq.c and zmq_link.c: one rank's sockets. */
#ifndef WEIR_NET_ZMQ_LINK_H
#define WEIR_NET_ZMQ_LINK_H
#include "net/world.h"
#include <poll.h>

/* Places in the poll set; from PEERS on two a peer: dealer, monitor. A file descriptor of -1 is not looked at. */
enum { WEIR_ZMQ_BELL, WEIR_ZMQ_ROUTER, WEIR_ZMQ_PEERS };

typedef struct remote {
    void *dealer, *monitor; /* NULL: cut */
    bool written;           /* since it was last read */
} remote;

typedef struct sockets { /* n->link */
    void *context, *router;
    remote *peer;
    struct pollfd *poll;
    struct parcel *spare; /* zmq.c's: for the next messages */
    double looked;        /* when every socket was last looked at */
    int warned;
    char dir[128];
    bool bound; /* our file is still there */
} sockets;

/* The name by which a ROUTER knows a rank's DEALER. */
enum { WEIR_ZMQ_NAME = 5 };
void weir_zmq_name(int rank, unsigned char name[WEIR_ZMQ_NAME]);

/* As in weir_world. */
weir_err weir_zmq_open(weir_net *, const weir_place *);
void weir_zmq_met(weir_net *);
void weir_zmq_cut(weir_net *, int peer);
void weir_zmq_close(weir_net *, bool in_order);
void weir_zmq_free_spare(sockets *);
#endif
