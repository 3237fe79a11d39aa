/* ledger.h - how many messages of each member are in this worker's parameters, so that of what was
 * on its way when a member was lost everything counts once.
 *
 * Where replicas drift, members that go on are not equal: each has applied more of one and less of
 * another, and has a step of its own under way. One of them, the source, is taken by all. Ahead of
 * that it collects: it asks each other member for the messages that it lacks, which their senders
 * keep, and applies them. Then its ledger is told to all, and its parameters follow.
 *
 *   source                                     another
 *   ASK  generation, number of the first it lacks   ->
 *                                              <-   that message as it was sent, or an empty one:
 *                                                   there is none, or none that is committed
 *   ... until all have said so, then to all:
 *   OVER the ledger                            ->
 *
 * Ledger and parameters are one thing: whatever breaks off, they fit. A change of members that is
 * broken off begins again with these laws:
 *
 *   Asking changes nothing but the source, whose parameters and ledger grow together; it may be
 *   asked for the same again by another source, as long as it has not taken a state.
 *   A member takes a state whole, with its ledger, or not at all. What of its own broken-off step
 *   the ledger counts is committed then, and the rest was never sent.
 *   Once the source has told its ledger, this state belongs to the generation that is being made,
 *   and comes before any state of an older one, whatever its step. So the next source has it, if
 *   anybody has it who goes on: nobody who took it has to take it back.
 *   A generation's messages are numbered from 0 on, and only a step that all its members take part
 *   in is ever applied in it. So as long as somebody has not taken its state the ledger is still
 *   that of the generation before, and counts what that one's members sent in it.
 *
 * Messages: WEIR_CHANNEL_STATE, of no generation; docs/WIRE.md. On the comm task. */
#ifndef WEIR_EXCHANGE_LEDGER_H
#define WEIR_EXCHANGE_LEDGER_H
#include "net/member_message.h"
#include "net/net.h"

typedef struct weir_ledger_entry {
    int64_t rank;
    uint64_t count;
} weir_ledger_entry;

typedef struct weir_ledger {
    int generation; /* in which the messages were sent; -1: none has ever been applied */
    uint64_t first; /* the step of message 0 of each member */
    int each;       /* messages of a member in a step */
    double base;    /* what they are multiples of (delta.h) */
    int members, room;
    weir_ledger_entry *entry; /* by member of that generation */
} weir_ledger;

/* Room for so many members; what it says stays. */
weir_err weir_ledger_reserve(weir_ledger *, int members, weir_arena *);
/* How many messages of this rank, sent in this generation, are counted; NULL: it is no ledger of
 * that. */
uint64_t *weir_ledger_count(const weir_ledger *, int generation, int rank);
/* All that any member sent in steps before this one is counted; of this one and those after it
 * nothing is. */
uint64_t weir_ledger_whole(const weir_ledger *);
uint64_t weir_ledger_untouched(const weir_ledger *);

/* Between the source of this list and the others in it. */
typedef struct weir_ledger_talk {
    weir_net *net;
    const weir_members *list;
    void *self;
    /* On the source: a message that it lacked. */
    weir_err (*apply)(void *self, int rank, uint64_t number, const void *data, size_t len);
    /* On the others: this rank's message, unchanged until the next call; NULL: there is none. */
    const void *(*sent)(void *self, int generation, uint64_t number, size_t *len);
} weir_ledger_talk;

/* On the source: what members of this list have sent and the ledger lacks is applied and counted.
 * One that is lost meanwhile is passed over. *any: something was. [blocks] */
weir_err weir_ledger_collect(const weir_ledger_talk *, weir_ledger *, bool *any);
/* Then: to all others, who have it, and whether there was any, when weir_ledger_answer ends well.
 * [blocks] */
weir_err weir_ledger_tell(const weir_ledger_talk *, const weir_ledger *, bool any);
weir_err weir_ledger_answer(const weir_ledger_talk *, weir_ledger *told, weir_arena *, bool *any);
#endif
