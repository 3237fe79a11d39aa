/* sim.h - inside net/sim*.c: a virtual cluster in one process.
 *
 *   sim.c          options, a run from first to last event, the world's table
 *   sim_event.c    the heap of events, timers of tasks
 *   sim_wire.c     links: packets, queues, who waits for whom
 *   sim_msg.c      messages on their way, and whose their bytes are
 *   sim_life.c     ranks that leave, die, pause or are cut off
 *   sim_guests.c   those that come while the run goes on
 *   sim_fault.c    what the user orders of all that
 *   sim_compute.c  what work costs, tasks as fibres
 *   sim_stuck.c    when nothing can ever happen again
 *
 * One thread runs everything: fibres while any is ready, else the next event, whose time becomes
 * now. So virtual time passes only while all wait, and two runs of one seed take the same course to
 * the last bit. Whatever one rank does to another goes through an event. Nothing here has the size
 * of nodes x nodes.
 *
 * A node is a process, a rank is its number in the run. Those of the start are numbered alike; one
 * that comes later (node `nodes` and on, in the order of join=) has no rank until the members have
 * agreed on it, and then the next that is free: two that come at once may get theirs in either
 * order. So in here all goes by nodes, `seat` finds the node of a rank, and ranks stand only in
 * what net's other files see. */
#ifndef WEIR_NET_SIM_H
#define WEIR_NET_SIM_H
#include "core/rng.h"
#include "net/world.h"

/* ---- what the user chose ---- */
typedef struct weir_sim_options {
    weir_world_self base; /* first */
    int64_t nodes, packet, rack, machine, eager, seed;
    double latency, rate, overhead, jitter, uplink, rack_latency, local_latency, local_rate;
    bool rendezvous, dry;
    double cost, cv;
    int draw;
    const char *slow, *kill, *pause, *cut, *join, *leave;
    double drop, duplicate, corrupt, rto, detect;
} weir_sim_options;
enum { WEIR_SIM_CONSTANT, WEIR_SIM_LOGNORMAL, WEIR_SIM_GAMMA }; /* draw */

/* ---- events ---- */
typedef enum {
    WEIR_SIM_PACKET,  /* thing: a packet, whose tail has come to its next pipe */
    WEIR_SIM_UPLINK,  /* node: a port of it may send the next packet; thing: the port */
    WEIR_SIM_DELIVER, /* node: a message, put off while the rank was paused */
    WEIR_SIM_ACK,     /* node: the bytes of a message it sent are free */
    WEIR_SIM_TIMER,   /* node: a task's deadline */
    WEIR_SIM_CONTROL, /* node: a peer says why it leaves, or gives us up */
    WEIR_SIM_LEFT,    /* node has left in order, its messages before it */
    WEIR_SIM_NEWS,    /* node, after a pause, learns what all know */
    WEIR_SIM_FAILED,  /* node has left with an error, which all hear of */
    WEIR_SIM_ORDER,   /* thing: a fault that the user ordered */
    WEIR_SIM_DEAD,    /* node's end is noticed */
    WEIR_SIM_CALL,    /* node: a guest and a member talk; thing: what is said */
    WEIR_SIM_HEAL,    /* thing: an order of a cut that is over */
    WEIR_SIM_SILENCE  /* node looks whether it has heard of another; thing: that one */
} weir_sim_kind;
typedef struct weir_sim_event {
    double at;
    uint64_t number; /* of two at the same time the earlier one comes first */
    weir_sim_kind kind;
    int node;
    bool put_off; /* it has waited for the end of a pause */
    void *thing;
} weir_sim_event;

/* ---- links ---- */
typedef struct weir_sim_pipe { /* what packets pass through one after the other */
    double byte;               /* seconds a byte */
    double busy;               /* until then */
    int waiting;               /* packets that have come and are not through */
} weir_sim_pipe;

typedef struct weir_sim_packet {
    struct weir_sim_parcel *parcel;
    struct weir_sim_packet *next; /* spare ones */
    size_t bytes;
    double head; /* when its first byte reached, or left, the pipe */
    int stage;   /* the pipe it comes to next */
    bool waits, twice;
} weir_sim_packet;

/* A message. Freed when nobody holds it. */
enum { WEIR_SIM_FLYING = 1, WEIR_SIM_HERE = 2, WEIR_SIM_ACKING = 4 };
typedef struct weir_sim_parcel {
    weir_msg msg;    /* first */
    weir_net_op *op; /* the sender's, while its bytes are lent */
    bool taken;      /* by the receiver: the lent bytes are not needed any more */
    bool closed;     /* the sender has given its receiver up: it is not delivered */
    int from, to;    /* nodes */
    int holds;
    void *bytes;       /* a copy of our own; NULL: lent, or a size without content */
    size_t sent, come; /* of its bytes, by the sender's port, to the receiver's */
    bool started;
    struct weir_sim_parcel *next;           /* in its flow, or spare */
    struct weir_sim_parcel *before, *after; /* what its sender has under way */
    weir_sim_packet only;                   /* the packet of a message that needs one */
} weir_sim_parcel;

