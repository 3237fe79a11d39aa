/* membership_inside.h - between membership.c and membership_round.c: what a member knows on the way
 * to the next generation. */
#ifndef WEIR_NET_MEMBERSHIP_INSIDE_H
#define WEIR_NET_MEMBERSHIP_INSIDE_H
#include "net/membership.h"
#include "net/world.h"

/* A message that is under way. */
typedef struct outgoing {
    struct outgoing *next;
    weir_net_op op;
    void *bytes;
} outgoing;

/* A message about a generation after the next, which has to wait for that. */
typedef struct early {
    struct early *next;
    int from;
    size_t len;
    char bytes[];
} early;

/* What one member has said in this round. */
typedef struct voice {
    bool promised, accepted, leaves;
    bool apart; /* it and another have lost each other, and the other stays */
    uint64_t step;
    bool *lost; /* by place: whom it has lost */
} voice;

/* The round that this rank leads. */
typedef struct leading {
    uint64_t round; /* 0: it leads none */
    bool proposed;
    voice *voice;      /* by place among the members */
    uint64_t accepted; /* the highest round of which a list came with a promise */
    weir_members list; /* that one, or what is proposed */
    weir_guest *guest; /* who waits at doors */
    int guests;
} leading;

struct weir_membership {
    weir_net *net;
    weir_net_task *fibre;
    weir_net_op heard; /* what comes next, from anybody */
    bool closing;
    int most;
    weir_members now;  /* the generation that was agreed last */
    weir_arena *arena; /* of `now` */
    /* ---- on the way to the next ---- */
    weir_arena *next_arena; /* of all of this */
    bool resting;
    weir_offer offer;
    uint64_t promised, accepted; /* rounds */
    weir_members accepted_list;
    int *lost;       /* room for whom this rank has lost */
    int asked_by;    /* who is to have our promise as soon as we are at rest; -1: nobody */
    double heard_at; /* when a round was last heard of */
    double hopeless; /* since when those that are left have been too few; 0: they are not */
    leading lead;
    early *early, **early_last;
    int earlies;
    /* ---- for who waits ---- */
    bool decided, evicted; /* `now` is new; others have gone on without this rank */
    weir_net_task *waiter;
    outgoing *out;
};

/* ---- membership.c ---- */
void weir_membership_send(weir_membership *, int rank, const weir_member_message *);
/* To all other members that are there. */
void weir_membership_send_all(weir_membership *, const weir_member_message *);
/* A message about the next generation. */
weir_member_message weir_membership_say(const weir_membership *, weir_member_kind, uint64_t round);
/* Which member it is; -1: none. */
int weir_membership_place(const weir_membership *, int rank);
/* It can be reached from here. place: among the members. */
bool weir_membership_is_here(const weir_membership *, int place);
/* Do these members make a quorum? in: by place. */
bool weir_membership_quorum(const weir_membership *,
                            bool (*in)(const weir_membership *, int place));
/* Does a list count that these have accepted? On a launcher's board it stands for ever, and those
 * that are left when others have died may be a quorum by themselves: there all that can be reached
 * must know it. */
bool weir_membership_counts(const weir_membership *,
                            bool (*accepted)(const weir_membership *, int place));
void weir_membership_no_memory(weir_membership *);
/* Others go on without this rank. */
void weir_membership_evict(weir_membership *);
/* The round that this rank leads has a list that a quorum has accepted: it is told to all. */
void weir_membership_decide(weir_membership *);

/* ---- membership_round.c: the round that this rank leads, and its promises to others ---- */
void weir_round_begin(weir_membership *);
/* What this rank says to a round, its own or another's. */
weir_member_message weir_round_promise(weir_membership *, uint64_t round);
/* A member has promised, accepted; or is lost: does that suffice? */
void weir_round_promised(weir_membership *, int place, const weir_member_message *);
void weir_round_accepted(weir_membership *, int place);
void weir_round_look(weir_membership *);
#endif
