/* net.h - the only door to peers, messages, time, tasks and failure.
 *
 * A weir_net is one rank. A rank runs tasks. FIBRES share the rank's comm thread, are switched only
 * inside verbs marked [blocks], may call every verb and need no locks. THREADS (compute, loader)
 * may call only what is marked [any thread], and the queues of weir_net_rt. In a simulated world
 * all tasks of all ranks are fibres of one thread: block in no other way than through these verbs,
 * keep no static or thread-local state in tasks, keep stack frames small (64 KiB in all), read
 * errno before the next verb.
 *
 * Deadlines are absolute times of weir_net_now; 0 means "as long as the peers live": liveness is
 * net's own business. A peer whose process ended or whose link closed is lost (WEIR_LOST); one that
 * has shown no sign of life for `timeout` seconds is given up (WEIR_SILENT); a live but busy one is
 * waited for up to `stall` seconds (WEIR_SILENT then, and the sentence says busy where). The one
 * who waits never needs to know which: the operation ends with the code, and weir_net_fault tells
 * who, where and why. */
#ifndef WEIR_NET_NET_H
#define WEIR_NET_NET_H
#include "core/plug.h"
#include "core/task.h"
#include <stdatomic.h>

typedef struct weir_net weir_net;

enum { WEIR_ANY = -1 }; /* any source */

/* ---- tags: the caller's 64 bits are drawn here and nowhere else; net itself adds source and
 * generation ---- */
/*      63..56 channel   55..24 sequence (a step, or a group's running number)   23..0 part */
typedef enum {
    WEIR_CHANNEL_TEST = 1,
    WEIR_CHANNEL_COLL, /* collectives; sequence: the group's running number */
    /* who is in the next generation (membership.h), and state that goes ahead of it: of no
     * generation themselves, so that neither the loss of another peer nor a renewal ends them. A
     * WEIR_ANY receive completes once per lost peer */
    WEIR_CHANNEL_MEMBERS,
    WEIR_CHANNEL_STATE,
    WEIR_CHANNEL_SERVE, /* requests to a serving task: the only channel received with a wildcard */
    /* deltas of one worker to all others; sequence: the sender's step, part: the lane */
    WEIR_CHANNEL_PEERS
} weir_channel;
static inline uint64_t weir_tag(weir_channel channel, uint32_t sequence, uint32_t part)
{
    return (uint64_t)channel << 56 | (uint64_t)sequence << 24 | (part & 0xffffffu);
}
#define WEIR_TAG_CHANNEL ((uint64_t)0xff << 56) /* mask: any message of the channel */

/* ---- operations ---- */
/* Something to be done on the comm thread, handed over by another. */
typedef struct weir_wake {
    struct weir_wake *next;
    void (*fn)(struct weir_wake *);
} weir_wake;

/* One transfer. The caller's memory; from start until done it belongs to net: it must not move, nor
 * lie in a frame that returns. */
typedef struct weir_net_op {
    bool done;
    weir_err err;       /* when done: WEIR_OK, or why not: LOST, SILENT, STALE, BIG */
    int peer;           /* when done: who sent it; after LOST or SILENT: who was lost first */
    uint64_t tag, mask; /* when done: the message's tag */
    size_t len, cap;    /* len: bytes sent or received */
    /* send: the bytes. recv: the caller's buffer, or (cap 0) net's, 8-aligned, until
     * weir_net_release */
    void *data;
    /* from here on: net's */
    struct weir_net_op *next;
    struct weir_net_task *waiter;
    void *own;
    double at; /* receives: since when somebody waits for it */
    int kind, generation;
    weir_wake wake;
} weir_net_op;

/* Starts a send; never blocks. The bytes are lent, unchanged, until done; one buffer may be lent to
 * many sends. Done means "yours again", neither received nor matched; but it MAY come only once the
 * peer has matched it (mpi, sim): never wait for a send before posting the receive that your peer
 * needs to get on. data NULL, len > 0: a size without content (dry). To self: allowed. */