/* Messages of one rank to another, in order. There is one only while something waits, or while what
 * comes later could overtake. */
typedef struct weir_sim_flow {
    struct weir_sim_flow *next; /* of the same hash */
    struct weir_sim_flow *turn; /* the port's next to send */
    int from, to;               /* nodes */
    weir_sim_parcel *first, **last;
    double tail; /* when the last byte that has left will have come */
} weir_sim_flow;

/* A rank's end of the wire, or of the memory that ranks of one machine share: its flows take turns,
 * a packet each. */
typedef struct weir_sim_port {
    double latency, free;
    weir_sim_pipe down;
    double byte; /* up: seconds a byte */
    weir_sim_flow *turn, **turn_last;
    bool set; /* an UPLINK event is on its way */
} weir_sim_port;
enum { WEIR_SIM_WIRE, WEIR_SIM_MEMORY, WEIR_SIM_PORTS };

/* ---- nodes ---- */
typedef struct weir_sim_node {
    weir_net net; /* first */
    weir_sim_port port[WEIR_SIM_PORTS];
    weir_sim_parcel *out; /* sent, and flying or lent */
    weir_net_task *task;  /* its first fibre */
    int machine;          /* its number */
    bool here;            /* it has started */
    bool dead, ended, left;
    weir_err err;                   /* it ended with */
    weir_fault *last_word;          /* why it left, for the others */
    double paused_at, paused_until; /* not paused: until is in the past */
    double stood;                   /* in pauses before that one */
    double moved;                   /* when it last got on: sent something, or changed its phase */
    /* at the last look, or when it died; random numbers drawn for its work */
    uint64_t doing, draws;
    double speed; /* its work takes so many times as long */
    /* sim_guests.c's: the node at whose door it waits (-1: none), the last one, and since when;
     * what it was told there; by rank, who has greeted it */
    int door, last_door, doors;
    double at_door;
    struct weir_sim_call *told;
    bool *greeted;
    int greetings; /* ranks that there is room for */
    weir_net_task *waiter;
} weir_sim_node;

typedef struct weir_sim_order { /* a fault the user ordered */
    enum { WEIR_SIM_KILL, WEIR_SIM_PAUSE, WEIR_SIM_CUT, WEIR_SIM_JOIN, WEIR_SIM_LEAVE } kind;
    int a, b;         /* nodes */
    double at, until; /* WEIR_NEVER: for ever */
} weir_sim_order;

typedef struct weir_sim_count {
    uint64_t events, packets;
    weir_net_mishaps mishaps;
} weir_sim_count;

typedef struct weir_sim {
    const weir_sim_options *o;
    const weir_rank_info *rank_info;
    weir_sched sched;
    weir_err (*fn)(weir_net *, void *);
    void *arg;
    double now, timeout, stall, next_look;
    weir_sim_event *heap;
    size_t events, room;
    uint64_t numbers;
    weir_sim_node *node;
    int nodes, starters; /* starters: those of them that are there from the start */
    int racks;
    /* by rank: who has it, and the lowest rank of its machine; for ranks below `seats` */
    weir_sim_node **seat;
    int seats, *machine;
    weir_sim_pipe *rack_up, *rack_down;
    bool ordered; /* nothing can overtake: no jitter, no loss, no cut */
    bool over;    /* being taken down */
    bool nomem;   /* an event or a message had no room: the run ends */
    weir_sim_flow **flow, *spare_flow;
    size_t flows, flow_room;
    weir_sim_packet *spare_packet;
    weir_sim_parcel *spare_parcel;
    weir_rng rng; /* the wire's */
    weir_sim_order *order;
    int orders, cuts;
    weir_sim_count count;
    int stuck;              /* how often nothing could happen any more */
    int first_bad;          /* the first node that ended with an error; -1: none */
    char why[WEIR_WHY_MAX]; /* its sentence, or that of a deadlock */
} weir_sim;

static inline weir_sim *weir_sim_of(weir_net *n) { return n->sched->state; }
static inline weir_sim_node *weir_sim_node_of(weir_net *n) { return (weir_sim_node *)n; }
static inline int weir_sim_index(weir_net *n)
{
    return (int)(weir_sim_node_of(n) - weir_sim_of(n)->node);
}
/* The clock starts a hair after 0, which as a deadline means "never"; sums do not see it, and
 * nobody is shown it. */
#define WEIR_SIM_START 1e-300
static inline double weir_sim_seconds(const weir_sim *s)
{
    return s->now > WEIR_SIM_START ? s->now : 0;
}
static inline bool weir_sim_paused(const weir_sim *s, const weir_sim_node *a)
{
    return a->paused_until > 0 && s->now <= a->paused_until;
}

/* Who has this rank; NULL: nobody has come for it. */
static inline weir_sim_node *weir_sim_at(const weir_sim *s, int rank)
{
    return rank < s->seats ? s->seat[rank] : NULL;
}

