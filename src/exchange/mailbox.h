/* mailbox.h - deltas between peers: everybody sends one to everybody for each lane and step, and
 * nobody waits for an answer.
 *
 * Deltas of one member come in the order of steps, and of lanes within a step. A member is held
 * back by what it has to wait for (weir_mailbox_wait) to be at most `bound` steps ahead of what it
 * has had from anybody, so of anybody's deltas at most 2 bound + 2 steps' can be on their way or
 * lie unread: a receive is posted for each of them, and a send never waits for its receiver's
 * steps. What is sent lies in memory made at set-up, bound + 1 steps of it; what comes is net's,
 * lent. All of it runs on the comm task.
 *
 * Deltas of a member have numbers, from 0 on, in the order in which they are sent: so a count says
 * which ones are meant. */
#ifndef WEIR_EXCHANGE_MAILBOX_H
#define WEIR_EXCHANGE_MAILBOX_H
#include "net/net.h"

typedef struct weir_mailbox weir_mailbox;

typedef struct weir_delta {
    int from, lane; /* from: a member's place in the group */
    uint64_t step;
    const void *data; /* NULL: a size without content (dry) */
    size_t len;
} weir_delta;

/* `most`: the bytes that a delta of each lane may have. Posts nothing yet. */
weir_err weir_mailbox_make(weir_group *, const size_t *most, int lanes, int bound, weir_arena *,
                           weir_mailbox **);
/* From this step on deltas are expected of everybody. */
void weir_mailbox_open(weir_mailbox *, uint64_t step);
bool weir_mailbox_is_open(const weir_mailbox *);
/* The step of everybody's delta number 0; how many of this member's were taken. Also when it is
 * closed again. */
uint64_t weir_mailbox_first(const weir_mailbox *);
uint64_t weir_mailbox_taken(const weir_mailbox *, int member);

/* Where this member's delta is written. The place of step s is free once weir_mailbox_free(s) has
 * said so. */
void *weir_mailbox_slot(weir_mailbox *, uint64_t step, int lane);
/* It goes to everybody else, and stays where it is, unchanged, until its place is free again. */
void weir_mailbox_send(weir_mailbox *, uint64_t step, int lane, size_t len);
/* what was sent, as others get it */
weir_delta weir_mailbox_own(const weir_mailbox *, uint64_t step, int lane);
/* Waits until what lies in the place of this step's deltas has left. [blocks] */
weir_err weir_mailbox_free(weir_mailbox *, uint64_t step);

/* Waits until all deltas up to this step are here; an error says whose are not. [blocks] */
weir_err weir_mailbox_wait(weir_mailbox *, uint64_t step);
/* The next delta of this member, if it has come and is of no later step; *taken tells. It is lent
 * until weir_mailbox_done, which comes before the next take. */
weir_err weir_mailbox_take(weir_mailbox *, int member, uint64_t latest, weir_delta *, bool *taken);
void weir_mailbox_done(weir_mailbox *, const weir_delta *);
/* How many steps the last member is behind this one, which has made all up to `step`: deltas taken
 * count. */
int weir_mailbox_apart(const weir_mailbox *, uint64_t step);
/* Nothing is in flight any more, and all memory is ours: deltas not taken are gone. */
void weir_mailbox_close(weir_mailbox *);
#endif