void weir_net_send(weir_net *, int peer, uint64_t tag, const void *data, size_t len, weir_net_op *);
/* Starts a receive of one message of this generation with this tag, from peer or WEIR_ANY; never
 * blocks. Messages of one sender match in the order sent, receives in the order posted, wildcard or
 * not. cap > 0: lands in buf; a longer one is consumed and gives WEIR_BIG. buf NULL, cap 0: any
 * length, lent in op->data. Messages nobody asked for yet are held whole, up to a limit beyond
 * which their sender is given up: programs bound what they send unasked. */
void weir_net_recv(weir_net *, int peer, uint64_t tag, void *buf, size_t cap, weir_net_op *);
/* The same of one whose tag is equal in the bits of a mask, such as WEIR_TAG_CHANNEL. */
typedef struct weir_net_want {
    int peer;
    uint64_t tag, mask;
    void *buf;
    size_t cap;
} weir_net_want;
void weir_net_recv_masked(weir_net *, const weir_net_want *, weir_net_op *);
/* Gives a lent message back; harmless otherwise. */
void weir_net_release(weir_net *, weir_net_op *);
/* [blocks] until one of ops (NULLs skipped) is done: *which is its index, then see its err.
 * WEIR_LATE: none is, all stay in flight. */
weir_err weir_net_wait(weir_net *, weir_net_op **ops, int n, double deadline, int *which);
/* On return all are done and all memory is the caller's: receives unposted, lent messages given
 * back, sends let out; a peer that does not take what is on its way to it within a second is given
 * up. No other fibre runs meanwhile. Every error path calls it before its buffers go. */
void weir_net_cancel(weir_net *, weir_net_op **ops, int n);

/* Writes the sentence of a done operation's error (who, where, why) and returns its code. */
weir_err weir_net_why(weir_net *, const weir_net_op *);

/* Written once over the verbs above; on an error they have cancelled what they started. [blocks] */
weir_err weir_net_send_wait(weir_net *, int peer, uint64_t tag, const void *, size_t);
weir_err weir_net_recv_wait(weir_net *, int peer, uint64_t tag, void *, size_t cap, size_t *len);
/* Waits for all n (an array, not pointers); the first error is returned with its sentence, the rest
 * stay in flight. */
weir_err weir_net_wait_all(weir_net *, weir_net_op *ops, int n, double deadline);

/* ---- failure ---- */
/* A lost peer completes every op that names it, sends included, once their bytes are free. Strict
 * (the default): it also ends the generation: posted receives and everything started later fail,
 * peer = the first member lost. Not strict (servers): a WEIR_ANY receive completes once per lost
 * peer, as if that were its message; post it again. Before a rank leaves on an error its net tells
 * the others the first cause, so that no one blames the messenger; one that leaves in order says
 * goodbye, and is not lost: only what still waits for something from it, by name, ends with
 * WEIR_LOST. */
void weir_net_strict(weir_net *, bool);
bool weir_net_alive(weir_net *, int peer);

/* What a rank was last heard doing. Shown to peers (and to the launcher, at once) with every sign
 * of life. */
typedef enum {
    WEIR_PHASE_START,
    WEIR_PHASE_LOAD,
    WEIR_PHASE_COMPUTE,
    WEIR_PHASE_EXCHANGE,
    WEIR_PHASE_UPDATE,
    WEIR_PHASE_EVAL,
    WEIR_PHASE_SAVE,
    WEIR_PHASE_END,
    WEIR_PHASE_STOP,  /* told to leave: waits until all know */
    WEIR_PHASE_AGREE, /* a member is lost, or comes: who goes on? */
    WEIR_PHASES
} weir_phase;
const char *weir_phase_name(weir_phase);
void weir_net_phase(weir_net *, weir_phase, uint64_t step); /* [any thread]; a store, no more */
/* [any thread] whether a peer has shown WEIR_PHASE_STOP */
bool weir_net_stopping(const weir_net *);
/* [any thread] what this rank said last */
weir_phase weir_net_doing(const weir_net *, uint64_t *step);