/* ---- sim_event.c ---- */
/* Where there is no memory for it, the run ends (s->nomem). */
void weir_sim_push(weir_sim *, double at, weir_sim_kind, int node, void *thing);
bool weir_sim_pop(weir_sim *, weir_sim_event *);
/* The node does not see it before its pause ends: true if so. */
bool weir_sim_put_off(weir_sim *, const weir_sim_event *);
void weir_sim_arm(weir_net_task *, double deadline);
void weir_sim_disarm(weir_net_task *);
void weir_sim_on_timer(weir_sim *, const weir_sim_event *);

/* ---- sim_wire.c ---- */
weir_err weir_sim_wire_open(weir_sim *);
void weir_sim_wire_close(weir_sim *);
void weir_sim_wire_send(weir_sim *, weir_sim_parcel *);
void weir_sim_on_packet(weir_sim *, weir_sim_packet *);
void weir_sim_on_uplink(weir_sim *, int node, weir_sim_port *);
void weir_sim_unsend(weir_sim *, int node); /* what a dead one had not put on the wire */
double weir_sim_unit(weir_sim *);           /* the wire's next random number in [0, 1) */
double weir_sim_latency(const weir_sim *, int from, int to); /* nodes */

/* ---- sim_msg.c ---- */
void weir_sim_send(weir_net *, weir_net_op *);
void weir_sim_fetch(weir_net *, weir_net_op *, weir_msg *);
void weir_sim_drop(weir_net *, weir_msg *);
void weir_sim_cut_peer(weir_net *, int peer);
void weir_sim_let(weir_net *, weir_net_op *);
void weir_sim_deliver(weir_sim *, weir_sim_parcel *, bool put_off); /* all of it has come */
void weir_sim_on_ack(weir_sim *, weir_sim_parcel *);
void weir_sim_no_ack(weir_sim *, weir_sim_parcel *); /* its sender has stopped for ever */
/* the sender's op is done; what is still needed of it was copied */
void weir_sim_lent_back(weir_sim *, weir_sim_parcel *);
void weir_sim_parcels_close(weir_sim *);

/* ---- sim_life.c ---- */
void weir_sim_leave(weir_sim *, weir_sim_node *, weir_err, const char *sentence);
/* It has ended well, and nobody takes any more of what it has sent: then it is gone. */
void weir_sim_look_left(weir_sim *, weir_sim_node *);
void weir_sim_kill(weir_sim *, weir_sim_node *);
/* It starts, unless the run is over. */
void weir_sim_arrive(weir_sim *, weir_sim_node *);
/* It has died, or has come to its end. */
static inline bool weir_sim_gone(const weir_sim_node *a) { return a->dead || a->ended; }
/* CONTROL, LEFT, NEWS, FAILED, DEAD, SILENCE */
void weir_sim_on_life(weir_sim *, const weir_sim_event *);
void weir_sim_tell(weir_net *, int peer, weir_frame_kind, const void *body, size_t len);
bool weir_sim_left(weir_net *, int peer);
void weir_sim_know(weir_net *, int peer, weir_fault *);
/* The node will hear that this rank has ended. */
void weir_sim_hears_end(weir_sim *, int node, int rank);
void weir_sim_look(weir_sim *); /* for ranks that are waited for too long */
void weir_sim_control_close(weir_sim *);

/* ---- sim_fault.c ---- */
weir_err weir_sim_orders_read(weir_sim *);
void weir_sim_on_order(weir_sim *, weir_sim_order *);
void weir_sim_on_heal(weir_sim *, const weir_sim_order *);
int weir_sim_latecomers(const weir_sim_options *); /* how many are to come */
/* Between two nodes; 0: they can talk. */
double weir_sim_cut_until(const weir_sim *, int a, int b, double *since);

/* ---- sim_guests.c ---- */
/* Ranks that there is room for. */
weir_err weir_sim_seats(weir_sim *, int seats);
void weir_sim_sit(weir_sim *, int rank, weir_sim_node *);
weir_err weir_sim_invite(weir_net *);
weir_err weir_sim_grow(weir_net *, int size);
weir_err weir_sim_link(weir_net *, int rank, const struct weir_meet_entry *);
weir_err weir_sim_greet(weir_net *, int peer);
void weir_sim_tell_guests(weir_net *, const weir_members *);
weir_err weir_sim_knock(weir_net *, void **welcome, size_t *n);
weir_err weir_sim_wait_in(weir_net *, void **list, size_t *n, struct weir_meet_entry **,
                          int *entries);
void weir_sim_on_call(weir_sim *, const weir_sim_event *);
/* A member has given this guest up, which was to get a rank. */
void weir_sim_given_up(weir_sim_node *, int rank);
/* One of those at doors, or with a door, is gone. */
void weir_sim_guests_look(weir_sim *, weir_sim_node *);
void weir_sim_guests_close(weir_sim *);

/* ---- sim_compute.c ---- */
weir_err weir_sim_speeds_read(weir_sim *);
double weir_sim_cost(weir_net *, double nominal);
double weir_sim_stood(weir_net *);
void weir_sim_tasks(weir_net *); /* what weir_net_rt starts are fibres */

/* ---- sim_stuck.c ---- */
/* No fibre is ready and no event is left. */
void weir_sim_on_stuck(weir_sim *);

/* ---- for tests ---- */
weir_sim_count weir_sim_counted(weir_net *);
#endif
