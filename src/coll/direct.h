/* direct.h - inside coll/: pieces that go straight from member to member, one message each.
 *
 * What differs from pair to pair nobody can pass on, or add up, for others: these verbs are the
 * same whichever collective sums. In round k every member sends to the k-th after it and hears the
 * k-th before it, so that no two begin with the same one. */
#ifndef WEIR_COLL_DIRECT_H
#define WEIR_COLL_DIRECT_H
#include "coll/coll.h"

/* Rounds under way at once: a group of a thousand must not have a thousand messages come at once.
 */
enum { WEIR_DIRECT_WINDOW = 32 };

/* The verbs of coll.h, each with the group's next sequence number. [block] */
weir_err weir_direct_alltoall(weir_group *, const weir_pieces *out, const weir_pieces *in);
weir_err weir_direct_gather(weir_group *, int root, const weir_pieces *);
#endif