/* The first failure this rank knows of: code WEIR_OK if none. */
typedef struct weir_fault {
    weir_err code;
    int rank;
    char host[64];
    int pid;
    weir_phase phase; /* what that rank was doing */
    uint64_t step;
    double silent; /* seconds since its last sign of life */
    /* the code of its own that it left with, if it told; `what` is its sentence then */
    weir_err cause;
    char what[200]; /* "ended", "was silent for 30.2 s" */
} weir_fault;
void weir_net_fault(weir_net *, weir_fault *);
/* The same of this generation alone: code WEIR_OK if it has lost nobody. */
void weir_net_ended_by(weir_net *, weir_fault *);
/* "rank 2 (host a, pid 7) ended in phase save of step 3". */
void weir_fault_text(const weir_fault *, char *text, size_t room);
/* [any thread] gives up: every operation of this rank ends with `code`; used when compute fails
 * while the exchange waits. */
void weir_net_abort(weir_net *, weir_err code);
/* Somebody is lost, and the generation with it: whoever computes for it can stop. [any thread] */
bool weir_net_over(const weir_net *);
/* Why nothing can be started here any more, in words: who was lost, or what this rank was given up
 * for. WEIR_OK: something can. */
weir_err weir_net_lost(weir_net *);

/* This generation is over here, as if a member were lost, though none may be: posted receives and
 * everything started later fail with WEIR_STALE, until a newer one begins. Of an older one: nothing
 * happens; of one to come: it will be over as soon as it begins. */
void weir_net_end(weir_net *, int generation);
/* From now on generation `generation` with these members: older ops end WEIR_STALE, older messages
 * are dropped on arrival, newer ones kept until we follow. A member lost meanwhile is reported, not
 * forgotten. Agreeing on generation, members and step is the caller's: ranks may have been one step
 * apart. */
void weir_net_renew(weir_net *, int generation, const int *members, int count);
int weir_net_generation(const weir_net *);

/* ---- those who come while the run goes on (guests.c) ---- */
typedef struct weir_members weir_members; /* a list that was agreed: member_message.h */
/* On a member: from now on guests are told these bytes, which are copied; one that says it is ready
 * waits for the next change of members. Again: other bytes. Where nobody can come: nothing
 * happens. */
weir_err weir_net_invite(weir_net *, const void *welcome, size_t n);
/* How many are ready and wait at this member's door. [any thread] */
int weir_net_guests(const weir_net *);
/* On a member of a list with newcomers, before the groups follow: on return there are links to
 * them; one that has not come is lost. [blocks] */
weir_err weir_net_admit(weir_net *, const weir_members *);
/* Whether this process came to a run that had begun: at first it is a guest, alone in its net. */
bool weir_net_joins(const weir_net *);
/* On a guest: what it is told at the door; malloc'ed. [blocks] */
weir_err weir_net_knock(weir_net *, void **welcome, size_t *n);
/* On a guest, which is ready: waits until the members have it in their list, and it has links to
 * all of them. From now on it has a rank. The list lies in the arena. [blocks] */
weir_err weir_net_join(weir_net *, weir_arena *, weir_members *);
/* Where the run may be joined as far as this rank knows: HOST:PORT,HOST:PORT, a machine each. "":
 * nowhere. */
void weir_net_doors(weir_net *, char *text, size_t room);

/* ---- time and tasks ---- */
double weir_net_now(weir_net *); /* [any thread] seconds, monotonic or virtual */
/* [blocks] a simulated rank computes that long, pauses not counted; a real one sleeps: tests
 * only */
weir_err weir_net_spend(weir_net *, double cost);
/* what so many seconds of work take this rank now: drawn in sim; real worlds: as many */
double weir_net_cost(weir_net *, double nominal);
/* [blocks] in long loops on the comm thread: progress, and other fibres' turn */
void weir_net_yield(weir_net *);
/* A fibre must have ended before the first one returns (join it); one that has not finds its
 * operations ended with WEIR_STALE. */
