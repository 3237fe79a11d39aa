/* member_message.h - what members say to each other to agree on the next generation
 * (membership.h), and the list that they agree on: as bytes, and back. Bytes of others are believed
 * only after they were checked here. */
#ifndef WEIR_NET_MEMBER_MESSAGE_H
#define WEIR_NET_MEMBER_MESSAGE_H
#include "core/arena.h"
#include "net/frame.h"

enum { WEIR_MEMBERS_MAX = 1 << 16, WEIR_GUESTS_MAX = 256 };

/* One who waits at a member's door. */
typedef struct weir_guest {
    uint64_t token; /* its name at that door, and at no other */
    int32_t keeper; /* the member whose door it is */
    int32_t zero;
    weir_meet_entry entry;
} weir_guest;

/* A generation, as agreed. */
struct weir_members {
    int generation;
    int source;    /* a member that has committed `step` */
    int next_id;   /* ranks of this run so far: the next to come gets this number */
    int left;      /* members of the last one that left by wish */
    uint64_t step; /* the newest that any member has committed */
    int count;
    int *member;       /* ranks, rising; those who come are the last ones */
    int *behind;       /* by member: 1: it has not committed `step`, or has just come */
    int joined;        /* so many of them come */
    weir_guest *guest; /* who they are, in order */
};

typedef enum {
    WEIR_MEMBER_END = 1,
    WEIR_MEMBER_PREPARE,
    WEIR_MEMBER_PROMISE,
    WEIR_MEMBER_REFUSE,
    WEIR_MEMBER_PROPOSE,
    WEIR_MEMBER_ACCEPT,
    WEIR_MEMBER_DECIDE,
    WEIR_MEMBER_KINDS
} weir_member_kind;

typedef struct weir_member_message {
    weir_member_kind kind;
    int generation;    /* that is to be made */
    uint64_t round;    /* 0: none */
    uint64_t accepted; /* PROMISE: the round of `list`; 0: there is none */
    uint64_t step;     /* PROMISE: what this member has committed */
    bool leaves;       /* PROMISE */
    weir_members list; /* PROMISE (if accepted), PROPOSE, DECIDE; else empty */
    int *lost;         /* PROMISE: members that this one has lost */
    int losts;
    weir_guest *guest; /* PROMISE: at this member's door */
    int guests;
} weir_member_message;

/* Which kind of message of which generation it claims to be; false: none. */
bool weir_member_peek(const void *, size_t, weir_member_kind *, int *generation);
/* malloc'ed; NULL: no memory. */
void *weir_member_write(const weir_member_message *, size_t *len);
/* False if the bytes are no such message: ranks rise and are below next_id, numbers are in range,
 * texts end. Arrays lie in the arena; without memory: false. */
bool weir_member_read(const void *, size_t, weir_arena *, weir_member_message *);
/* A copy in that arena; false: no memory. */
bool weir_members_copy(const weir_members *, weir_arena *, weir_members *);
/* The same arrays, with a head in the arena; NULL: no memory. */
const weir_members *weir_members_keep(const weir_members *, weir_arena *);
bool weir_members_has(const weir_members *, int rank);
/* A hash of all that the list says: never 0. */
uint32_t weir_members_hash(const weir_members *);
#endif
