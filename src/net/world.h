/* world.h - inside net/: what all worlds share, and the table that each supplies.
 *
 *   net.c                        a run from open to close, small verbs
 *   sched.c                      fibres, deadlines, wakes from other threads
 *   match.c                      operations and their messages
 *   wait.c                       waiting for them, helpers
 *   queue.c                      queues and threads of a rank
 *   visit.c                      threads that we did not start
 *   loss.c                       lost peers, faults, renewal
 *   liveness*.c                  meeting, signs of life, leaving (worlds with real peers)
 *   shared_memory.c              memory in common, and waiting for a word in it
 *   mesh.c, group.c              who is who, and all groups
 *   membership*.c, member_message.c   who is in the next generation
 *   guests.c                     those who come while the run goes on
 *   launch*.c, output.c          workers of this machine, and what they print
 *   rank_info*.c                 which rank a process is
 *   address.c                    where a rank is reached
 *   key.h                        who may join
 *   frame.c                      what crosses the wire
 *   zmq*.c, sim*.c, mpi*.c       worlds
 *
 * A world moves bytes and closes links. It never matches, judges or blames. */
#ifndef WEIR_NET_WORLD_H
#define WEIR_NET_WORLD_H
#include "core/fibre.h"
#include "net/launch.h"
#include "net/net.h"
#include <pthread.h>
#include <stdatomic.h>

struct weir_meet_entry;
struct weir_guest;

/* A message that has arrived: whole, or (mpi) its head only. Allocated by the world, often as the
 * beginning of something larger. */
typedef struct weir_msg {
    struct weir_msg *next;
    int from, generation;
    uint64_t tag;
    size_t len;
    void *data;
    uint64_t number; /* match.c's: in the order of arrival */
    bool self;       /* sent by this rank to itself: match.c's own */
} weir_msg;

/* What one net says to another, besides data. */
typedef enum {
    WEIR_FRAME_DATA = 1,
    WEIR_FRAME_HELLO,   /* body: weir_hello. First on the path that carries data */
    WEIR_FRAME_WELCOME, /* the answer, first on the path that carries the words below */
    WEIR_FRAME_LIFE,    /* nothing but a sign of life, which everything else is too */
    WEIR_FRAME_DONE,    /* no more data will come. On the data's path, behind them */
    WEIR_FRAME_BYE,     /* the end of this link is no loss */
    WEIR_FRAME_FAIL,    /* body: weir_cause. I leave, or give you up; this is the first cause */
    WEIR_FRAME_KINDS
} weir_frame_kind;

typedef struct weir_sched weir_sched;