typedef struct weir_net_task weir_net_task;
weir_err weir_net_fibre(weir_net *, const char *name, weir_err (*fn)(void *), void *arg,
                        weir_net_task **);
weir_err weir_net_fibre_join(weir_net *, weir_net_task *); /* [blocks] gives what fn returned */
/* Queues made by it join fibres and threads of this rank; tasks started by it are threads, to be
 * joined before the first fibre returns. A get or a join by a fibre [blocks] only that fibre. */
weir_rt *weir_net_rt(weir_net *);

/* ---- a thread that we did not start ---- */
/* A thread of a program that embeds us takes part as a task of the rank: from enter to leave it may
 * do what those may that weir_net_rt starts, so compute for it. In a simulated world it waits for
 * its turn in every verb that blocks, and all else is at rest while it runs: each rank there has a
 * thread of its own, and none of them waits for another but through these verbs. */
typedef struct weir_visitor weir_visitor;
/* On a fibre of the rank; then await, before the first one returns. */
weir_err weir_net_expect(weir_net *, const char *name, weir_visitor **);
/* [blocks] until it has left; only in a simulated world: else what it was used for tells */
void weir_visitor_await(weir_visitor *);
/* On that thread: before its first verb, and after its last. */
void weir_visitor_enter(weir_visitor *);
void weir_visitor_leave(weir_visitor *);
/* Neither side uses it any more. */
void weir_visitor_free(weir_visitor *);

/* ---- faults on demand: what only a simulated world has ---- */
/* The signal by which this rank was told to leave, and no other; 0: it was not. [any thread] */
int weir_net_asked(const weir_net *);
/* What has happened so far, in the whole world. joins: guests that were taken in; leaves: ranks
 * that were told to; delayed, dropped, corrupted, duplicated: packets. */
typedef struct weir_net_mishaps {
    uint64_t kills, pauses, cuts, heals, joins, leaves;
    uint64_t delayed, dropped, corrupted, duplicated;
} weir_net_mishaps;
weir_net_mishaps weir_net_happened(weir_net *);
/* Which of its nodes this is; elsewhere: the rank. */
int weir_net_node(weir_net *);

/* ---- the world ---- */
/* Where this rank is. Found by weir_rank_info_find (rank_info.h). */
typedef struct weir_rank_info {
    int rank, size, local_rank, local_size;
    /* what told: "flags", "torchrun", "weir", "openmpi", "pmi", "slurm", "alone" */
    char source[24];
    bool mpi; /* it started MPI for us, too */
    char host[64];
    /* private directory for this run's sockets; "" when alone. Any rank may make it; it is gone
     * once all have met */
    char run_dir[128];
    char rendezvous[128]; /* HOST:PORT; "" on one machine */
    /* this process is no rank yet: it joins a run. HOST:PORT of a door of it, or of several with
     * commas between, or "here": the one whose directory is run_dir. "": it is a rank */
    char join[1024];
    bool guests; /* others may join while the run goes on */
    /* a launcher's name for this run: processes of another are refused; "" if it gave none */
    char job[64];
    /* the file with the cluster's key; NULL: none. The caller's, for as long as the run */
    const char *key;
    bool insecure; /* a run that listens beyond this machine may do without a key */
    double timeout, stall;
    struct weir_board *board; /* where a launcher watches what we do (launch.h); NULL: nobody */
} weir_rank_info;

/* Facts that options are judged by. */
typedef struct weir_net_facts {
    bool loses, joins, encrypts, shares;
    bool simulated; /* all ranks in one process, time is virtual */
    bool dry;       /* the spec says: messages have sizes and no content */
    /* the spec says what work costs; and that this is drawn, or differs between ranks */
    bool costs, varies;
    int ranks; /* as many as the spec itself says; 0: it does not */
} weir_net_facts;

