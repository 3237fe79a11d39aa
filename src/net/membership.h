/* membership.h - who is in the next generation, agreed by those of this one, without a keeper.
 *
 * Words. A generation ends when a member is lost, or wishes to leave, or somebody wishes to join.
 * Its members then agree on the next: on its members, and on the newest step that any of them has
 * committed, and who has it. A member comes to rest before it has a say: it commits nothing of the
 * old generation any more. So whatever is agreed, nobody can go on in the old one.
 *
 * A list counts when a quorum of the old members has accepted it: more than half of them, or
 * exactly half with the lowest of them. Where all members are of one launcher, on one machine,
 * deaths that it has reaped are certain, and leave the count; then the list must also be the first
 * that is written on the launcher's board for that generation, and all that can be reached must
 * have accepted it: else one that is left alone would not know what stands there. A silent member
 * never leaves the count.
 *
 * The agreement is Paxos, one instance a generation:
 *
 *   END       to all: I am at rest, my generation is over; so is yours
 *   PREPARE   by the lowest member that is there (others, when nothing comes of that): promise to
 *             take part in this round and in none before it
 *   PROMISE   the answer, once at rest: my step, whom I have lost, who waits at my door, and what I
 *             accepted before
 *   REFUSE    the answer to a round that is too low, or became so before we were at rest: there is
 *             a higher one
 *   PROPOSE   to all: this list. What somebody has accepted before, of the highest round; else
 *             those who promised and have not been lost since, without those who leave, and with
 *             those who wait at a door. Of two that have lost each other one stays behind; of one
 *             that has lost another, which does not know it, the other
 *   ACCEPT    the answer
 *   DECIDE    to all, when a quorum has accepted. Also to whoever asks for what is decided already:
 *             it finds itself in the list, or is out
 *
 * Messages are net's own (WEIR_CHANNEL_MEMBERS), which no loss of another and no generation ends. A
 * link that has ended is never mended, so nothing is sent twice: one that does not answer lives and
 * is waited for, or is lost. membership.pml is a model of this, checked by `make check-long`.
 *
 * All verbs run on the comm task. */
#ifndef WEIR_NET_MEMBERSHIP_H
#define WEIR_NET_MEMBERSHIP_H
#include "net/member_message.h"
#include "net/net.h"

typedef struct weir_membership weir_membership;

/* What a member brings along when it comes to rest. */
typedef struct weir_offer {
    uint64_t step; /* committed; or how new its state is, by any count of its owner's */
    bool leaves;   /* it does not want to be in the next generation */
} weir_offer;

/* The net's generation is agreed, with all its ranks; or this list is, of one that has just joined.
 * From now on this rank answers others. Close in any case. most: members that a generation may
 * have. */
weir_err weir_membership_open(weir_net *, int most, const weir_members *, weir_membership **);
/* Nobody waits for this rank's answers any more. NULL is allowed. [blocks] */
void weir_membership_close(weir_membership *);
/* This rank is at rest: ends the net's generation and gives the next one's list, which lives until
 * the next call. The net does not follow by itself (weir_mesh_renew). WEIR_STALE: the others have
 * gone on without this rank, in *next. WEIR_LOST: those that are left are too few. [blocks] */
weir_err weir_membership_agree(weir_membership *, const weir_offer *, const weir_members **next);
#endif