/* All are called on the comm thread. None blocks but open and idle. */
typedef struct weir_world {
    weir_plug plug; /* its options must begin with weir_world_options */
    weir_net_facts facts;
    size_t stack; /* of a fibre */
    /* A whole run; NULL: weir_net_run_one, a rank per process (or thread), by open and close. */
    weir_err (*run)(const struct weir_world *, void *self, const weir_rank_info *,
                    weir_err (*fn)(weir_net *, void *), void *arg);
    /* Sets n->link (and n->machine), finds its peers, for which it may wait as long as the rank
     * info's timeout, starts listening and connecting. On an error nothing is left. Not called for
     * a run of one rank. */
    weir_err (*open)(weir_net *, const weir_rank_info *);
    /* Everybody has said hello to everybody: what only newcomers need may go. NULL: nothing to
     * do. */
    void (*met)(weir_net *);
    /* Lets out what is on its way: in order all of it, else the last words; for seconds at most.
     * Every lent buffer comes back. */
    void (*close)(weir_net *, bool in_order);
    /* Takes o->data, o->len to o->peer, not self; weir_net_op_done when the bytes are free, at once
     * or later. */
    void (*send)(weir_net *, weir_net_op *o);
    /* A word to a peer, by copy; to one that is gone: nothing happens. */
    void (*tell)(weir_net *, int peer, weir_frame_kind, const void *body, size_t len);
    /* `o` has matched `m`. o->cap: the bytes go to o->data and the message is dropped. Else o->data
     * (8-aligned) lies in the message, and o->own = m until it is dropped. weir_net_op_done now or
     * later. */
    void (*fetch)(weir_net *, weir_net_op *o, weir_msg *m);
    void (*drop)(weir_net *, weir_msg *);
    /* The peer is lost: the bytes of sends to it come back soon (weir_net_op_done); words may still
     * be told. Called once. */
    void (*cut)(weir_net *, int peer);
    /* Runs wakes, delivers what has arrived, gives signs of life; if none of these happened, sleeps
     * until one does, or `until`. */
    void (*idle)(weir_sched *, double until);
    double (*now)(weir_sched *); /* [any thread] */
    /* A peer was silent that long: what the world knows of the reason, as the end of a sentence;
     * "": nothing. NULL: it never does. */
    const char *(*silence)(weir_net *, int peer, double seconds);
    /* ---- those who come while a run goes on; all NULL where nobody can ---- */
    /* On a member: guests may come to its door (n->welcome is what they are told). Again: harmless,
     * and takes over a door whose keeper is gone. */
    weir_err (*invite)(weir_net *);
    /* There is room for ranks below `size`, in n->machine too. */
    weir_err (*grow)(weir_net *, int size);
    /* A link to a newcomer, who is known by its entry. */
    weir_err (*link)(weir_net *, int rank, const struct weir_meet_entry *);
    /* Greets it, and waits for its greeting; or gives it up. NULL: liveness does. [blocks] */
    weir_err (*greet)(weir_net *, int rank);
    /* The list is agreed: those in it who wait at this member's door are told. */
    void (*tell_guests)(weir_net *, const weir_members *);
    /* On a guest: asks at the door, again and again until `deadline`; then waits to be taken in:
     * sets n->rank, and gives the list as its bytes and all ranks' entries; malloc'ed. [blocks] */
    weir_err (*knock)(weir_net *, void **welcome, size_t *n);
    void (*doors)(weir_net *, char *text, size_t room);
    weir_err (*wait_in)(weir_net *, void **list, size_t *n, struct weir_meet_entry **,
                        int *entries);
    /* ---- what only a simulated world has; all NULL elsewhere ---- */
    void (*chosen)(const void *self, weir_net_facts *); /* adds the facts that depend on options */
    /* Virtual time: idle shall return at the task's deadline. NULL: the scheduler watches the
     * deadlines itself. */
    void (*arm)(weir_net_task *, double deadline);
    void (*disarm)(weir_net_task *); /* the task goes: forget its deadlines */
    /* Cancelled: gives the bytes of a send (NULL: of all this rank's sends) back at once; what was
     * under way goes on as a copy. */
    void (*let)(weir_net *, weir_net_op *);
    /* it has left in order, and all it sent has come */
    bool (*left)(weir_net *, int peer);
    /* a world that knows all says where a rank is and what it does */
    void (*know)(weir_net *, int peer, weir_fault *);
    double (*cost)(weir_net *, double nominal);
    /* for how long this rank has been stopped so far, in all its pauses */
    double (*stood)(weir_net *);
    weir_net_mishaps (*happened)(weir_net *);
    int (*node)(weir_net *);
} weir_world;

/* What every world's options begin with. */
typedef struct weir_world_self {
    int64_t hold; /* bytes */
} weir_world_self;
#define WEIR_WORLD_OPTIONS                                                                      \
    {                                                                                           \
        "hold", WEIR_OPT_INT, offsetof(weir_world_self, hold), "1073741824",                    \
            "bytes of messages nobody asked for that are kept before their sender is given up", \
            .min = 1, .max = 1e18                                                               \
    }

#define X(name) extern const weir_world weir_net_##name;
#include "net/list.h"
#undef X

