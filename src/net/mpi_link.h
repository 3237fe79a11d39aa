/* mpi_link.h - between the mpi*.c files, the only ones that include mpi.h: one rank's link to its
 * peers.
 *
 *   mpi.c          the world: messages out and in
 *   mpi_open.c     starts MPI, makes the link; closes both
 *   mpi_move.c     what MPI does for us at the moment
 *   mpi_idle.c     a rank that waits
 *   mpi_coll.c     MPI's own collectives
 *   mpi_hold.c     messages nobody asks for
 *   mpi_control.c  control messages and signs of life, over TCP
 *   mpi_meet.c     how those connections come about
 *
 * MPI carries data. It does not tell of a dead rank, and cannot take a send back: so words have TCP
 * connections of their own, one a pair of ranks, whose end is the end of the peer; and after the
 * first loss MPI is not called any more (`down`). What it holds then stays allocated, everybody
 * gets their operations back, and the process leaves without MPI_Finalize. */
#ifndef WEIR_NET_MPI_LINK_H
#define WEIR_NET_MPI_LINK_H
#include "core/bucket.h"
#include "net/frame.h"
#include <mpi.h>

enum {
    WEIR_MPI_HEAD = 56,      /* bytes of a packet before the body */
    WEIR_MPI_PACKET = 4032,  /* below what every MPI sends at once, without asking the receiver */
    WEIR_MPI_SLOTS = 32,     /* packets that may land at once */
    WEIR_MPI_SIZES = 17,     /* sizes of spare parcels, from 64 bytes to 4 MiB */
    WEIR_MPI_TAG_PACKET = 0, /* bodies have the tags above */
    WEIR_MPI_CONTROL = 512   /* the longest word, head included */
};

typedef struct weir_mpi_self { /* the world's options */
    weir_world_self world;     /* first */
    int64_t chunk;
} weir_mpi_self;

/* What crosses MPI under one tag: MPI's own are too small for ours (15 bits are portable). */
typedef struct packet {
    weir_frame head;
    uint32_t body; /* the MPI tag of the body that follows; 0: what there is of it is in here */
    uint32_t zero;
    char bytes[WEIR_MPI_PACKET - WEIR_MPI_HEAD];
} packet;
_Static_assert(sizeof(packet) == WEIR_MPI_PACKET && offsetof(packet, bytes) == WEIR_MPI_HEAD,
               "no holes on the wire");

/* A message that has arrived, or only its packet: then `body` is the MPI tag of the rest, and
 * msg.data is NULL. One that is held for long gets its body all the same (mpi_hold.c): in `whole`,
 * and msg.data is set when that is complete. */
typedef struct parcel {
    weir_msg msg; /* first */
    uint32_t body;
    /* by the last look at what is held; dropped while its body is on its way */
    bool seen, unwanted;
    struct parcel *whole;
    weir_net_op *op; /* has matched it while its body is on its way */
    int size;        /* which of the spare sizes; -1: none of them */
    struct parcel *next;
    _Alignas(16) char bytes[];
} parcel;

/* Something that MPI does for us, in one or more requests. */
typedef struct transfer {
    int parts, peer;
    bool out;        /* a send of ours */
    weir_net_op *op; /* done when all parts are; NULL: it is done already, or was never asked for */
    parcel *parcel;  /* goes back then; NULL: none */
    parcel *held;    /* whose body this is; NULL: nobody's */
    packet packet;   /* what is on its way, of a send */
    struct transfer *next;
} transfer;

typedef struct control_link {
    int fd;            /* -1: it has ended */
    bool ended, waits; /* waits: for room in the socket */
    size_t have, kept; /* bytes in `in`, in `out` */
    char in[WEIR_MPI_CONTROL], out[8 * WEIR_MPI_CONTROL];
} control_link;

typedef struct mpi_link { /* n->link */
    MPI_Comm comm, coll;  /* our own copies of MPI_COMM_WORLD */
    bool ours;            /* MPI was started by us, and is finished by us */
    bool down;            /* not to be called any more */
    int warned, dones;    /* dones: peers that will send no more */
    int tags;             /* how many there are for bodies */
    uint32_t sequence;
    size_t chunk;
    double stall, spin, looked, swept;
    /* packets: each slot is a persistent receive; they fill in the order in which they were
     * started */
    packet *in;
    MPI_Request slot[WEIR_MPI_SLOTS];
    int slots, at;
    /* requests under way, and what each is part of */
    MPI_Request *request;
    transfer **of;
    int *which;
    MPI_Status *status;
    int count, room;
    transfer *spare;
    parcel *parcels[WEIR_MPI_SIZES];
    /* words */
    int poll; /* an epoll descriptor */
    int ends; /* links that have ended */
    control_link *control;
    int *counts, *begins; /* of the ranks' pieces in a collective */
    /* the last sum that is not MPI's own */
    weir_sum sum; /* unit 0: none yet */
    MPI_Datatype sum_type;
    MPI_Op sum_op;
} mpi_link;

/* ---- mpi_move.c ---- */
/* NULL: no memory. Room for `parts` requests is there then. */
transfer *weir_mpi_transfer(mpi_link *, int peer, int parts);
void weir_mpi_transfer_free(mpi_link *, transfer *);
void weir_mpi_watch(mpi_link *, transfer *, MPI_Request); /* one part more */
parcel *weir_mpi_parcel(mpi_link *, size_t len);          /* NULL: no memory */
void weir_mpi_parcel_free(mpi_link *, parcel *);
/* Sends or receives `len` bytes in parts no longer than `chunk`; a code of MPI's. The transfer was
 * made for their number. */
int weir_mpi_parts(const mpi_link *, size_t len);
int weir_mpi_move(mpi_link *, transfer *, void *bytes, size_t len, int tag);
bool weir_mpi_finish(weir_net *); /* ends what MPI has done; was there any */
void weir_mpi_down(weir_net *);   /* hands every operation back and leaves MPI alone from now on */
void weir_mpi_spares_free(mpi_link *);
/* MPI's sentence, as an error; and what is done about one that concerns a peer (-1: nobody knows
 * whom). */
weir_err weir_mpi_fail(int code, const char *doing);
void weir_mpi_broken(weir_net *, int code, int peer);

/* ---- mpi_hold.c ---- */
/* now and then: bodies of messages that nobody has asked for in a while */
void weir_mpi_sweep(weir_net *);
void weir_mpi_held(weir_net *, parcel *); /* its body is complete */
/* the message is whole: to the one who has matched it */
void weir_mpi_deal(weir_net *, weir_net_op *, parcel *);

/* ---- mpi_open.c, as in weir_world ---- */
weir_err weir_mpi_open(weir_net *, const weir_rank_info *);
void weir_mpi_close(weir_net *, bool in_order);

/* ---- mpi.c, mpi_idle.c ---- */
bool weir_mpi_packets(weir_net *); /* delivers what has landed; was there any */
/* progress, then sleep, until something has happened */
void weir_mpi_wait(weir_net *, double until);
void weir_mpi_idle(weir_sched *, double until);
double weir_mpi_now(weir_sched *);

/* ---- mpi_control.c, mpi_meet.c ---- */
weir_err weir_mpi_meet(weir_net *);
void weir_mpi_tell(weir_net *, int peer, weir_frame_kind, const void *body, size_t len);
bool weir_mpi_control(weir_net *);                      /* reads what is there; was there any */
void weir_mpi_control_close(weir_net *, bool in_order); /* [blocks] */
const char *weir_mpi_silence(weir_net *, int peer, double seconds); /* as in weir_world */
#endif
