/* talk.h - inside coll/: what collectives over messages are made of.
 *
 * Words. A talk is one collective under way on one member: its buffer, its sequence number, its
 * flows. A leg is a range of the buffer that goes to, or comes from, one member. A flow carries a
 * leg in segments, `window` of them under way at a time. Members are named by their place in the
 * group; ranges are bytes from the beginning of the buffer.
 *
 * Every flow says the length of its leg (hashed, in the tag), and every segment is checked: members
 * that do not run the same collective find out at the first message. In a dry net sizes travel and
 * nothing is touched; the buffer may be NULL. */
#ifndef WEIR_COLL_TALK_H
#define WEIR_COLL_TALK_H
#include "coll/coll.h"

typedef struct weir_talk_leg {
    int member; /* -1: no message at all; else one at least, even of nothing */
    size_t at, bytes;
    /* tells legs apart that go the same way between the same two at the same time; below 4096 */
    unsigned stream;
} weir_talk_leg;

typedef struct weir_talk_flow {
    int peer; /* a rank of the net; -1: idle */
    bool out, lands;
    uint64_t tag;
    char *at; /* NULL: dry */
    size_t bytes;
    int segments, begun; /* begun: segments sent, or posted */
    weir_net_op *op;     /* `window` of them */
} weir_talk_flow;

/* The private state of a collective over messages begins with this: options, and what is reused
 * from call to call. */
typedef struct weir_talk {
    int64_t segment, window;
    /* taken in turn: what was sent by the flow before has `flows` openings to get out unwaited
     * for */
    weir_talk_flow *flow;
    int flows, next;
    char *spare; /* to add the other way round */
    /* of the call */
    weir_group *group;
    weir_net *net;
    char *buf;
    size_t units, unit, step; /* step: bytes of a segment, a multiple of the unit */
    const weir_sum *sum;
    uint32_t sequence;
    bool dry;
} weir_talk;

enum { WEIR_TALK_WINDOW = 64, WEIR_TALK_FLOWS = 8, WEIR_TALK_SPARE = 16384 };
#define WEIR_TALK_OPTIONS                                                             \
    {                                                                                 \
        "segment",                                                                    \
        WEIR_OPT_INT,                                                                 \
        offsetof(weir_talk, segment),                                                 \
        "262144",                                                                     \
        "bytes that travel together",                                                 \
        .min = 64,                                                                    \
        .max = 1 << 30},                                                              \
    {                                                                                 \
        "window", WEIR_OPT_INT, offsetof(weir_talk, window), "8",                     \
            "segments under way at once, each way", .min = 1, .max = WEIR_TALK_WINDOW \
    }
extern const weir_opt weir_talk_options[]; /* these two and no more */

/* A weir_coll's `open` where the talk is all there is. */
weir_err weir_talk_open(void *talk, const weir_group *, weir_arena *);
/* The same with another number of flows. */
weir_err weir_talk_flows(weir_talk *, int flows, weir_arena *);

/* Takes the group's next sequence number. sum NULL: units are bytes, and nothing is added. */
void weir_talk_begin(weir_talk *, weir_group *, void *buf, size_t units, const weir_sum *sum);
/* Waits for what is still on its way out; if there is, or was, an error: takes everything back.
 * Gives the error. [blocks] */
weir_err weir_talk_end(weir_talk *, weir_err);

/* What becomes of what comes in. */
typedef enum {
    WEIR_TALK_LAND,  /* it replaces */
    WEIR_TALK_AFTER, /* ours + theirs */
    WEIR_TALK_BEFORE /* theirs + ours: so that the lower rank's stands first on both */
} weir_talk_how;

/* Legs out and legs in at the same time, segment by segment. What comes in may lie where something
 * goes out only if each is one leg, and the same range: then a segment is added to when its own way
 * out is free. [blocks] */
weir_err weir_talk_trade(weir_talk *, const weir_talk_leg *out, int outs, const weir_talk_leg *in,
                         int ins, weir_talk_how);
static inline weir_err weir_talk_swap(weir_talk *t, weir_talk_leg out, weir_talk_leg in,
                                      weir_talk_how how)
{
    return weir_talk_trade(t, &out, out.member >= 0, &in, in.member >= 0, how);
}
#define WEIR_TALK_NO_LEG ((weir_talk_leg){.member = -1})

/* By hand: a flow opened outwards sends segment k, in order, when told; one opened inwards has its
 * receives posted ahead. NULL on success of opening a leg to nobody. */
weir_err weir_talk_flow_open(weir_talk *, const weir_talk_leg *, bool out, weir_talk_how,
                             weir_talk_flow **);
weir_err weir_talk_flow_send(weir_talk *, weir_talk_flow *, int k);
/* waits, does what `how` says, gives it back */
weir_err weir_talk_flow_take(weir_talk *, weir_talk_flow *, int k, weir_talk_how);
#endif