/* ---- sched.c: one per comm thread ---- */
struct weir_sched {
    const weir_world *world;
    void *state; /* the world's */
    pthread_t thread;
    weir_fibre *main;
    weir_net_task *current, *ready, **tail, *all;
    int live;
    int patient; /* of those: they do not mind if what they wait for is seen a nap later */
    unsigned turns;
    _Atomic(weir_wake *) remote; /* a stack: pushed by anyone, taken whole by the comm thread */
    atomic_int asleep;
    int bell; /* an eventfd, rung for a sleeper */
};
struct weir_net_task {
    weir_wake wake; /* first */
    atomic_bool waking;
    weir_net *net;
    weir_fibre *fibre;
    weir_err (*fn)(void *);
    void *arg;
    weir_err result;
    bool queued, finished, blocked;
    bool patient; /* see weir_sched */
    double deadline;
    /* the world's: timers of this task, the nearest and one left over; and how many it has out */
    double armed[2];
    int timers;
    weir_net_task *next_ready, *next, *joiner;
    weir_visitor *visitor; /* whom it stands in for, and who runs now; NULL: nobody */
    char name[16];
    weir_why why;
};
weir_err weir_sched_open(weir_sched *, const weir_world *);
void weir_sched_run(weir_sched *); /* until no fibre lives */
void weir_sched_close(weir_sched *);
void weir_sched_ready(weir_net_task *);   /* comm thread only; waking for nothing does no harm */
void weir_sched_patient(weir_net_task *); /* from now on it is, until it ends */
void weir_sched_wake(weir_net_task *);    /* [any thread] */
void weir_sched_remote(weir_sched *, weir_wake *); /* [any thread] fn will run on the comm thread */
bool weir_sched_drain(weir_sched *);               /* runs what was handed over; was there any */
/* about to sleep: false if there is something to run first. Then the bell rings */
bool weir_sched_sleep(weir_sched *);
void weir_sched_woken(weir_sched *, bool rung); /* rung: the bell can be read */
bool weir_sched_here(const weir_sched *);       /* [any thread] is this the comm thread */
/* progress without waiting; in virtual time, where a look must cost something, others run
 * meanwhile */
void weir_sched_look(weir_net *);
/* the running fibre, until woken (perhaps for nothing) or late */
void weir_sched_block(weir_net *, double deadline);

/* ---- visit.c ---- */
/* On the visitor's own thread: blocks as its stand-in would. */
void weir_visitor_block(weir_visitor *, double deadline);

/* ---- one rank ---- */
typedef struct weir_loss {
    struct weir_loss *next;
    int peer;         /* who is gone */
    weir_fault fault; /* who is to blame */
} weir_loss;
enum { WEIR_SHELVES = 16 };
enum {
    WEIR_PEER_LOST = 1,
    WEIR_PEER_TOLD = 2, /* a receive from anybody was told of its loss */
    WEIR_PEER_LEFT = 4,
    WEIR_PEER_OUT = 8,        /* of this generation */
    WEIR_PEER_TOLD_EVER = 16, /* as TOLD, to what belongs to no generation */
};
/* The generation of what belongs to none (WEIR_CHANNEL_MEMBERS). */
enum { WEIR_EVER = INT32_MAX - 1 };

struct weir_net {
    weir_sched *sched;
    const weir_world *world;
    void *self; /* the world's options */
    void *link; /* the world's own; NULL when alone */
    int rank, size, generation;
    int ended; /* the newest generation that was ended here without a loss; -1: none */
    bool strict, dry, closing;
    bool joins;       /* it came as a guest */
    atomic_int asked; /* to leave, by this signal */
    atomic_int aborted;
    atomic_bool over; /* strict, and somebody is lost: see weir_net_over */
    weir_wake abort_wake;
    weir_net_op *posted, **posted_tail;
    /* messages nobody asked for yet, by source */
    struct {
        weir_msg *first, **last;
    } arrived[WEIR_SHELVES];
    uint64_t arrivals;
    size_t held, hold;   /* bytes in `arrived`, and their limit */
    size_t stack;        /* of its fibres */
    unsigned char *peer; /* WEIR_PEER_ bits, from the first loss or renewal on; NULL: all is well */
    weir_loss *losses, **losses_tail, *first; /* first: what ends this generation */
    /* the world's: by rank, the lowest rank on the same machine; NULL: all are on one */
    int *machine;
    struct weir_liveness *life; /* NULL: alone, or in a world that knows all */
    /* guests.c: what guests are told; those that are ready, at this member's door; how many */
    void *welcome;
    size_t welcome_bytes;
    struct weir_guest *guest;
    int guest_room;
    uint64_t *admitted; /* tokens of those that were taken in */
    size_t admissions;
    atomic_int guests;
    _Atomic uint64_t doing; /* step << 8 | phase */
    atomic_bool stopping;   /* a peer was heard to be in WEIR_PHASE_STOP */
    weir_board *board;
    weir_net_count count;
    /* shared_memory.c's: waits to come that had better be asleep; cores (0: not counted yet) and
     * ranks of this machine */
    int wary, cores, here;
    struct weir_net_rt {
        weir_rt rt;
        weir_net *net;
    } rt;
};
weir_err weir_net_open(weir_net *, weir_sched *, const weir_world *, void *self,
                       const weir_rank_info *);