/* Opens the world named by spec ("auto": the one that fits the launcher), runs fn as the first
 * fibre of each rank that lives in this process, says goodbye (or tells why not), closes. Gives
 * fn's error, or that of opening. */
weir_err weir_net_run(const char *spec, const weir_rank_info *, weir_err (*fn)(weir_net *, void *),
                      void *arg);
/* is there such a world, and what can it do */
weir_err weir_net_check(const char *spec, weir_net_facts *);
extern weir_plugs weir_nets;
/* What a program without MPI says to who asks for it: "WHAT: ...", with the cure. WEIR_USAGE. */
weir_err weir_net_without_mpi(const char *what);

int weir_net_rank(const weir_net *), weir_net_size(const weir_net *);
const char *weir_net_name(const weir_net *); /* "zmq" */
/* Ranks that share a machine's memory have the same number: the lowest rank there. */
int weir_net_machine(const weir_net *, int rank);
int weir_net_here(const weir_net *); /* ranks on this one's machine, itself included */
/* all ranks live in this process, and time is virtual */
bool weir_net_simulated(const weir_net *);
bool weir_net_dry(const weir_net *); /* move sizes; do not touch (nor allocate) floats */
typedef struct weir_net_count {
    uint64_t sent, received, messages, copied;
} weir_net_count;
/* payload bytes given to the wire and taken from it */
weir_net_count weir_net_counted(const weir_net *);

/* ---- memory that ranks of one machine have in common: weir_net_share, below the groups ---- */
/* Can ranks with the same weir_net_machine share memory: a world of real processes, that moves real
 * bytes. */
bool weir_net_shares(const weir_net *);
/* A word in common memory that one rank raises and others wait for; it may wrap. */
typedef struct weir_flag {
    _Atomic uint32_t value, sleepers;
} weir_flag;
/* All that this rank wrote before is there for whoever sees the flag at `value`. */
void weir_net_raise(weir_flag *, uint32_t value);
/* [blocks] until `peer` has raised its flag to `value` or beyond. Yields, then sleeps, with an eye
 * on liveness: ends as a receive from that peer would, and with its sentence. */
weir_err weir_net_await(weir_net *, int peer, weir_flag *, uint32_t value);
/* What went through common memory, counted as if a wire had carried it. */
void weir_net_count_shared(weir_net *, uint64_t sent, uint64_t received);

/* ---- groups ---- */
/* Some ranks in a fixed order, with a running number that keeps their collectives apart. Made alike
 * on all members. */
typedef struct weir_group {
    weir_net *net;
    int *member;       /* ranks of the net */
    int size, me;      /* me: this rank's place among the members */
    int leader;        /* the place of the one who writes and speaks for all of them (mesh.h) */
    unsigned id;       /* which group: ids differ between groups that share a member (mesh.h) */
    uint32_t sequence; /* collectives so far */
    /* where the last of them are recorded (coll/flight.h); NULL: nowhere */
    struct weir_flight *flight;
} weir_group;
static inline bool weir_group_leads(const weir_group *g) { return g->me == g->leader; }
/* For mesh.c, and tests: everybody else gets groups from there. The first member leads. */
weir_err weir_group_all(weir_net *, weir_arena *, weir_group *);
weir_err weir_group_make(weir_net *, unsigned id, const int *members, int count, weir_arena *,
                         weir_group *);

/* Zeroed memory that all members see, each at an address of its own: page-aligned, pages taken when
 * first touched. Every member calls it with the same size and sequence (of WEIR_CHANNEL_COLL). It
 * has no name, and is gone when the last member has unmapped it or has ended, however. WEIR_MISFIT
 * on all members, with one sentence, where one of them may not see it. [blocks] */
weir_err weir_net_share(weir_group *, uint32_t sequence, size_t bytes, void **);
void weir_net_unshare(void *, size_t bytes);
#endif