void weir_net_close(weir_net *);
weir_err weir_net_run_one(const weir_world *, void *self, const weir_rank_info *,
                          weir_err (*fn)(weir_net *, void *), void *arg);
void weir_net_rt_fill(weir_net *);

/* ---- match.c ---- */
enum {
    WEIR_NET_OP_IDLE,
    WEIR_NET_OP_SENDING,
    WEIR_NET_OP_POSTED,
    WEIR_NET_OP_LENT
};                                                 /* weir_net_op.kind */
void weir_match_arrive(weir_net *, weir_msg *);    /* takes the message over */
void weir_match_unpost(weir_net *, weir_net_op *); /* a posted receive is taken back */
void weir_net_op_done(weir_net_op *, weir_err);
/* a send's bytes are free: done, well or not as its peer is */
void weir_net_op_sent(weir_net *, weir_net_op *);
void weir_match_drop(weir_net *, int before); /* held messages of generations before that one */
/* Ends posted receives with what `judge` says of each (it may name another peer); WEIR_OK leaves
 * one as it is. */
void weir_match_judge(weir_net *, weir_err (*judge)(weir_net *, weir_net_op *, int *who));

/* ---- loss.c ---- */
/* a peer is gone; again: nothing happens */
/* How many ranks there is room for where there are so many: numbers are never used twice, and what
 * is kept by rank is not to be moved for each that comes. */
static inline size_t weir_net_room(int size) { return ((size_t)size + 255) / 256 * 256; }
void weir_loss_add(weir_net *, int peer, const weir_fault *);
void weir_loss_left(weir_net *, int peer); /* one has left in order */
/* the reason why nothing of a generation can be started, if there is one */
weir_err weir_loss_all(weir_net *, int generation, int *who);
/* why nothing of a generation will come of `peer` (or WEIR_ANY), if so */
weir_err weir_loss_of(weir_net *, int generation, int peer, int *who);
bool weir_loss_is(const weir_net *, int peer, int bits);
void weir_loss_end(weir_net *);  /* the first fibre has returned */
void weir_loss_look(weir_net *); /* something is known now that ends posted receives */

/* ---- guests.c ---- */
/* No member yet: a rank is still to be given to it. */
static inline bool weir_net_outside(const weir_net *n) { return n->joins && n->size == 1; }
/* One is ready at this member's door; or is gone before it was taken in. */
void weir_guests_add(weir_net *, const struct weir_guest *);
void weir_guests_remove(weir_net *, uint64_t token);

/* ---- liveness.c ---- */
/* Room for ranks below `size`. */
weir_err weir_liveness_grow(weir_net *, int size);
/* Greets this peer, and waits for its greeting; or gives it up. [blocks] */
weir_err weir_liveness_greet(weir_net *, int peer);
weir_err weir_liveness_open(weir_net *, const weir_rank_info *);
void weir_liveness_close(weir_net *);
weir_err weir_liveness_meet(weir_net *); /* [blocks] until everybody is there */
/* [blocks] says goodbye, or the first cause */
void weir_liveness_leave(weir_net *, weir_err why, const char *sentence);
/* The world reports: a word from a peer and what it was doing (DATA: only that it came), and a link
 * that has ended. */
void weir_liveness_heard(weir_net *, int from, weir_frame_kind, uint64_t doing, const void *body,
                         size_t len);
void weir_liveness_gone(weir_net *, int peer);
/* signs of life, and who gives none; called by idle after each delivery. Next at... */
double weir_liveness_tick(weir_net *);
/* what is known of it now; `what` is left empty */
void weir_liveness_fault(weir_net *, int peer, weir_err, weir_fault *);
void weir_liveness_give_up(weir_net *, int peer, weir_err, const char *what);
void weir_liveness_wake(weir_net *);
/* who it is, known before it has said hello */
void weir_liveness_name(weir_net *, int peer, const char *host, int pid);
#endif
